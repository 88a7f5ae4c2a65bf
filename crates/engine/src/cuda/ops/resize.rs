//! Bilinear resizing.

use super::{arg, buffer, converted, element, empty, vector};
use crate::cpu::resize::{Corners, ResizeShape};
use crate::cuda::{Arg, Grid};
use crate::tape::Var;
use crate::tensor::Tensor;

fn run(kernel: &str, from: &Tensor, to: &Tensor, shape: ResizeShape) {
    let v = vector(shape.channels);
    let ([h, w], [oh, ow]) = (shape.from, shape.to);
    let kernel = format!("{kernel}<{}, {v}>", element(from).name());
    let sizes = [shape.batch, h, w, oh, ow, shape.channels].map(Arg::size);
    let mut args = vec![arg(from), arg(to)];
    args.extend(sizes);
    args.push(Arg::flag(shape.corners == Corners::Aligned));
    buffer(from).cuda().launch(&kernel, Grid::over(to.shape().volume() / v), &args);
}

pub(crate) fn bilinear(x: &Var, shape: ResizeShape) -> Var {
    let [oh, ow] = shape.to;
    let to = element(x.tensor());
    let out = empty(buffer(x.tensor()).cuda(), [shape.batch, oh, ow, shape.channels], to);
    run("resize", x.tensor(), &out, shape);
    let (to_x, x_shape) = (x.target(), x.shape());
    Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || {
            let dy = converted(&dy, to);
            let dx = empty(buffer(&dy).cuda(), x_shape, to);
            run("resize_backward", &dy, &dx, shape);
            dx
        });
    })
}
