//! Bilinear resizing of channels-last images: along each axis an output mixes two neighbours.

use super::elementwise::for_each_row;
use super::images::copy;
use super::simd::Isa;
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
        return;
    }
    let (rows, columns) = (taps(h, oh, corners), taps(w, ow, corners));
    for_each_row(
        isa,
        out,
        ow * width,
        #[inline(always)]
        |row, out| {
            let (image, (upper, lower, wy)) = (row / oh, rows[row % oh]);
            let line = |y: usize| &x[(image * h + y) * w * channels..][..w * channels];
            let (upper, lower) = (line(upper), line(lower));
            for (out, &(left, right, wx)) in out.chunks_exact_mut(width).zip(&columns) {
                let (a, b) = (&upper[left * channels..][..channels], &upper[right * channels..][..channels]);
                let (c, d) = (&lower[left * channels..][..channels], &lower[right * channels..][..channels]);
                let (wa, wb) = ((1.0 - wy) * (1.0 - wx), (1.0 - wy) * wx);
                let (wc, wd) = (wy * (1.0 - wx), wy * wx);
                let out = &mut out[..channels];
                for i in 0..channels {
                    out[i] = a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;
                }
            }
            if more > 0 {
                let beside = &beside[row * ow * more..][..ow * more];
                for (out, beside) in out.chunks_exact_mut(width).zip(beside.chunks_exact(more)) {
                    copy(beside, &mut out[channels..]);
                }
            }
        },
    );
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
    let (rows, columns) = (reversed(h, &taps(h, oh, corners)), reversed(w, &taps(w, ow, corners)));
    for_each_row(
        isa,
        dx,
        w * channels,
        #[inline(always)]
        |row, dx| {
            let (image, sources) = (row / h, &rows[row % h]);
            dx.fill(0.0);
            let Channels { images, width, first } = dy;
            for &(y, wy) in sources {
                let line = &images[(image * oh + y) * ow * width..][..ow * width];
                for (dx, sources) in dx.chunks_exact_mut(channels).zip(&columns) {
                    for &(x, wx) in sources {
                        let (weight, dy) = (wy * wx, &line[x * width + first..][..channels]);
                        for i in 0..channels {
                            dx[i] += dy[i] * weight;
                        }
                    }
                }
            }
            if let Some(Channels { images, width, first }) = accumulated {
                let line = &images[row * w * width..][..w * width];
                for (dx, pixel) in dx.chunks_exact_mut(channels).zip(line.chunks_exact(width)) {
                    let pixel = &pixel[first..first + channels];
                    for i in 0..channels {
                        dx[i] += pixel[i];
                    }
                }
            }
            if let Some(mask) = mask {
                let mask = &mask[row * w * channels..][..w * channels];
                for (dx, &mask) in dx.iter_mut().zip(mask) {
                    *dx = if mask > 0.0 { *dx } else { 0.0 };
                }
            }
        },
    );
}
