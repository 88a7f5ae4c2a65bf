//! Working memory of kernels: a few growing buffers per thread, so that a step after the first
//! allocates nothing.

use super::memory::Buffer;
use std::cell::RefCell;

thread_local! {
    static FREE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Lends `len` values with arbitrary content, aligned to a cache line. Calls may nest. Inlined, so that `work` in a
/// kernel is compiled for the kernel's instruction set.
#[inline(always)]
pub(crate) fn with<T>(len: usize, work: impl FnOnce(&mut [f32]) -> T) -> T {
    let mut buffer = FREE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Buffer::zeroed(0));
    buffer.grow(len);
    let result = work(&mut buffer[..len]);
    FREE.with_borrow_mut(|free| free.push(buffer));
    result
}
