//! Values on a GPU, as f32 or bf16.

use super::device::Cuda;
use super::launch::Arg;
use crate::backend::Element;
use crate::tensor::buffer_number;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Values on a GPU; the memory goes back to its pool when dropped.
pub(crate) struct Buffer {
    cuda: Cuda,
    pointer: u64,
    len: usize,
    element: Element,
    /// Of a convolution's weights: the same cast to the activations' type, as they are and with channels
    /// swapped. Made when first needed, forgotten when the values change; Adam changes them with the values.
    casts: [OnceLock<Arc<Buffer>>; 2],
    /// Of a parameter's gradient: what is still to be added up. Whoever asks where the values lie has it done; Adam
    /// does so for all gradients at once.
    unsummed: Mutex<Option<Box<Parts>>>,
    /// Whose memory it is a part of, where it is.
    whole: Option<Arc<Buffer>>,
    number: u64,
}

/// Partial sums [count, values].
pub(crate) struct Parts {
    pub partial: Buffer,
    pub count: usize,
}

impl Buffer {
    pub fn new(cuda: &Cuda, len: usize, element: Element) -> Self {
        let pointer = cuda.allocate(len * element.size());
        let (casts, unsummed) = (Default::default(), Mutex::default());
        let number = buffer_number();
        Self { cuda: cuda.clone(), pointer, len, element, casts, unsummed, whole: None, number }
    }

    /// Some values of another buffer, in the same memory.
    pub fn part(whole: &Arc<Self>, first: usize, len: usize) -> Self {
        let (cuda, element) = (whole.cuda.clone(), whole.element);
        let pointer = whole.pointer() + (first * element.size()) as u64;
        let (casts, unsummed) = (Default::default(), Mutex::default());
        let (whole, number) = (Some(whole.clone()), buffer_number());
        Self { cuda, pointer, len, element, casts, unsummed, whole, number }
    }

    /// f32 values that are sums of parts, to be added up when they are needed.
    pub fn of_parts(parts: Parts) -> Self {
        let Parts { partial, count } = &parts;
        let buffer = Self::new(&partial.cuda, partial.len / count, Element::F32);
        *buffer.unsummed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(parts));
        buffer
    }

    /// What is still to be added up, which the caller does before the values are used.
    pub fn take_parts(&self) -> Option<Box<Parts>> {
        self.unsummed.lock().unwrap_or_else(PoisonError::into_inner).take()
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

    /// What tells it from every other buffer that there was.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn element(&self) -> Element {
        self.element
    }

    pub fn pointer(&self) -> u64 {
        let mut unsummed = self.unsummed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parts) = unsummed.take() {
            let Parts { partial, count } = *parts;
            self.cuda.sum_parts_into(partial.arg(), self.raw_arg(), [1, count, self.len], 1.0);
        }
        self.pointer
    }

    pub fn arg(&self) -> Arg {
        Arg::Buffer(self.pointer(), self.cuda.identity())
    }

    /// The memory, whatever is in it.
    fn raw_arg(&self) -> Arg {
        Arg::Buffer(self.pointer, self.cuda.identity())
    }

    pub fn cached_cast(&self, swapped: bool, make: impl FnOnce() -> Self) -> Arc<Self> {
        self.casts[usize::from(swapped)].get_or_init(|| Arc::new(make())).clone()
    }

    /// Where the casts that were made lie, as they are and with channels swapped; 0 for none.
    pub fn cast_pointers(&self) -> [u64; 2] {
        [0, 1].map(|i| self.casts[i].get().map_or(0, |cast| cast.pointer))
    }

    pub fn forget_casts(&mut self) {
        self.casts = Default::default();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.whole.is_none() {
            self.cuda.give_back(self.pointer, self.len * self.element.size());
        }
    }
}
