//! Images: convolutions, resizing, channels side by side, and what goes over all pixels of an image.

use super::device::Cpu;
use super::elementwise::for_each_row;
use super::{conv, resize};
use crate::backend::{
    Channels, ConvShape, Element, Epilogue, Images, PixelLayers, ResizeShape, conv_backward_unfused,
};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Channels whose means over the pixels are taken in one pass: their sums stay in registers.
const MEAN_CHANNELS: usize = 32;

/// A copy by eights, inline: most channel counts are multiples of eight, and a call would cost more.
#[inline(always)]
pub(super) fn copy(from: &[f32], to: &mut [f32]) {
    let (from8, to8) = (from.chunks_exact(8), to.chunks_exact_mut(8));
    let rest = from8.remainder();
    for (to, from) in to8.zip(from8) {
        let from: &[f32; 8] = from.try_into().expect("eight values");
        to.copy_from_slice(from);
    }
    let at = to.len() - rest.len();
    to[at..].iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
}

fn values_of(epilogue: Epilogue<'_>) -> Epilogue<'_, [f32]> {
    let Epilogue { bias, residual, relu, mask } = epilogue;
    let [bias, residual, mask] = [bias, residual, mask].map(|tensor| tensor.map(Tensor::values));
    Epilogue { bias, residual, relu, mask }
}

impl Images for Cpu {
    fn conv(
        &self,
        shape: ConvShape,
        x: &Tensor,
        weight: &Tensor,
        flipped: bool,
        epilogue: Epilogue,
        _: Element,
    ) -> Tensor {
        let kernel = if flipped { conv::flipped_forward } else { conv::forward };
        let epilogue = values_of(epilogue);
        self.filled(shape.output_shape(), |out| {
            kernel(self.isa, shape, x.values(), weight.values(), epilogue, out);
        })
    }

    fn conv_weight_gradient(
        &self,
        shape: ConvShape,
        x: &Tensor,
        dy: &Tensor,
        bias: bool,
    ) -> (Tensor, Option<Tensor>) {
        let mut db = bias.then(|| self.filled([shape.outputs], |_| ()));
        let dw = self.filled(shape.weight_shape(), |dw| {
            let db = db.as_mut().map(Tensor::values_mut);
            conv::weight_gradient(self.isa, shape, x.values(), dy.values(), dw, db);
        });
        (dw, db)
    }

    fn conv_backward(
        &self,
        shape: ConvShape,
        [x, dy, weight]: [&Tensor; 3],
        epilogue: Epilogue,
        to: Element,
        bias: bool,
    ) -> (Tensor, Tensor, Option<Tensor>) {
        if !conv::backward_is_fused(shape) {
            return conv_backward_unfused(self, shape, [x, dy, weight], epilogue, to, bias);
        }
        let mut dw = self.filled(shape.weight_shape(), |_| ());
        let mut db = bias.then(|| self.filled([shape.outputs], |_| ()));
        let dx = self.filled(shape.image_shape(), |dx| {
            let (operands, epilogue) = ([x, dy, weight].map(Tensor::values), values_of(epilogue));
            let db = db.as_mut().map(Tensor::values_mut);
            conv::pointwise_backward(self.isa, shape, operands, epilogue, dx, dw.values_mut(), db);
        });
        (dx, dw, db)
    }

    fn resize(&self, shape: ResizeShape, x: &Tensor, beside: Option<&Tensor>, out: Shape) -> Tensor {
        let beside = beside.map(|beside| (beside.values(), beside.shape().last()));
        self.filled(out, |out| resize::forward(self.isa, shape, x.values(), beside, out))
    }

    fn resize_backward(
        &self,
        shape: ResizeShape,
        dy: Channels,
        accumulated: Option<Channels>,
        mask: Option<&Tensor>,
    ) -> Tensor {
        let (dy, accumulated, mask) =
            (dy.values(), accumulated.map(Channels::values), mask.map(Tensor::values));
        self.filled(shape.image_shape(), |dx| resize::backward(self.isa, shape, dy, accumulated, mask, dx))
    }

    fn concat_channels(&self, images: &[&Tensor], shape: Shape) -> Tensor {
        let parts: Vec<(&[f32], usize)> =
            images.iter().map(|image| (image.values(), image.shape().last())).collect();
        let [_, _, width, total] = shape.image("concat");
        self.filled(shape, |out| {
            // A line of pixels at a time, part by part: the copies inside are too short for a call each.
            for_each_row(
                self.isa,
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
        })
    }

    fn slice_channels(&self, image: &Tensor, first: usize, shape: Shape) -> Tensor {
        let ([_, _, width, count], total) = (shape.image("slice"), image.shape().last());
        self.filled(shape, |out| {
            for_each_row(
                self.isa,
                out,
                width * count,
                #[inline(always)]
                |line, out| {
                    let image = &image.values()[line * width * total..][..width * total];
                    for (out, pixel) in out.chunks_exact_mut(count).zip(image.chunks_exact(total)) {
                        copy(&pixel[first..first + count], out);
                    }
                },
            );
        })
    }

    fn add_sample_bias(&self, x: &Tensor, bias: &Tensor, relu: bool, shape: Shape) -> Tensor {
        let [samples, height, width, channels] = shape.image("sample bias");
        let (repeats, line) = (samples / x.shape()[0], width * channels);
        let (images, biases) = (x.values(), bias.values());
        self.filled(shape, |out| {
            for_each_row(
                self.isa,
                out,
                line,
                #[inline(always)]
                |row, out| {
                    let (sample, y) = (row / height, row % height);
                    let x = &images[(sample / repeats * height + y) * line..][..line];
                    let bias = &biases[sample * channels..][..channels];
                    for (out, x) in out.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
                        for c in 0..channels {
                            let value = x[c] + bias[c];
                            out[c] = if relu && value < 0.0 { 0.0 } else { value };
                        }
                    }
                },
            );
        })
    }

    fn sum_repeats(&self, x: &Tensor, repeats: usize, shape: Shape) -> Tensor {
        let [_, height, width, channels] = shape.image("sum of repeats");
        let line = width * channels;
        self.filled(shape, |sums| {
            for_each_row(
                self.isa,
                sums,
                line,
                #[inline(always)]
                |row, sums| {
                    let (image, y) = (row / height, row % height);
                    sums.fill(0.0);
                    for k in 0..repeats {
                        let x = &x.values()[((image * repeats + k) * height + y) * line..][..line];
                        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
                    }
                },
            );
        })
    }

    fn pixel_layers(&self) -> Option<&dyn PixelLayers> {
        Some(self)
    }

    fn mean_pixels(&self, x: &Tensor) -> Tensor {
        let [batch, height, width, channels] = x.shape().image("mean of pixels");
        let pixels = height * width;
        self.filled([batch, channels], |out| {
            for_each_row(self.isa, out, channels, |image, out| {
                let values = &x.values()[image * pixels * channels..][..pixels * channels];
                for (at, out) in out.chunks_mut(MEAN_CHANNELS).enumerate() {
                    let mut sums = [0.0f64; MEAN_CHANNELS];
                    for pixel in values.chunks_exact(channels) {
                        let pixel = &pixel[at * MEAN_CHANNELS..][..out.len()];
                        sums.iter_mut().zip(pixel).for_each(|(sum, &x)| *sum += f64::from(x));
                    }
                    out.iter_mut().zip(sums).for_each(|(out, sum)| *out = (sum / pixels as f64) as f32);
                }
            });
        })
    }

    fn broadcast_pixels(&self, rows: &Tensor, shape: Shape, divisor: f32, _: Element) -> Tensor {
        let [_, height, width, channels] = shape.image("broadcast");
        self.filled(shape, |out| {
            for_each_row(self.isa, out, channels, |pixel, out| {
                let row = &rows.values()[pixel / (height * width) * channels..][..channels];
                out.iter_mut().zip(row).for_each(|(out, value)| *out = value / divisor);
            });
        })
    }
}
