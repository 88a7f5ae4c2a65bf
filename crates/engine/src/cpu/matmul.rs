//! The two register-blocked products that every convolution, linear layer and matrix product here
//! is made of, and the plain matrix products themselves.
//!
//! ```text
//! rows x matrix    out[i, :]  = Σ_k x[i*row_stride + k] · w[k, :]        (forward, data gradient)
//! outer products   out[j, :] += Σ_p x[p*x_step + j] · y[p*y_step + :]    (weight gradient)
//! ```
//!
//! The summed index may run over several *runs* of contiguous values, which is what lets a 3x3
//! window (three rows of 3·channels values each) be read where it lies, without unrolling it first.

use super::elementwise::Compiled;
use super::parallel::{Output, Parts, for_each_task};
use super::scratch;
use super::simd::{Isa, Kernel, Simd};

/// How the summed index of a product walks memory: `count` runs of `len` values, `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    pub count: usize,
    pub len: usize,
    pub stride: usize,
}

/// What happens to a finished sum before it is written: `relu(sum + bias + residual)`, each optional.
#[derive(Clone, Copy)]
pub(crate) struct Epilogue<'a> {
    pub bias: Option<&'a [f32]>,
    /// Laid out as the output is.
    pub residual: Option<&'a [f32]>,
    pub relu: bool,
}

impl Epilogue<'_> {
    pub const NONE: Self = Self { bias: None, residual: None, relu: false };

    /// Lends the epilogue with its bias padded to whole vectors.
    pub fn with_padded_bias<T>(
        self,
        columns: usize,
        lanes: usize,
        work: impl FnOnce(Epilogue<'_>) -> T,
    ) -> T {
        match self.bias {
            Some(bias) => {
                with_padded(bias, columns, lanes, |bias| work(Epilogue { bias: Some(bias), ..self }))
            }
            None => work(self),
        }
    }
}

/// Lends a matrix with its rows padded by zeros to whole vectors, so that kernels may load past the
/// last column: itself where the columns fill their vectors, else a copy. Rows are then
/// `columns.next_multiple_of(lanes)` apart.
pub(crate) fn with_padded<T>(
    matrix: &[f32],
    columns: usize,
    lanes: usize,
    work: impl FnOnce(&[f32]) -> T,
) -> T {
    let stride = columns.next_multiple_of(lanes);
    if stride == columns {
        return work(matrix);
    }
    scratch::with(matrix.len() / columns * stride, |padded| {
        for (to, from) in padded.chunks_exact_mut(stride).zip(matrix.chunks_exact(columns)) {
            to[..columns].copy_from_slice(from);
            to[columns..].fill(0.0);
        }
        work(padded)
    })
}

/// The next block of rows: as large as the registers allow, but never leaving a small rest.
#[inline(always)]
fn next_block(rest: usize, largest: usize) -> usize {
    const SIZES: [usize; 8] = [12, 10, 8, 6, 4, 3, 2, 1];
    let wanted = if rest >= 2 * largest {
        largest
    } else if rest > largest {
        rest.div_ceil(2)
    } else {
        rest
    };
    // A half is rounded up, which leaves the smaller half for the next call; a rest is rounded down.
    let size = if rest > largest {
        SIZES.iter().rev().find(|&&size| size >= wanted)
    } else {
        SIZES.iter().find(|&&size| size <= wanted)
    };
    size.copied().unwrap_or(1)
}

/// Calls `$body` with `$rows` as the constant `$R`.
macro_rules! with_row_count {
    ($rows:expr, $R:ident => $body:expr) => {
        with_row_count!(@ $rows, $R, $body, 12 10 8 6 4 3 2)
    };
    (@ $rows:expr, $R:ident, $body:expr, $($n:literal)*) => {
        match $rows {
            $($n => { const $R: usize = $n; $body })*
            _ => { const $R: usize = 1; $body }
        }
    };
}

