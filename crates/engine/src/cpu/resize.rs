//! Bilinear resizing of channels-last images: along each axis an output mixes two neighbours.

use super::elementwise::for_rows;
use super::images::copy;
use super::simd::{Isa, Kernel, Simd};
use crate::backend::shapes::Corners;
use crate::backend::{Channels, ResizeShape};

/// For each output index, two input indices and the second one's weight.
fn taps(from: usize, to: usize, corners: Corners) -> Vec<(usize, usize, f32)> {
    (0..to).map(|i| corners.tap(from, to, i)).collect()
}

/// The same mixing seen from the input: for each input index, the outputs it goes to, with weights.
fn reversed(from: usize, taps: &[(usize, usize, f32)]) -> Vec<Vec<(usize, f32)>> {
    let mut sources = vec![Vec::new(); from];
    for (output, &(first, second, weight)) in taps.iter().enumerate() {
        for (input, weight) in [(first, 1.0 - weight), (second, weight)] {
            if weight != 0.0 {
                sources[input].push((output, weight));
            }
        }
    }
    sources
}

/// `beside`: images whose channels come after those of x, and how many these are.
pub(crate) fn forward(
    isa: Isa,
    shape: ResizeShape,
    x: &[f32],
    beside: Option<(&[f32], usize)>,
    out: &mut [f32],
) {
    let ResizeShape { from: [h, w], to: [oh, ow], channels, corners, batch } = shape;
    let (beside, more) = beside.unwrap_or((&[], 0));
    let width = channels + more;
    assert!(
        x.len() == batch * h * w * channels
            && out.len() == batch * oh * ow * width
            && beside.len() == batch * oh * ow * more,
        "{shape:?}"
    );
    if out.is_empty() {
        return; // Its sides may still be longer than any list.
    }
    let taps = [taps(h, oh, corners), taps(w, ow, corners)];
    for_rows(out, ow * width, |first, out| {
        isa.for_channels(channels).run(Rows { shape, taps: &taps, x, beside, more, first, out });
    });
}

/// Rows of the output from row `first` on.
struct Rows<'a> {
    shape: ResizeShape,
    /// Along the height and along the width.
    taps: &'a [Vec<(usize, usize, f32)>; 2],
    x: &'a [f32],
    beside: &'a [f32],
    more: usize,
    first: usize,
    out: &'a mut [f32],
}

impl Kernel for Rows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ResizeShape { from: [h, w], to: [oh, ow], channels, .. } = self.shape;
        let (width, in_vectors) = (channels + self.more, channels - channels % S::LANES);
        let [rows, columns] = self.taps;
        for (row, out) in (self.first..).zip(self.out.chunks_exact_mut(ow * width)) {
            let (image, (upper, lower, wy)) = (row / oh, rows[row % oh]);
            let line = |y: usize| &self.x[(image * h + y) * w * channels..][..w * channels];
            let (upper, lower) = (line(upper), line(lower));
            for (out, &(left, right, wx)) in out.chunks_exact_mut(width).zip(columns) {
                let (a, b) = (&upper[left * channels..][..channels], &upper[right * channels..][..channels]);
                let (c, d) = (&lower[left * channels..][..channels], &lower[right * channels..][..channels]);
                let (wa, wb) = ((1.0 - wy) * (1.0 - wx), (1.0 - wy) * wx);
                let (wc, wd) = (wy * (1.0 - wx), wy * wx);
                let out = &mut out[..channels];
                for i in (0..in_vectors).step_by(S::LANES) {
                    // SAFETY: all five slices have `channels` values, of which these are a whole vector.
                    unsafe {
                        let of =
                            |values: &[f32], weight| s.mul(s.load(values.as_ptr().add(i)), s.splat(weight));
                        let sum = s.add(s.add(s.add(of(a, wa), of(b, wb)), of(c, wc)), of(d, wd));
                        s.store(out.as_mut_ptr().add(i), sum);
                    }
                }
                for i in in_vectors..channels {
                    out[i] = a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;
                }
            }
            if self.more > 0 {
                let beside = &self.beside[row * ow * self.more..][..ow * self.more];
                for (out, beside) in out.chunks_exact_mut(width).zip(beside.chunks_exact(self.more)) {
                    copy(beside, &mut out[channels..]);
                }
            }
        }
    }
}

