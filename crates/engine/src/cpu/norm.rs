//! Group normalisation of channels-last images, in two sweeps each way: sums per channel, then one
//! multiply-add per value. Small images go through both one by one, so that the second finds the image in the cache.

use super::elementwise::Compiled;
use super::norm_sums::PairSums;
use super::parallel::{Output, for_each_task};
use super::scratch;
use super::simd::Isa;
use crate::backend::NormShape;
use std::ops::Range;

/// Pixels per chunk of a channel sum.
const SUM_PIXELS: usize = 512;

/// The most values of an image that goes through both sweeps in one task: 512 KiB, about a second-level cache. At this
/// size the backward pass still gains a fifth.
const CACHED_VALUES: usize = 128 * 1024;

/// Images that go through both sweeps together: a batch, cut into a task for every chunk of an image, or a single one
/// within a task, whose chunks then come one after the other.
#[derive(Clone, Copy)]
struct Images {
    isa: Isa,
    shape: NormShape,
}

impl Images {
    /// Calls `work` with all images and their range, or with each by itself where one fits the cache and no more than
    /// a fifth of the threads' time is lost to waiting for the last ones.
    fn for_each(isa: Isa, shape: NormShape, work: impl Fn(Self, Range<usize>) + Send + Sync) {
        let fits = shape.pixels * shape.channels <= CACHED_VALUES;
        if fits && 4 * shape.batch.next_multiple_of(rayon::current_num_threads()) <= 5 * shape.batch {
            let one = Self { isa, shape: NormShape { batch: 1, ..shape } };
            for_each_task(shape.batch, |image| work(one, image..image + 1));
        } else {
            work(Self { isa, shape }, 0..shape.batch);
        }
    }

    /// Values of an image.
    fn values(self) -> usize {
        self.shape.pixels * self.shape.channels
    }

    /// [`PairSums`] around each image's origins [batch, channels], in chunks of pixels that are added up in order:
    /// [batch, 2, channels].
    fn channel_sums(self, x: &[f32], dy: Option<&[f32]>, origins: &[f32], out: &mut [f32]) {
        let NormShape { batch, pixels, channels, .. } = self.shape;
        let chunks = pixels.div_ceil(SUM_PIXELS);
        let size = 2 * channels;
        scratch::with(batch * chunks * size, |partial| {
            let target = Output::new(partial);
            for_each_task(batch * chunks, |task| {
                let (image, chunk) = (task / chunks, task % chunks);
                let first = image * pixels + chunk * SUM_PIXELS;
                let values = first * channels..(first + SUM_PIXELS).min((image + 1) * pixels) * channels;
                self.isa.run(PairSums {
                    x: &x[values.clone()],
                    dy: dy.map(|dy| &dy[values]),
                    origin: &origins[image * channels..][..channels],
                    // SAFETY: each task has its own sums.
                    sums: unsafe { target.slice(task * size, size) },
                });
            });
            for (out, partial) in out.chunks_exact_mut(size).zip(partial.chunks_exact(chunks * size)) {
                out.copy_from_slice(&partial[..size]);
                for chunk in partial.chunks_exact(size).skip(1) {
                    out.iter_mut().zip(chunk).for_each(|(out, value)| *out += value);
                }
            }
        });
    }

    /// Calls `work(first, values, patterns)` for every chunk of `out`, with each image's three values per
    /// channel [batch, 3, channels] repeated to the chunk's length: long plain loops, whatever the number of channels.
    fn sweep(
        self,
        per_channel: &[f32],
        out: &mut [f32],
        work: impl Fn(usize, &mut [f32], [&[f32]; 3]) + Send + Sync,
    ) {
        let NormShape { batch, channels, .. } = self.shape;
        let chunk = channels * 256usize.div_ceil(channels);
        let per_task = chunk * (32 * 1024usize).div_ceil(chunk);
        let tasks = self.values().div_ceil(per_task);
        let out = Output::new(out);
        for_each_task(batch * tasks, |task| {
            let (image, part) = (task / tasks, task % tasks);
            let first = image * self.values() + part * per_task;
            // SAFETY: each task has its own part of an image.
            let out = unsafe { out.slice(first, per_task.min((image + 1) * self.values() - first)) };
            scratch::with(3 * chunk, |patterns| {
                let values = per_channel[image * 3 * channels..].chunks_exact(channels);
                for (pattern, values) in patterns.chunks_exact_mut(chunk).zip(values) {
                    pattern.chunks_exact_mut(channels).for_each(|pattern| pattern.copy_from_slice(values));
                }
                let (a, rest) = patterns.split_at(chunk);
                let (b, c) = rest.split_at(chunk);
                self.isa.run(Compiled(
                    #[inline(always)]
                    || {
                        for (i, out) in out.chunks_mut(chunk).enumerate() {
                            let len = out.len();
                            work(first + i * chunk, out, [&a[..len], &b[..len], &c[..len]]);
                        }
                    },
                ));
            });
        });
    }

