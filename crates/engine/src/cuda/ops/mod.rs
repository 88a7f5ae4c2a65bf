//! The operations on a GPU, each with its gradient: shapes were checked by the methods of
//! [`Var`](crate::Var) that come here.
//!
//! A tensor's element type follows from how it was made: convolutions and normalisations of images give
//! the device's activation type, everything else what it was given, sums and losses f32. A gradient has
//! the type of what it is the gradient of.

pub(crate) mod bias;
pub(crate) mod conv;
pub(crate) mod elementwise;
pub(crate) mod join;
pub(crate) mod loss;
pub(crate) mod norm;
pub(crate) mod optim;
pub(crate) mod product;
pub(crate) mod reduce;
pub(crate) mod resize;

use super::{Arg, Buffer, Cuda, Element, Grid};
use crate::shape::Shape;
use crate::tensor::{OTHER_DEVICE, Tensor};

/// The buffer of a tensor that is on the GPU as the operation's other operands are.
pub(crate) fn buffer(tensor: &Tensor) -> &Buffer {
    tensor.on_gpu().unwrap_or_else(|| panic!("{OTHER_DEVICE}"))
}

pub(super) fn arg(tensor: &Tensor) -> Arg {
    buffer(tensor).arg()
}

fn optional(tensor: Option<&Tensor>) -> Arg {
    tensor.map_or(Arg::NULL, arg)
}

fn element(tensor: &Tensor) -> Element {
    buffer(tensor).element()
}

/// A tensor whose values are still to be written.
pub(super) fn empty(cuda: &Cuda, shape: impl Into<Shape>, element: Element) -> Tensor {
    let shape = shape.into();
    Tensor::from_gpu(Buffer::new(cuda, shape.volume(), element), shape)
}

/// The tensor with another element type; itself where it has it already.
fn converted(tensor: &Tensor, to: Element) -> Tensor {
    let from = element(tensor);
    if from == to {
        return tensor.clone();
    }
    let cuda = buffer(tensor).cuda();
    let out = empty(cuda, tensor.shape(), to);
    let count = tensor.shape().volume();
    let kernel = format!("cast<{}, {}>", from.name(), to.name());
    cuda.launch(&kernel, Grid::over(count.div_ceil(8)), &[arg(tensor), arg(&out), Arg::count(count)]);
    out
}

pub(crate) fn wide(tensor: &Tensor) -> Tensor {
    converted(tensor, Element::F32)
}

/// The tensor to be written over: itself where nobody else holds it, else a new one.
fn reusable(tensor: Tensor) -> (Tensor, Tensor) {
    if tensor.is_unshared() {
        return (tensor.clone(), tensor);
    }
    let out = empty(buffer(&tensor).cuda(), tensor.shape(), element(&tensor));
    (tensor, out)
}

/// How many channels a thread takes at once.
fn vector(channels: usize) -> usize {
    if channels.is_multiple_of(8) { 8 } else { 1 }
}

/// In how many parts a long sum of `rows` rows over `channels` channels is made, for each of `segments`:
/// enough to fill the GPU, few enough that adding them up is nothing.
fn parts(cuda: &Cuda, segments: usize, rows: usize, channels: usize) -> usize {
    let lines = (256 / (channels / vector(channels)).clamp(1, 256)).max(1);
    let wanted = (cuda.multiprocessors() * 8).div_ceil(segments.max(1));
    rows.div_ceil(lines * 4).clamp(1, wanted.clamp(1, 1024))
}

/// `factor · Σ_part partial[segment, part, …]`.
fn sum_parts(
    partial: &Tensor,
    segments: usize,
    parts: usize,
    shape: impl Into<Shape>,
    factor: f32,
) -> Tensor {
    let cuda = buffer(partial).cuda();
    let out = empty(cuda, shape, Element::F32);
    let size = out.shape().volume() / segments;
    let lanes = if parts > 64 && size < 8192 { 32 } else { 8 };
    let grid = Grid { threads: [32, lanes], ..Grid::blocks(size.div_ceil(32) * segments, 1, 1) };
    let args = [arg(partial), arg(&out), Arg::size(parts), Arg::count(size), Arg::Float(factor)];
    cuda.launch("sum_parts", grid, &args);
    out
}
