//! 3x3 convolution by Winograd's F(2x2, 3x3): an output tile of 2x2 pixels takes 16 products per pair
//! of channels instead of 36. Exact in real arithmetic; in f32 its error is that of a few more
//! additions, far below what the larger tiles cost.
//!
//! ```text
//! forward          Y  = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A       per tile: d 4x4 input, g 3x3 weights, Y 2x2
//! weight gradient  dg = Gᵀ [ Σ_tiles (A dY Aᵀ) ⊙ (Bᵀ d B) ] G
//!
//!      | 1  0 -1  0 |       | 1   0   0  |        | 1  1  1  0 |
//! Bᵀ = | 0  1  1  0 |   G = | ½   ½   ½  |   Aᵀ = | 0  1 -1 -1 |
//!      | 0 -1  1  0 |       | ½  -½   ½  |
//!      | 0  1  0 -1 |       | 0   0   1  |
//! ```
//!
//! Summed over input channels, each of the 16 positions of a tile is a matrix product of tiles by
//! channels. Tiles are taken in blocks whose transforms stay in the second-level cache.
//! After Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.

use super::conv::ConvShape;
use super::matmul::{Epilogue, OuterProducts, RowsTimesMatrix, Runs};
use super::parallel::{Output, Parts, for_each_task};
use super::scratch;
use super::simd::{Isa, Kernel, Simd};

/// What a shape's channels must be, multiplied, for the transforms to pay: in a forward pass, and in a
/// weight gradient, whose direct form is the better of the two direct forms. Measured on Zen 4.
pub(crate) const FORWARD_PAYS: usize = 128;
pub(crate) const WEIGHT_GRADIENT_PAYS: usize = 1024;

/// The instruction set to use if the shape gains from Winograd's form, else none: channels must fill
/// whole vectors, and their product reach `pays`.
pub(crate) fn suits(isa: Isa, shape: ConvShape, pays: usize) -> Option<Isa> {
    let fits =
        |isa: Isa| [shape.inputs, shape.outputs].iter().all(|channels| channels.is_multiple_of(isa.lanes()));
    let enough = shape.inputs * shape.outputs >= pays;
    [isa, isa.for_channels(8)].into_iter().find(|&isa| enough && fits(isa))
}

/// Values of cache a block of transformed tiles may take (about 3/4 of a common 1 MiB second level).
const BLOCK_VALUES: usize = 192 * 1024;

/// Values between two positions of `count` transformed tiles: a cache line more than they need, since
/// positions a power of two apart would fall into the same few sets of the cache.
fn position_stride(count: usize, channels: usize) -> usize {
    count * channels + 16
}

/// The tiles of all images, numbered row by row.
#[derive(Clone, Copy)]
struct Tiles {
    shape: ConvShape,
    across: usize,
    down: usize,
    count: usize,
}

impl Tiles {
    fn new(shape: ConvShape) -> Self {
        let (across, down) = (shape.width.div_ceil(2), shape.height.div_ceil(2));
        Self { shape, across, down, count: shape.batch * across * down }
    }

    /// Image, and the tile's first output row and column.
    #[inline(always)]
    fn place(self, tile: usize) -> (usize, usize, usize) {
        let (row, column) = (tile / self.across, tile % self.across);
        (row / self.down, row % self.down * 2, column * 2)
    }

    /// Tiles per block for `values` transformed values a tile: whole register blocks, and no more
    /// than leaves a few tasks.
    fn per_block(self, values: usize, budget: usize) -> usize {
        (budget / values).min(self.count.div_ceil(4)).clamp(12, 384).next_multiple_of(12)
    }
}

/// A square of pixels: where it starts and how far apart its rows are (its columns lie side by side).
#[derive(Clone, Copy)]
struct Square {
    start: *const f32,
    row_stride: usize,
}

impl Tiles {
    /// The `N` x `N` pixels of an image from (`top`, `left`) on, which may lie outside by one: in place
    /// where they are all inside, else copied into `border` with zeros around.
    ///
    /// # Safety
    /// `image` must hold the batch with `channels` channels, `border` N·N·channels values.
    #[inline(always)]
    unsafe fn square<const N: usize>(
        self,
        values: &[f32],
        channels: usize,
        (image, top, left): (usize, isize, isize),
        border: *mut f32,
    ) -> Square {
        let (height, width) = (self.shape.height as isize, self.shape.width as isize);
        let n = N as isize;
        let start = ((image as isize * height + top) * width + left) * channels as isize;
        if top >= 0 && left >= 0 && top + n <= height && left + n <= width {
            // SAFETY: all N rows and columns are inside the image, as just checked.
            let start = unsafe { values.as_ptr().offset(start) };
            return Square { start, row_stride: self.shape.width * channels };
        }
        for i in 0..n {
            for j in 0..n {
                // SAFETY: `border` has room for N·N pixels; pixels are read only where inside.
                unsafe {
                    let to = border.offset((i * n + j) * channels as isize);
                    if top + i >= 0 && top + i < height && left + j >= 0 && left + j < width {
                        let from = values.as_ptr().offset(start + (i * width + j) * channels as isize);
                        std::ptr::copy_nonoverlapping(from, to, channels);
                    } else {
                        std::ptr::write_bytes(to, 0, channels);
                    }
                }
            }
        }
        Square { start: border, row_stride: N * channels }
    }

    /// The 4x4 input pixels of a tile.
    ///
    /// # Safety
    /// As [`Self::square`].
    #[inline(always)]
    unsafe fn input(self, x: &[f32], tile: usize, border: *mut f32) -> Square {
        let (image, top, left) = self.place(tile);
        // SAFETY: forwarded.
        unsafe {
            self.square::<4>(x, self.shape.inputs, (image, top as isize - 1, left as isize - 1), border)
        }
    }
}

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

/// `Bᵀ` applied to four vectors.
#[inline(always)]
fn input_combine<S: Simd>(s: S, d: [S::V; 4]) -> [S::V; 4] {
    [s.sub(d[0], d[2]), s.add(d[1], d[2]), s.sub(d[2], d[1]), s.sub(d[1], d[3])]
}

/// `out = epilogue(x ⋆ weights)`.
pub(crate) fn forward(
    isa: Isa,
    shape: ConvShape,
    x: &[f32],
    weights: &[f32],
    epilogue: Epilogue,
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
    epilogue: Epilogue<'a>,
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
                    bias: None,
                    residual: None,
                    relu: false,
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
            // rows and columns inside the image belong to this tile alone, and the residual is laid out
            // as the output is (`forward` checked the sizes).
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
                            s.store(out.add(at), value);
                        }
                    }
                }
            }
        }
    }
}

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