    /// Calls `work(image's number among these, group's number among all, its channels)` for every group.
    fn for_each_group(self, mut work: impl FnMut(usize, usize, Range<usize>)) {
        let NormShape { batch, channels, groups, .. } = self.shape;
        let per_group = channels / groups;
        for image in 0..batch {
            for group in 0..groups {
                work(image, image * groups + group, group * per_group..(group + 1) * per_group);
            }
        }
    }

    /// As [`forward`], of these images.
    fn forward(
        self,
        epsilon: f32,
        x: &[f32],
        (scale, shift): (&[f32], &[f32]),
        residual: Option<&[f32]>,
        relu: bool,
        y: &mut [f32],
        statistics: &mut [f32],
    ) {
        let NormShape { batch, pixels, channels, groups } = self.shape;
        let n = (self.values() / groups) as f64;
        scratch::with(6 * batch * channels, |space| {
            let (origins, space) = space.split_at_mut(batch * channels);
            let (sums, factors) = space.split_at_mut(2 * batch * channels);
            // Sums of differences to the image's first pixel: no cancellation where the mean is large.
            for (origins, x) in origins.chunks_exact_mut(channels).zip(x.chunks_exact(self.values())) {
                origins.copy_from_slice(&x[..channels]);
            }
            self.channel_sums(x, None, origins, sums);
            // Per image and channel: y = (x − centre) · factor + offset. The centre is the mean in f32, what it
            // lost in rounding is in the offset: so nothing cancels where the mean is large against σ.
            self.for_each_group(|image, group, members| {
                let origin = &origins[image * channels..][..channels];
                let (first, second) = sums[image * 2 * channels..][..2 * channels].split_at(channels);
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
                        f64::from(second[c])
                            + 2.0 * shift * f64::from(first[c])
                            + pixels as f64 * shift * shift
                    })
                    .sum::<f64>()
                    / n;
                let inverse_std = 1.0 / (variance.max(0.0) + f64::from(epsilon)).sqrt();
                let centre = mean as f32;
                statistics[2 * group..][..2].copy_from_slice(&[centre, inverse_std as f32]);
                let factors = &mut factors[image * 3 * channels..][..3 * channels];
                for c in members {
                    let factor = inverse_std * f64::from(scale[c]);
                    let lost = (f64::from(centre) - mean) * factor;
                    factors[c] = centre;
                    factors[channels + c] = factor as f32;
                    factors[2 * channels + c] = (f64::from(shift[c]) + lost) as f32;
                }
            });
            // Written so that a NaN passes through, and without a relu everything. Not as a loop of its own, which becomes
            // one of masked stores: on Zen 3 it took longer than the rest of the sweep.
            let least = if relu { 0.0 } else { f32::NEG_INFINITY };
            let at_least = |value: f32| if value < least { least } else { value };
            self.sweep(
                factors,
                y,
                #[inline(always)]
                |first, y, [centres, factors, offsets]| {
                    let len = y.len();
                    let x = &x[first..first + len];
                    match residual {
                        Some(residual) => {
                            let residual = &residual[first..first + len];
                            for i in 0..len {
                                y[i] = at_least((x[i] - centres[i]) * factors[i] + offsets[i] + residual[i]);
                            }
                        }
                        None => {
                            for i in 0..len {
                                y[i] = at_least((x[i] - centres[i]) * factors[i] + offsets[i]);
                            }
                        }
                    }
                },
            );
        });
    }

    /// As [`backward`], of these images. Leaves the sums of dy and of dy · (x − mean), [batch, 2, channels].
    fn backward(
        self,
        x: &[f32],
        scale: &[f32],
        statistics: &[f32],
        dy: Option<&[f32]>,
        dx: &mut [f32],
        sums: &mut [f32],
    ) {
        let NormShape { batch, channels, groups, .. } = self.shape;
        let n = (self.values() / groups) as f64;
        scratch::with(4 * batch * channels, |space| {
            let (means, factors) = space.split_at_mut(batch * channels);
            self.for_each_group(|image, group, members| {
                means[image * channels..][members].fill(statistics[2 * group]);
            });
            self.channel_sums(x, Some(dy.unwrap_or(dx)), means, sums);
            // Per image and channel: dx = dy · a + x · b + c.
            self.for_each_group(|image, group, members| {
                let (first, second) = sums[image * 2 * channels..][..2 * channels].split_at(channels);
                let [mean, inverse_std] = [statistics[2 * group], statistics[2 * group + 1]].map(f64::from);
                let (mut plain, mut weighted) = (0.0f64, 0.0f64);
                for c in members.clone() {
                    plain += f64::from(scale[c]) * f64::from(first[c]);
                    weighted += f64::from(scale[c]) * f64::from(second[c]) * inverse_std;
                }
                let slope = -weighted * inverse_std * inverse_std / n;
                let factors = &mut factors[image * 3 * channels..][..3 * channels];
                for c in members {
                    factors[c] = (f64::from(scale[c]) * inverse_std) as f32;
                    factors[channels + c] = slope as f32;
                    factors[2 * channels + c] = (-plain * inverse_std / n - slope * mean) as f32;
                }
            });
            self.sweep(
                factors,
                dx,
                #[inline(always)]
                |first, dx, [a, b, c]| {
                    let len = dx.len();
                    let x = &x[first..first + len];
                    match dy {
                        Some(dy) => {
                            let dy = &dy[first..first + len];
                            for i in 0..len {
                                dx[i] = dy[i] * a[i] + (x[i] * b[i] + c[i]);
                            }
                        }
                        None => {
                            for i in 0..len {
                                dx[i] = dx[i] * a[i] + (x[i] * b[i] + c[i]);
                            }
                        }
                    }
                },
            );
        });
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
    let size = pixels * channels;
    assert!(x.len() == batch * size && y.len() == x.len(), "{shape:?}: {} values", x.len());
    assert!(scale.len() == channels && shift.len() == channels, "{shape:?}: {} scales", scale.len());
    assert!(residual.is_none_or(|residual| residual.len() == x.len()), "{shape:?}: residual of another size");
    let (y, statistics) = (Output::new(y), Output::new(statistics));
    Images::for_each(isa, shape, |images, range| {
        let values = range.start * size..range.end * size;
        // SAFETY: each call has its own images.
        let (y, statistics) = unsafe {
            (
                y.slice(values.start, values.len()),
                statistics.slice(2 * groups * range.start, 2 * groups * range.len()),
            )
        };
        let residual = residual.map(|residual| &residual[values.clone()]);
        images.forward(epsilon, &x[values], (scale, shift), residual, relu, y, statistics);
    });
}

