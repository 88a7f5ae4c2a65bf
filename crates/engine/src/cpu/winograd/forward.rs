//! The convolution itself.

use super::strips::{Strip, TransformTiles, between_len, six_vectors};
use super::transforms::Input;
use super::{Blocks, POSITIONS, Tiles, position_stride, transforms};
use crate::backend::{ConvShape, Epilogue};
use crate::cpu::blocked::{RowsTimesMatrix, Runs};
use crate::cpu::epilogue::Finish;
use crate::cpu::parallel::{Output, for_each_task};
use crate::cpu::scratch;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// `G g Gᵀ` for every pair of channels: weights [3, 3, inputs, outputs] to [36, inputs, outputs].
struct TransformWeights<'a> {
    weights: &'a [f32],
    pairs: usize,
    /// Positions are [`position_stride`] apart.
    out: &'a Output<'a>,
    first: usize,
    len: usize,
}

impl Kernel for TransformWeights<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert!(self.first + self.len <= self.pairs && self.weights.len() == 9 * self.pairs);
        let (zero, stride) = (s.splat(0.0), position_stride(self.pairs));
        for pair in (self.first..self.first + self.len).step_by(S::LANES) {
            let mut columns = [[zero; 3]; 6];
            // SAFETY: pairs are a multiple of the lanes (`suits`), so each of the nine loads lies in
            // the weights and each store in a position's own `pairs` values of the output.
            unsafe {
                for j in 0..3 {
                    let mut column = [zero; 3];
                    for i in 0..3 {
                        column[i] = s.load(self.weights.as_ptr().add((i * 3 + j) * self.pairs + pair));
                    }
                    let column = transforms::weights(s, column);
                    for i in 0..6 {
                        columns[i][j] = column[i];
                    }
                }
                let out = self.out.at(pair, (POSITIONS - 1) * stride + S::LANES);
                for i in 0..6 {
                    let row = transforms::weights(s, columns[i]);
                    for j in 0..6 {
                        s.store(out.add((i * 6 + j) * stride), row[j]);
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
    let blocks = Blocks::new(tiles);
    let pairs = shape.inputs * shape.outputs;
    let size = POSITIONS * position_stride(pairs);
    scratch::with(size + tiles.zeros_len(isa.lanes(), shape.inputs), |space| {
        let (transformed, zeros) = space.split_at_mut(size);
        zeros.fill(0.0);
        let target = Output::new(transformed);
        let chunk = 512;
        for_each_task(pairs.div_ceil(chunk), |task| {
            let first = task * chunk;
            isa.run(TransformWeights { weights, pairs, out: &target, first, len: chunk.min(pairs - first) });
        });
        let (weights, zeros): (&[f32], &[f32]) = (transformed, zeros);
        let out = Output::new(out);
        let block = |block| forward_block(isa, tiles, blocks, block, [x, weights, zeros], epilogue, &out);
        if blocks.shared {
            (0..blocks.count()).for_each(block);
        } else {
            for_each_task(blocks.count(), block);
        }
    });
}

/// The output of one block of tiles.
fn forward_block(
    isa: Isa,
    tiles: Tiles,
    blocks: Blocks,
    block: usize,
    [x, weights, zeros]: [&[f32]; 3],
    epilogue: Epilogue<[f32]>,
    out: &Output,
) {
    let ConvShape { inputs, outputs, .. } = tiles.shape;
    let Range { start: first, end } = blocks.get(block);
    let count = end - first;
    let [input_stride, product_stride] = [inputs, outputs].map(|channels| position_stride(count * channels));
    scratch::with(POSITIONS * (input_stride + product_stride), |space| {
        let (transformed, products) = space.split_at_mut(POSITIONS * input_stride);
        let target = Output::new(transformed);
        blocks.for_tiles(count, |range| {
            isa.run(TransformTiles {
                transform: Input,
                tiles,
                first,
                range,
                values: x,
                channels: inputs,
                zeros,
                stride: input_stride,
                out: &target,
            });
        });
        let transformed: &[f32] = transformed;
        let target = Output::new(products);
        blocks.for_each_task(POSITIONS, |position| {
            isa.run(Products(RowsTimesMatrix {
                x: transformed[position * input_stride..][..count * inputs].as_ptr(),
                row_stride: inputs,
                rows: count,
                runs: Runs { count: 1, len: inputs, stride: 0 },
                matrix: weights[position * position_stride(inputs * outputs)..][..inputs * outputs].as_ptr(),
                matrix_stride: outputs,
                columns: outputs,
                finish: Finish::NONE,
                out: target.at(position * product_stride, count * outputs),
                out_stride: outputs,
            }));
        });
        let products: &[f32] = products;
        blocks.for_tiles(count, |range| {
            isa.run(FinishTiles { tiles, first, range, products, stride: product_stride, epilogue, out });
        });
    });
}

struct Products(RowsTimesMatrix);
impl Kernel for Products {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `forward_block` made slices of exactly the rows and columns described; columns are whole vectors.
        // The epilogue is said here so that the compiler leaves it out.
        unsafe { RowsTimesMatrix { finish: Finish::NONE, ..self.0 }.run(s) }
    }
}

/// `epilogue(Aᵀ [products] A)` of a range of a block's tiles.
struct FinishTiles<'a> {
    tiles: Tiles,
    first: usize,
    range: Range<usize>,
    /// [36, tiles of the block, outputs]
    products: &'a [f32],
    stride: usize,
    epilogue: Epilogue<'a, [f32]>,
    out: &'a Output<'a>,
}

impl Kernel for FinishTiles<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ConvShape { outputs, height, width, .. } = self.tiles.shape;
        scratch::with(
            between_len(S::LANES),
            #[inline(always)]
            |between| {
                for strip in self.tiles.strips(S::LANES, self.first, self.range.clone()) {
                    let inside = [(height - strip.top).min(4), (width - strip.left).min(4 * strip.tiles)];
                    let start = ((strip.image * height + strip.top) * width + strip.left) * outputs;
                    let out = self.out.at(start, ((inside[0] - 1) * width + inside[1]) * outputs);
                    for channel in (0..outputs).step_by(S::LANES) {
                        // SAFETY: `products` holds 36 positions of the block's tiles, bias `outputs` values; the
                        // strip's rows and columns inside the image belong to this task alone (`at` checked that they
                        // are there), and residual and mask are laid out as the output is (`conv::forward` checked the
                        // sizes).
                        unsafe {
                            self.down(s, strip, channel, between.as_mut_ptr());
                            self.along(s, between.as_ptr(), strip.tiles, out, start, channel, inside);
                        }
                    }
                }
            },
        );
    }
}

