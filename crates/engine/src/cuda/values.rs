//! Operations value by value.

use super::launch::name;
use super::tensors::{arg, optional, vector};
use super::{Arg, Cuda, Grid};
use crate::backend::{Binary, Element, Memory, Unary, Values};
use crate::tensor::Tensor;

/// How the kernel is told which operation, and its one parameter.
pub(super) fn numbered(operation: Unary) -> (i32, f32) {
    match operation {
        Unary::Scale(factor) => (0, factor),
        Unary::AddScalar(value) => (1, value),
        Unary::Exp => (2, 0.0),
        Unary::Ln => (3, 0.0),
        Unary::Sigmoid => (4, 0.0),
        Unary::Relu => (5, 0.0),
        Unary::Exceeds(threshold) => (6, threshold),
    }
}

impl Values for Cuda {
    fn binary(&self, operation: Binary, a: Tensor, b: &Tensor) -> Tensor {
        let common = if a.element() == b.element() { a.element() } else { Element::F32 };
        let (a, out) = self.reusable(self.cast(a, common));
        let (b, count) = (self.cast(b.clone(), common), a.shape().volume());
        let args = [arg(&a), arg(&b), arg(&out), Arg::Int(operation as i32), Arg::count(count)];
        self.launch(&format!("binary<{}>", name(common)), Grid::over(count.div_ceil(8)), &args);
        out
    }

    fn unary(&self, operation: Unary, x: Tensor) -> Tensor {
        let (x, out) = self.reusable(x);
        let (count, (number, parameter)) = (x.shape().volume(), numbered(operation));
        let args = [arg(&x), arg(&out), Arg::Int(number), Arg::Float(parameter), Arg::count(count)];
        self.launch(&format!("unary<{}>", name(x.element())), Grid::over(count.div_ceil(8)), &args);
        out
    }

    fn unary_backward(&self, operation: Unary, saved: &Tensor, dy: Tensor) -> Tensor {
        let (dy, dx) = self.reusable(self.cast(dy, saved.element()));
        let (count, (number, parameter)) = (dx.shape().volume(), numbered(operation));
        let kernel = format!("unary_backward<{}>", name(saved.element()));
        let mut args = vec![arg(saved), arg(&dy), arg(&dx)];
        args.extend([Arg::Int(number), Arg::Float(parameter), Arg::count(count)]);
        self.launch(&kernel, Grid::over(count.div_ceil(8)), &args);
        dx
    }

    fn mask_and_sum(
        &self,
        dy: Tensor,
        y: Option<&Tensor>,
        to: Element,
        segments: Option<usize>,
    ) -> (Tensor, Option<Tensor>) {
        self.masked_sums(dy, y, to, segments, 1.0)
    }
}

impl Cuda {
    /// One sweep over dy [segments·rows, channels]: keeps it only where `y` is positive, casts it, and sums each
    /// segment's columns, times a factor.
    pub(super) fn masked_sums(
        &self,
        dy: Tensor,
        y: Option<&Tensor>,
        to: Element,
        segments: Option<usize>,
        factor: f32,
    ) -> (Tensor, Option<Tensor>) {
        let writes = y.is_some() || dy.element() != to;
        if !writes && segments.is_none() {
            return (dy, None);
        }
        // The kernels read f32 or what they write.
        let dy = if to == Element::F32 { self.cast(dy, to) } else { dy };
        let y = y.map(|y| self.cast(y.clone(), to));
        let (channels, wants_sums) = (dy.shape().last(), segments.is_some());
        let segments = segments.unwrap_or(1);
        let rows = dy.shape().volume() / (segments * channels).max(1);
        let out = match writes {
            false => None,
            true if dy.element() == to && dy.is_unshared() => Some(dy.clone()),
            true => Some(self.empty(dy.shape(), to)),
        };
        let (v, parts) = (vector(channels), self.parts(segments, rows, channels));
        let partial = wants_sums.then(|| self.floats([segments * parts, channels]));
        let kernel = format!("mask_and_sum<{}, {}, {v}>", name(dy.element()), name(to));
        let grid = Grid::blocks(parts, (channels / v).div_ceil(256), segments);
        let args = [
            arg(&dy),
            optional(y.as_ref()),
            optional(out.as_ref()),
            optional(partial.as_ref()),
            Arg::count(rows),
            Arg::size(channels),
        ];
        self.launch(&kernel, grid, &args);
        let sums =
            partial.map(|partial| self.sum_parts(&partial, segments, parts, [segments, channels], factor));
        (out.unwrap_or(dy), sums)
    }
}
