//! Buffers aligned to cache lines, and the pool that hands them from one step to the next.

use crate::cuda::{DeviceError, fail};
use crate::tensor::buffer_number;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A cache line: what aligns a buffer, so that a vector load never touches two lines.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// `len` f32, aligned to 64 bytes; goes back to its pool when dropped.
pub(crate) struct Buffer {
    lines: Vec<Line>,
    len: usize,
    pool: Option<Arc<Pool>>,
    number: u64,
}

impl Buffer {
    /// A buffer of zeros that belongs to no pool.
    pub fn zeroed(len: usize) -> Self {
        let count = len.div_ceil(16);
        let lines = new_lines(count).unwrap_or_else(|| out_of_memory(count, 0));
        Self { lines, len, pool: None, number: buffer_number() }
    }

    /// What tells it from every other buffer that there was.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Lengthens the buffer to at least `len`; new values are zero.
    pub fn grow(&mut self, len: usize) {
        if len > self.len {
            *self = Self::zeroed(len);
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.put(std::mem::take(&mut self.lines));
        }
    }
}

/// Free buffers by size. The sum of those in use and those free is at most twice the memory that was ever in
/// use at once (a step needs its sizes at different times, so that their sum is more than its
/// peak); beyond that, the sizes that were not asked for the longest go first.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: HashMap<usize, Free>,
    free_lines: usize,
    live_lines: usize,
    peak_lines: usize,
    /// The peak since it was last asked for.
    recent_lines: usize,
    fresh: usize,
    /// The most lines that may be in use at once, where there is a limit.
    limit: Option<usize>,
    /// Counts requests.
    clock: u64,
}

/// The free buffers of one size.
#[derive(Default)]
struct Free {
    buffers: Vec<Vec<Line>>,
    last_asked: u64,
}

impl State {
    /// A free buffer of `count` lines, if there is one.
    fn reuse(&mut self, count: usize) -> Option<Vec<Line>> {
        self.clock += 1;
        let free = self.free.entry(count).or_default();
        free.last_asked = self.clock;
        let lines = free.buffers.pop()?;
        self.free_lines -= count;
        Some(lines)
    }

    /// Takes free buffers out until the rest is within bounds, those to be dropped.
    fn shrink(&mut self) -> Vec<Vec<Line>> {
        let mut dropped = Vec::new();
        while self.live_lines + self.free_lines > 2 * self.peak_lines {
            let oldest = self.free.iter_mut().min_by_key(|(_, free)| free.last_asked);
            let Some((&count, free)) = oldest else { break };
            match free.buffers.pop() {
                Some(lines) => {
                    self.free_lines -= count;
                    dropped.push(lines);
                }
                None => _ = self.free.remove(&count),
            }
        }
        dropped
    }
}

/// New memory, if there is so much.
fn new_lines(count: usize) -> Option<Vec<Line>> {
    let mut lines = Vec::new();
    lines.try_reserve_exact(count).ok()?;
    lines.resize(count, Line([0.0; 16]));
    Some(lines)
}

/// Ends with the error that `catching` returns.
fn out_of_memory(wanted: usize, held: usize) -> ! {
    let mib = |lines: usize| lines.saturating_mul(size_of::<Line>()) >> 20;
    fail(DeviceError::OutOfMachineMemory { wanted_mib: mib(wanted), held_mib: mib(held) })
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer with arbitrary content.
    pub fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let count = len.div_ceil(16);
        let mut state = self.lock();
        let held = state.live_lines;
        if state.limit.is_some_and(|limit| held.saturating_add(count) > limit) {
            drop(state);
            out_of_memory(count, held);
        }
        let found = state.reuse(count);
        let fresh = found.is_none();
        drop(state);
        let lines = found.or_else(|| new_lines(count)).unwrap_or_else(|| out_of_memory(count, held));
        // Counted only now that there is a buffer that will be given back.
        let mut state = self.lock();
        state.fresh += usize::from(fresh);
        state.live_lines += count;
        state.peak_lines = state.peak_lines.max(state.live_lines);
        state.recent_lines = state.recent_lines.max(state.live_lines);
        drop(state);
        Buffer { lines, len, pool: Some(self.clone()), number: buffer_number() }
    }

    /// The most memory that may be in use at once.
    pub fn limit(&self, bytes: usize) {
        self.lock().limit = Some(bytes / size_of::<Line>());
    }

    /// The memory in use.
    pub fn live_bytes(&self) -> usize {
        self.lock().live_lines * size_of::<Line>()
    }

    fn put(&self, lines: Vec<Line>) {
        let mut state = self.lock();
        let count = lines.len();
        state.live_lines -= count;
        state.free_lines += count;
        state.free.entry(count).or_default().buffers.push(lines);
        let dropped = state.shrink();
        drop(state);
        drop(dropped);
    }

    /// How many buffers were newly allocated so far, rather than reused.
    pub fn allocations(&self) -> usize {
        self.lock().fresh
    }

    /// The most memory that was in use at once so far.
    pub fn peak_bytes(&self) -> usize {
        self.lock().peak_lines * size_of::<Line>()
    }

    /// The most memory that was in use at once since this was last asked.
    pub fn recent_peak_bytes(&self) -> usize {
        let mut state = self.lock();
        let live = state.live_lines;
        std::mem::replace(&mut state.recent_lines, live) * size_of::<Line>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::catching;

    #[test]
    fn a_request_that_fails_leaves_the_accounts_as_they_were() {
        let pool = Arc::<Pool>::default();
        let kept = pool.take(16 * 100);
        let accounts = || (pool.live_bytes(), pool.peak_bytes(), pool.allocations());
        let before = accounts();
        let error = catching(|| pool.take(usize::MAX / 16)).err();
        assert!(matches!(error, Some(DeviceError::OutOfMachineMemory { .. })), "{error:?}");
        assert_eq!(accounts(), before, "memory that the machine has not got");
        pool.limit(200 * 64);
        let error = catching(|| pool.take(16 * 101)).err();
        let wanted = DeviceError::OutOfMachineMemory { wanted_mib: 0, held_mib: 0 };
        assert_eq!(error, Some(wanted));
        assert_eq!(accounts(), before, "memory beyond a limit");
        drop((pool.take(16 * 100), kept));
        assert_eq!(pool.live_bytes(), 0);
        let scratch = catching(|| Buffer::zeroed(usize::MAX / 16)).err();
        assert!(matches!(scratch, Some(DeviceError::OutOfMachineMemory { .. })), "no abort: {scratch:?}");
    }

    #[test]
    fn other_sizes_take_the_place_of_those_no_longer_asked_for() {
        let pool = Arc::<Pool>::default();
        for size in [1000, 2000, 3000] {
            for _ in 0..2 {
                drop([pool.take(16 * size), pool.take(16 * size)]);
            }
        }
        let state = pool.lock();
        assert_eq!(state.fresh, 6, "two of each size");
        assert_eq!((state.live_lines, state.peak_lines), (0, 6000));
        assert!(state.free_lines <= 2 * state.peak_lines, "{} lines held", state.free_lines);
        assert_eq!(state.free[&3000].buffers.len(), 2, "the last size stays");
        drop(state);
        for size in [3001, 3002, 3003] {
            drop([pool.take(16 * size), pool.take(16 * size)]);
        }
        assert!(!pool.lock().free.contains_key(&1000), "the first size is forgotten");
    }
}
