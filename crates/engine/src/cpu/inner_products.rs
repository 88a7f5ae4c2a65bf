//! Inner products of few long rows, as masks are compared.

use super::parallel::{Output, for_each_task};
use super::simd::{Isa, Kernel, Simd};

/// Rows of the left and of the right side whose sums are in registers at a time.
const BLOCK: [usize; 2] = [2, 4];

/// Whether rows are so few and long that [`inner_products`] is the faster way: as columns of a matrix they would leave
/// most of a vector empty.
pub(super) fn suits(rows: usize, length: usize) -> bool {
    rows <= 16 && length >= 256
}

/// `out[b·m + i, j] = Σ_p x[b·m + i, p] · y[b·n + j, p]` with p below k, for each b of the batch.
pub(super) fn inner_products(isa: Isa, [x, y]: [&[f32]; 2], [batch, m, k, n]: [usize; 4], out: &mut [f32]) {
    assert!(
        x.len() == batch * m * k && y.len() == batch * n * k && out.len() == batch * m * n,
        "inner products of {batch} times {m} and {n} rows of {k}"
    );
    if out.is_empty() {
        return;
    }
    let blocks = m.div_ceil(BLOCK[0]);
    let out = Output::new(out);
    for_each_task(batch * blocks, |task| {
        let (part, first) = (task / blocks, task % blocks * BLOCK[0]);
        let rows = BLOCK[0].min(m - first);
        let at = part * m + first;
        // SAFETY: each task has its own rows.
        let out = unsafe { out.slice(at * n, rows * n) };
        isa.run(Rows { x: &x[at * k..][..rows * k], y: &y[part * n * k..][..n * k], k, n, out });
    });
}

/// The products of one or two rows with n others.
struct Rows<'a> {
    x: &'a [f32],
    y: &'a [f32],
    k: usize,
    n: usize,
    out: &'a mut [f32],
}

impl Kernel for Rows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { x, y, k, n, out } = self;
        let whole = k - k % S::LANES;
        // Where a block is not full, it repeats its last row.
        let x: [&[f32]; BLOCK[0]] = std::array::from_fn(|i| &x[i.min(x.len() / k - 1) * k..][..k]);
        for first in (0..n).step_by(BLOCK[1]) {
            let y: [&[f32]; BLOCK[1]] = std::array::from_fn(|j| &y[(first + j).min(n - 1) * k..][..k]);
            let mut sums = [[s.splat(0.0); BLOCK[1]]; BLOCK[0]];
            for p in (0..whole).step_by(S::LANES) {
                // SAFETY: every row has `k` values, of which these are a whole vector.
                let (x, y) = unsafe {
                    (x.map(|row| s.load(row.as_ptr().add(p))), y.map(|row| s.load(row.as_ptr().add(p))))
                };
                for (sums, x) in sums.iter_mut().zip(x) {
                    for (sum, y) in sums.iter_mut().zip(y) {
                        *sum = s.fma(x, y, *sum);
                    }
                }
            }
            for ((out, sums), x) in out.chunks_exact_mut(n).zip(sums).zip(x) {
                for ((out, sum), y) in out[first..].iter_mut().zip(sums).zip(y) {
                    let mut lanes = [0.0; 16];
                    // SAFETY: sixteen values hold a vector of any set.
                    unsafe { s.store(lanes.as_mut_ptr(), sum) };
                    let rest = x[whole..].iter().zip(&y[whole..]).map(|(x, y)| x * y);
                    *out = lanes.into_iter().sum::<f32>() + rest.sum::<f32>();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_the_sums_of_products_on_every_set() {
        for [batch, m, k, n] in
            [[1, 1, 1, 1], [2, 3, 300, 5], [3, 16, 257, 16], [1, 2, 4096, 4], [2, 5, 15, 7]]
        {
            let value = |i: usize| ((i * 7919 + 13) % 1009) as f32 / 504.0 - 1.0;
            let x: Vec<f32> = (0..batch * m * k).map(value).collect();
            let y: Vec<f32> = (0..batch * n * k).map(|i| value(i + 501)).collect();
            for isa in Isa::available() {
                let mut out = vec![f32::NAN; batch * m * n];
                inner_products(isa, [&x, &y], [batch, m, k, n], &mut out);
                for (at, &found) in out.iter().enumerate() {
                    let (row, column) = (at / n, at / n / m * n + at % n);
                    let terms = x[row * k..][..k].iter().zip(&y[column * k..][..k]);
                    let terms = terms.map(|(&x, &y)| f64::from(x) * f64::from(y));
                    let (exact, size) =
                        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                    assert!((f64::from(found) - exact).abs() < 1e-6 * size, "{at}: {found}, {exact}");
                }
            }
        }
    }
}
