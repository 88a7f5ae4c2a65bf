//! Rows of values: sums, distances, softmax, and rows by their numbers.

use super::launch::{LONG_BLOCK, name, within};
use super::tensors::arg;
use super::{Arg, Buffer, Cuda, Grid, fail};
use crate::backend::{Distance, Element, Memory, Rows};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// A plain sum: what is no distance's number.
const SUM: i32 = -1;
/// From so many values on a row has a block of its own.
const LONG_ROW: usize = 1024;

impl Cuda {
    /// `factor · Σ_i f(x[row, i], y[row / repeats, i])` → [rows]
    fn row_sums(
        &self,
        operation: i32,
        [x, y]: [&Tensor; 2],
        rows: usize,
        repeats: usize,
        factor: f32,
    ) -> Tensor {
        let size = x.shape().volume() / rows.max(1);
        let most_parts = (self.multiprocessors() * 8).div_ceil(rows.max(1)).clamp(1, 1024);
        let parts = size.div_ceil(2048).clamp(1, most_parts);
        let partial = self.floats([rows, parts]);
        let args = [arg(x), arg(y), arg(&partial), Arg::Int(operation), Arg::count(size), Arg::size(repeats)];
        self.launch(&format!("row_parts<{}>", name(x.element())), Grid::blocks(rows, parts, 1), &args);
        self.sum_parts(&partial, rows, parts, [rows], factor)
    }

    /// A kernel that takes a warp per row, or a block where rows are long: a warp would walk over a row of thousands
    /// of values for longer than all other kernels of a step together.
    pub(super) fn by_row(&self, kernel: &str, tensors: &[&Tensor], [rows, width]: [usize; 2]) {
        let mut args: Vec<Arg> = tensors.iter().map(|tensor| arg(tensor)).collect();
        args.extend([Arg::count(rows), Arg::size(width)]);
        let (threads, grid) = match width {
            0..LONG_ROW => (32, Grid::warps(rows)),
            _ => (LONG_BLOCK, Grid { threads: [LONG_BLOCK, 1], ..Grid::blocks(rows, 1, 1) }),
        };
        self.launch(&format!("{kernel}<{threads}>"), grid, &args);
    }

    fn upload_indices(&self, indices: &[usize]) -> Buffer {
        let number = |&index: &usize| {
            within("the number of a row", index, u32::MAX as usize).unwrap_or_else(|error| fail(error));
            index as u32
        };
        let indices: Vec<u32> = indices.iter().map(number).collect();
        Buffer::upload(self, bytemuck::cast_slice(&indices))
    }
}

impl Rows for Cuda {
    fn sum_rows(&self, x: &Tensor, rows: usize, factor: f64) -> Tensor {
        self.row_sums(SUM, [x, x], rows, 1, factor as f32)
    }

    fn broadcast_rows(&self, values: &Tensor, shape: Shape, factor: f64, to: Element) -> Tensor {
        let out = self.empty(shape, to);
        let (rows, count) = (values.shape().volume(), shape.volume());
        let mut args = vec![arg(values), arg(&out), Arg::Float(factor as f32)];
        args.extend([Arg::count(rows), Arg::count(count / rows.max(1))]);
        self.launch(&format!("broadcast_rows<{}>", name(to)), Grid::over(count.div_ceil(8)), &args);
        out
    }

    fn row_distance(&self, distance: Distance, x: &Tensor, y: &Tensor, repeats: usize) -> Tensor {
        let rows = x.shape()[0];
        let size = x.shape().volume() / rows.max(1);
        self.row_sums(distance as i32, [x, y], rows, repeats, 1.0 / size as f32)
    }

    fn row_distance_backward(
        &self,
        distance: Distance,
        [x, y, dy]: [&Tensor; 3],
        repeats: usize,
        sign: f32,
    ) -> Tensor {
        let rows = x.shape()[0];
        let size = x.shape().volume() / rows.max(1);
        let dx = self.empty(x.shape(), x.element());
        let args = [
            arg(x),
            arg(y),
            arg(dy),
            arg(&dx),
            Arg::Int(distance as i32),
            Arg::Float(sign / size as f32),
            Arg::count(rows),
            Arg::count(size),
            Arg::size(repeats),
        ];
        let kernel = format!("row_parts_backward<{}>", name(x.element()));
        self.launch(&kernel, Grid::over(rows * size), &args);
        dx
    }

    fn softmax(&self, logits: &Tensor) -> Tensor {
        let out = self.floats(logits.shape());
        self.by_row("softmax", &[logits, &out], logits.shape().matrix("softmax"));
        out
    }

    fn softmax_backward(&self, y: &Tensor, dy: Tensor) -> Tensor {
        let dx = self.floats(y.shape());
        self.by_row("softmax_backward", &[y, &dy, &dx], y.shape().matrix("softmax"));
        dx
    }

    fn cross_entropy(&self, logits: &Tensor, targets: &Tensor) -> Tensor {
        let [rows, classes] = logits.shape().matrix("cross entropy");
        let out = self.floats([rows]);
        self.by_row("cross_entropy", &[logits, targets, &out], [rows, classes]);
        out
    }

    fn cross_entropy_backward(&self, logits: &Tensor, targets: &Tensor, dy: &Tensor) -> Tensor {
        let dx = self.floats(logits.shape());
        let sizes = logits.shape().matrix("cross entropy");
        self.by_row("cross_entropy_backward", &[logits, targets, dy, &dx], sizes);
        dx
    }

    fn gather_rows(&self, x: &Tensor, indices: &[usize], shape: Shape) -> Tensor {
        let (out, size) = (self.empty(shape, x.element()), x.shape().volume() / x.shape()[0].max(1));
        let (taken, indices) = (indices.len(), self.upload_indices(indices));
        let args = [arg(x), indices.arg(), arg(&out), Arg::count(taken), Arg::count(size)];
        self.launch(&format!("gather_rows<{}>", name(x.element())), Grid::over(taken * size), &args);
        out
    }

    fn scatter_rows(&self, dy: &Tensor, indices: &[usize], shape: Shape) -> Tensor {
        let (dx, size) = (self.empty(shape, dy.element()), shape.volume() / shape[0].max(1));
        let (taken, indices) = (indices.len(), self.upload_indices(indices));
        let mut args = vec![arg(dy), indices.arg(), arg(&dx), Arg::size(taken)];
        args.extend([Arg::count(shape[0]), Arg::count(size)]);
        let kernel = format!("scatter_rows<{}>", name(dy.element()));
        self.launch(&kernel, Grid::over(shape.volume()), &args);
        dx
    }
}
