//! Images: convolutions, resizing, channels side by side, and what goes over all pixels of an image.

use super::launch::name;
use super::tensors::{arg, optional, vector};
use super::{Arg, Cuda, Grid};
use crate::backend::shapes::Corners;
use crate::backend::{Channels, ConvShape, Element, Epilogue, Images, Memory, ResizeShape};
use crate::shape::Shape;
use crate::tensor::Tensor;

impl Cuda {
    /// Copies `count` channels of each pixel from place `from_at` to place `to_at`.
    fn copy_channels(&self, from: &Tensor, from_at: usize, to: &Tensor, to_at: usize, count: usize) {
        let (from_width, to_width) = (from.shape().last(), to.shape().last());
        let v = [from_at, to_at, count, from_width, to_width].into_iter().map(vector).min().unwrap_or(1);
        let pixels = from.shape().volume() / from_width.max(1);
        let kernel = format!("copy_channels<{}, {v}>", name(from.element()));
        let mut args = vec![arg(from), arg(to), Arg::count(pixels)];
        args.extend([count, from_width, from_at, to_width, to_at].map(Arg::size));
        self.launch(&kernel, Grid::over(pixels * count / v), &args);
    }
}

/// How the kernels are told what is resized.
fn sizes_of(shape: ResizeShape) -> [Arg; 7] {
    let ([h, w], [oh, ow]) = (shape.from, shape.to);
    let [batch, h, w, oh, ow, channels] = [shape.batch, h, w, oh, ow, shape.channels].map(Arg::size);
    [batch, h, w, oh, ow, channels, Arg::flag(shape.corners == Corners::Aligned)]
}

impl Images for Cuda {
    fn conv(
        &self,
        shape: ConvShape,
        x: &Tensor,
        weight: &Tensor,
        flipped: bool,
        epilogue: Epilogue,
        to: Element,
    ) -> Tensor {
        self.run_conv(shape, x, weight, flipped, epilogue, to)
    }

    fn conv_weight_gradient(
        &self,
        shape: ConvShape,
        x: &Tensor,
        dy: &Tensor,
        bias: bool,
    ) -> (Tensor, Option<Tensor>) {
        self.run_conv_weight(shape, x, dy, bias)
    }

    fn resize(&self, shape: ResizeShape, x: &Tensor, beside: Option<&Tensor>, to: Shape) -> Tensor {
        let more = beside.map_or(0, |beside| beside.shape().last());
        let (out, v) = (self.empty(to, x.element()), vector(shape.channels).min(vector(more)));
        let mut args = vec![arg(x), optional(beside), arg(&out)];
        args.extend(sizes_of(shape));
        args.push(Arg::size(more));
        let kernel = format!("resize<{}, {v}>", name(x.element()));
        self.launch(&kernel, Grid::over(to.volume() / v), &args);
        out
    }

    fn resize_backward(
        &self,
        shape: ResizeShape,
        dy: Channels,
        accumulated: Option<Channels>,
        mask: Option<&Tensor>,
    ) -> Tensor {
        let (to, element) = (shape.image_shape(), dy.images.element());
        let out = self.empty(to, element);
        let [before_width, before_first] =
            accumulated.map_or([shape.channels, 0], |accumulated| [accumulated.width, accumulated.first]);
        let places = [dy.width, dy.first, before_width, before_first];
        let v = places.into_iter().chain([shape.channels]).map(vector).min().unwrap_or(1);
        let accumulated = accumulated.map(|accumulated| accumulated.images);
        let mut args = vec![arg(dy.images), optional(accumulated), optional(mask), arg(&out)];
        args.extend(sizes_of(shape));
        args.extend(places.map(Arg::size));
        let kernel = format!("resize_backward<{}, {v}>", name(element));
        self.launch(&kernel, Grid::over(to.volume() / v), &args);
        out
    }

    fn concat_channels(&self, images: &[&Tensor], shape: Shape) -> Tensor {
        let first = images[0];
        let same = images.iter().all(|image| image.element() == first.element());
        let common = if same { first.element() } else { Element::F32 };
        let out = self.empty(shape, common);
        let mut at = 0;
        for &image in images {
            let count = image.shape().last();
            self.copy_channels(&self.cast(image.clone(), common), 0, &out, at, count);
            at += count;
        }
        out
    }

    fn slice_channels(&self, image: &Tensor, first: usize, shape: Shape) -> Tensor {
        let out = self.empty(shape, image.element());
        self.copy_channels(image, first, &out, 0, shape.last());
        out
    }

    fn add_sample_bias(&self, x: &Tensor, bias: &Tensor, relu: bool, shape: Shape) -> Tensor {
        let [samples, height, width, channels] = shape.image("sample bias");
        let (batch, pixels, v) = (x.shape()[0], height * width, vector(channels));
        let out = self.empty(shape, x.element());
        let args = [
            arg(x),
            arg(bias),
            arg(&out),
            Arg::count(samples),
            Arg::size(samples / batch),
            Arg::count(pixels),
            Arg::size(channels),
            Arg::flag(relu),
        ];
        let kernel = format!("sample_bias<{}, {v}>", name(x.element()));
        self.launch(&kernel, Grid::over(samples * pixels * channels / v), &args);
        out
    }

    fn sum_repeats(&self, x: &Tensor, repeats: usize, shape: Shape) -> Tensor {
        let [batch, height, width, channels] = shape.image("sum of repeats");
        let size = height * width * channels;
        let out = self.empty(shape, x.element());
        let args = [arg(x), arg(&out), Arg::count(batch), Arg::size(repeats), Arg::count(size)];
        self.launch(&format!("sum_repeats<{}>", name(x.element())), Grid::over(batch * size), &args);
        out
    }

    fn mean_pixels(&self, x: &Tensor) -> Tensor {
        let [batch, height, width, _] = x.shape().image("mean of pixels");
        let factor = 1.0 / (height * width) as f32;
        let (_, sums) = self.masked_sums(x.clone(), None, x.element(), Some(batch), factor);
        sums.expect("sums were asked for")
    }

    fn broadcast_pixels(&self, rows: &Tensor, shape: Shape, divisor: f32, to: Element) -> Tensor {
        let out = self.empty(shape, to);
        let [batch, channels] = rows.shape().matrix("broadcast");
        let (v, pixels) = (vector(channels), shape.volume() / rows.shape().volume().max(1));
        let mut args = vec![arg(rows), arg(&out), Arg::Float(1.0 / divisor), Arg::count(batch)];
        args.extend([Arg::count(pixels), Arg::size(channels)]);
        let kernel = format!("broadcast_pixels<{}, {v}>", name(to));
        self.launch(&kernel, Grid::over(batch * pixels * channels / v), &args);
        out
    }
}
