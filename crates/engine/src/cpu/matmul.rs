//! The plain matrix products, sums of columns, and transposition.

use super::blocked::{OuterProducts, RowsTimesMatrix, Runs};
use super::elementwise::{Compiled, for_each_chunk};
use super::epilogue::{Finish, with_padded};
use super::parallel::{Output, Parts, for_each_task};
use super::scratch;
use super::simd::{Isa, Kernel, Simd};
use crate::backend::Epilogue;
use std::ops::Range;

/// `out = epilogue(a · b)` with a [m, k], b [k, n], out [m, n].
pub(crate) fn matmul(
    isa: Isa,
    a: &[f32],
    b: &[f32],
    k: usize,
    n: usize,
    epilogue: Epilogue<[f32]>,
    out: &mut [f32],
) {
    if out.is_empty() {
        return;
    }
    let m = out.len() / n;
    assert_eq!(a.len(), m * k, "matrix product: left side of {m}x{k} has {} values", a.len());
    assert_eq!(b.len(), k * n, "matrix product: right side of {k}x{n} has {} values", b.len());
    if let Some(bias) = epilogue.bias {
        assert_eq!(bias.len(), n, "matrix product: bias of {} values for {n} columns", bias.len());
    }
    for values in [epilogue.residual, epilogue.mask].into_iter().flatten() {
        assert_eq!(values.len(), out.len(), "matrix product: residual or mask and output differ in size");
    }
    if n == 1 {
        return row_products(isa, a, b, epilogue, out);
    }
    let isa = isa.for_channels(n);
    with_padded(b, n, isa.lanes(), |b| {
        epilogue.with_padded_bias(n, isa.lanes(), |epilogue| padded_matmul(isa, a, b, k, n, epilogue, out));
    });
}

/// [`matmul`] of checked sizes, with the rows of `b` and the bias padded to whole vectors.
fn padded_matmul(
    isa: Isa,
    a: &[f32],
    b: &[f32],
    k: usize,
    n: usize,
    epilogue: Epilogue<[f32]>,
    out: &mut [f32],
) {
    let m = out.len() / n;
    // About 100k multiply-adds a task: long against the hand-out, short against a step.
    let rows_per_task = (100_000 / (k * n).max(1)).clamp(12, 1024).next_multiple_of(12);
    let out = Output::new(out);
    for_each_task(m.div_ceil(rows_per_task), |task| {
        let first = task * rows_per_task;
        let rows = rows_per_task.min(m - first);
        let a = &a[first * k..(first + rows) * k];
        // SAFETY: each task has its own rows.
        let out = unsafe { out.slice(first * n, rows * n) };
        rows_times(isa, [a, b], [k, n], Finish::new(epilogue, first * n), out);
    });
}

/// `finish(a · b)` of some rows by one thread; the rows of `b` and the bias are padded to whole vectors of the set, and
/// what finishes the sums reaches as far as `out`.
pub(super) fn rows_times(isa: Isa, [a, b]: [&[f32]; 2], [k, n]: [usize; 2], finish: Finish, out: &mut [f32]) {
    let (rows, stride) = (out.len() / n, n.next_multiple_of(isa.lanes()));
    assert!(a.len() == rows * k && b.len() == k * stride, "{rows} rows of {k} times a matrix of {k}x{n}");
    isa.run(RowsTask(RowsTimesMatrix {
        x: a.as_ptr(),
        row_stride: k,
        rows,
        runs: Runs { count: 1, len: k, stride: 0 },
        matrix: b.as_ptr(),
        matrix_stride: stride,
        columns: n,
        finish,
        out: out.as_mut_ptr(),
        out_stride: n,
    }));
}

/// `row · b`, eight values side by side.
#[inline(always)]
pub(super) fn row_product(row: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 8];
    let (row8, b8) = (row.chunks_exact(8), b.chunks_exact(8));
    let rest = row8.remainder().iter().zip(b8.remainder()).map(|(x, w)| x * w).sum::<f32>();
    for (row, b) in row8.zip(b8) {
        for lane in 0..8 {
            lanes[lane] += row[lane] * b[lane];
        }
    }
    let [l0, l1, l2, l3, l4, l5, l6, l7] = lanes;
    ((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7)) + rest
}