impl FinishTiles<'_> {
    /// The transform down all columns of a vector of channels.
    ///
    /// # Safety
    /// Products must have a vector of channels at every position of the strip, and `between` be of [`between_len`].
    #[inline(always)]
    unsafe fn down<S: Simd>(&self, s: S, strip: Strip, channel: usize, between: *mut f32) {
        let outputs = self.tiles.shape.outputs;
        for j in 0..6 {
            // SAFETY: as granted; `i * 6 + j` is a position, and a row of `between` has six columns for each tile.
            unsafe {
                let from = self.products.as_ptr().add(j * self.stride + strip.tile * outputs + channel);
                for t in 0..strip.tiles {
                    let mut column = [s.splat(0.0); 6];
                    for i in 0..6 {
                        column[i] = s.load(from.add(i * 6 * self.stride + t * outputs));
                    }
                    let column = transforms::output(s, column);
                    for i in 0..4 {
                        s.store(between.add(six_vectors(S::LANES, i, t) + j * S::LANES), column[i]);
                    }
                }
            }
        }
    }

    /// The transform along the rows, and the epilogue; `inside` are the rows and columns in the image, `out` is the output
    /// from its value `start` on.
    ///
    /// # Safety
    /// `between` must be what `down` wrote; bias, residual, mask and output must have a vector of channels at every pixel
    /// inside.
    #[inline(always)]
    unsafe fn along<S: Simd>(
        &self,
        s: S,
        between: *const f32,
        tiles: usize,
        out: *mut f32,
        start: usize,
        channel: usize,
        inside: [usize; 2],
    ) {
        let ConvShape { outputs, width, .. } = self.tiles.shape;
        let bias = match self.epilogue.bias {
            // SAFETY: as granted.
            Some(bias) => unsafe { s.load(bias.as_ptr().add(channel)) },
            None => s.splat(0.0),
        };
        for i in 0..inside[0] {
            for t in 0..tiles {
                let at = start + (i * width + 4 * t) * outputs + channel;
                // SAFETY: as granted: row `i` and the tile's first columns are inside.
                unsafe {
                    let from = between.add(six_vectors(S::LANES, i, t));
                    let mut row = [s.splat(0.0); 6];
                    for j in 0..6 {
                        row[j] = s.load(from.add(j * S::LANES));
                    }
                    let row = transforms::output(s, row);
                    let (out, columns) = (out.add(at - start), inside[1] - 4 * t);
                    // A loop of known length for most tiles.
                    if columns >= 4 {
                        self.write(s, row, bias, out, at, 4);
                    } else {
                        self.write(s, row, bias, out, at, columns);
                    }
                }
            }
        }
    }

    /// Finishes the first `columns` pixels of a row and writes them; value `at` of residual and mask goes with the
    /// first of `out`.
    ///
    /// # Safety
    /// Residual, mask and output must have a vector of channels at each of these pixels.
    #[inline(always)]
    unsafe fn write<S: Simd>(
        &self,
        s: S,
        mut row: [S::V; 4],
        bias: S::V,
        out: *mut f32,
        at: usize,
        columns: usize,
    ) {
        let pixel = self.tiles.shape.outputs;
        let zero = s.splat(0.0);
        for value in &mut row[..columns] {
            *value = s.add(*value, bias);
        }
        if let Some(residual) = self.epilogue.residual {
            for (j, value) in row[..columns].iter_mut().enumerate() {
                // SAFETY: as granted.
                *value = s.add(*value, unsafe { s.load(residual.as_ptr().add(at + j * pixel)) });
            }
        }
        if self.epilogue.relu {
            for value in &mut row[..columns] {
                *value = s.max(zero, *value);
            }
        }
        if let Some(mask) = self.epilogue.mask {
            for (j, value) in row[..columns].iter_mut().enumerate() {
                // SAFETY: as granted.
                let mask = unsafe { s.load(mask.as_ptr().add(at + j * pixel)) };
                *value = s.where_positive(mask, *value);
            }
        }
        for (j, value) in row[..columns].iter().enumerate() {
            // SAFETY: as granted.
            unsafe { s.store(out.add(j * pixel), *value) };
        }
    }
}
