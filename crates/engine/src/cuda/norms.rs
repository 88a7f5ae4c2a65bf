//! Normalisation: by groups of channels, by features over a batch, by length of rows.

use super::launch::name;
use super::tensors::{arg, optional, vector};
use super::{Arg, Cuda, Grid};
use crate::backend::{Memory, NormShape, Norms};
use crate::tensor::Tensor;

/// How the work of a group normalisation is cut.
struct Cut {
    /// Channels a thread takes at once.
    v: usize,
    /// Parts of each image's sums.
    parts: usize,
    over_channels: Grid,
    over_groups: Grid,
}

impl Cut {
    fn new(cuda: &Cuda, shape: NormShape) -> Self {
        let NormShape { batch, pixels, channels, groups } = shape;
        let (v, parts) = (vector(channels), cuda.parts(batch, pixels, channels));
        Self {
            v,
            parts,
            over_channels: Grid::blocks(parts, (channels / v).div_ceil(256), batch),
            over_groups: Grid::warps(batch * groups),
        }
    }
}

impl Norms for Cuda {
    fn group_norm(
        &self,
        shape: NormShape,
        x: &Tensor,
        [scale, shift]: [&Tensor; 2],
        epsilon: f32,
        residual: Option<&Tensor>,
        relu: bool,
    ) -> [Tensor; 2] {
        let NormShape { batch, pixels, channels, groups } = shape;
        let (cut, t) = (Cut::new(self, shape), name(x.element()));
        let v = cut.v;
        let partial = self.floats([batch * cut.parts, 2 * channels]);
        let per_group = Arg::size(channels / groups);
        let args = [arg(x), arg(&partial), Arg::count(pixels), Arg::size(channels), per_group];
        self.launch(&format!("norm_sums<{t}, {v}>"), cut.over_channels, &args);
        let sums = self.sum_parts(&partial, batch, cut.parts, [batch, 2 * channels], 1.0);
        let statistics = self.floats([batch * groups, 2]);
        let args = [
            arg(x),
            arg(&sums),
            arg(&statistics),
            Arg::count(batch * groups),
            Arg::size(groups),
            Arg::size(channels),
            Arg::count(pixels),
            Arg::Float(epsilon),
        ];
        self.launch(&format!("norm_statistics<{t}>"), cut.over_groups, &args);
        let out = self.empty(x.shape(), x.element());
        let args = [
            arg(x),
            arg(&statistics),
            arg(scale),
            arg(shift),
            optional(residual),
            arg(&out),
            Arg::count(pixels),
            Arg::size(channels),
            Arg::size(groups),
            Arg::flag(relu),
        ];
        self.launch(&format!("norm_apply<{t}, {v}>"), cut.over_channels, &args);
        [out, statistics]
    }

    fn group_norm_backward(
        &self,
        shape: NormShape,
        x: &Tensor,
        dy: Tensor,
        scale: &Tensor,
        statistics: &Tensor,
    ) -> [Tensor; 3] {
        let NormShape { batch, pixels, channels, groups } = shape;
        let (cut, t) = (Cut::new(self, shape), name(x.element()));
        let v = cut.v;
        let partial = self.floats([batch * cut.parts, 2 * channels]);
        let sizes = [Arg::count(pixels), Arg::size(channels), Arg::size(groups)];
        let mut args = vec![arg(x), arg(&dy), arg(statistics), arg(&partial)];
        args.extend(sizes);
        self.launch(&format!("norm_backward_sums<{t}, {v}>"), cut.over_channels, &args);
        let sums = self.sum_parts(&partial, batch, cut.parts, [batch, 2 * channels], 1.0);
        let [d_scale, d_shift] = [(); 2].map(|()| self.floats([channels]));
        let args = [arg(&sums), arg(&d_scale), arg(&d_shift), Arg::size(batch), Arg::size(channels)];
        self.launch("norm_parameter_gradients", Grid::over(channels), &args);
        let means = self.floats([batch * groups, 2]);
        let args = [
            arg(&sums),
            arg(scale),
            arg(&means),
            Arg::count(batch * groups),
            Arg::size(groups),
            Arg::size(channels),
            Arg::count(pixels),
        ];
        self.launch("norm_group_means", cut.over_groups, &args);
        let dx = self.empty(x.shape(), x.element());
        let args = [
            arg(x),
            arg(&dy),
            arg(statistics),
            arg(&means),
            arg(scale),
            arg(&dx),
            Arg::count(pixels),
            Arg::size(channels),
            Arg::size(groups),
        ];
        self.launch(&format!("norm_backward<{t}, {v}>"), cut.over_channels, &args);
        [dx, d_scale, d_shift]
    }

    fn batch_norm(&self, x: &Tensor, epsilon: f32) -> [Tensor; 4] {
        let [batch, features] = x.shape().matrix("batch norm");
        let out = self.floats(x.shape());
        let [mean, variance] = [(); 2].map(|()| self.floats([features]));
        let mut args = vec![arg(x), arg(&out), arg(&mean), arg(&variance)];
        args.extend([Arg::size(batch), Arg::size(features), Arg::Float(epsilon)]);
        self.launch("batch_norm", Grid::over(features), &args);
        [out, mean, variance.clone(), variance]
    }

    fn batch_norm_backward(&self, y: &Tensor, dy: Tensor, statistics: &Tensor, epsilon: f32) -> Tensor {
        let [batch, features] = y.shape().matrix("batch norm");
        let dx = self.floats(y.shape());
        let mut args = vec![arg(y), arg(&dy), arg(statistics), arg(&dx)];
        args.extend([Arg::size(batch), Arg::size(features), Arg::Float(epsilon)]);
        self.launch("batch_norm_backward", Grid::over(features), &args);
        dx
    }

    fn batch_norm_by(&self, x: Tensor, mean: Option<&Tensor>, variance: &Tensor, epsilon: f32) -> Tensor {
        let (out, count, features) = (self.floats(x.shape()), x.shape().volume(), x.shape().last());
        let mut args = vec![arg(&x), optional(mean), arg(variance), arg(&out)];
        args.extend([Arg::count(count), Arg::size(features), Arg::Float(epsilon)]);
        self.launch("batch_norm_by", Grid::over(count), &args);
        out
    }

    fn l2_normalise(&self, x: &Tensor) -> [Tensor; 2] {
        let [rows, features] = x.shape().matrix("l2 normalise");
        let (out, inverse) = (self.floats(x.shape()), self.floats([rows]));
        self.by_row("l2_normalise", &[x, &out, &inverse], [rows, features]);
        [out, inverse]
    }

    fn l2_normalise_backward(&self, y: &Tensor, inverse: &Tensor, dy: Tensor) -> Tensor {
        let dx = self.floats(y.shape());
        let sizes = y.shape().matrix("l2 normalise");
        self.by_row("l2_normalise_backward", &[y, inverse, &dy, &dx], sizes);
        dx
    }
}
