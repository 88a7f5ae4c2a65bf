//! Putting tensors together and taking them apart: channel concat, chosen rows, other shapes.

use crate::cpu::elementwise::for_each_row;
use crate::cuda::ops as gpu;
use crate::shape::Shape;
use crate::tape::Var;

/// A copy by eights, inline: most channel counts are multiples of eight, and a call would cost more.
#[inline(always)]
fn copy(from: &[f32], to: &mut [f32]) {
    let (from8, to8) = (from.chunks_exact(8), to.chunks_exact_mut(8));
    let rest = from8.remainder();
    for (to, from) in to8.zip(from8) {
        let from: &[f32; 8] = from.try_into().expect("eight values");
        to.copy_from_slice(from);
    }
    let at = to.len() - rest.len();
    to[at..].iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
}

impl Var {
    /// Images side by side along their channels.
    ///
    /// # Shapes
    /// [batch, height, width, c₁], [batch, height, width, c₂], … → [batch, height, width, c₁ + c₂ + …]
    pub fn concat_channels(images: &[&Self]) -> Self {
        let first = images.first().expect("concat_channels takes at least one image").shape();
        let [batch, height, width, _] = first.image("concat_channels");
        let counts: Vec<usize> = images
            .iter()
            .map(|image| {
                let [b, h, w, channels] = image.shape().image("concat_channels");
                assert!(
                    [b, h, w] == [batch, height, width],
                    "concat_channels: images of shapes {first} and {} differ in more than their channels",
                    image.shape()
                );
                channels
            })
            .collect();
        let total = counts.iter().try_fold(0usize, |total, &count| total.checked_add(count));
        let total = total.unwrap_or_else(|| panic!("concat_channels: {counts:?} channels are too many"));
        if images[0].tensor().on_gpu().is_some() {
            return gpu::join::concat(images, counts, [batch, height, width, total]);
        }
        let isa = images[0].tensor().isa();
        let out = images[0].tensor().filled([batch, height, width, total], |out| {
            let parts: Vec<(&[f32], usize)> =
                images.iter().map(|i| i.values()).zip(counts.iter().copied()).collect();
            // A line of pixels at a time, part by part: the copies inside are too short for a call each.
            for_each_row(
                isa,
                out,
                width * total,
                #[inline(always)]
                |line, out| {
                    let mut at = 0;
                    for &(part, count) in &parts {
                        let part = &part[line * width * count..][..width * count];
                        for (out, part) in out.chunks_exact_mut(total).zip(part.chunks_exact(count)) {
                            copy(part, &mut out[at..at + count]);
                        }
                        at += count;
                    }
                },
            );
        });
        let targets: Vec<_> = images.iter().map(|image| image.target()).collect();
        Self::record(images, out, move |dy, flow| {
            let mut at = 0;
            for (target, count) in targets.into_iter().zip(counts) {
                flow.add(target, || {
                    dy.filled([batch, height, width, count], |dx| {
                        for_each_row(
                            isa,
                            dx,
                            width * count,
                            #[inline(always)]
                            |line, dx| {
                                let dy = &dy.values()[line * width * total..][..width * total];
                                for (dx, dy) in dx.chunks_exact_mut(count).zip(dy.chunks_exact(total)) {
                                    copy(&dy[at..at + count], dx);
                                }
                            },
                        );
                    })
                });
                at += count;
            }
        })
    }

    /// Chosen rows, in the order given; a row may be chosen several times.
    ///
    /// # Shapes
    /// [rows, …] and k indices → [k, …]
    pub fn gather_rows(&self, indices: &[usize]) -> Self {
        let shape = self.shape();
        let rows = *shape.first().unwrap_or_else(|| panic!("gather_rows takes rows, not {shape}"));
        let size = shape.volume() / rows.max(1);
        if let Some(&wrong) = indices.iter().find(|&&index| index >= rows) {
            panic!("gather_rows: row {wrong} of a tensor of shape {shape}");
        }
        let mut out_shape = shape.to_vec();
        out_shape[0] = indices.len();
        if self.tensor().on_gpu().is_some() {
            return gpu::join::gather_rows(self, indices, size, &out_shape);
        }
        let out = self.tensor().filled(&out_shape[..], |out| {
            for (out, &index) in out.chunks_exact_mut(size).zip(indices) {
                out.copy_from_slice(&self.values()[index * size..][..size]);
            }
        });
        let (to_x, indices) = (self.target(), indices.to_vec());
        Self::record(&[self], out, move |dy, flow| {
            flow.add(to_x, || {
                dy.filled(shape, |dx| {
                    dx.fill(0.0);
                    for (dy, &index) in dy.values().chunks_exact(size).zip(&indices) {
                        let dx = &mut dx[index * size..][..size];
                        dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += dy);
                    }
                })
            });
        })
    }

    /// The same values under another shape of the same volume.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Self {
        let (to_x, from) = (self.target(), self.shape());
        Self::record(&[self], self.tensor().reshaped(shape), move |dy, flow| {
            flow.add(to_x, || dy.reshaped(from));
        })
    }
}
