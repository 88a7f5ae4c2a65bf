//! Operations value by value.

use super::{arg, buffer, converted, element, empty, reusable};
use crate::cuda::{Arg, Element, Grid};
use crate::tape::Var;
use crate::tensor::Tensor;

/// Of two values; the numbers are the kernel's.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Binary {
    Add = 0,
    Sub = 1,
    Mul = 2,
    Div = 3,
    /// a · (−b)
    NegativeMul = 4,
}

/// Of one value; the numbers are the kernel's.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unary {
    Scale(f32),
    AddScalar(f32),
    Exp,
    Ln,
    Sigmoid,
    Relu,
    /// Without a gradient.
    Exceeds(f32),
}

impl Unary {
    fn args(self) -> [Arg; 2] {
        let (number, parameter) = match self {
            Self::Scale(factor) => (0, factor),
            Self::AddScalar(value) => (1, value),
            Self::Exp => (2, 0.0),
            Self::Ln => (3, 0.0),
            Self::Sigmoid => (4, 0.0),
            Self::Relu => (5, 0.0),
            Self::Exceeds(threshold) => (6, threshold),
        };
        [Arg::Int(number), Arg::Float(parameter)]
    }
}

/// The result of two tensors, in the wider of their types.
pub(crate) fn binary(a: &Tensor, b: &Tensor, operation: Binary) -> Tensor {
    let common = if element(a) == element(b) { element(a) } else { Element::F32 };
    let (a, b) = (converted(a, common), converted(b, common));
    let out = empty(buffer(&a).cuda(), a.shape(), common);
    launch_binary(&a, &b, &out, operation);
    out
}

/// As [`binary`], written over `a` where nobody else holds it.
pub(crate) fn update(a: Tensor, b: &Tensor, operation: Binary) -> Tensor {
    if element(&a) != element(b) {
        return binary(&a, b, operation);
    }
    let (a, out) = reusable(a);
    launch_binary(&a, b, &out, operation);
    out
}

fn launch_binary(a: &Tensor, b: &Tensor, out: &Tensor, operation: Binary) {
    let count = a.shape().volume();
    let kernel = format!("binary<{}>", element(a).name());
    let args = [arg(a), arg(b), arg(out), Arg::Int(operation as i32), Arg::count(count)];
    buffer(a).cuda().launch(&kernel, Grid::over(count.div_ceil(8)), &args);
}

fn apply(x: &Tensor, out: &Tensor, operation: Unary) {
    let count = x.shape().volume();
    let [number, parameter] = operation.args();
    let kernel = format!("unary<{}>", element(x).name());
    let args = [arg(x), arg(out), number, parameter, Arg::count(count)];
    buffer(x).cuda().launch(&kernel, Grid::over(count.div_ceil(8)), &args);
}

pub(crate) fn unary(x: &Var, operation: Unary) -> Var {
    let out = empty(buffer(x.tensor()).cuda(), x.shape(), element(x.tensor()));
    apply(x.tensor(), &out, operation);
    let saved = match operation {
        Unary::Exp | Unary::Sigmoid | Unary::Relu => out.clone(),
        Unary::Scale(_) | Unary::AddScalar(_) | Unary::Ln | Unary::Exceeds(_) => x.tensor().clone(),
    };
    let to_x = x.target();
    Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || {
            let (dy, dx) = reusable(converted(&dy, element(&saved)));
            let count = dx.shape().volume();
            let [number, parameter] = operation.args();
            let kernel = format!("unary_backward<{}>", element(&saved).name());
            let args = [arg(&saved), arg(&dy), arg(&dx), number, parameter, Arg::count(count)];
            buffer(&dx).cuda().launch(&kernel, Grid::over(count.div_ceil(8)), &args);
            dx
        });
    })
}

/// factor · a, written over `a` where nobody else holds it.
pub(crate) fn scaled(a: Tensor, factor: f32) -> Tensor {
    let (a, out) = reusable(a);
    apply(&a, &out, Unary::Scale(factor));
    out
}

/// Sets all values.
pub(crate) fn fill(a: &Tensor, value: f32) {
    let count = a.shape().volume();
    let kernel = format!("fill<{}>", element(a).name());
    let args = [arg(a), Arg::Float(value), Arg::count(count)];
    buffer(a).cuda().launch(&kernel, Grid::over(count.div_ceil(8)), &args);
}
