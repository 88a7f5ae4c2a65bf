//! The convolution itself.

use super::{Blocks, POSITIONS, Square, Tiles, position_stride, transforms};
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
    scratch::with(size + 6 * shape.inputs, |space| {
        let (transformed, zeros) = space.split_at_mut(size);
        zeros.fill(0.0);
        let target = Output::new(transformed);
        let chunk = 2 * 1024;
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
            let transform =
                TransformTiles { tiles, first, range, x, zeros, stride: input_stride, out: &target };
            isa.run(transform);
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

/// `Bᵀ d B` of a range of a block's tiles.
pub(super) struct TransformTiles<'a> {
    pub tiles: Tiles,
    /// The block's first tile.
    pub first: usize,
    /// Counted from there.
    pub range: Range<usize>,
    pub x: &'a [f32],
    /// A row of the square outside of the image.
    pub zeros: &'a [f32],
    /// Between two positions.
    pub stride: usize,
    /// [36, tiles of the block, inputs]
    pub out: &'a Output<'a>,
}

impl Kernel for TransformTiles<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let inputs = self.tiles.shape.inputs;
        for t in self.range.clone() {
            let (image, top, left) = self.tiles.place(self.first + t);
            let place = (image, top as isize - 1, left as isize - 1);
            let out = self.out.at(t * inputs, (POSITIONS - 1) * self.stride + inputs);
            // SAFETY: x holds the batch (`conv::check`), channels are whole vectors (`suits`), and every
            // position of a tile has `inputs` values of its own.
            unsafe {
                let square = self.tiles.square::<6>(self.x, inputs, place, self.zeros.as_ptr());
                for channel in (0..inputs).step_by(S::LANES) {
                    let out = out.add(channel);
                    self.rows::<S, 0>(s, &square, channel, out);
                    self.rows::<S, 1>(s, &square, channel, out);
                    self.rows::<S, 2>(s, &square, channel, out);
                }
            }
        }
    }
}

impl TransformTiles<'_> {
    /// A pair of rows of one tile.
    ///
    /// # Safety
    /// The square must have a vector of channels from `channel` on, and so must every position of `out`.
    #[inline(always)]
    unsafe fn rows<S: Simd, const PAIR: usize>(
        &self,
        s: S,
        square: &Square<6>,
        channel: usize,
        out: *mut f32,
    ) {
        let mut rows = [[s.splat(0.0); 6]; 2];
        for j in 0..6 {
            // SAFETY: as granted.
            let column = unsafe { square.column(s, j, channel) };
            [rows[0][j], rows[1][j]] = transforms::input_pair::<S, PAIR>(s, column);
        }
        for (row, i) in rows.into_iter().zip(transforms::PAIRS[PAIR]) {
            let row = transforms::input(s, row);
            for j in 0..6 {
                // SAFETY: as granted; `i * 6 + j` is a position.
                unsafe { s.store(out.add((i * 6 + j) * self.stride), row[j]) };
            }
        }
    }
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
        for t in self.range.clone() {
            let (image, y, x) = self.tiles.place(self.first + t);
            let (rows, columns) = ((height - y).min(4), (width - x).min(4));
            let start = ((image * height + y) * width + x) * outputs;
            let out = self.out.at(start, ((rows - 1) * width + columns) * outputs);
            for channel in (0..outputs).step_by(S::LANES) {
                // SAFETY: `products` holds 36 positions of the block's tiles, bias `outputs` values; the tile's
                // rows and columns inside the image belong to this tile alone (`at` checked that they are there), and
                // residual and mask are laid out as the output is (`conv::forward` checked the sizes).
                unsafe {
                    let from = self.products.as_ptr().add(t * outputs + channel);
                    self.rows::<S, 0>(s, from, out, start, channel, [rows, columns]);
                    self.rows::<S, 1>(s, from, out, start, channel, [rows, columns]);
                }
            }
        }
    }
}

impl FinishTiles<'_> {
    /// A pair of rows of one tile, of whose rows and columns `inside` are in the image; `out` is the output from its
    /// value `start` on.
    ///
    /// # Safety
    /// Products, bias, residual, mask and output must have a vector of channels at every position and pixel inside.
    #[inline(always)]
    unsafe fn rows<S: Simd, const PAIR: usize>(
        &self,
        s: S,
        products: *const f32,
        out: *mut f32,
        start: usize,
        channel: usize,
        inside: [usize; 2],
    ) {
        let ConvShape { outputs, width, .. } = self.tiles.shape;
        let zero = s.splat(0.0);
        let mut rows = [[zero; 6]; 2];
        for j in 0..6 {
            let mut column = [zero; 6];
            for i in 0..6 {
                // SAFETY: as granted; `i * 6 + j` is a position.
                column[i] = unsafe { s.load(products.add((i * 6 + j) * self.stride)) };
            }
            [rows[0][j], rows[1][j]] = transforms::output_pair::<S, PAIR>(s, column);
        }
        let bias = match self.epilogue.bias {
            // SAFETY: as granted.
            Some(bias) => unsafe { s.load(bias.as_ptr().add(channel)) },
            None => zero,
        };
        for (row, i) in rows.into_iter().zip(transforms::OUTPUT_PAIRS[PAIR]) {
            if i >= inside[0] {
                continue;
            }
            let row = transforms::output(s, row);
            let at = start + i * width * outputs + channel;
            // SAFETY: as granted: row `i` is inside.
            unsafe {
                let out = out.add(at - start);
                // A loop of known length for most tiles.
                if inside[1] == 4 {
                    self.write(s, row, bias, out, at, 4);
                } else {
                    self.write(s, row, bias, out, at, inside[1]);
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
