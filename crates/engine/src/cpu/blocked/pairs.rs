//! The product of rows and matrix for 3x3 convolutions whose columns come in eights, by vectors of sixteen. Eight columns
//! would leave half of such a vector empty. So a vector takes two values of the summed index at once, which are broadcast
//! as one pair: its lanes 2c and 2c + 1 hold Σ x[k] · w[k, c] over even and over odd k, and are added in the end. A pair
//! belongs to three windows, so that it is broadcast once for three products.

use super::{RowsTimesMatrix, next_block};
use crate::cpu::avx2::Avx2;
use crate::cpu::epilogue::finish;
use std::arch::x86_64::*;

/// Columns of a vector.
const COLUMNS: usize = 8;
/// Windows of the register block that is so many vectors wide, beside three taps' weights.
const WINDOWS: [usize; 3] = [12, 10, 6];

/// Proof that this machine has AVX-512 F and VL, AVX2 and FMA.
#[derive(Clone, Copy)]
pub(crate) struct Pairs(());

/// A computation by pairs.
pub(crate) trait PairKernel {
    /// The body; implementations mark it `#[inline(always)]`, so that it is compiled with the instructions.
    fn run(self, pairs: Pairs);
}

/// # Safety
/// The machine must have the instructions named.
#[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
fn run<K: PairKernel>(kernel: K) {
    kernel.run(Pairs(()));
}

impl Pairs {
    /// # Safety
    /// The machine must have AVX-512 F and VL, AVX2 and FMA.
    pub unsafe fn new() -> Self {
        Self(())
    }

    /// Runs a kernel compiled for pairs.
    pub fn run<K: PairKernel>(self, kernel: K) {
        // SAFETY: a `Pairs` is the proof.
        unsafe { run(kernel) }
    }

    /// Rows k and k+1 of a matrix side by side, column by column: [k, columns] to [k/2, columns, 2].
    pub fn interleave(self, matrix: &[f32], columns: usize, out: &mut [f32]) {
        for (out, rows) in out.chunks_exact_mut(2 * columns).zip(matrix.chunks_exact(2 * columns)) {
            let (even, odd) = rows.split_at(columns);
            for ((pair, even), odd) in out.chunks_exact_mut(2).zip(even).zip(odd) {
                pair.copy_from_slice(&[*even, *odd]);
            }
        }
    }
}

/// Two values that lie side by side, in all pairs of lanes.
///
/// # Safety
/// Two values must be readable.
#[inline(always)]
unsafe fn broadcast_pair(from: *const f32) -> __m512 {
    // SAFETY: as granted; a whole number of 64 bits keeps whatever the values are.
    unsafe { _mm512_castsi512_ps(_mm512_set1_epi64(from.cast::<i64>().read_unaligned())) }
}

/// The even lanes.
#[inline(always)]
unsafe fn even_lanes(x: __m512) -> __m256 {
    // SAFETY: called inside `run` only.
    unsafe { _mm256_castsi256_ps(_mm512_cvtepi64_epi32(_mm512_castps_si512(x))) }
}

/// The odd lanes.
#[inline(always)]
unsafe fn odd_lanes(x: __m512) -> __m256 {
    // SAFETY: called inside `run` only.
    unsafe { even_lanes(_mm512_castsi512_ps(_mm512_srli_epi64::<32>(_mm512_castps_si512(x)))) }
}

/// Calls `$body` with `$V` as the constant number of vectors of the next block of columns, at most three.
macro_rules! with_vectors {
    ($columns:expr, $V:ident => $body:expr) => {
        match $columns / COLUMNS {
            1 => {
                const $V: usize = 1;
                $body
            }
            // Two and two rather than three and one.
            2 | 4 => {
                const $V: usize = 2;
                $body
            }
            _ => {
                const $V: usize = 3;
                $body
            }
        }
    };
}

impl RowsTimesMatrix {
    /// [`run`](Self::run) of windows: each row has three pixels of `row_stride` values and shares two with the next. The
    /// matrix is [interleaved](Pairs::interleave), its pairs of rows `matrix_stride` apart.
    ///
    /// # Safety
    /// As for `run`; columns come in eights, and the values of a pixel in pairs.
    #[inline(always)]
    pub unsafe fn run_windows(self, pairs: Pairs) {
        // Strides that the compiler knows spare most of the address arithmetic.
        // SAFETY: forwarded.
        unsafe {
            match self.row_stride {
                8 => Self { row_stride: 8, ..self }.window_columns(pairs),
                16 => Self { row_stride: 16, ..self }.window_columns(pairs),
                24 => Self { row_stride: 24, ..self }.window_columns(pairs),
                _ => self.window_columns(pairs),
            }
        }
    }

    #[inline(always)]
    unsafe fn window_columns(self, pairs: Pairs) {
        let mut column = 0;
        while column < self.columns {
            with_vectors!(self.columns - column, NV => {
                let mut row = 0;
                while row < self.rows {
                    let block = next_block(self.rows - row, WINDOWS[NV - 1]);
                    // SAFETY: as granted to `run_windows`.
                    unsafe { with_row_count!(block, R => self.window_block::<R, NV>(pairs, row, column)) };
                    row += block;
                }
                column += NV * COLUMNS;
            });
        }
    }

    #[inline(always)]
    unsafe fn window_block<const R: usize, const NV: usize>(self, _: Pairs, row: usize, column: usize) {
        let channels = self.row_stride;
        // SAFETY: `Pairs` is the proof of the instructions; as granted: R windows have R + 2 pixels, and each run of the
        // matrix three times the rows of a pixel.
        unsafe {
            let mut sums = [[_mm512_setzero_ps(); NV]; R];
            let mut x = self.x.add(row * channels);
            let mut w = self.matrix.add(2 * column);
            for _ in 0..self.runs.count {
                for k in (0..channels).step_by(2) {
                    let mut taps = [[_mm512_setzero_ps(); NV]; 3];
                    for tap in 0..3 {
                        for v in 0..NV {
                            let pair = (tap * channels + k) / 2;
                            taps[tap][v] =
                                _mm512_loadu_ps(w.add(pair * self.matrix_stride + v * 2 * COLUMNS));
                        }
                    }
                    for pixel in 0..R + 2 {
                        let pair = broadcast_pair(x.add(pixel * channels + k));
                        for tap in 0..3 {
                            if pixel >= tap && pixel - tap < R {
                                for v in 0..NV {
                                    let sum = &mut sums[pixel - tap][v];
                                    *sum = _mm512_fmadd_ps(pair, taps[tap][v], *sum);
                                }
                            }
                        }
                    }
                }
                x = x.wrapping_add(self.runs.stride);
                w = w.wrapping_add(3 * channels / 2 * self.matrix_stride);
            }
            let mut totals = [[_mm256_setzero_ps(); NV]; R];
            for i in 0..R {
                for v in 0..NV {
                    totals[i][v] = _mm256_add_ps(even_lanes(sums[i][v]), odd_lanes(sums[i][v]));
                }
            }
            let at = row * self.out_stride + column;
            let (out, width) = (self.out.add(at), self.columns - column);
            finish(Avx2::new(), totals, self.finish.add(at, column), out, self.out_stride, width);
        }
    }
}
