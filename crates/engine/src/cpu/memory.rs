//! Buffers aligned to cache lines, and the pool that hands them from one step to the next.

use crate::cuda::{DeviceError, fail};
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
}

impl Buffer {
    /// A buffer of zeros that belongs to no pool.
    pub fn zeroed(len: usize) -> Self {
        Self { lines: vec![Line([0.0; 16]); len.div_ceil(16)], len, pool: None }
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

/// Free buffers by size. Holds, in use and free together, at most twice the memory that was ever in
/// use at once (a step needs its sizes at different times, so all of them together are more than its
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
    fresh: usize,
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

/// New memory; where there is none, the error that `catching` returns.
fn new_lines(count: usize, held: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    if lines.try_reserve_exact(count).is_err() {
        let mib = |lines: usize| (lines * size_of::<Line>()) >> 20;
        fail(DeviceError::OutOfMachineMemory { wanted_mib: mib(count), held_mib: mib(held) });
    }
    lines.resize(count, Line([0.0; 16]));
    lines
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer with arbitrary content.
    pub fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let count = len.div_ceil(16);
        let mut state = self.lock();
        state.live_lines += count;
        state.peak_lines = state.peak_lines.max(state.live_lines);
        let lines = state.reuse(count).unwrap_or_else(|| {
            state.fresh += 1;
            let held = state.live_lines - count;
            drop(state);
            new_lines(count, held)
        });
        Buffer { lines, len, pool: Some(self.clone()) }
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