/// The gradient of the input, gathered from the outputs each input pixel went to, added to what has come `accumulated`, and
/// kept where the mask is positive.
pub(crate) fn backward(
    isa: Isa,
    shape: ResizeShape,
    dy: Channels<[f32]>,
    accumulated: Option<Channels<[f32]>>,
    mask: Option<&[f32]>,
    dx: &mut [f32],
) {
    let ResizeShape { from: [h, w], to: [oh, ow], channels, corners, batch } = shape;
    let holds = |from: &Channels<[f32]>, pixels: usize| {
        from.images.len() == batch * pixels * from.width && from.first + channels <= from.width
    };
    assert!(
        dx.len() == batch * h * w * channels
            && holds(&dy, oh * ow)
            && accumulated.is_none_or(|accumulated| holds(&accumulated, h * w))
            && mask.is_none_or(|mask| mask.len() == dx.len()),
        "{shape:?}"
    );
    if dx.is_empty() {
        return;
    }
    let sources = [reversed(h, &taps(h, oh, corners)), reversed(w, &taps(w, ow, corners))];
    for_rows(dx, w * channels, |first, dx| {
        isa.for_channels(channels).run(RowsBack {
            shape,
            sources: &sources,
            dy,
            accumulated,
            mask,
            first,
            dx,
        });
    });
}

/// Rows of the input's gradient from row `first` on.
struct RowsBack<'a> {
    shape: ResizeShape,
    /// Along the height and along the width.
    sources: &'a [Vec<Vec<(usize, f32)>>; 2],
    dy: Channels<'a, [f32]>,
    accumulated: Option<Channels<'a, [f32]>>,
    mask: Option<&'a [f32]>,
    first: usize,
    dx: &'a mut [f32],
}

impl Kernel for RowsBack<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ResizeShape { from: [h, w], to: [oh, ow], channels, .. } = self.shape;
        let in_vectors = channels - channels % S::LANES;
        let [rows, columns] = self.sources;
        for (row, dx) in (self.first..).zip(self.dx.chunks_exact_mut(w * channels)) {
            let (image, sources) = (row / h, &rows[row % h]);
            for (x, (dx, columns)) in dx.chunks_exact_mut(channels).zip(columns).enumerate() {
                let pixel = row * w + x;
                let at = |from: Channels<[f32]>, pixel: usize, channel: usize| {
                    pixel * from.width + from.first + channel
                };
                let source =
                    |y: usize, x: usize, channel: usize| at(self.dy, (image * oh + y) * ow + x, channel);
                for i in (0..in_vectors).step_by(S::LANES) {
                    // SAFETY: sources are pixels of the output and all images have as many values as `backward` has
                    // checked, so that each has `channels` values from these places on, of which these are a vector.
                    unsafe {
                        let mut sum = s.splat(0.0);
                        for &(y, wy) in sources {
                            for &(x, wx) in columns {
                                let dy = s.load(self.dy.images.as_ptr().add(source(y, x, i)));
                                sum = s.add(sum, s.mul(dy, s.splat(wy * wx)));
                            }
                        }
                        if let Some(accumulated) = self.accumulated {
                            let before = accumulated.images.as_ptr().add(at(accumulated, pixel, i));
                            sum = s.add(sum, s.load(before));
                        }
                        if let Some(mask) = self.mask {
                            sum = s.where_positive(s.load(mask.as_ptr().add(pixel * channels + i)), sum);
                        }
                        s.store(dx.as_mut_ptr().add(i), sum);
                    }
                }
                for i in in_vectors..channels {
                    let mut sum = 0.0;
                    for &(y, wy) in sources {
                        for &(x, wx) in columns {
                            sum += self.dy.images[source(y, x, i)] * (wy * wx);
                        }
                    }
                    if let Some(accumulated) = self.accumulated {
                        sum += accumulated.images[at(accumulated, pixel, i)];
                    }
                    let kept = self.mask.is_none_or(|mask| mask[pixel * channels + i] > 0.0);
                    dx[i] = if kept { sum } else { 0.0 };
                }
            }
        }
    }
}