/// [`matmul`] of checked sizes where `b` is one column: vectors of columns would be all but empty, so that values of a
/// row are multiplied side by side instead.
fn row_products(isa: Isa, a: &[f32], b: &[f32], epilogue: Epilogue<[f32]>, out: &mut [f32]) {
    let bias = epilogue.bias.map_or(0.0, |bias| bias[0]);
    for_each_chunk(
        isa,
        out,
        #[inline(always)]
        |first, out| {
            for (i, (out, row)) in out.iter_mut().zip(a[first * b.len()..].chunks_exact(b.len())).enumerate()
            {
                let mut value = row_product(row, b) + bias;
                if let Some(residual) = epilogue.residual {
                    value += residual[first + i];
                }
                // Both written so that a NaN passes through a relu, and none through a mask.
                if epilogue.relu && value < 0.0 {
                    value = 0.0;
                }
                if let Some(mask) = epilogue.mask {
                    value = if mask[first + i] > 0.0 { value } else { 0.0 };
                }
                *out = value;
            }
        },
    );
}

struct RowsTask(RowsTimesMatrix);
impl Kernel for RowsTask {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `rows_times` checked the sizes of rows, matrix and output, which are padded to this set's vectors; its
        // callers those of bias, residual and mask.
        unsafe { self.0.run(s) }
    }
}

/// `out = aᵀ · b` with a [m, k], b [m, n], out [k, n]: the weight gradient of a linear layer.
/// Summed in a fixed number of parts, then part by part, so that threads do not change the result.
pub(crate) fn matmul_tn(isa: Isa, a: &[f32], b: &[f32], k: usize, n: usize, out: &mut [f32]) {
    if out.is_empty() {
        return;
    }
    let m = a.len() / k;
    if m == 0 {
        return out.fill(0.0);
    }
    assert_eq!(b.len(), m * n, "transposed product: right side of {m}x{n} has {} values", b.len());
    assert_eq!(out.len(), k * n, "transposed product: output of {k}x{n} has {} values", out.len());
    if n == 1 && k > 1 {
        // The same sum with the sides changed over, which fills the vectors.
        return matmul_tn(isa, b, a, 1, k, out);
    }
    let isa = isa.for_channels(n);
    let stride = n.next_multiple_of(isa.lanes());
    let parts = Parts::new(m, CHUNK, k * stride);
    scratch::with(parts.count * k * stride, |partial| {
        let sums = Output::new(partial);
        for_each_task(parts.count, |part| {
            let rows = parts.range(part);
            let sum = sums.at(part * k * stride, k * stride);
            for first in rows.clone().step_by(CHUNK) {
                let chunk = first..(first + CHUNK).min(rows.end);
                add_products(isa, [a, b], [k, n], chunk, sum, first > rows.start);
            }
        });
        parts.sum(partial, n, stride, out);
    });
}

/// Rows at a time, so few that both operands stay in the first-level cache's neighbourhood.
const CHUNK: usize = 256;

/// What some rows of `aᵀ · b` contribute to `sum` (rows as many values apart as whole vectors of `n` have), added to it
/// or in its place.
pub(super) fn add_products(
    isa: Isa,
    [a, b]: [&[f32]; 2],
    [k, n]: [usize; 2],
    rows: Range<usize>,
    sum: *mut f32,
    add: bool,
) {
    let stride = n.next_multiple_of(isa.lanes());
    with_padded(&b[rows.start * n..rows.end * n], n, isa.lanes(), |y| {
        isa.run(OuterTask(OuterProducts {
            x: a[rows.start * k..rows.end * k].as_ptr(),
            x_step: k,
            rows: k,
            y: y.as_ptr(),
            y_step: stride,
            runs: Runs { count: 1, len: rows.len(), stride: 0 },
            y_run_stride: 0,
            columns: stride,
            out: sum,
            out_stride: stride,
            add,
        }));
    });
}

