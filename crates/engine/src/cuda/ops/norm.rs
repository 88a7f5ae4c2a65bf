//! Normalisation: by groups of channels, by features over a batch, by length of rows.

use super::reduce::{Masked, mask_and_sum};
use super::{arg, buffer, converted, element, empty, optional, parts, sum_parts, vector, wide};
use crate::cuda::{Arg, Element, Grid};
use crate::ops::BatchStatistics;
use crate::tape::Var;
use crate::tensor::Tensor;

pub(crate) fn grouped(
    x: &Var,
    groups: usize,
    [scale, shift]: [&Var; 2],
    epsilon: f32,
    residual: Option<&Var>,
    relu: bool,
    [batch, height, width, channels]: [usize; 4],
) -> Var {
    let cuda = buffer(x.tensor()).cuda().clone();
    let (to, v, pixels) = (element(x.tensor()), vector(channels), height * width);
    let t = to.name();
    let split = parts(&cuda, batch, pixels, channels);
    let over_channels = Grid::blocks(split, (channels / v).div_ceil(256), batch);
    let over_groups = Grid::warps(batch * groups);
    let over_all = Grid::over(batch * pixels * channels / v);

    let input = x.tensor().clone();
    let partial = empty(&cuda, [batch * split, 2 * channels], Element::F32);
    let per_group = Arg::size(channels / groups);
    let args = [arg(&input), arg(&partial), Arg::count(pixels), Arg::size(channels), per_group];
    cuda.launch(&format!("norm_sums<{t}, {v}>"), over_channels, &args);
    let sums = sum_parts(&partial, batch, split, [batch, 2 * channels], 1.0);
    let statistics = empty(&cuda, [batch * groups, 2], Element::F32);
    let args = [
        arg(&input),
        arg(&sums),
        arg(&statistics),
        Arg::count(batch * groups),
        Arg::size(groups),
        Arg::size(channels),
        Arg::count(pixels),
        Arg::Float(epsilon),
    ];
    cuda.launch(&format!("norm_statistics<{t}>"), over_groups, &args);
    let out = empty(&cuda, x.shape(), to);
    let added = residual.map(|residual| converted(residual.tensor(), to));
    let args = [
        arg(&input),
        arg(&statistics),
        arg(scale.tensor()),
        arg(shift.tensor()),
        optional(added.as_ref()),
        arg(&out),
        Arg::count(batch),
        Arg::count(pixels),
        Arg::size(channels),
        Arg::size(groups),
        Arg::flag(relu),
    ];
    cuda.launch(&format!("norm_apply<{t}, {v}>"), over_all, &args);

    let (gamma, y) = (scale.tensor().clone(), relu.then(|| out.clone()));
    let (to_x, to_scale, to_shift) = (x.target(), scale.target(), shift.target());
    let to_residual = residual.and_then(Var::target);
    let mut operands = vec![x, scale, shift];
    operands.extend(residual);
    Var::record(&operands, out, move |dy, flow| {
        let y = y.filter(|_| !flow.is_masked());
        let Masked { dy, .. } = mask_and_sum(dy, y.as_ref(), to, channels, 1, false, 1.0);
        flow.add(to_residual, || dy.clone());
        if to_x.is_none() && to_scale.is_none() && to_shift.is_none() {
            return;
        }
        let partial = empty(&cuda, [batch * split, 2 * channels], Element::F32);
        let sizes = [Arg::count(pixels), Arg::size(channels), Arg::size(groups)];
        let mut args = vec![arg(&input), arg(&dy), arg(&statistics), arg(&partial)];
        args.extend(sizes);
        cuda.launch(&format!("norm_backward_sums<{t}, {v}>"), over_channels, &args);
        let sums = sum_parts(&partial, batch, split, [batch, 2 * channels], 1.0);
        let [d_scale, d_shift] = [(); 2].map(|()| empty(&cuda, [channels], Element::F32));
        let args = [arg(&sums), arg(&d_scale), arg(&d_shift), Arg::size(batch), Arg::size(channels)];
        cuda.launch("norm_parameter_gradients", Grid::over(channels), &args);
        flow.add(to_x, || {
            let means = empty(&cuda, [batch * groups, 2], Element::F32);
            let args = [
                arg(&sums),
                arg(&gamma),
                arg(&means),
                Arg::count(batch * groups),
                Arg::size(groups),
                Arg::size(channels),
                Arg::count(pixels),
            ];
            cuda.launch("norm_group_means", over_groups, &args);
            let dx = empty(&cuda, input.shape(), to);
            let args = [
                arg(&input),
                arg(&dy),
                arg(&statistics),
                arg(&means),
                arg(&gamma),
                arg(&dx),
                Arg::count(batch),
                Arg::count(pixels),
                Arg::size(channels),
                Arg::size(groups),
            ];
            cuda.launch(&format!("norm_backward<{t}, {v}>"), over_all, &args);
            dx
        });
        flow.add(to_scale, || d_scale);
        flow.add(to_shift, || d_shift);
    })
    .ending_in_relu(relu)
}

