//! Loops over values, compiled once per instruction set and cut into chunks for the threads.

use super::parallel::{Output, for_each_task};
use super::simd::{Isa, Kernel, Simd};

/// Values per task: long against handing it out, short enough to share.
const CHUNK: usize = 8 * 1024;

/// Compiles a closure for an instruction set. The bound stands here so that the closure is made as an `FnOnce`: calling
/// another kind as one goes through a function of the compiler's own, which is not compiled for the set.
pub(crate) struct Compiled<F: FnOnce()>(pub F);
impl<F: FnOnce()> Kernel for Compiled<F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        (self.0)();
    }
}

/// Runs `work(first, chunk)` for every chunk of `out`, from its value `first` on, compiled for the instruction set.
pub(crate) fn for_each_chunk(isa: Isa, out: &mut [f32], work: impl Fn(usize, &mut [f32]) + Send + Sync) {
    let len = out.len();
    let out = Output::new(out);
    for_each_task(len.div_ceil(CHUNK), |task| {
        let first = task * CHUNK;
        // SAFETY: each task has its own chunk.
        let out = unsafe { out.slice(first, CHUNK.min(len - first)) };
        isa.run(Compiled(
            #[inline(always)]
            || work(first, out),
        ));
    });
}

/// `out[i] = f(x[i])`
pub(crate) fn map(isa: Isa, x: &[f32], out: &mut [f32], f: impl Fn(f32) -> f32 + Send + Sync) {
    assert_eq!(x.len(), out.len());
    for_each_chunk(
        isa,
        out,
        #[inline(always)]
        |first, out| {
            for (out, &x) in out.iter_mut().zip(&x[first..]) {
                *out = f(x);
            }
        },
    );
}

/// `values[i] = f(values[i])`
pub(crate) fn map_in_place(isa: Isa, values: &mut [f32], f: impl Fn(f32) -> f32 + Send + Sync) {
    for_each_chunk(
        isa,
        values,
        #[inline(always)]
        |_, values| values.iter_mut().for_each(|value| *value = f(*value)),
    );
}

/// `out[i] = f(a[i], b[i])`
pub(crate) fn zip(
    isa: Isa,
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    f: impl Fn(f32, f32) -> f32 + Send + Sync,
) {
    assert!(a.len() == out.len() && b.len() == out.len());
    for_each_chunk(
        isa,
        out,
        #[inline(always)]
        |first, out| {
            for ((out, &a), &b) in out.iter_mut().zip(&a[first..]).zip(&b[first..]) {
                *out = f(a, b);
            }
        },
    );
}

/// `values[i] = f(values[i], b[i])`
pub(crate) fn update(isa: Isa, values: &mut [f32], b: &[f32], f: impl Fn(f32, f32) -> f32 + Send + Sync) {
    assert_eq!(b.len(), values.len());
    for_each_chunk(
        isa,
        values,
        #[inline(always)]
        |first, values| {
            for (value, &b) in values.iter_mut().zip(&b[first..]) {
                *value = f(*value, b);
            }
        },
    );
}

/// `Σ f(a[i], b[i])`, in a fixed order: sixteen running sums per chunk, chunks added in f64.
pub(crate) fn sum_zip(isa: Isa, a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32 + Send + Sync) -> f64 {
    assert_eq!(a.len(), b.len());
    if a.is_empty() { 0.0 } else { sum_zip_rows(isa, a, b, a.len(), 1, f)[0] }
}

/// [`sum_zip`] of each row of `a`, `width` values long; each row of `b` goes with so many rows of `a`.
pub(crate) fn sum_zip_rows(
    isa: Isa,
    a: &[f32],
    b: &[f32],
    width: usize,
    repeats: usize,
    f: impl Fn(f32, f32) -> f32 + Send + Sync,
) -> Vec<f64> {
    const SUM_CHUNK: usize = 4096;
    assert_eq!(a.len(), b.len() * repeats);
    let (rows, per_row) = (a.len() / width, width.div_ceil(SUM_CHUNK));
    let mut partial = vec![0.0f32; rows * per_row];
    let sums = Output::new(&mut partial);
    let per_task = (CHUNK / width.min(SUM_CHUNK)).max(1);
    for_each_task((rows * per_row).div_ceil(per_task), |task| {
        let first = task * per_task;
        // SAFETY: each task has the sums of its own chunks.
        let sums = unsafe { sums.slice(first, per_task.min(rows * per_row - first)) };
        isa.run(Compiled(
            #[inline(always)]
            || {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let (row, start) = ((first + i) / per_row, (first + i) % per_row * SUM_CHUNK);
                    let end = (start + SUM_CHUNK).min(width);
                    let b = &b[row / repeats * width..][start..end];
                    *sum = chunk_sum(&a[row * width..][start..end], b, &f);
                }
            },
        ));
    });
    partial.chunks(per_row).map(|row| row.iter().map(|&sum| f64::from(sum)).sum()).collect()
}

/// Sixteen running sums, then the rest. Values come first, so that the loop over them is one of vectors.
#[inline(always)]
fn chunk_sum(a: &[f32], b: &[f32], f: &impl Fn(f32, f32) -> f32) -> f32 {
    let (mut lanes, mut values) = ([0.0f32; 16], [0.0f32; 256]);
    let whole = a.len() - a.len() % 16;
    for (a, b) in a[..whole].chunks(256).zip(b[..whole].chunks(256)) {
        for ((value, &a), &b) in values.iter_mut().zip(a).zip(b) {
            *value = f(a, b);
        }
        for values in values[..a.len()].chunks_exact(16) {
            lanes.iter_mut().zip(values).for_each(|(lane, value)| *lane += value);
        }
    }
    a[whole..].iter().zip(&b[whole..]).fold(lanes.iter().sum(), |sum, (&a, &b)| sum + f(a, b))
}

/// Runs `work(row, out_row)` for every row of `out`, compiled for the instruction set.
pub(crate) fn for_each_row(
    isa: Isa,
    out: &mut [f32],
    row: usize,
    work: impl Fn(usize, &mut [f32]) + Send + Sync,
) {
    for_rows(out, row, |first, rows| {
        isa.run(Compiled(
            #[inline(always)]
            || {
                for (i, out) in rows.chunks_exact_mut(row).enumerate() {
                    work(first + i, out);
                }
            },
        ));
    });
}

/// Runs `work(first, rows)` with rows of `out` from number `first` on, which together are all of them.
pub(crate) fn for_rows(out: &mut [f32], row: usize, work: impl Fn(usize, &mut [f32]) + Send + Sync) {
    if out.is_empty() {
        return;
    }
    let rows = out.len() / row;
    let per_task = (CHUNK / row).max(1);
    let out = Output::new(out);
    for_each_task(rows.div_ceil(per_task), |task| {
        let first = task * per_task;
        let count = per_task.min(rows - first);
        // SAFETY: each task has its own rows.
        work(first, unsafe { out.slice(first * row, count * row) });
    });
}
