//! Loops over values, compiled once per instruction set and cut into chunks for the threads.

use super::parallel::{Output, for_each_task};
use super::simd::{Isa, Kernel, Simd};

/// Values per task: long against handing it out, short enough to share.
const CHUNK: usize = 32 * 1024;

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
    const SUM_CHUNK: usize = 4096;
    let mut partial = vec![0.0f32; a.len().div_ceil(SUM_CHUNK)];
    let sums = Output::new(&mut partial);
    let per_task = CHUNK / SUM_CHUNK;
    for_each_task(a.len().div_ceil(CHUNK), |task| {
        let first = task * CHUNK;
        let last = (first + CHUNK).min(a.len());
        // SAFETY: each task has the sums of its own chunk.
        let sums = unsafe { sums.slice(task * per_task, (last - first).div_ceil(SUM_CHUNK)) };
        isa.run(Compiled(
            #[inline(always)]
            || {
                let chunks = a[first..last].chunks(SUM_CHUNK).zip(b[first..last].chunks(SUM_CHUNK));
                for (sum, (a, b)) in sums.iter_mut().zip(chunks) {
                    let mut lanes = [0.0f32; 16];
                    let (a16, b16) = (a.chunks_exact(16), b.chunks_exact(16));
                    let rest = a16.remainder().iter().zip(b16.remainder());
                    for (a, b) in a16.zip(b16) {
                        for lane in 0..16 {
                            lanes[lane] += f(a[lane], b[lane]);
                        }
                    }
                    *sum = rest.fold(lanes.iter().sum(), |sum, (&a, &b)| sum + f(a, b));
                }
            },
        ));
    });
    partial.iter().map(|&sum| f64::from(sum)).sum()
}

/// Runs `work(row, out_row)` for every row of `out`, compiled for the instruction set.
pub(crate) fn for_each_row(
    isa: Isa,
    out: &mut [f32],
    row: usize,
    work: impl Fn(usize, &mut [f32]) + Send + Sync,
) {
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
        let out = unsafe { out.slice(first * row, count * row) };
        isa.run(Compiled(
            #[inline(always)]
            || {
                for (i, out) in out.chunks_exact_mut(row).enumerate() {
                    work(first + i, out);
                }
            },
        ));
    });
}
