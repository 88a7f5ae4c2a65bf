//! Group normalisation of channels-last images, in two sweeps each way: sums per channel, then one
//! multiply-add per value.

use super::elementwise::Compiled;
use super::parallel::{Output, for_each_task};
use super::scratch;
use super::simd::{Isa, Kernel, Simd};
use crate::backend::NormShape;

/// Pixels per chunk of a channel sum.
const SUM_PIXELS: usize = 512;

impl NormShape {
    fn per_group(self) -> usize {
        self.channels / self.groups
    }

    /// Calls `sums(image, pixels, [2, channels] sums)` for chunks of pixels and adds the chunks up in
    /// order: [batch, 2, channels].
    fn channel_sums(
        self,
        sums: impl Fn(usize, std::ops::Range<usize>, &mut [f32]) + Send + Sync,
        out: &mut [f32],
    ) {
        let chunks = self.pixels.div_ceil(SUM_PIXELS);
        let size = 2 * self.channels;
        scratch::with(self.batch * chunks * size, |partial| {
            let target = Output::new(partial);
            for_each_task(self.batch * chunks, |task| {
                let (image, chunk) = (task / chunks, task % chunks);
                let pixels = chunk * SUM_PIXELS..((chunk + 1) * SUM_PIXELS).min(self.pixels);
                // SAFETY: each task has its own sums.
                let target = unsafe { target.slice(task * size, size) };
                target.fill(0.0);
                sums(image, pixels, target);
            });
            for (out, partial) in out.chunks_exact_mut(size).zip(partial.chunks_exact(chunks * size)) {
                out.copy_from_slice(&partial[..size]);
                for chunk in partial.chunks_exact(size).skip(1) {
                    out.iter_mut().zip(chunk).for_each(|(out, value)| *out += value);
                }
            }
        });
    }
}

impl NormShape {
    /// Calls `work(first, values, patterns)` for every chunk of `out`, with each image's three values per
    /// channel repeated to the chunk's length: long plain loops, whatever the number of channels.
    fn sweep(
        self,
        isa: Isa,
        per_channel: [&[f32]; 3],
        out: &mut [f32],
        work: impl Fn(usize, &mut [f32], [&[f32]; 3]) + Send + Sync,
    ) {
        let chunk = self.channels * 256usize.div_ceil(self.channels);
        let per_task = chunk * (32 * 1024usize).div_ceil(chunk);
        let image_values = self.pixels * self.channels;
        let tasks = image_values.div_ceil(per_task);
        let out = Output::new(out);
        for_each_task(self.batch * tasks, |task| {
            let (image, part) = (task / tasks, task % tasks);
            let first = image * image_values + part * per_task;
            // SAFETY: each task has its own part of an image.
            let out = unsafe { out.slice(first, per_task.min((image + 1) * image_values - first)) };
            scratch::with(3 * chunk, |patterns| {
                for (pattern, values) in patterns.chunks_exact_mut(chunk).zip(per_channel) {
                    for pattern in pattern.chunks_exact_mut(self.channels) {
                        pattern.copy_from_slice(&values[image * self.channels..][..self.channels]);
                    }
                }
                let (a, rest) = patterns.split_at(chunk);
                let (b, c) = rest.split_at(chunk);
                isa.run(Compiled(
                    #[inline(always)]
                    || {
                        for (i, out) in out.chunks_mut(chunk).enumerate() {
                            work(first + i * chunk, out, [a, b, c]);
                        }
                    },
                ));
            });
        });
    }
}

/// Two sums per channel over rows of channels, with values taken relative to an origin per channel:
/// `Σ (x − o)` and `Σ (x − o)²`, or with a gradient `Σ dy` and `Σ dy·(x − o)`. Chunks of several rows
/// are added value by value and folded at the end: long loops and short sums, whatever the channels.
struct PairSums<'a> {
    x: &'a [f32],
    dy: Option<&'a [f32]>,
    origin: &'a [f32],
    sums: &'a mut [f32],
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
                    for totals in totals.chunks_exact(channels) {
                        sums.iter_mut().zip(totals).for_each(|(sum, total)| *sum += *total);
                    }
                }
            },
        );
    }
}