pub(crate) fn batch_norm(x: &Var, epsilon: f32, [batch, features]: [usize; 2]) -> (Var, BatchStatistics) {
    let input = wide(x.tensor());
    let cuda = buffer(&input).cuda().clone();
    let out = empty(&cuda, [batch, features], Element::F32);
    let [mean, variance] = [(); 2].map(|()| empty(&cuda, [features], Element::F32));
    let sizes = [Arg::size(batch), Arg::size(features), Arg::Float(epsilon)];
    let mut args = vec![arg(&input), arg(&out), arg(&mean), arg(&variance)];
    args.extend(sizes);
    cuda.launch("batch_norm", Grid::over(features), &args);
    let (to_x, y, spread) = (x.target(), out.clone(), variance.clone());
    let out = Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || {
            let dx = empty(&cuda, [batch, features], Element::F32);
            let mut args = vec![arg(&y), arg(&dy), arg(&spread), arg(&dx)];
            args.extend(sizes);
            cuda.launch("batch_norm_backward", Grid::over(features), &args);
            dx
        });
    });
    (out, BatchStatistics { mean, variance })
}

/// `(x − mean) / √(variance + ε)`, or without the mean, which is its gradient.
fn divided(x: &Tensor, mean: Option<&Tensor>, variance: &Tensor, epsilon: f32) -> Tensor {
    let cuda = buffer(x).cuda();
    let out = empty(cuda, x.shape(), Element::F32);
    let (count, features) = (x.shape().volume(), x.shape().last());
    let args = [
        arg(x),
        optional(mean),
        arg(variance),
        arg(&out),
        Arg::count(count),
        Arg::size(features),
        Arg::Float(epsilon),
    ];
    cuda.launch("batch_norm_by", Grid::over(count), &args);
    out
}

pub(crate) fn batch_norm_by(x: &Var, statistics: &BatchStatistics, epsilon: f32) -> Var {
    let variance = statistics.variance.clone();
    let out = divided(&wide(x.tensor()), Some(&statistics.mean), &variance, epsilon);
    let to_x = x.target();
    Var::record(&[x], out, move |dy, flow| flow.add(to_x, || divided(&wide(&dy), None, &variance, epsilon)))
}

pub(crate) fn l2_normalise(x: &Var, [rows, features]: [usize; 2]) -> Var {
    let input = wide(x.tensor());
    let cuda = buffer(&input).cuda().clone();
    let out = empty(&cuda, [rows, features], Element::F32);
    let inverse = empty(&cuda, [rows], Element::F32);
    let sizes = [Arg::count(rows), Arg::size(features)];
    let mut args = vec![arg(&input), arg(&out), arg(&inverse)];
    args.extend(sizes);
    cuda.launch("l2_normalise", Grid::warps(rows), &args);
    let (to_x, y) = (x.target(), out.clone());
    Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || {
            let dx = empty(&cuda, [rows, features], Element::F32);
            let mut args = vec![arg(&y), arg(&inverse), arg(&wide(&dy)), arg(&dx)];
            args.extend(sizes);
            cuda.launch("l2_normalise_backward", Grid::warps(rows), &args);
            dx
        });
    })
}
