//! Views of images moved and moved back, and masks packed to bits.

use super::device::Cpu;
use super::elementwise::for_each_row;
use crate::backend::{Memory, Views};
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::views::{InverseViews, NEAR_HIGHEST, PACKED, Placement};
use std::sync::atomic::{AtomicBool, Ordering};

/// An image [height, width, channels].
#[derive(Clone, Copy)]
struct Pixels<'a> {
    values: &'a [f32],
    width: usize,
    height: usize,
    channels: usize,
}

impl Pixels<'_> {
    /// Gives the values of one row of the moved image, pixel by pixel: column, channel and value.
    #[inline(always)]
    fn moved_row(self, placement: &Placement, y: usize, mut give: impl FnMut(usize, usize, f32)) {
        let Self { values, width, height, channels } = self;
        if let Some((first, step)) = self.whole_steps(placement, y) {
            let mut at = first;
            for x in 0..width {
                let pixel = &values[at as usize * channels..][..channels];
                pixel.iter().enumerate().for_each(|(channel, &value)| give(x, channel, value));
                at += step;
            }
            return;
        }
        let within = |index: f64, length: usize| (index as i64).clamp(0, length as i64 - 1) as usize;
        for x in 0..width {
            let [source_x, source_y] = placement.source(x, y);
            let (left, top) = (source_x.floor(), source_y.floor());
            let (right_share, lower_share) = ((source_x - left) as f32, (source_y - top) as f32);
            let columns = [within(left, width), within(left + 1.0, width)];
            let rows = [within(top, height), within(top + 1.0, height)];
            for channel in 0..channels {
                let [upper, lower] = rows.map(|row| {
                    let [a, b] = columns.map(|column| values[(row * width + column) * channels + channel]);
                    a + (b - a) * right_share
                });
                give(x, channel, upper + (lower - upper) * lower_share);
            }
        }
    }

    /// Where a row of the moved image starts and how it goes on, in pixels, where it is one of whole pixels of the
    /// image: of flips and quarter turns.
    #[inline(always)]
    fn whole_steps(self, placement: &Placement, y: usize) -> Option<(isize, isize)> {
        let ends = [0, self.width - 1].map(|x| placement.source(x, y));
        let lengths = [self.width, self.height];
        let whole = |number: f64| number == number.trunc();
        let inside = |place: [f64; 2]| {
            (0..2).all(|axis| whole(place[axis]) && place[axis] >= 0.0 && place[axis] < lengths[axis] as f64)
        };
        let steps = [placement.matrix[0][0], placement.matrix[1][0]];
        let at = |[x, y]: [f64; 2]| y as isize * self.width as isize + x as isize;
        (ends.into_iter().all(inside) && steps.into_iter().all(whole)).then(|| (at(ends[0]), at(steps)))
    }
}

/// Adds one for every view that shows a pixel of the row.
#[inline(always)]
fn count_shown(counts: &mut [f32], placement: &Placement, y: usize, size: [usize; 2]) {
    let shown = |x: usize| Placement::is_shown(placement.source(x, y), size);
    // A row of sources is a line, so that with its ends all of it is shown.
    let all = shown(0) && shown(size[0] - 1);
    for (x, count) in counts.iter_mut().enumerate() {
        *count += if all || shown(x) { 1.0 } else { 0.0 };
    }
}

impl Views for Cpu {
    fn move_images(&self, x: &Tensor, placements: &[Placement]) -> Tensor {
        let [images, height, width, channels] = x.shape().image("views of images");
        let (values, size) = (x.values(), height * width * channels);
        self.filled([images * placements.len(), height, width, channels], |out| {
            for_each_row(
                self.isa,
                out,
                width * channels,
                #[inline(always)]
                |row, out| {
                    let (view, y) = (row / height, row % height);
                    let values = &values[view / placements.len() * size..][..size];
                    let image = Pixels { values, width, height, channels };
                    image.moved_row(&placements[view % placements.len()], y, |x, channel, value| {
                        out[x * channels + channel] = value;
                    });
                },
            );
        })
    }