/// `y = relu((x − mean) / √(var + ε) · scale + shift + residual)`, relu and residual optional. Leaves mean and 1/σ
/// of each image and group for the backward pass.
pub(crate) fn forward(
    isa: Isa,
    shape: NormShape,
    epsilon: f32,
    x: &[f32],
    (scale, shift): (&[f32], &[f32]),
    residual: Option<&[f32]>,
    relu: bool,
    y: &mut [f32],
    statistics: &mut [f32],
) {
    let NormShape { batch, pixels, channels, groups } = shape;
    let per_group = shape.per_group();
    assert!(x.len() == batch * pixels * channels && y.len() == x.len(), "{shape:?}: {} values", x.len());
    assert!(scale.len() == channels && shift.len() == channels, "{shape:?}: {} scales", scale.len());
    assert!(residual.is_none_or(|residual| residual.len() == x.len()), "{shape:?}: residual of another size");
    let image_values = pixels * channels;
    let mut sums = vec![0.0; batch * 2 * channels];
    shape.channel_sums(
        |image, range, sums| {
            let rows = &x[image * image_values + range.start * channels..][..range.len() * channels];
            // Sums of differences to the image's first pixel: no cancellation where the mean is large.
            let origin = &x[image * image_values..][..channels];
            isa.run(PairSums { x: rows, dy: None, origin, sums });
        },
        &mut sums,
    );
    // Per image and channel: y = (x − centre) · factor + offset. The centre is the mean in f32, what it
    // lost in rounding is in the offset: so nothing cancels where the mean is large against σ.
    let zeros = || vec![0.0; batch * channels];
    let (mut centres, mut factors, mut offsets) = (zeros(), zeros(), zeros());
    for image in 0..batch {
        let origin = &x[image * image_values..][..channels];
        let (first, second) = sums[image * 2 * channels..][..2 * channels].split_at(channels);
        for group in 0..groups {
            let members = group * per_group..(group + 1) * per_group;
            let n = (pixels * per_group) as f64;
            let mean: f64 = members
                .clone()
                .map(|c| f64::from(first[c]) + pixels as f64 * f64::from(origin[c]))
                .sum::<f64>()
                / n;
            // Σ(x − mean)² from the sums around the origin.
            let variance: f64 = members
                .clone()
                .map(|c| {
                    let shift = f64::from(origin[c]) - mean;
                    f64::from(second[c]) + 2.0 * shift * f64::from(first[c]) + pixels as f64 * shift * shift
                })
                .sum::<f64>()
                / n;
            let inverse_std = 1.0 / (variance.max(0.0) + f64::from(epsilon)).sqrt();
            let at = 2 * (image * groups + group);
            (statistics[at], statistics[at + 1]) = (mean as f32, inverse_std as f32);
            for c in members {
                let factor = inverse_std * f64::from(scale[c]);
                let centre = mean as f32;
                centres[image * channels + c] = centre;
                factors[image * channels + c] = factor as f32;
                let lost = (f64::from(centre) - mean) * factor;
                offsets[image * channels + c] = (f64::from(shift[c]) + lost) as f32;
            }
        }
    }
    shape.sweep(
        isa,
        [&centres, &factors, &offsets],
        y,
        #[inline(always)]
        |first, y, [centres, factors, offsets]| {
            let len = y.len();
            let (x, centres, factors, offsets) =
                (&x[first..first + len], &centres[..len], &factors[..len], &offsets[..len]);
            match residual {
                Some(residual) => {
                    let residual = &residual[first..first + len];
                    for i in 0..len {
                        y[i] = (x[i] - centres[i]) * factors[i] + offsets[i] + residual[i];
                    }
                }
                None => {
                    for i in 0..len {
                        y[i] = (x[i] - centres[i]) * factors[i] + offsets[i];
                    }
                }
            }
            if relu {
                // Written so that a NaN passes through.
                y.iter_mut().for_each(|y| *y = if *y < 0.0 { 0.0 } else { *y });
            }
        },
    );
}

/// The gradients of x (written over `dy`), scale and shift, for `dy` already past relu and residual.
///
/// ```text
/// dx = scale/σ · dy − (Σ scale·dy + x̂ · Σ scale·dy·x̂) / (n σ)       sums over the group
/// ```
pub(crate) fn backward(
    isa: Isa,
    shape: NormShape,
    x: &[f32],
    scale: &[f32],
    statistics: &[f32],
    dy: &mut [f32],
    (d_scale, d_shift): (&mut [f32], &mut [f32]),
) {
    let NormShape { batch, pixels, channels, groups } = shape;
    let per_group = shape.per_group();
    let image_values = pixels * channels;
    assert!(x.len() == batch * image_values && dy.len() == x.len(), "{shape:?}: {} values", x.len());
    let mut sums = vec![0.0; batch * 2 * channels];
    {
        let dy: &[f32] = dy;
        shape.channel_sums(
            |image, range, sums| {
                let first = image * image_values + range.start * channels;
                let values = first..first + range.len() * channels;
                let means: Vec<f32> =
                    (0..channels).map(|c| statistics[2 * (image * groups + c / per_group)]).collect();
                isa.run(PairSums { x: &x[values.clone()], dy: Some(&dy[values]), origin: &means, sums });
            },
            &mut sums,
        );
    }
    d_scale.fill(0.0);
    d_shift.fill(0.0);
    // Per image and channel: dx = dy · a + x · b + c.
    let mut factors = vec![[0.0f32; 3]; batch * channels];
    for image in 0..batch {
        let (first, second) = sums[image * 2 * channels..][..2 * channels].split_at(channels);
        for group in 0..groups {
            let members = group * per_group..(group + 1) * per_group;
            let n = (pixels * per_group) as f64;
            let at = 2 * (image * groups + group);
            let [mean, inverse_std] = [statistics[at], statistics[at + 1]].map(f64::from);
            let (mut plain, mut weighted) = (0.0f64, 0.0f64);
            for c in members.clone() {
                d_shift[c] += first[c];
                d_scale[c] += (f64::from(second[c]) * inverse_std) as f32;
                plain += f64::from(scale[c]) * f64::from(first[c]);
                weighted += f64::from(scale[c]) * f64::from(second[c]) * inverse_std;
            }
            let slope = -weighted * inverse_std * inverse_std / n;
            for c in members {
                factors[image * channels + c] = [
                    (f64::from(scale[c]) * inverse_std) as f32,
                    slope as f32,
                    (-plain * inverse_std / n - slope * mean) as f32,
                ];
            }
        }
    }
    let factor = |k: usize| factors.iter().map(|factor| factor[k]).collect::<Vec<_>>();
    let (a, b, c) = (factor(0), factor(1), factor(2));
    shape.sweep(
        isa,
        [&a, &b, &c],
        dy,
        #[inline(always)]
        |first, dy, [a, b, c]| {
            let len = dy.len();
            let (x, a, b, c) = (&x[first..first + len], &a[..len], &b[..len], &c[..len]);
            for i in 0..len {
                dy[i] = dy[i] * a[i] + (x[i] * b[i] + c[i]);
            }
        },
    );
}
