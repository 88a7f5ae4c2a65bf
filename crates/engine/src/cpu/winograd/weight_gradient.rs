//! The gradient of the weights.

use super::{BLOCK_VALUES, Tiles, input_combine, position_stride};
use crate::backend::ConvShape;
use crate::cpu::blocked::{OuterProducts, Runs};
use crate::cpu::parallel::{Output, Parts, for_each_task};
use crate::cpu::scratch;
use crate::cpu::simd::{Isa, Kernel, Simd};

/// The gradient of the weights. The four rows of transformed tiles are separate tasks (each reads
/// only two of a tile's four input rows), the tiles a fixed number of parts.
pub(crate) fn weight_gradient(isa: Isa, shape: ConvShape, x: &[f32], dy: &[f32], dw: &mut [f32]) {
    let tiles = Tiles::new(shape);
    let (inputs, outputs) = (shape.inputs, shape.outputs);
    let pairs = inputs * outputs;
    let per_block = tiles.per_block(4 * (inputs + outputs), BLOCK_VALUES);
    let parts = Parts::new(tiles.count.div_ceil(per_block), 1, 16 * pairs);
    scratch::with(parts.count * 16 * pairs, |sums| {
        sums.fill(0.0);
        let target = Output::new(sums);
        for_each_task(parts.count * 4, |task| {
            let (part, tile_row) = (task / 4, task % 4);
            // SAFETY: each task, a part and a row, has its own sums.
            let sum = unsafe { target.slice((part * 4 + tile_row) * 4 * pairs, 4 * pairs) };
            for block in parts.range(part) {
                let first = block * per_block;
                let count = per_block.min(tiles.count - first);
                let x_values = 4 * position_stride(count, inputs);
                let dy_values = 4 * position_stride(count, outputs);
                scratch::with(x_values + dy_values + 16 * inputs.max(outputs), |space| {
                    let (x_tiles, space) = space.split_at_mut(x_values);
                    let (dy_tiles, border) = space.split_at_mut(dy_values);
                    isa.run(WeightBlock {
                        tiles,
                        first,
                        count,
                        tile_row,
                        x,
                        dy,
                        x_tiles,
                        dy_tiles,
                        border,
                        sum,
                    });
                });
            }
        });
        let sums: &[f32] = sums;
        let dw = Output::new(dw);
        let chunk = 4 * 1024;
        for_each_task(pairs.div_ceil(chunk), |task| {
            let first = task * chunk;
            isa.run(CollapseWeights {
                sums,
                parts: parts.count,
                pairs,
                first,
                len: chunk.min(pairs - first),
                dw: &dw,
            });
        });
    });
}

struct WeightBlock<'a> {
    tiles: Tiles,
    first: usize,
    count: usize,
    tile_row: usize,
    x: &'a [f32],
    dy: &'a [f32],
    /// [4, count, inputs]
    x_tiles: &'a mut [f32],
    /// [4, count, outputs]
    dy_tiles: &'a mut [f32],
    /// Room for one tile's input or output.
    border: &'a mut [f32],
    /// [4, inputs, outputs]
    sum: &'a mut [f32],
}

