//! Softmax and losses by row.

use super::reduce::{Rows, row_sums};
use super::{arg, buffer, element, empty, wide};
use crate::cuda::{Arg, Element, Grid};
use crate::tape::{Target, Var};
use crate::tensor::Tensor;

fn by_row(kernel: &str, tensors: &[&Tensor], rows: usize, width: usize) {
    let mut args: Vec<Arg> = tensors.iter().map(|tensor| arg(tensor)).collect();
    args.extend([Arg::count(rows), Arg::size(width)]);
    buffer(tensors[0]).cuda().launch(kernel, Grid::warps(rows), &args);
}

pub(crate) fn softmax(x: &Var, [rows, classes]: [usize; 2]) -> Var {
    let logits = wide(x.tensor());
    let cuda = buffer(&logits).cuda().clone();
    let out = empty(&cuda, [rows, classes], Element::F32);
    by_row("softmax", &[&logits, &out], rows, classes);
    let (to_x, y) = (x.target(), out.clone());
    Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || {
            let dx = empty(&cuda, [rows, classes], Element::F32);
            by_row("softmax_backward", &[&y, &wide(&dy), &dx], rows, classes);
            dx
        });
    })
}

pub(crate) fn cross_entropy_soft(x: &Var, targets: &Tensor, [rows, classes]: [usize; 2]) -> Var {
    let (logits, targets) = (wide(x.tensor()), wide(targets));
    let cuda = buffer(&logits).cuda().clone();
    let out = empty(&cuda, [rows], Element::F32);
    by_row("cross_entropy", &[&logits, &targets, &out], rows, classes);
    let to_x = x.target();
    Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || {
            let dx = empty(&cuda, [rows, classes], Element::F32);
            by_row("cross_entropy_backward", &[&logits, &targets, &wide(&dy), &dx], rows, classes);
            dx
        });
    })
}

/// The gradient of a row's mean of `operation` towards x.
fn slopes(
    x: &Tensor,
    y: &Tensor,
    dy: &Tensor,
    samples: usize,
    repeats: usize,
    operation: Rows,
    sign: f32,
) -> Tensor {
    let cuda = buffer(x).cuda();
    let size = x.shape().volume() / samples.max(1);
    let dx = empty(cuda, x.shape(), element(x));
    let kernel = format!("row_parts_backward<{}>", element(x).name());
    let args = [
        arg(x),
        arg(y),
        arg(dy),
        arg(&dx),
        Arg::Int(operation as i32),
        Arg::Float(sign / size as f32),
        Arg::count(samples),
        Arg::count(size),
        Arg::size(repeats),
    ];
    cuda.launch(&kernel, Grid::over(samples * size), &args);
    dx
}

pub(crate) fn bce_with_logits(x: &Var, targets: &Tensor, samples: usize, repeats: usize) -> Var {
    let (logits, targets) = (x.tensor().clone(), wide(targets));
    let size = x.shape().volume() / samples.max(1);
    let factor = 1.0 / size as f32;
    let out = row_sums(&logits, &targets, samples, repeats, Rows::BinaryCrossEntropy, factor);
    let to_x = x.target();
    Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || {
            slopes(&logits, &targets, &wide(&dy), samples, repeats, Rows::BinaryCrossEntropy, 1.0)
        });
    })
}

pub(crate) fn squared_error(x: &Var, other: &Var, samples: usize) -> Var {
    let (a, b) = (wide(x.tensor()), wide(other.tensor()));
    let size = x.shape().volume() / samples.max(1);
    let out = row_sums(&a, &b, samples, 1, Rows::SquaredError, 1.0 / size as f32);
    let (to_x, to_y): (Option<Target>, Option<Target>) = (x.target(), other.target());
    Var::record(&[x, other], out, move |dy, flow| {
        let dy = wide(&dy);
        flow.add(to_x, || slopes(&a, &b, &dy, samples, 1, Rows::SquaredError, 1.0));
        flow.add(to_y, || slopes(&a, &b, &dy, samples, 1, Rows::SquaredError, -1.0));
    })
}
