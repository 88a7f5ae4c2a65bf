//! The gradient of the weights.

use super::strips::TransformTiles;
use super::transforms::{Gradient, Input};
use super::{Blocks, POSITIONS, Tiles, position_stride, transforms};
use crate::backend::ConvShape;
use crate::cpu::blocked::{OuterProducts, Runs};
use crate::cpu::parallel::{Output, Parts, for_each_task};
use crate::cpu::scratch;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// The gradient of the weights, summed over a fixed number of parts of the tiles; over one where tasks share blocks,
/// since then they take a position each.
pub(crate) fn weight_gradient(isa: Isa, shape: ConvShape, x: &[f32], dy: &[f32], dw: &mut [f32]) {
    let tiles = Tiles::new(shape);
    let blocks = Blocks::new(tiles);
    let pairs = shape.inputs * shape.outputs;
    let size = POSITIONS * position_stride(pairs);
    let parts = if blocks.shared { Parts::one(blocks.count()) } else { Parts::new(blocks.count(), 1, size) };
    let zeros = tiles.zeros_len(isa.lanes(), shape.inputs.max(shape.outputs));
    scratch::with(parts.count * size + zeros, |space| {
        let (sums, zeros) = space.split_at_mut(parts.count * size);
        zeros.fill(0.0);
        let zeros: &[f32] = zeros;
        let target = Output::new(sums);
        for_each_task(parts.count, |part| {
            // SAFETY: each part has its own sums.
            let sum = Output::new(unsafe { target.slice(part * size, size) });
            let range = parts.range(part);
            for block in range.clone() {
                add_block(isa, tiles, blocks, block, [x, dy, zeros], &sum, block > range.start);
            }
        });
        let sums: &[f32] = sums;
        let dw = Output::new(dw);
        let chunk = 256;
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

/// What one block of tiles contributes to the sums [36, inputs, outputs], added to them or, the first, in their place.
fn add_block(
    isa: Isa,
    tiles: Tiles,
    blocks: Blocks,
    block: usize,
    [x, dy, zeros]: [&[f32]; 3],
    sum: &Output,
    add: bool,
) {
    let ConvShape { inputs, outputs, .. } = tiles.shape;
    let Range { start: first, end } = blocks.get(block);
    let count = end - first;
    let [x_stride, dy_stride] = [inputs, outputs].map(|channels| position_stride(count * channels));
    scratch::with(POSITIONS * (x_stride + dy_stride), |space| {
        let (x_tiles, dy_tiles) = space.split_at_mut(POSITIONS * x_stride);
        let (x_target, dy_target) = (Output::new(x_tiles), Output::new(dy_tiles));
        blocks.for_tiles(count, |range| {
            isa.run(TransformTiles {
                transform: Input,
                tiles,
                first,
                range: range.clone(),
                values: x,
                channels: inputs,
                zeros,
                stride: x_stride,
                out: &x_target,
            });
            isa.run(TransformTiles {
                transform: Gradient,
                tiles,
                first,
                range,
                values: dy,
                channels: outputs,
                zeros,
                stride: dy_stride,
                out: &dy_target,
            });
        });
        let (x_tiles, dy_tiles): (&[f32], &[f32]) = (x_tiles, dy_tiles);
        blocks.for_each_task(POSITIONS, |position| {
            isa.run(Products(OuterProducts {
                x: x_tiles[position * x_stride..][..count * inputs].as_ptr(),
                x_step: inputs,
                rows: inputs,
                y: dy_tiles[position * dy_stride..][..count * outputs].as_ptr(),
                y_step: outputs,
                runs: Runs { count: 1, len: count, stride: 0 },
                y_run_stride: 0,
                columns: outputs,
                out: sum.at(position * position_stride(inputs * outputs), inputs * outputs),
                out_stride: outputs,
                add,
            }));
        });
    });
}

struct Products(OuterProducts);
impl Kernel for Products {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `add_block` made slices of exactly the rows and columns described, and a position's sums are
        // written by nobody else; columns are whole vectors.
        unsafe { self.0.run(s) }
    }
}

/// `Gᵀ [sum of the parts] G` for a range of channel pairs, and zero where that is below its own rounding error: a weight
/// whose inputs were zero wherever its output had a gradient is not to get an error in place of its gradient, which Adam
/// would divide by its own size.
struct CollapseWeights<'a> {
    /// [parts, 36, pairs], positions [`position_stride`] apart
    sums: &'a [f32],
    parts: usize,
    pairs: usize,
    first: usize,
    len: usize,
    dw: &'a Output<'a>,
}

/// What the terms of a sum may leave where they should cancel, relative to their size: a few of f32's last digits.
const ROUNDING: f32 = 8.0 * f32::EPSILON;

impl Kernel for CollapseWeights<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (zero, stride) = (s.splat(0.0), position_stride(self.pairs));
        assert!(self.first + self.len <= self.pairs && self.sums.len() == self.parts * POSITIONS * stride);
        for pair in (self.first..self.first + self.len).step_by(S::LANES) {
            let (mut rows, mut row_sizes) = ([[zero; 6]; 3], [[zero; 6]; 3]);
            // SAFETY: pairs are whole vectors; every position of every part lies in `sums` and every
            // tap in the 9·pairs values of the gradient.
            unsafe {
                let out = self.dw.at(pair, 8 * self.pairs + S::LANES);
                for j in 0..6 {
                    let (mut column, mut sizes) = ([zero; 6], [zero; 6]);
                    for i in 0..6 {
                        for part in 0..self.parts {
                            let at = (part * POSITIONS + i * 6 + j) * stride + pair;
                            column[i] = s.add(column[i], s.load(self.sums.as_ptr().add(at)));
                        }
                        sizes[i] = s.max(column[i], s.sub(zero, column[i]));
                    }
                    let (column, sizes) =
                        (transforms::weight_gradient(s, column), transforms::weight_gradient_size(s, sizes));
                    for i in 0..3 {
                        (rows[i][j], row_sizes[i][j]) = (column[i], sizes[i]);
                    }
                }
                for i in 0..3 {
                    let row = transforms::weight_gradient(s, rows[i]);
                    let sizes = transforms::weight_gradient_size(s, row_sizes[i]);
                    for j in 0..3 {
                        let size = s.max(row[j], s.sub(zero, row[j]));
                        let missing = s.sub(s.mul(s.splat(ROUNDING), sizes[j]), size);
                        // Zero as x − x, which keeps a NaN.
                        let kept = s.sub(row[j], s.where_positive(missing, row[j]));
                        s.store(out.add((i * 3 + j) * self.pairs), kept);
                    }
                }
            }
        }
    }
}