impl Kernel for WeightBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ConvShape { inputs, outputs, .. } = self.tiles.shape;
        let (x_stride, dy_stride) =
            (position_stride(self.count, inputs), position_stride(self.count, outputs));
        let zero = s.splat(0.0);
        for t in 0..self.count {
            // SAFETY: the squares lie in x and dy or in the border, channels are whole vectors, and the
            // tiles hold 4 positions of `count` tiles.
            unsafe {
                let square = self.tiles.input(self.x, self.first + t, self.border.as_mut_ptr());
                let to = self.x_tiles.as_mut_ptr().add(t * inputs);
                // Row `tile_row` of Bᵀ combines two of the four rows: with a plus, or with a minus.
                let (plus, other, sign) =
                    [(0, 2, -1.0), (1, 2, 1.0), (2, 1, -1.0), (1, 3, -1.0)][self.tile_row];
                let sign = s.splat(sign);
                for channel in (0..inputs).step_by(S::LANES) {
                    let from = square.start.add(channel);
                    let row: [S::V; 4] = std::array::from_fn(|j| {
                        let load = |i: usize| s.load(from.add(i * square.row_stride + j * inputs));
                        s.fma(sign, load(other), load(plus))
                    });
                    let row = input_combine(s, row);
                    for j in 0..4 {
                        s.store(to.add(j * x_stride + channel), row[j]);
                    }
                }
                let (image, top, left) = self.tiles.place(self.first + t);
                let place = (image, top as isize, left as isize);
                let square = self.tiles.square::<2>(self.dy, outputs, place, self.border.as_mut_ptr());
                let to = self.dy_tiles.as_mut_ptr().add(t * outputs);
                // Row `tile_row` of A weighs the two rows; then all of A from the right.
                let (first, second) = [(1.0, 0.0), (1.0, 1.0), (1.0, -1.0), (0.0, -1.0)][self.tile_row];
                let (first, second) = (s.splat(first), s.splat(second));
                for channel in (0..outputs).step_by(S::LANES) {
                    let from = square.start.add(channel);
                    let [d0, d1]: [S::V; 2] = std::array::from_fn(|j| {
                        let (upper, lower) =
                            (from.add(j * outputs), from.add(square.row_stride + j * outputs));
                        s.fma(first, s.load(upper), s.mul(second, s.load(lower)))
                    });
                    let row = [d0, s.add(d0, d1), s.sub(d0, d1), s.sub(zero, d1)];
                    for j in 0..4 {
                        s.store(to.add(j * dy_stride + channel), row[j]);
                    }
                }
            }
        }
        for position in 0..4 {
            // SAFETY: each position has `count` rows of both tiles and its own inputs x outputs sums.
            unsafe {
                OuterProducts {
                    x: self.x_tiles.as_ptr().add(position * x_stride),
                    x_step: inputs,
                    rows: inputs,
                    y: self.dy_tiles.as_ptr().add(position * dy_stride),
                    y_step: outputs,
                    runs: Runs { count: 1, len: self.count, stride: 0 },
                    y_run_stride: 0,
                    columns: outputs,
                    out: self.sum.as_mut_ptr().add(position * inputs * outputs),
                    out_stride: outputs,
                }
                .run(s);
            }
        }
    }
}

/// `Gᵀ [sum of the parts] G` for a range of channel pairs.
struct CollapseWeights<'a> {
    /// [parts, 16, pairs]
    sums: &'a [f32],
    parts: usize,
    pairs: usize,
    first: usize,
    len: usize,
    dw: &'a Output<'a>,
}

impl Kernel for CollapseWeights<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let half = s.splat(0.5);
        assert!(self.first + self.len <= self.pairs && self.sums.len() == self.parts * 16 * self.pairs);
        // Gᵀ applied to four values.
        let collapse = |m: [S::V; 4]| {
            let (sum, difference) = (s.mul(half, s.add(m[1], m[2])), s.mul(half, s.sub(m[1], m[2])));
            [s.add(m[0], sum), difference, s.add(sum, m[3])]
        };
        for pair in (self.first..self.first + self.len).step_by(S::LANES) {
            // SAFETY: pairs are whole vectors; every position of every part lies in `sums` and every
            // tap in the 9·pairs values of the gradient.
            unsafe {
                let load = |position: usize| {
                    let mut sum = s.load(self.sums.as_ptr().add(position * self.pairs + pair));
                    for part in 1..self.parts {
                        sum = s.add(
                            sum,
                            s.load(self.sums.as_ptr().add((part * 16 + position) * self.pairs + pair)),
                        );
                    }
                    sum
                };
                let columns: [[S::V; 3]; 4] =
                    std::array::from_fn(|j| collapse(std::array::from_fn(|i| load(i * 4 + j))));
                for i in 0..3 {
                    let row = collapse([columns[0][i], columns[1][i], columns[2][i], columns[3][i]]);
                    for j in 0..3 {
                        s.store(self.dw.at((i * 3 + j) * self.pairs + pair, S::LANES), row[j]);
                    }
                }
            }
        }
    }
}
