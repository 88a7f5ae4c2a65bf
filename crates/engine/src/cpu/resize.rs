//! Bilinear resizing of channels-last images: along each axis an output mixes two neighbours.

use super::elementwise::for_each_row;
use super::simd::Isa;
use crate::backend::ResizeShape;
use crate::backend::shapes::Corners;

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

pub(crate) fn forward(isa: Isa, shape: ResizeShape, x: &[f32], out: &mut [f32]) {
    let ResizeShape { from: [h, w], to: [oh, ow], channels, corners, batch } = shape;
    assert!(x.len() == batch * h * w * channels && out.len() == batch * oh * ow * channels, "{shape:?}");
    if out.is_empty() {
        return;
    }
    let (rows, columns) = (taps(h, oh, corners), taps(w, ow, corners));
    for_each_row(
        isa,
        out,
        ow * channels,
        #[inline(always)]
        |row, out| {
            let (image, (upper, lower, wy)) = (row / oh, rows[row % oh]);
            let line = |y: usize| &x[(image * h + y) * w * channels..][..w * channels];
            let (upper, lower) = (line(upper), line(lower));
            for (out, &(left, right, wx)) in out.chunks_exact_mut(channels).zip(&columns) {
                let (a, b) = (&upper[left * channels..][..channels], &upper[right * channels..][..channels]);
                let (c, d) = (&lower[left * channels..][..channels], &lower[right * channels..][..channels]);
                let (wa, wb) = ((1.0 - wy) * (1.0 - wx), (1.0 - wy) * wx);
                let (wc, wd) = (wy * (1.0 - wx), wy * wx);
                for i in 0..channels {
                    out[i] = a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;
                }
            }
        },
    );
}

/// The gradient of the input, gathered from the outputs each input pixel went to.
pub(crate) fn backward(isa: Isa, shape: ResizeShape, dy: &[f32], dx: &mut [f32]) {
    let ResizeShape { from: [h, w], to: [oh, ow], channels, corners, batch } = shape;
    assert!(dx.len() == batch * h * w * channels && dy.len() == batch * oh * ow * channels, "{shape:?}");
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
            for &(y, wy) in sources {
                let line = &dy[(image * oh + y) * ow * channels..][..ow * channels];
                for (dx, sources) in dx.chunks_exact_mut(channels).zip(&columns) {
                    for &(x, wx) in sources {
                        let (weight, dy) = (wy * wx, &line[x * channels..][..channels]);
                        for i in 0..channels {
                            dx[i] += dy[i] * weight;
                        }
                    }
                }
            }
        },
    );
}
