//! The convolution itself.

use super::{BLOCK_VALUES, Tiles, input_combine, position_stride};
use crate::backend::{ConvShape, Epilogue};
use crate::cpu::blocked::{RowsTimesMatrix, Runs};
use crate::cpu::epilogue::Finish;
use crate::cpu::parallel::{Output, for_each_task};
use crate::cpu::scratch;
use crate::cpu::simd::{Isa, Kernel, Simd};

/// `G g Gᵀ` for every pair of channels: weights [3, 3, inputs, outputs] to [16, inputs, outputs].
struct TransformWeights<'a> {
    weights: &'a [f32],
    pairs: usize,
    out: &'a Output<'a>,
    first: usize,
    len: usize,
}

impl Kernel for TransformWeights<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let half = s.splat(0.5);
        // G applied to three values.
        let expand = |g: [S::V; 3]| {
            let (sum, middle) = (s.mul(half, s.add(g[0], g[2])), s.mul(half, g[1]));
            [g[0], s.add(sum, middle), s.sub(sum, middle), g[2]]
        };
        assert!(self.first + self.len <= self.pairs && self.weights.len() == 9 * self.pairs);
        for pair in (self.first..self.first + self.len).step_by(S::LANES) {
            // SAFETY: pairs are a multiple of the lanes (`suits`), so each of the nine loads lies in
            // the weights and each store in position ξ's own `pairs` values of the output.
            unsafe {
                let columns: [[S::V; 4]; 3] = std::array::from_fn(|j| {
                    expand(std::array::from_fn(|i| {
                        s.load(self.weights.as_ptr().add((i * 3 + j) * self.pairs + pair))
                    }))
                });
                for i in 0..4 {
                    let row = expand([columns[0][i], columns[1][i], columns[2][i]]);
                    for j in 0..4 {
                        s.store(self.out.at((i * 4 + j) * self.pairs + pair, S::LANES), row[j]);
                    }
                }
            }
        }
    }
}

/// `out = epilogue(x ⋆ weights)`.
pub(crate) fn forward(
    isa: Isa,
    shape: ConvShape,
    x: &[f32],
    weights: &[f32],
    epilogue: Epilogue<[f32]>,
    out: &mut [f32],
) {
    let tiles = Tiles::new(shape);
    let per_block = tiles.per_block(16 * (shape.inputs + shape.outputs), BLOCK_VALUES);
    let pairs = shape.inputs * shape.outputs;
    scratch::with(16 * pairs, |transformed| {
        let target = Output::new(transformed);
        let chunk = 16 * 1024;
        for_each_task(pairs.div_ceil(chunk), |task| {
            let first = task * chunk;
            isa.run(TransformWeights { weights, pairs, out: &target, first, len: chunk.min(pairs - first) });
        });
        let transformed: &[f32] = transformed;
        let out = Output::new(out);
        for_each_task(tiles.count.div_ceil(per_block), |block| {
            let first = block * per_block;
            let count = per_block.min(tiles.count - first);
            let input_values = 16 * position_stride(count, shape.inputs);
            let product_values = 16 * position_stride(count, shape.outputs);
            scratch::with(input_values + product_values + 16 * shape.inputs, |space| {
                let (inputs, space) = space.split_at_mut(input_values);
                let (products, border) = space.split_at_mut(product_values);
                let weights = transformed;
                let out = &out;
                isa.run(ForwardBlock {
                    tiles,
                    first,
                    count,
                    x,
                    weights,
                    inputs,
                    products,
                    border,
                    epilogue,
                    out,
                });
            });
        });
    });
}

struct ForwardBlock<'a> {
    tiles: Tiles,
    first: usize,
    count: usize,
    x: &'a [f32],
    /// [16, inputs, outputs]
    weights: &'a [f32],
    /// [16, count, inputs]
    inputs: &'a mut [f32],
    /// [16, count, outputs]
    products: &'a mut [f32],
    /// Room for one tile's input.
    border: &'a mut [f32],
    epilogue: Epilogue<'a, [f32]>,
    out: &'a Output<'a>,
}