/// `R` rows times `NV` vectors of columns, summed in registers.
///
/// # Safety
/// Row `i`, run `r` must be readable at `x + i*row_stride + r*runs.stride` for `runs.len` values;
/// `w` for `runs.count * runs.len` rows, `w_stride` apart, of `NV` vectors.
#[inline(always)]
unsafe fn sum_rows<S: Simd, const R: usize, const NV: usize>(
    s: S,
    x: *const f32,
    row_stride: usize,
    runs: Runs,
    mut w: *const f32,
    w_stride: usize,
) -> [[S::V; NV]; R] {
    let mut sums = [[s.splat(0.0); NV]; R];
    for run in 0..runs.count {
        // SAFETY: within what the caller grants: `run < count`.
        let x = unsafe { x.add(run * runs.stride) };
        let mut k = 0;
        // SAFETY (both loops): within what the caller grants: `k < len`, row `i < R`, vector `v < NV`;
        // `w` moves by as many rows as values are summed.
        if NV == 1 {
            // One vector of columns leaves registers for four values at a time, which spares most of
            // the address arithmetic of the rows.
            while k + 4 <= runs.len {
                // SAFETY: see above.
                unsafe {
                    let columns: [S::V; 4] = std::array::from_fn(|u| s.load(w.add(u * w_stride)));
                    for i in 0..R {
                        let x = x.add(i * row_stride + k);
                        for u in 0..4 {
                            sums[i][0] = s.fma(s.splat(*x.add(u)), columns[u], sums[i][0]);
                        }
                    }
                    w = w.add(4 * w_stride);
                }
                k += 4;
            }
        }
        while k < runs.len {
            // SAFETY: see above.
            unsafe {
                let columns: [S::V; NV] = std::array::from_fn(|v| s.load(w.add(v * S::LANES)));
                for i in 0..R {
                    let value = s.splat(*x.add(i * row_stride + k));
                    for v in 0..NV {
                        sums[i][v] = s.fma(value, columns[v], sums[i][v]);
                    }
                }
                w = w.add(w_stride);
            }
            k += 1;
        }
    }
    sums
}

/// Finishes a block of sums and writes it.
///
/// # Safety
/// `out` (and `residual`, if any) must reach `rows` rows, `stride` apart, of `width` values (at most
/// `NV` vectors); `bias`, if any, `NV` whole vectors.
#[inline(always)]
unsafe fn finish<S: Simd, const R: usize, const NV: usize>(
    s: S,
    sums: [[S::V; NV]; R],
    bias: Option<*const f32>,
    residual: Option<*const f32>,
    relu: bool,
    out: *mut f32,
    stride: usize,
    width: usize,
) {
    let zero = s.splat(0.0);
    for i in 0..R {
        for v in 0..NV {
            let at = i * stride + v * S::LANES;
            let valid = width.saturating_sub(v * S::LANES).min(S::LANES);
            // SAFETY: bias has whole vectors; rows of `out` and `residual` are touched whole vector
            // by whole vector only while `valid` says so, and value by value at the ragged end.
            unsafe {
                let mut value = sums[i][v];
                if let Some(bias) = bias {
                    value = s.add(value, s.load(bias.add(v * S::LANES)));
                }
                if valid == S::LANES {
                    if let Some(residual) = residual {
                        value = s.add(value, s.load(residual.add(at)));
                    }
                    if relu {
                        // Zero first: a NaN then passes through.
                        value = s.max(zero, value);
                    }
                    s.store(out.add(at), value);
                } else {
                    let mut values = [0.0; 16];
                    s.store(values.as_mut_ptr(), value);
                    for (lane, mut value) in values.into_iter().take(valid).enumerate() {
                        if let Some(residual) = residual {
                            value += *residual.add(at + lane);
                        }
                        *out.add(at + lane) = if relu && value < 0.0 { 0.0 } else { value };
                    }
                }
            }
        }
    }
}

/// One task of a rows-times-matrix product: `rows` rows starting at `x`, all columns of `matrix`.
#[derive(Clone, Copy)]
pub(crate) struct RowsTimesMatrix {
    pub x: *const f32,
    pub row_stride: usize,
    pub rows: usize,
    pub runs: Runs,
    pub matrix: *const f32,
    pub matrix_stride: usize,
    pub columns: usize,
    /// Padded to whole vectors.
    pub bias: Option<*const f32>,
    pub residual: Option<*const f32>,
    pub relu: bool,
    pub out: *mut f32,
    pub out_stride: usize,
}

