//! A bias per sample and channel.

use super::reduce::{Masked, mask_and_sum};
use super::{arg, buffer, element, empty, vector, wide};
use crate::cuda::{Arg, Element, Grid};
use crate::shape::Shape;
use crate::tape::Var;
use crate::tensor::Tensor;

/// `out[n·K + k, pixel, c] = x[n, pixel, c] + bias[n·K + k, c]`
fn add(
    x: &Tensor,
    bias: &Tensor,
    [samples, repeats, pixels, channels]: [usize; 4],
    relu: bool,
    out: &Tensor,
) {
    let v = vector(channels);
    let kernel = format!("sample_bias<{}, {v}>", element(x).name());
    let args = [
        arg(x),
        arg(bias),
        arg(out),
        Arg::count(samples),
        Arg::size(repeats),
        Arg::count(pixels),
        Arg::size(channels),
        Arg::flag(relu),
    ];
    buffer(x).cuda().launch(&kernel, Grid::over(samples * pixels * channels / v), &args);
}

/// `out[n, pixel, c] = rows[n, c] · factor`, as a pooled mean's gradient goes back.
pub(super) fn spread_pixels(rows: &Tensor, shape: Shape, to: Element, factor: f32) -> Tensor {
    let cuda = buffer(rows).cuda();
    let out = empty(cuda, shape, to);
    let [batch, channels] = rows.shape().matrix("rows per image");
    let (v, pixels) = (vector(channels), shape.volume() / rows.shape().volume().max(1));
    let kernel = format!("spread_pixels<{}, {v}>", to.name());
    let args = [
        arg(rows),
        arg(&out),
        Arg::Float(factor),
        Arg::count(batch),
        Arg::count(pixels),
        Arg::size(channels),
    ];
    cuda.launch(&kernel, Grid::over(batch * pixels * channels / v), &args);
    out
}

pub(crate) fn sample_bias(
    x: &Var,
    bias: &Var,
    [batch, height, width, channels]: [usize; 4],
    samples: usize,
    relu: bool,
) -> Var {
    let (pixels, repeats) = (height * width, samples / batch);
    let to = element(x.tensor());
    let out = empty(buffer(x.tensor()).cuda(), [samples, height, width, channels], to);
    add(x.tensor(), &wide(bias.tensor()), [samples, repeats, pixels, channels], relu, &out);
    let (to_x, to_bias, y) = (x.target(), bias.target(), relu.then(|| out.clone()));
    Var::record(&[x, bias], out, move |dy, flow| {
        let y = y.filter(|_| !flow.is_masked());
        let Masked { dy, sums } = mask_and_sum(dy, y.as_ref(), to, channels, samples, to_bias.is_some(), 1.0);
        if let Some(sums) = sums {
            flow.add(to_bias, || sums);
        }
        flow.add(to_x, || {
            if repeats == 1 {
                return dy.clone();
            }
            let cuda = buffer(&dy).cuda();
            let dx = empty(cuda, [batch, height, width, channels], to);
            let size = pixels * channels;
            let kernel = format!("sum_repeats<{}>", to.name());
            let args = [arg(&dy), arg(&dx), Arg::count(batch), Arg::size(repeats), Arg::count(size)];
            cuda.launch(&kernel, Grid::over(batch * size), &args);
            dx
        });
    })
    .ending_in_relu(relu)
}
