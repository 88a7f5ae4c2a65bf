//! Work in parallel with results that do not depend on the number of threads: tasks are cut by the
//! shapes alone, each writes its own part of the output, and sums are made in a fixed order.

#[cfg(not(target_arch = "wasm32"))]
use super::helpers;
use std::marker::PhantomData;
use std::ops::Range;

/// Runs `task(0) .. task(count - 1)`, on the threads of the current rayon pool.
pub(crate) fn for_each_task(count: usize, task: impl Fn(usize) + Send + Sync) {
    #[cfg(not(target_arch = "wasm32"))]
    helpers::for_each_task(count, &task);
    #[cfg(target_arch = "wasm32")]
    (0..count).for_each(task);
}

/// An output that several tasks write at once, each its own range.
#[derive(Clone, Copy)]
pub(crate) struct Output<'a> {
    start: *mut f32,
    len: usize,
    owner: PhantomData<&'a mut [f32]>,
}

// SAFETY: the pointer comes from a unique borrow that lives as long as the `Output`; tasks are handed
// ranges that do not overlap (each call site cuts them by the task's number).
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    pub fn new(values: &'a mut [f32]) -> Self {
        Self { start: values.as_mut_ptr(), len: values.len(), owner: PhantomData }
    }

    /// The start of a range that lies inside the output.
    pub fn at(&self, first: usize, len: usize) -> *mut f32 {
        let end = first.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "range {first}+{len} of an output of {}", self.len);
        // SAFETY: inside the borrowed slice, as just checked.
        unsafe { self.start.add(first) }
    }

    /// A range of the output as a slice.
    ///
    /// # Safety
    /// As long as the slice lives, nobody else may ask for a range that overlaps this one.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice(&self, first: usize, len: usize) -> &mut [f32] {
        // SAFETY: inside the borrowed slice (`at` checks), and nobody else's, as the caller grants.
        unsafe { std::slice::from_raw_parts_mut(self.at(first, len), len) }
    }
}

/// A long sum cut into a fixed number of parts, each with its own accumulator.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    items: usize,
    pub count: usize,
}

impl Parts {
    /// Parts for a sum over `items`, at least `smallest` of them in a part, whose accumulators have
    /// `accumulator` values: at most sixteen parts, fewer where the accumulators are large.
    pub fn new(items: usize, smallest: usize, accumulator: usize) -> Self {
        let by_memory = (2_000_000 / accumulator.max(1)).clamp(2, 16);
        Self { items, count: items.div_ceil(smallest).clamp(1, by_memory) }
    }

    /// All items in one part.
    pub fn one(items: usize) -> Self {
        Self { items, count: 1 }
    }

    /// The items of one part.
    pub fn range(self, part: usize) -> Range<usize> {
        part * self.items / self.count..(part + 1) * self.items / self.count
    }

    /// Adds the parts' accumulators (rows of `stride`, of which `n` values count) in order.
    pub fn sum(self, partial: &[f32], n: usize, stride: usize, out: &mut [f32]) {
        const ROWS: usize = 64;
        let (size, rows) = (partial.len() / self.count, out.len() / n);
        assert_eq!(out.len(), rows * n, "rows of {n} values");
        let out = Output::new(out);
        for_each_task(rows.div_ceil(ROWS), |task| {
            for row in task * ROWS..rows.min((task + 1) * ROWS) {
                // SAFETY: each task has its own rows.
                let out = unsafe { out.slice(row * n, n) };
                let at = row * stride;
                out.copy_from_slice(&partial[at..at + n]);
                for part in 1..self.count {
                    let at = part * size + at;
                    for (out, value) in out.iter_mut().zip(&partial[at..at + n]) {
                        *out += value;
                    }
                }
            }
        });
    }
}
