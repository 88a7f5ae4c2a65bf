//! Values on a GPU, as f32 or bf16.

use super::device::Cuda;
use super::launch::Arg;
use crate::backend::Element;
use std::sync::{Arc, OnceLock};

/// Values on a GPU; the memory goes back to its pool when dropped.
pub(crate) struct Buffer {
    cuda: Cuda,
    pointer: u64,
    len: usize,
    element: Element,
    /// Of a convolution's weights: the same cast to the activations' type, as they are and with channels
    /// swapped. Made when first needed, forgotten when the values change.
    casts: [OnceLock<Arc<Buffer>>; 2],
}

impl Buffer {
    pub fn new(cuda: &Cuda, len: usize, element: Element) -> Self {
        let pointer = cuda.allocate(len * element.size());
        Self { cuda: cuda.clone(), pointer, len, element, casts: Default::default() }
    }

    /// Bytes of this machine's memory, which may be changed when this returns: values of a tensor, or a kernel's
    /// table.
    pub fn upload(cuda: &Cuda, bytes: &[u8]) -> Self {
        let buffer = Self::new(cuda, bytes.len().div_ceil(4), Element::F32);
        cuda.copy_in(bytes, buffer.pointer);
        buffer
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

    pub fn cached_cast(&self, swapped: bool, make: impl FnOnce() -> Self) -> Arc<Self> {
        self.casts[usize::from(swapped)].get_or_init(|| Arc::new(make())).clone()
    }

    pub fn forget_casts(&mut self) {
        self.casts = Default::default();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.cuda.give_back(self.pointer, self.len * self.element.size());
    }
}
