//! The two register-blocked products that every convolution, linear layer and matrix product here
//! is made of.
//!
//! ```text
//! rows x matrix    out[i, :]  = Σ_k x[i*row_stride + k] · w[k, :]        (forward, data gradient)
//! outer products   out[j, :] += Σ_p x[p*x_step + j] · y[p*y_step + :]    (weight gradient)
//! ```
//!
//! The summed index may run over several *runs* of contiguous values, which is what lets a 3x3
//! window (three rows of 3·channels values each) be read where it lies, without unrolling it first.

use super::epilogue::{Finish, finish};
use super::simd::Simd;

/// How the summed index of a product walks memory: `count` runs of `len` values, `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    pub count: usize,
    pub len: usize,
    pub stride: usize,
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

#[cfg_attr(not(target_arch = "x86_64"), path = "blocked/no_pairs.rs")]
pub(super) mod pairs;

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
    pub finish: Finish,
    pub out: *mut f32,
    pub out_stride: usize,
}

impl RowsTimesMatrix {
    /// # Safety
    /// The pointers must reach what the fields describe (see [`sum_rows`] and [`finish`]).
    #[inline(always)]
    pub unsafe fn run<S: Simd>(self, s: S) {
        // Rows of few values that lie side by side are short products, where sizes that the compiler knows spare much of
        // the address arithmetic.
        // SAFETY: forwarded.
        unsafe {
            match (self.runs.count, self.row_stride) {
                (1, 8) if self.runs.len == 8 => self.with_depth::<8>().run_columns(s),
                (1, 16) if self.runs.len == 16 => self.with_depth::<16>().run_columns(s),
                _ => self.run_columns(s),
            }
        }
    }

    #[inline(always)]
    fn with_depth<const K: usize>(self) -> Self {
        Self { row_stride: K, runs: Runs { count: 1, len: K, stride: 0 }, ..self }
    }

    #[inline(always)]
    unsafe fn run_columns<S: Simd>(self, s: S) {
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
        // The largest blocks in a loop of their own, without a choice of size.
        // SAFETY (both loops): the block's rows and the columns from `column` lie within the fields' grant.
        with_row_count!(S::ROWS[NV - 1], R => {
            while self.rows - row >= 2 * R {
                // SAFETY: see above.
                unsafe { self.block::<S, R, NV>(s, row, column) };
                row += R;
            }
        });
        while row < self.rows {
            let block = next_block(self.rows - row, S::ROWS[NV - 1]);
            // SAFETY: see above.
            unsafe { with_row_count!(block, R => self.block::<S, R, NV>(s, row, column)) };
            row += block;
        }
    }

    #[inline(always)]
    unsafe fn block<S: Simd, const R: usize, const NV: usize>(self, s: S, row: usize, column: usize) {
        // SAFETY: as granted to `run`.
        unsafe {
            let x = self.x.add(row * self.row_stride);
            let w = self.matrix.add(column);
            let at = row * self.out_stride + column;
            let sums = sum_rows::<S, R, NV>(s, x, self.row_stride, self.runs, w, self.matrix_stride);
            let (out, width) = (self.out.add(at), self.columns - column);
            finish(s, sums, self.finish.add(at, column), out, self.out_stride, width);
        }
    }
}

/// One task of a sum of outer products: `out[j, :] = Σ_p x[p][j] · y[p][:]` for `rows` values j and
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
    /// Whether the sums are added to what is in `out`.
    pub add: bool,
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
                    let sum = if self.add { s.add(s.load(out), sums[i][v]) } else { sums[i][v] };
                    s.store(out, sum);
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
