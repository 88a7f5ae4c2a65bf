//! Buffers aligned to cache lines, and the pool that hands them from one step to the next.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

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

/// Free buffers by size. Keeps no more free memory than was ever in use at once.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: HashMap<usize, Vec<Vec<Line>>>,
    free_lines: usize,
    live_lines: usize,
    peak_lines: usize,
    fresh: usize,
}

impl Pool {
    /// A buffer with arbitrary content.
    pub fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let count = len.div_ceil(16);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.live_lines += count;
        state.peak_lines = state.peak_lines.max(state.live_lines);
        let lines = match state.free.get_mut(&count).and_then(Vec::pop) {
            Some(lines) => {
                state.free_lines -= count;
                lines
            }
            None => {
                state.fresh += 1;
                drop(state);
                vec![Line([0.0; 16]); count]
            }
        };
        Buffer { lines, len, pool: Some(self.clone()) }
    }

    fn put(&self, lines: Vec<Line>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = lines.len();
        state.live_lines -= count;
        if state.free_lines + count <= state.peak_lines {
            state.free_lines += count;
            state.free.entry(count).or_default().push(lines);
        }
    }

    /// How many buffers were newly allocated so far, rather than reused.
    pub fn allocations(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).fresh
    }
}