/// The backward pass through `y = x · w` with x [m, k] and w [k, n], of `[x, dy, wᵀ]`: `dx = epilogue(dy · wᵀ)`, and
/// `dw = xᵀ · dy` as [`matmul_tn`] sums it, and where asked for `db` as [`column_sums`] does. All take a chunk of rows
/// while it is in the cache.
pub(crate) fn matmul_backward(
    isa: Isa,
    [x, dy, transposed]: [&[f32]; 3],
    [k, n]: [usize; 2],
    epilogue: Epilogue<[f32]>,
    dx: &mut [f32],
    dw: &mut [f32],
    mut db: Option<&mut [f32]>,
) {
    let m = x.len() / k;
    assert!(
        k > 1 && x.len() == m * k && dx.len() == m * k && dy.len() == m * n,
        "backward pass through a product of {m}x{k} and {k}x{n}"
    );
    assert!(transposed.len() == k * n && dw.len() == k * n, "backward pass through a product with {k}x{n}");
    let (sides, sizes) = if n == 1 { ([dy, x], [1, k]) } else { ([x, dy], [k, n]) };
    let (for_sums, for_rows) = (isa.for_channels(sizes[1]), isa.for_channels(k));
    let stride = sizes[1].next_multiple_of(for_sums.lanes());
    let size = sizes[0] * stride;
    let parts = Parts::new(m, CHUNK, size);
    // The bias's sums join this loop only where its parts and chunks are those of `column_sums`, so that results stay
    // the same to the bit: as many parts, and chunks of whole sums of `add_rows`.
    let along = sums_parts(m, n).count == parts.count && CHUNK.is_multiple_of(64 * 64usize.div_ceil(n));
    if !along && let Some(db) = db.take() {
        column_sums(isa, dy, n, db);
    }
    let bias_size = if db.is_some() { n } else { 0 };
    with_padded(transposed, k, for_rows.lanes(), |transposed| {
        scratch::with(parts.count * (size + bias_size), |partial| {
            let (partial, bias_partial) = partial.split_at_mut(parts.count * size);
            bias_partial.fill(0.0);
            let (sums, bias_sums, dx) = (Output::new(partial), Output::new(bias_partial), Output::new(dx));
            for_each_task(parts.count, |part| {
                let rows = parts.range(part);
                let sum = sums.at(part * size, size);
                // SAFETY: each part has its own values.
                let bias_sum = unsafe { bias_sums.slice(part * bias_size, bias_size) };
                for first in rows.clone().step_by(CHUNK) {
                    let chunk = first..(first + CHUNK).min(rows.end);
                    let count = chunk.len();
                    if !bias_sum.is_empty() {
                        let (rows, sum) = (&dy[chunk.start * n..chunk.end * n], &mut *bias_sum);
                        isa.run(Compiled(
                            #[inline(always)]
                            || add_rows(rows, sum),
                        ));
                    }
                    add_products(for_sums, sides, sizes, chunk, sum, first > rows.start);
                    let dy = &dy[first * n..(first + count) * n];
                    // SAFETY: each part has its own rows.
                    let dx = unsafe { dx.slice(first * k, count * k) };
                    rows_times(for_rows, [dy, transposed], [n, k], Finish::new(epilogue, first * k), dx);
                }
            });
            parts.sum(partial, sizes[1], stride, dw);
            if let Some(db) = db {
                parts.sum(bias_partial, n, n, db);
            }
        });
    });
}

struct OuterTask(OuterProducts);
impl Kernel for OuterTask {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `add_products` made x and y slices of exactly the rows described, y and the output
        // padded to this set's vectors, and the output is the part's own.
        unsafe { self.0.run(s) }
    }
}

/// `sum[j] += Σ_i rows[i, j]`. Chunks of whole rows, at least 64 values long, are added value by value
/// and then folded: long loops even for short rows, and short running sums, which keep their digits.
#[inline(always)]
pub(crate) fn add_rows(rows: &[f32], sum: &mut [f32]) {
    let n = sum.len();
    let chunk = n * 64usize.div_ceil(n);
    scratch::with(
        chunk,
        #[inline(always)]
        |totals| {
            for rows in rows.chunks(64 * chunk) {
                totals.fill(0.0);
                for values in rows.chunks(chunk) {
                    totals[..values.len()].iter_mut().zip(values).for_each(|(total, value)| *total += value);
                }
                for totals in totals.chunks_exact(n) {
                    sum.iter_mut().zip(totals).for_each(|(sum, total)| *sum += total);
                }
            }
        },
    );
}

/// How [`column_sums`] cuts m rows.
fn sums_parts(m: usize, n: usize) -> Parts {
    Parts::new(m, 512, n)
}

/// `out[j] = Σ_i a[i, j]` for a [m, n]: the gradient of a bias.
pub(crate) fn column_sums(isa: Isa, a: &[f32], n: usize, out: &mut [f32]) {
    if out.is_empty() {
        return;
    }
    let m = a.len() / n;
    let parts = sums_parts(m, n);
    scratch::with(parts.count * n, |partial| {
        partial.fill(0.0);
        let sums = Output::new(partial);
        for_each_task(parts.count, |part| {
            let rows = &a[parts.range(part).start * n..parts.range(part).end * n];
            // SAFETY: each part has its own `n` values.
            let sum = unsafe { sums.slice(part * n, n) };
            isa.run(Compiled(
                #[inline(always)]
                || add_rows(rows, sum),
            ));
        });
        parts.sum(partial, n, n, out);
    });
}

/// `out[j, i] = a[i, j]` for a [m, n], `out` [n, m].
pub(crate) fn transpose(a: &[f32], n: usize, out: &mut [f32]) {
    if a.is_empty() {
        return;
    }
    let m = a.len() / n;
    // 16x16 blocks: both sides touch whole cache lines.
    for i0 in (0..m).step_by(16) {
        for j0 in (0..n).step_by(16) {
            for j in j0..(j0 + 16).min(n) {
                for i in i0..(i0 + 16).min(m) {
                    out[j * m + i] = a[i * n + j];
                }
            }
        }
    }
}