/// The gradients of x, scale and shift, for a gradient already past relu and residual: `dy`, or what is in `dx`.
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
    dy: Option<&[f32]>,
    dx: &mut [f32],
    (d_scale, d_shift): (&mut [f32], &mut [f32]),
) {
    let NormShape { batch, pixels, channels, groups } = shape;
    let size = pixels * channels;
    assert!(x.len() == batch * size && dx.len() == x.len(), "{shape:?}: {} values", x.len());
    assert!(dy.is_none_or(|dy| dy.len() == x.len()), "{shape:?}: gradient of another size");
    scratch::with(2 * batch * channels, |sums| {
        let (dx, target) = (Output::new(dx), Output::new(sums));
        Images::for_each(isa, shape, |images, range| {
            let values = range.start * size..range.end * size;
            // SAFETY: each call has its own images.
            let (dx, sums) = unsafe {
                (
                    dx.slice(values.start, values.len()),
                    target.slice(2 * channels * range.start, 2 * channels * range.len()),
                )
            };
            let statistics = &statistics[2 * groups * range.start..2 * groups * range.end];
            images.backward(&x[values.clone()], scale, statistics, dy.map(|dy| &dy[values]), dx, sums);
        });
        d_scale.fill(0.0);
        d_shift.fill(0.0);
        for (sums, statistics) in sums.chunks_exact(2 * channels).zip(statistics.chunks_exact(2 * groups)) {
            for c in 0..channels {
                let inverse_std = f64::from(statistics[2 * (c / (channels / groups)) + 1]);
                d_shift[c] += sums[c];
                d_scale[c] += (f64::from(sums[channels + c]) * inverse_std) as f32;
            }
        }
    });
}
