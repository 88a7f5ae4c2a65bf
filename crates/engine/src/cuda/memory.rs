//! Values on a GPU, as f32 or bf16.

use super::device::Cuda;
use super::launch::Arg;
use std::sync::{Arc, OnceLock};

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    F32,
    Bf16,
}

impl Element {
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// As kernels name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float",
            Self::Bf16 => "bf16",
        }
    }
}

/// Values on a GPU; the memory goes back to its pool when dropped.
pub(crate) struct Buffer {
    cuda: Cuda,
    pointer: u64,
    len: usize,
    element: Element,
    /// Of a convolution's weights: the same in the activations' type, as they are and with channels
    /// swapped. Made when first needed, forgotten when the values change.
    twins: [OnceLock<Arc<Buffer>>; 2],
}

impl Buffer {
    pub fn new(cuda: &Cuda, len: usize, element: Element) -> Self {
        let pointer = cuda.allocate(len * element.size());
        Self { cuda: cuda.clone(), pointer, len, element, twins: Default::default() }
    }

    pub fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn element(&self) -> Element {
        self.element
    }

    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    pub fn arg(&self) -> Arg {
        Arg::Buffer(self.pointer, self.cuda.identity())
    }

    pub fn twin(&self, swapped: bool, make: impl FnOnce() -> Self) -> Arc<Self> {
        self.twins[usize::from(swapped)].get_or_init(|| Arc::new(make())).clone()
    }

    pub fn forget_twins(&mut self) {
        self.twins = Default::default();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.cuda.give_back(self.pointer, self.len * self.element.size());
    }
}