    fn mean_of_views(
        &self,
        outputs: &Tensor,
        inverse: &InverseViews,
        before: Option<Tensor>,
        shape: Shape,
    ) -> Tensor {
        let [_, height, width, channels] = shape.image("the mean of views");
        let InverseViews { back, views, repeats } = inverse;
        let (values, size) = (outputs.values(), height * width * channels);
        let mut mean = before.unwrap_or_else(|| self.full(shape, 0.0));
        for_each_row(
            self.isa,
            mean.values_mut(),
            width * channels,
            #[inline(always)]
            |row, mean| {
                let (output, y) = (row / height, row % height);
                let (image, repeat) = (output / repeats, output % repeats);
                let mut shown = vec![0.0; width];
                back.iter().for_each(|way| count_shown(&mut shown, way, y, [width, height]));
                for (at, way) in back[views.clone()].iter().enumerate() {
                    let from = ((image * views.len() + at) * repeats + repeat) * size;
                    let view = Pixels { values: &values[from..][..size], width, height, channels };
                    let mut own = vec![0.0; width];
                    count_shown(&mut own, way, y, [width, height]);
                    view.moved_row(way, y, |x, channel, value| {
                        if own[x] > 0.0 {
                            mean[x * channels + channel] += value / shown[x];
                        }
                    });
                }
            },
        );
        mean
    }

    fn pack_masks(&self, logits: &Tensor, with_pixels: bool, shape: Shape) -> [Tensor; 2] {
        let [_, height, width, channels] = logits.shape().image("masks");
        let pixels = height * width;
        let (values, fault) = (logits.values(), AtomicBool::new(false));
        let packed = self.filled(shape, |out| {
            for_each_row(
                self.isa,
                out,
                shape[1] * shape[2],
                #[inline(always)]
                |mask, out| {
                    let logits = &values[mask * pixels * channels..][..pixels * channels];
                    if !pack(logits, channels, 0.0, out) {
                        fault.store(true, Ordering::Relaxed);
                    } else if with_pixels && out.iter().all(|&part| part == 0.0) {
                        pack(logits, channels, NEAR_HIGHEST - highest(logits, channels), out);
                    }
                },
            );
        });
        [packed, self.full([1].into(), f32::from(u8::from(fault.into_inner())))]
    }
}

/// The mask of an image's logits, sixteen pixels of a class as a whole number; `raised` is added to the logits of
/// classes. Whether the logits are finite.
#[inline(always)]
fn pack(logits: &[f32], channels: usize, raised: f32, out: &mut [f32]) -> bool {
    out.fill(0.0);
    let parts = out.len() / (channels - 1).max(1);
    let mut finite = true;
    for (part, logits) in logits.chunks(PACKED * channels).enumerate() {
        finite &= logits.iter().fold(true, |finite, logit| finite & logit.is_finite());
        if channels == 1 {
            let bit = |(at, logit): (usize, &f32)| u16::from(*logit + raised > 0.0) << at;
            out[part] = f32::from(logits.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit));
            continue;
        }
        for (at, logits) in logits.chunks_exact(channels).enumerate() {
            let best = largest_class(logits);
            if logits[best] + raised > logits[0] {
                out[(best - 1) * parts + part] += f32::from(1u16 << at);
            }
        }
    }
    finite
}

/// The class of a pixel's largest logit, the earlier one of equals; channel 0 is no class.
#[inline(always)]
fn largest_class(logits: &[f32]) -> usize {
    (2..logits.len()).fold(1, |best, class| if logits[class] > logits[best] { class } else { best })
}

/// The highest logit of a class, less that of no class, which is 0 where there is one channel alone.
fn highest(logits: &[f32], channels: usize) -> f32 {
    let of_pixel = |logits: &[f32]| match logits {
        [only] => *only,
        _ => logits[largest_class(logits)] - logits[0],
    };
    logits.chunks_exact(channels).map(of_pixel).fold(f32::MIN, f32::max)
}
