//! Matrix products in f32, single and in batches, and transposition.

use super::tensors::{arg, optional};
use super::{Arg, Cuda, Grid};
use crate::backend::{Matrix, Products};
use crate::tensor::Tensor;

/// Rows and columns that a block makes of a product.
pub(super) const TILE: usize = 64;
/// Rows of both sides, at most, for the kernel of few long ones.
pub(super) const FEW: usize = 16;
/// Rows and columns that a block transposes, and the lines of its threads.
pub(super) const SQUARE: usize = 32;
pub(super) const LINES: usize = 8;

/// How a kernel walks over the matrices of a batch: the steps between rows and between columns, and between matrices.
fn steps(matrix: Matrix, batch: usize) -> [Arg; 3] {
    let columns = matrix.tensor.shape().last();
    let [row, column] = if matrix.transposed { [1, columns] } else { [columns, 1] };
    [row, column, matrix.tensor.shape().volume() / batch].map(Arg::count)
}

impl Products for Cuda {
    fn matmul(&self, a: Matrix, b: Matrix, bias: Option<&Tensor>, [batch, m, k, n]: [usize; 4]) -> Tensor {
        let (rows, columns) = (m.div_ceil(TILE), n.div_ceil(TILE));
        let blocks = rows * columns * batch;
        // Few blocks would walk along a long inner dimension while the GPU idles: as many as it holds at once.
        let parts = match bias {
            None => (self.multiprocessors() * 8 / blocks.max(1)).min(k / 256).max(1),
            Some(_) => 1,
        };
        let out = self.floats([batch * parts * m, n]);
        // Few long rows on both sides, as masks are compared: most of the other kernel's tiles would be empty.
        if m <= FEW && n <= FEW && k >= 1024 && bias.is_none() && !a.transposed && b.transposed {
            let mut args = vec![arg(a.tensor), arg(b.tensor), arg(&out)];
            args.extend([m, n, k, parts].map(Arg::size));
            self.launch("inner_products", Grid::blocks(batch * parts, 1, 1), &args);
            return if parts == 1 { out } else { self.sum_parts(&out, batch, parts, [batch * m, n], 1.0) };
        }
        let mut args = vec![arg(a.tensor), arg(b.tensor), optional(bias), arg(&out)];
        args.extend([m, n, k, parts].map(Arg::size));
        args.extend([steps(a, batch), steps(b, batch)].concat());
        self.launch("matmul", Grid::blocks(rows, columns, batch * parts), &args);
        if parts == 1 { out } else { self.sum_parts(&out, batch, parts, [batch * m, n], 1.0) }
    }

    fn transpose(&self, x: &Tensor) -> Tensor {
        let [rows, columns] = x.shape().matrix("transpose");
        let out = self.floats([columns, rows]);
        let blocks = Grid::blocks(columns.div_ceil(SQUARE), rows.div_ceil(SQUARE), 1);
        let grid = Grid { threads: [SQUARE, LINES], ..blocks };
        self.launch("transpose", grid, &[arg(x), arg(&out), Arg::size(rows), Arg::size(columns)]);
        out
    }
}
