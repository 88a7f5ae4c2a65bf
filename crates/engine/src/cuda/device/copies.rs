//! Copies to a GPU, from it, and within it.

use super::super::driver::or_fail;
use super::Cuda;
use cudarc::driver::sys;
use rayon::prelude::*;

impl Cuda {
    /// Copies bytes to the GPU; the source may be changed when this returns.
    pub(in super::super) fn copy_in(&self, bytes: &[u8], to: u64) {
        self.make_current();
        // SAFETY: callers give a buffer at least as long as the bytes. Memory that is not pinned is
        // read before the call returns.
        let result =
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), self.0.stream) };
        or_fail(result, "copying to the GPU");
    }

    /// Copies bytes from some places of the GPU, once all work before is done.
    pub(crate) fn download(&self, parts: &mut [(u64, &mut [u8])]) {
        self.make_current();
        self.0.pinned.lend(|pinned| {
            pinned.grow(parts.iter().map(|(_, bytes)| bytes.len()).sum());
            let mut at = 0;
            for (from, bytes) in parts.iter_mut() {
                // SAFETY: what was asked for above holds all parts.
                let to = pinned.memory.map_or(bytes.as_mut_ptr(), |memory| unsafe { memory.add(at) });
                // SAFETY: callers give buffers at least as long as the bytes; waited for right below.
                let result =
                    unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), *from, bytes.len(), self.0.stream) };
                or_fail(result, "copying from the GPU");
                at += bytes.len();
            }
            self.synchronise();
            let Some(memory) = pinned.memory else { return };
            // SAFETY: as long as all parts, written by the copies that were waited for, and lent to nobody else.
            let mut copied = unsafe { std::slice::from_raw_parts(memory, at) };
            for (_, bytes) in parts {
                let (part, rest) = copied.split_at(bytes.len());
                copied = rest;
                // Side by side: most of the time goes into the first touch of new memory.
                const PART: usize = 1 << 20;
                let pieces = bytes.par_chunks_mut(PART).zip(part.par_chunks(PART));
                pieces.for_each(|(to, from)| to.copy_from_slice(from));
            }
        });
    }

    pub(crate) fn copy(&self, from: u64, to: u64, bytes: usize) {
        self.make_current();
        // SAFETY: callers give two buffers at least that long.
        let result = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.0.stream) };
        or_fail(result, "copying on the GPU");
    }
}
