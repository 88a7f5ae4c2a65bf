//! Tensors of a GPU: making them, casting them, reading them, and what the launches of all kernels share.
//!
//! A tensor's element type follows from how it was made: convolutions of images give the device's activation type,
//! other kernels what they were given, sums and losses f32.

use super::{Arg, Buffer, Cuda, Grid, launch::name};
use crate::backend::{Element, Memory};
use crate::shape::Shape;
use crate::tensor::{OTHER_DEVICE, Tensor};

/// The buffer of a tensor that is on the GPU as the operation's other operands are.
pub(super) fn buffer(tensor: &Tensor) -> &Buffer {
    tensor.on_gpu().unwrap_or_else(|| panic!("{OTHER_DEVICE}"))
}

pub(super) fn arg(tensor: &Tensor) -> Arg {
    buffer(tensor).arg()
}

pub(super) fn optional(tensor: Option<&Tensor>) -> Arg {
    tensor.map_or(Arg::NULL, arg)
}

/// Sums that a block of `sum_parts` makes, and the most lines of threads that share the parts of each.
pub(super) const COLUMNS: usize = 32;
pub(super) const LINES: usize = 32;

/// How many channels a thread takes at once.
pub(super) fn vector(channels: usize) -> usize {
    if channels.is_multiple_of(8) { 8 } else { 1 }
}

impl Memory for Cuda {
    fn activation(&self) -> Element {
        self.precision().activation()
    }

    fn empty(&self, shape: Shape, element: Element) -> Tensor {
        Tensor::of_gpu(Buffer::new(self, shape.volume(), element), shape)
    }

    fn full(&self, shape: Shape, value: f32) -> Tensor {
        let (out, count) = (self.empty(shape, Element::F32), shape.volume());
        let args = [arg(&out), Arg::Float(value), Arg::count(count)];
        self.launch("fill<float>", Grid::over(count.div_ceil(8)), &args);
        out
    }

    fn upload(&self, shape: Shape, values: &[f32]) -> Tensor {
        Tensor::of_gpu(Buffer::upload(self, bytemuck::cast_slice(values)), shape)
    }

    fn cast(&self, x: Tensor, to: Element) -> Tensor {
        let from = x.element();
        if from == to {
            return x;
        }
        let (out, count) = (self.empty(x.shape(), to), x.shape().volume());
        let kernel = format!("cast<{}, {}>", name(from), name(to));
        self.launch(&kernel, Grid::over(count.div_ceil(8)), &[arg(&x), arg(&out), Arg::count(count)]);
        out
    }

    fn read(&self, tensors: &[&Tensor]) -> Vec<Vec<f32>> {
        let tensors: Vec<Tensor> =
            tensors.iter().map(|&tensor| self.cast(tensor.clone(), Element::F32)).collect();
        let mut values: Vec<Vec<f32>> =
            tensors.iter().map(|tensor| vec![0.0; tensor.shape().volume()]).collect();
        let parts = tensors.iter().zip(&mut values).map(|(tensor, values)| {
            (self.address_of(buffer(tensor)), bytemuck::cast_slice_mut(&mut values[..]))
        });
        self.download(&mut parts.collect::<Vec<_>>());
        values
    }

    fn join(&self, parts: Vec<(usize, Tensor)>, len: usize) -> Tensor {
        let out = self.full(Shape::from([len]), 0.0);
        let to = self.address_of(buffer(&out));
        let place = |(first, part)| (to + 4 * first as u64, self.cast(part, Element::F32));
        self.sum_to(&parts.into_iter().map(place).collect::<Vec<_>>());
        out
    }

    fn part(&self, x: &Tensor, first: usize, shape: Shape) -> Tensor {
        x.of_gpu_part(first, shape)
    }

    fn synchronise(&self) {
        Self::synchronise(self);
    }

    fn allocations(&self) -> usize {
        Self::allocations(self)
    }

    fn peak_bytes(&self) -> usize {
        Self::peak_bytes(self)
    }

    fn recent_peak_bytes(&self) -> usize {
        Self::recent_peak_bytes(self)
    }
}

impl Cuda {
    /// The address of a buffer. Panics where it is another device's.
    pub(super) fn address_of(&self, buffer: &Buffer) -> u64 {
        assert_eq!(buffer.cuda().identity(), self.identity(), "{OTHER_DEVICE}");
        buffer.pointer()
    }

    /// f32 values that are still to be written.
    pub(super) fn floats(&self, shape: impl Into<Shape>) -> Tensor {
        self.empty(shape.into(), Element::F32)
    }

    /// The tensor to be written over: itself where nobody else holds it, else a new one.
    pub(super) fn reusable(&self, tensor: Tensor) -> (Tensor, Tensor) {
        if tensor.is_unshared() {
            return (tensor.clone(), tensor);
        }
        let out = self.empty(tensor.shape(), tensor.element());
        (tensor, out)
    }

    /// In how many parts a long sum of `rows` rows over `channels` channels is made, for each of `segments`:
    /// enough to fill the GPU, few enough that adding them up is nothing.
    pub(super) fn parts(&self, segments: usize, rows: usize, channels: usize) -> usize {
        let lines = (256 / (channels / vector(channels)).clamp(1, 256)).max(1);
        let wanted = (self.multiprocessors() * 8).div_ceil(segments.max(1));
        rows.div_ceil(lines * 4).clamp(1, wanted.clamp(1, 1024))
    }

    /// `factor · Σ_part partial[segment, part, …]`.
    pub(super) fn sum_parts(
        &self,
        partial: &Tensor,
        segments: usize,
        parts: usize,
        shape: impl Into<Shape>,
        factor: f32,
    ) -> Tensor {
        let out = self.floats(shape);
        let size = out.shape().volume() / segments;
        self.sum_parts_into(arg(partial), arg(&out), [segments, parts, size], factor);
        out
    }

    pub(super) fn sum_parts_into(
        &self,
        partial: Arg,
        out: Arg,
        [segments, parts, size]: [usize; 3],
        factor: f32,
    ) {
        let lines = if parts > 64 && size < 8192 { LINES } else { 8 };
        let blocks = size.div_ceil(COLUMNS) * segments;
        let grid = Grid { threads: [COLUMNS, lines], ..Grid::blocks(blocks, 1, 1) };
        let args = [partial, out, Arg::size(parts), Arg::count(size), Arg::Float(factor)];
        self.launch("sum_parts", grid, &args);
    }
}
