//! The sums over pixels that group normalisation needs in the forward and in the backward pass.

use super::scratch;
use super::simd::{Kernel, Simd};

/// Two sums per channel over rows of channels, with values taken relative to an origin per channel:
/// `Σ (x − o)` and `Σ (x − o)²`, or with a gradient `Σ dy` and `Σ dy·(x − o)`. Chunks of several rows
/// are added value by value and folded at the end: long loops and short sums, whatever the channels.
pub(super) struct PairSums<'a> {
    pub x: &'a [f32],
    pub dy: Option<&'a [f32]>,
    pub origin: &'a [f32],
    pub sums: &'a mut [f32],
}

impl Kernel for PairSums<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let channels = self.origin.len();
        let chunk = channels * 64usize.div_ceil(channels);
        scratch::with(
            3 * chunk,
            #[inline(always)]
            |space| {
                let (origin, totals) = space.split_at_mut(chunk);
                origin.chunks_exact_mut(channels).for_each(|origin| origin.copy_from_slice(self.origin));
                totals.fill(0.0);
                let (first, second) = totals.split_at_mut(chunk);
                for (i, x) in self.x.chunks(chunk).enumerate() {
                    let len = x.len();
                    let (origin, a, b) = (&origin[..len], &mut first[..len], &mut second[..len]);
                    match self.dy {
                        Some(dy) => {
                            let dy = &dy[i * chunk..i * chunk + len];
                            for k in 0..len {
                                a[k] += dy[k];
                                b[k] += dy[k] * (x[k] - origin[k]);
                            }
                        }
                        None => {
                            for k in 0..len {
                                let value = x[k] - origin[k];
                                a[k] += value;
                                b[k] += value * value;
                            }
                        }
                    }
                }
                let (a, b) = self.sums.split_at_mut(channels);
                for (sums, totals) in [(a, first), (b, second)] {
                    sums.fill(0.0);
                    for totals in totals.chunks_exact(channels) {
                        sums.iter_mut().zip(totals).for_each(|(sum, total)| *sum += *total);
                    }
                }
            },
        );
    }
}
