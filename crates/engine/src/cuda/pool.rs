//! Free device memory by size, handed from one step to the next, and pinned memory for copies.

use cudarc::driver::sys::{self, CUresult};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sizes are rounded up by at most an eighth, so that similar ones share buffers.
pub(super) fn size_class(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 16).max(512);
    bytes.max(1).div_ceil(step) * step
}

/// Free buffers by size, and the accounts.
#[derive(Default)]
pub(super) struct Pool {
    free: HashMap<usize, Vec<u64>>,
    live_bytes: usize,
    pub peak_bytes: usize,
    /// The peak since it was last asked for.
    recent_bytes: usize,
    pub allocations: usize,
}

impl Pool {
    /// A free buffer of exactly this size class, if there is one. Work on one stream is done in order,
    /// so what earlier work still reads may be handed out for later work to write.
    pub fn take(&mut self, bytes: usize) -> Option<u64> {
        let pointer = self.free.get_mut(&bytes).and_then(Vec::pop)?;
        self.count(bytes);
        Some(pointer)
    }

    /// New memory was found for a request.
    pub fn add(&mut self, bytes: usize) {
        self.allocations += 1;
        self.count(bytes);
    }

    fn count(&mut self, bytes: usize) {
        self.live_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        self.recent_bytes = self.recent_bytes.max(self.live_bytes);
    }

    pub fn put(&mut self, pointer: u64, bytes: usize) {
        self.live_bytes -= bytes;
        self.free.entry(bytes).or_default().push(pointer);
    }

    /// All free buffers, to be freed.
    pub fn drain(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.free).into_values().flatten().collect()
    }

    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// The most memory that was in use at once since this was last asked.
    pub fn recent_peak_bytes(&mut self) -> usize {
        std::mem::replace(&mut self.recent_bytes, self.live_bytes)
    }
}

/// Memory of this machine at a fixed place, which the GPU reads and writes at full speed; none
/// where the system refuses it.
#[derive(Default)]
pub(super) struct Pinned {
    pub memory: Option<*mut u8>,
    bytes: usize,
}

impl Pinned {
    /// Makes it at least so long.
    pub fn grow(&mut self, bytes: usize) {
        if self.memory.is_some() && bytes <= self.bytes {
            return;
        }
        self.free();
        let mut memory = std::ptr::null_mut();
        // SAFETY: a place for an address.
        let result = unsafe { sys::cuMemAllocHost_v2(&mut memory, bytes.max(1 << 16)) };
        if result == CUresult::CUDA_SUCCESS {
            (self.memory, self.bytes) = (Some(memory.cast()), bytes.max(1 << 16));
        }
    }

    pub fn free(&mut self) {
        if let Some(memory) = self.memory.take() {
            // SAFETY: taken by `grow`; no copy to it is under way.
            unsafe { sys::cuMemFreeHost(memory.cast()) };
        }
    }
}

/// Things that are lent to one user at a time; where all are lent, another is made.
pub(super) struct Spare<T>(Mutex<Vec<T>>);

impl<T: Default> Spare<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends one to `work`. No lock is held meanwhile: where `work` waits for a parallel loop, rayon may have
    /// this very thread begin another job that comes here, too.
    ///
    /// What `work` unwinds out of is not lent again: a copy into it may still be under way.
    pub fn lend<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut item = self.lock().pop().unwrap_or_default();
        let result = work(&mut item);
        self.lock().push(item);
        result
    }

    /// All that are not lent.
    pub fn drain(&mut self) -> Vec<T> {
        std::mem::take(&mut *self.lock())
    }
}

impl<T> Default for Spare<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn what_is_lent_may_be_used_in_parallel_loops_by_many_threads() {
        // What downloads do; one lock held over the loops would stop this for ever.
        let spare = Arc::<Spare<Vec<u8>>>::default();
        let (done, waiting) = channel();
        let threads = 8;
        for thread in 0..threads {
            let (spare, done) = (spare.clone(), done.clone());
            std::thread::spawn(move || {
                for _ in 0..200 {
                    rayon::scope(|_| {
                        spare.lend(|memory| {
                            memory.resize(1 << 16, 0);
                            memory.par_chunks_mut(1 << 10).for_each(|part| part.fill(thread));
                            assert!(memory.par_iter().all(|&value| value == thread));
                        });
                    });
                }
                done.send(()).unwrap();
            });
        }
        for _ in 0..threads {
            waiting.recv_timeout(Duration::from_secs(60)).expect("all threads come to an end");
        }
    }

    #[test]
    fn a_size_class_holds_its_size_and_wastes_at_most_an_eighth() {
        for bytes in [1, 511, 512, 513, 4096, 100_000, 1 << 20, (1 << 20) + 1, 52_428_800] {
            let class = size_class(bytes);
            assert!(class >= bytes && class.is_multiple_of(512), "{bytes}: {class}");
            assert!(class - bytes <= (bytes / 8).max(512), "{bytes}: {class}");
            assert_eq!(size_class(class), class, "{bytes}");
        }
    }

    #[test]
    fn a_pool_hands_out_what_came_back() {
        let mut pool = Pool::default();
        assert_eq!(pool.take(512), None);
        assert_eq!((pool.live_bytes(), pool.peak_bytes, pool.allocations), (0, 0, 0), "nothing was found");
        pool.add(512);
        pool.put(7, 512);
        assert_eq!((pool.take(1024), pool.take(512)), (None, Some(7)));
        assert_eq!((pool.live_bytes(), pool.peak_bytes, pool.allocations), (512, 512, 1));
        pool.put(7, 512);
        assert_eq!([pool.recent_peak_bytes(), pool.recent_peak_bytes()], [512, 0], "since it was last asked");
    }
}