impl Kernel for ForwardBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ConvShape { inputs, outputs, height, width, .. } = self.tiles.shape;
        let (input_stride, product_stride) =
            (position_stride(self.count, inputs), position_stride(self.count, outputs));
        let zero = s.splat(0.0);
        for t in 0..self.count {
            // SAFETY: the square lies in x or in the border (16 pixels of `inputs` channels), channels
            // are whole vectors, and `inputs` holds 16 positions of `count` tiles.
            unsafe {
                let square = self.tiles.input(self.x, self.first + t, self.border.as_mut_ptr());
                let to = self.inputs.as_mut_ptr().add(t * inputs);
                for channel in (0..inputs).step_by(S::LANES) {
                    let from = square.start.add(channel);
                    let columns: [[S::V; 4]; 4] = std::array::from_fn(|j| {
                        input_combine(
                            s,
                            std::array::from_fn(|i| s.load(from.add(i * square.row_stride + j * inputs))),
                        )
                    });
                    for i in 0..4 {
                        let row =
                            input_combine(s, [columns[0][i], columns[1][i], columns[2][i], columns[3][i]]);
                        for j in 0..4 {
                            s.store(to.add((i * 4 + j) * input_stride + channel), row[j]);
                        }
                    }
                }
            }
        }
        for position in 0..16 {
            // SAFETY: each position has `count` rows of inputs, its own inputs x outputs weights and
            // `count` rows of products; columns are whole vectors.
            unsafe {
                RowsTimesMatrix {
                    x: self.inputs.as_ptr().add(position * input_stride),
                    row_stride: inputs,
                    rows: self.count,
                    runs: Runs { count: 1, len: inputs, stride: 0 },
                    matrix: self.weights.as_ptr().add(position * inputs * outputs),
                    matrix_stride: outputs,
                    columns: outputs,
                    finish: Finish::NONE,
                    out: self.products.as_mut_ptr().add(position * product_stride),
                    out_stride: outputs,
                }
                .run(s);
            }
        }
        for t in 0..self.count {
            let (image, y, x) = self.tiles.place(self.first + t);
            let (rows, columns) = ((height - y).min(2), (width - x).min(2));
            let start = ((image * height + y) * width + x) * outputs;
            // SAFETY: `products` holds 16 positions of `count` tiles, bias `outputs` values; the tile's
            // rows and columns inside the image belong to this tile alone, and residual and mask are laid
            // out as the output is (`conv::forward` checked the sizes).
            unsafe {
                let from = self.products.as_ptr().add(t * outputs);
                let out = self.out.at(start, ((rows - 1) * width + columns) * outputs);
                for channel in (0..outputs).step_by(S::LANES) {
                    let load = |i: usize, j: usize| s.load(from.add((i * 4 + j) * product_stride + channel));
                    // Aᵀ from the left, column by column.
                    let left: [[S::V; 2]; 4] = std::array::from_fn(|j| {
                        let (m1, m2) = (load(1, j), load(2, j));
                        [s.add(load(0, j), s.add(m1, m2)), s.sub(s.sub(m1, m2), load(3, j))]
                    });
                    let bias = match self.epilogue.bias {
                        Some(bias) => s.load(bias.as_ptr().add(channel)),
                        None => zero,
                    };
                    for i in 0..rows {
                        let (c0, c1, c2, c3) = (left[0][i], left[1][i], left[2][i], left[3][i]);
                        let row = [s.add(c0, s.add(c1, c2)), s.sub(s.sub(c1, c2), c3)];
                        for j in 0..columns {
                            let at = (i * width + j) * outputs + channel;
                            let mut value = s.add(row[j], bias);
                            if let Some(residual) = self.epilogue.residual {
                                value = s.add(value, s.load(residual.as_ptr().add(start + at)));
                            }
                            if self.epilogue.relu {
                                value = s.max(zero, value);
                            }
                            if let Some(mask) = self.epilogue.mask {
                                value = s.where_positive(s.load(mask.as_ptr().add(start + at)), value);
                            }
                            s.store(out.add(at), value);
                        }
                    }
                }
            }
        }
    }
}
