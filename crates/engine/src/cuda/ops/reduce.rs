//! Sums and means, and the sweep that ends a relu's and a bias's way back.

use super::{arg, buffer, converted, element, empty, optional, parts, sum_parts, vector};
use crate::cuda::{Arg, Element, Grid};
use crate::shape::Shape;
use crate::tape::Var;
use crate::tensor::Tensor;

/// What [`mask_and_sum`] gives.
pub(super) struct Masked {
    /// dy where y is positive, in the type asked for; dy itself where nothing had to change.
    pub dy: Tensor,
    /// [segments, channels], where asked for.
    pub sums: Option<Tensor>,
}

/// One sweep over dy [segments·rows, channels]: keeps it only where `y` is positive, changes its type,
/// and sums each segment's columns.
pub(super) fn mask_and_sum(
    dy: Tensor,
    y: Option<&Tensor>,
    to: Element,
    channels: usize,
    segments: usize,
    sums: bool,
    factor: f32,
) -> Masked {
    let writes = y.is_some() || element(&dy) != to;
    if !writes && !sums {
        return Masked { dy, sums: None };
    }
    let cuda = buffer(&dy).cuda().clone();
    // The kernels read f32 or what they write.
    let dy = if to == Element::F32 { converted(&dy, to) } else { dy };
    let y = y.map(|y| converted(y, to));
    let rows = dy.shape().volume() / (segments * channels).max(1);
    let out = match writes {
        false => None,
        true if element(&dy) == to && dy.is_unshared() => Some(dy.clone()),
        true => Some(empty(&cuda, dy.shape(), to)),
    };
    let (v, parts) = (vector(channels), parts(&cuda, segments, rows, channels));
    let partial = sums.then(|| empty(&cuda, [segments * parts, channels], Element::F32));
    let kernel = format!("mask_and_sum<{}, {}, {v}>", element(&dy).name(), to.name());
    let grid = Grid::blocks(parts, (channels / v).div_ceil(256), segments);
    let args = [
        arg(&dy),
        optional(y.as_ref()),
        optional(out.as_ref()),
        optional(partial.as_ref()),
        Arg::count(rows),
        Arg::size(channels),
    ];
    cuda.launch(&kernel, grid, &args);
    let sums = partial.map(|partial| sum_parts(&partial, segments, parts, [segments, channels], factor));
    Masked { dy: out.unwrap_or(dy), sums }
}

/// Sums over parts of rows; the numbers are the kernel's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rows {
    Sum = 0,
    BinaryCrossEntropy = 1,
    SquaredError = 2,
}

/// `factor · Σ_i f(x[row, i], y[row / repeats, i])` → [rows]
pub(super) fn row_sums(
    x: &Tensor,
    y: &Tensor,
    rows: usize,
    repeats: usize,
    operation: Rows,
    factor: f32,
) -> Tensor {
    let cuda = buffer(x).cuda();
    let size = x.shape().volume() / rows.max(1);
    let parts =
        size.div_ceil(2048).clamp(1, (cuda.multiprocessors() * 8).div_ceil(rows.max(1)).clamp(1, 1024));
    let partial = empty(cuda, [rows, parts], Element::F32);
    let kernel = format!("row_parts<{}>", element(x).name());
    let args =
        [arg(x), arg(y), arg(&partial), Arg::Int(operation as i32), Arg::count(size), Arg::size(repeats)];
    cuda.launch(&kernel, Grid::blocks(rows, parts, 1), &args);
    sum_parts(&partial, rows, parts, [rows], factor)
}

/// `out[row, i] = values[row] · factor`
fn spread(values: &Tensor, shape: Shape, to: Element, factor: f32) -> Tensor {
    let cuda = buffer(values).cuda();
    let out = empty(cuda, shape, to);
    let (rows, count) = (values.shape().volume(), shape.volume());
    let kernel = format!("spread_rows<{}>", to.name());
    let args =
        [arg(values), arg(&out), Arg::Float(factor), Arg::count(rows), Arg::count(count / rows.max(1))];
    cuda.launch(&kernel, Grid::over(count.div_ceil(8)), &args);
    out
}

/// `factor · Σ x[row, …]` → `out_shape`, one value per row.
pub(crate) fn sum_rows(x: &Var, rows: usize, factor: f32, out_shape: impl Into<Shape>) -> Var {
    let out = row_sums(x.tensor(), x.tensor(), rows, 1, Rows::Sum, factor).reshaped(out_shape);
    let (to_x, shape, to) = (x.target(), x.shape(), element(x.tensor()));
    Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || spread(&converted(&dy, Element::F32), shape, to, factor));
    })
}

pub(crate) fn global_average_pool(x: &Var, [batch, height, width, channels]: [usize; 4]) -> Var {
    let (pixels, to) = (height * width, element(x.tensor()));
    let factor = 1.0 / pixels as f32;
    let masked = mask_and_sum(x.tensor().clone(), None, to, channels, batch, true, factor);
    let out = masked.sums.expect("sums were asked for");
    let (to_x, shape) = (x.target(), x.shape());
    Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || super::bias::spread_pixels(&converted(&dy, Element::F32), shape, to, factor));
    })
}