impl RowsTimesMatrix {
    /// # Safety
    /// The pointers must reach what the fields describe (see [`sum_rows`] and [`finish`]).
    #[inline(always)]
    pub unsafe fn run<S: Simd>(self, s: S) {
        let mut column = 0;
        while column < self.columns {
            // SAFETY: forwarded; `column` stays inside the padded columns.
            unsafe {
                if self.columns - column > S::LANES {
                    self.column_block::<S, 2>(s, column);
                    column += 2 * S::LANES;
                } else {
                    self.column_block::<S, 1>(s, column);
                    column += S::LANES;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn column_block<S: Simd, const NV: usize>(self, s: S, column: usize) {
        let mut row = 0;
        while row < self.rows {
            let block = next_block(self.rows - row, S::ROWS[NV - 1]);
            // SAFETY: rows `row..row + block` and the columns from `column` lie within the fields' grant.
            unsafe {
                let x = self.x.add(row * self.row_stride);
                let w = self.matrix.add(column);
                let at = row * self.out_stride + column;
                with_row_count!(block, R => {
                    let sums = sum_rows::<S, R, NV>(s, x, self.row_stride, self.runs, w, self.matrix_stride);
                    finish(s, sums, self.bias.map(|b| b.add(column)), self.residual.map(|r| r.add(at)),
                        self.relu, self.out.add(at), self.out_stride, self.columns - column);
                });
            }
            row += block;
        }
    }
}

/// One task of a sum of outer products: `out[j, :] += Σ_p x[p][j] · y[p][:]` for `rows` values j and
/// whole vectors of columns; p walks `runs` of x and the same number of values of y.
#[derive(Clone, Copy)]
pub(crate) struct OuterProducts {
    pub x: *const f32,
    pub x_step: usize,
    pub rows: usize,
    pub y: *const f32,
    pub y_step: usize,
    /// Strides of x between runs; `len` counts p.
    pub runs: Runs,
    pub y_run_stride: usize,
    /// Whole vectors.
    pub columns: usize,
    pub out: *mut f32,
    pub out_stride: usize,
}

impl OuterProducts {
    /// # Safety
    /// The pointers must reach what the fields describe, and `columns` be whole vectors.
    #[inline(always)]
    pub unsafe fn run<S: Simd>(self, s: S) {
        let mut column = 0;
        while column < self.columns {
            // SAFETY: forwarded; `column` advances by whole vectors below `columns`.
            unsafe {
                if self.columns - column > S::LANES {
                    self.column_block::<S, 2>(s, column);
                    column += 2 * S::LANES;
                } else {
                    self.column_block::<S, 1>(s, column);
                    column += S::LANES;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn column_block<S: Simd, const NV: usize>(self, s: S, column: usize) {
        let mut row = 0;
        while row < self.rows {
            let block = next_block(self.rows - row, S::ROWS[NV - 1]);
            // SAFETY: as granted to `run`.
            unsafe { with_row_count!(block, R => self.block::<S, R, NV>(s, row, column)) };
            row += block;
        }
    }

    #[inline(always)]
    unsafe fn block<S: Simd, const R: usize, const NV: usize>(self, s: S, row: usize, column: usize) {
        let mut sums = [[s.splat(0.0); NV]; R];
        // SAFETY: row + R <= rows, column + NV vectors <= columns, p within the runs granted.
        unsafe {
            for run in 0..self.runs.count {
                let mut x = self.x.add(run * self.runs.stride + row);
                let mut y = self.y.add(run * self.y_run_stride + column);
                for _ in 0..self.runs.len {
                    let columns: [S::V; NV] = std::array::from_fn(|v| s.load(y.add(v * S::LANES)));
                    for i in 0..R {
                        let value = s.splat(*x.add(i));
                        for v in 0..NV {
                            sums[i][v] = s.fma(value, columns[v], sums[i][v]);
                        }
                    }
                    x = x.wrapping_add(self.x_step);
                    y = y.wrapping_add(self.y_step);
                }
            }
            for i in 0..R {
                for v in 0..NV {
                    let out = self.out.add((row + i) * self.out_stride + column + v * S::LANES);
                    s.store(out, s.add(s.load(out), sums[i][v]));
                }
            }
        }
    }
}

/// `out = epilogue(a · b)` with a [m, k], b [k, n], out [m, n].
pub(crate) fn matmul(
    isa: Isa,
    a: &[f32],
    b: &[f32],
    k: usize,
    n: usize,
    epilogue: Epilogue,
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
    if let Some(residual) = epilogue.residual {
        assert_eq!(residual.len(), out.len(), "matrix product: residual and output differ in size");
    }
    let isa = isa.for_channels(n);
    with_padded(b, n, isa.lanes(), |b| {
        epilogue.with_padded_bias(n, isa.lanes(), |epilogue| padded_matmul(isa, a, b, k, n, epilogue, out));
    });
}

/// [`matmul`] of checked sizes, with the rows of `b` and the bias padded to whole vectors.
fn padded_matmul(isa: Isa, a: &[f32], b: &[f32], k: usize, n: usize, epilogue: Epilogue, out: &mut [f32]) {
    let m = out.len() / n;
    // About 100k multiply-adds a task: long against the hand-out, short against a step.
    let rows_per_task = (100_000 / (k * n).max(1)).clamp(12, 1024).next_multiple_of(12);
    let out = Output::new(out);
    for_each_task(m.div_ceil(rows_per_task), |task| {
        let first = task * rows_per_task;
        let rows = rows_per_task.min(m - first);
        isa.run(RowsTask(RowsTimesMatrix {
            x: a[first * k..].as_ptr(),
            row_stride: k,
            rows,
            runs: Runs { count: 1, len: k, stride: 0 },
            matrix: b.as_ptr(),
            matrix_stride: n.next_multiple_of(isa.lanes()),
            columns: n,
            bias: epilogue.bias.map(<[f32]>::as_ptr),
            residual: epilogue.residual.map(|residual| residual[first * n..].as_ptr()),
            relu: epilogue.relu,
            out: out.at(first * n, rows * n),
            out_stride: n,
        }));
    });
}

struct RowsTask(RowsTimesMatrix);
impl Kernel for RowsTask {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `matmul` checked the sizes of all operands against m, k and n, and this task's
        // rows lie inside them; the matrix and the bias are padded to this set's vectors.
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
    assert_eq!(b.len(), m * n, "transposed product: right side of {m}x{n} has {} values", b.len());
    assert_eq!(out.len(), k * n, "transposed product: output of {k}x{n} has {} values", out.len());
    let isa = isa.for_channels(n);
    let stride = n.next_multiple_of(isa.lanes());
    let parts = Parts::new(m, 256, k * stride);
    scratch::with(parts.count * k * stride, |partial| {
        partial.fill(0.0);
        let sums = Output::new(partial);
        for_each_task(parts.count, |part| {
            let rows = parts.range(part);
            let sum = sums.at(part * k * stride, k * stride);
            // Chunks small enough that both operands stay in the first-level cache's neighbourhood.
            for first in rows.clone().step_by(256) {
                let rows = (rows.end - first).min(256);
                with_padded(&b[first * n..(first + rows) * n], n, isa.lanes(), |y| {
                    isa.run(OuterTask(OuterProducts {
                        x: a[first * k..(first + rows) * k].as_ptr(),
                        x_step: k,
                        rows: k,
                        y: y.as_ptr(),
                        y_step: stride,
                        runs: Runs { count: 1, len: rows, stride: 0 },
                        y_run_stride: 0,
                        columns: stride,
                        out: sum,
                        out_stride: stride,
                    }));
                });
            }
        });
        parts.sum(partial, n, stride, out);
    });
}

struct OuterTask(OuterProducts);
impl Kernel for OuterTask {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `matmul_tn` made x and y slices of exactly the rows described, y and the output
        // padded to this set's vectors, and the output is this part's own.
        unsafe { self.0.run(s) }
    }
}

/// `sum[j] += Σ_i rows[i, j]`. Stretches of whole rows, at least 64 values long, are added value by value
/// and then folded: long loops even for short rows, and short running sums, which keep their digits.
#[inline(always)]
pub(crate) fn add_rows(rows: &[f32], sum: &mut [f32]) {
    let n = sum.len();
    let stretch = n * 64usize.div_ceil(n);
    scratch::with(stretch, |totals| {
        for rows in rows.chunks(64 * stretch) {
            totals.fill(0.0);
            for values in rows.chunks(stretch) {
                totals[..values.len()].iter_mut().zip(values).for_each(|(total, value)| *total += value);
            }
            for totals in totals.chunks_exact(n) {
                sum.iter_mut().zip(totals).for_each(|(sum, total)| *sum += total);
            }
        }
    });
}

/// `out[j] = Σ_i a[i, j]` for a [m, n]: the gradient of a bias.
pub(crate) fn column_sums(isa: Isa, a: &[f32], n: usize, out: &mut [f32]) {
    if out.is_empty() {
        return;
    }
    let m = a.len() / n;
    let parts = Parts::new(m, 512, n);
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

#[cfg(test)]
mod tests {
    use super::next_block;

    #[test]
    fn blocks_cover_all_rows_and_leave_no_small_rest() {
        for largest in [2, 4, 6, 12] {
            for rows in 1..200 {
                let (mut rest, mut smallest) = (rows, usize::MAX);
                while rest > 0 {
                    let block = next_block(rest, largest);
                    assert!(block >= 1 && block <= largest && block <= rest, "{block} of {rest}");
                    smallest = smallest.min(block);
                    rest -= block;
                }
                if rows >= 16 && rows % 4 == 0 {
                    assert!(smallest >= largest.min(4), "{rows} rows in blocks up to {largest}: {smallest}");
                }
            }
        }
    }
}
