//! Convolutions on the tensor cores: how the pixels are cut into tiles, and the launches.

use super::launch::{MOST, WARPS, within};
use super::memory::Parts;
use super::tensors::{arg, buffer, optional};
use super::{Arg, Buffer, Cuda, Grid, Precision, fail};
use crate::backend::{ConvShape, Element, Epilogue, Memory};
use crate::shape::Shape;
use crate::tensor::Tensor;
use std::sync::Arc;

/// The most pixels of a tile, and of a tile with its neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub tile: usize,
    pub halo: usize,
}

/// The kernels could take a halo of 256. This one only makes tiles smaller that are at most three pixels high or
/// wide, and leaves room on GPUs that give a block 99 KiB of shared memory.
pub(super) const TILE: Limits = Limits { tile: 128, halo: 216 };
/// Of the kernel for few channels.
pub(super) const LARGE_TILE: Limits = Limits { tile: 256, halo: 330 };
/// Bytes between rows of 64 in shared memory: 16 more, so that eight rows meet eight banks.
pub(super) const ROW: usize = 80;
/// Values between lines of results in shared memory.
pub(super) const RESULT_PADDING: usize = 8;
/// Bytes between rows of the weight gradient's tiles, in bf16 and in f32.
pub(super) const BF16_PADDING: usize = 16;
pub(super) const F32_PADDING: usize = 32;

/// How the pixels are cut into tiles.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tiling {
    tile: [usize; 2],
    tiles: [usize; 2],
}

impl ConvShape {
    /// The fewest tiles that cover the image, and of those the ones with the fewest neighbours.
    fn tiling(self, limits: Limits) -> Tiling {
        let border = self.kernel - 1;
        let halo = |[h, w]: [usize; 2]| (h + border) * (w + border);
        let cut = |w: usize| {
            let most = (limits.halo / (w + border)).saturating_sub(border).min(limits.tile / w);
            let tile = [most.clamp(1, self.height), w];
            Tiling { tile, tiles: [self.height.div_ceil(tile[0]), self.width.div_ceil(w)] }
        };
        let cost = |t: &Tiling| {
            let count = t.tiles[0] * t.tiles[1];
            // Rows of eight pixels meet eight banks; others cost a little.
            (count * 1000 + count * halo(t.tile) * if t.tile[1].is_multiple_of(8) { 1 } else { 2 }, t.tile[1])
        };
        (1..=self.width.min(limits.tile))
            .map(cut)
            .filter(|t| halo(t.tile) <= limits.halo)
            .min_by_key(cost)
            .expect("a tile of one column is small enough")
    }

    fn halo(self, tiling: Tiling) -> usize {
        (tiling.tile[0] + self.kernel - 1) * (tiling.tile[1] + self.kernel - 1)
    }

    fn tiling_arg(self, t: Tiling) -> Arg {
        let sizes = [self.batch, self.height, self.width, t.tile[0], t.tile[1], t.tiles[0], t.tiles[1], 0];
        Arg::sizes(sizes)
    }
}

/// The kernels number pixels by 32 bits.
fn check_pixels(shape: ConvShape) {
    let [n, h, w] = [shape.batch, shape.height, shape.width];
    let what = format!("the number of pixels of a convolution of {n} images of {h}x{w}");
    within(&what, shape.pixels(), MOST).unwrap_or_else(|error| fail(error));
}

/// A gradient whose parts are added up when it is needed.
pub(super) fn unsummed(partial: Buffer, count: usize, shape: impl Into<Shape>) -> Tensor {
    Tensor::of_gpu(Buffer::of_parts(Parts { partial, count }), shape.into())
}

/// Chunks of 64 bytes of channels that the kernel for few channels takes at most.
const NARROW_CHUNKS: usize = 2;
/// Channels out that a block of it computes.
pub(super) const NARROW_OUTPUTS: usize = 32;

/// Bytes of shared memory: all weights of a block's outputs, and two tiles with their neighbours.
fn narrow_shared(chunks: usize, taps: usize, halo: usize) -> usize {
    (chunks * taps * NARROW_OUTPUTS + 2 * halo) * ROW
}

/// Of the kernel for many channels: taps whose weights are in shared memory, a row of the kernel.
fn taps_at_once(taps: usize) -> usize {
    if taps == 9 { 3 } else { 1 }
}

/// Its name, for blocks of so many channels out.
pub(super) fn conv_kernel(precision: Precision, taps: usize, block: usize) -> String {
    format!("conv<{}, {taps}, {}, {block}>", precision.name(), taps_at_once(taps))
}

/// Tiles and weights of the present and the next step, then the results.
fn conv_shared(chunks: usize, taps: usize, halo: usize, block: usize) -> usize {
    let copies = (chunks.min(2) * halo + 2 * taps_at_once(taps) * block) * ROW;
    copies.max(TILE.tile * (block + RESULT_PADDING) * 4)
}

/// Warps of a block of the weight gradient's that share its pixels, for so many channels in: each 16 of these and each
/// half of the channels out take another warp.
fn warps_k(inputs: usize) -> usize {
    WARPS / (inputs / 16 * 2)
}

/// The name of the weight gradient's kernel, for blocks of so many channels in and out.
pub(super) fn weight_kernel(precision: Precision, taps: usize, [m, n]: [usize; 2]) -> String {
    format!("conv_weight<{}, {taps}, {m}, {n}, {}>", precision.name(), warps_k(m))
}

/// Of the weight gradient's: tiles of both operands, for the present and the next step.
fn weight_shared(halo: usize, [m, n]: [usize; 2], element: Element) -> usize {
    let size = element.size();
    let padding = if element == Element::Bf16 { BF16_PADDING } else { F32_PADDING };
    2 * (halo * (m * size + padding) + TILE.tile * (n * size + padding))
}

/// Channels in and out that a block of the weight gradient's kernel takes, and its tile: the largest that the shared
/// memory has room for, and none where there is too little for any.
fn weight_tile(
    inputs: usize,
    outputs: usize,
    element: Element,
    shared: usize,
) -> Option<([usize; 2], Limits)> {
    let wanted = match (inputs, outputs) {
        (..=16, _) => [16, 32],
        (64.., 64..) => [64, 64],
        _ => [32, 32],
    };
    let smaller = wanted.map(|size| size.min(32));
    let choices = [(wanted, TILE.halo), (smaller, TILE.halo), (smaller, 180), (smaller, 144)];
    let fits = |&(channels, halo): &([usize; 2], usize)| weight_shared(halo, channels, element) <= shared;
    choices.into_iter().find(fits).map(|(channels, halo)| (channels, Limits { halo, ..TILE }))
}

/// The least shared memory that all of these kernels can do with in a precision.
pub(super) fn needed_shared(precision: Precision) -> usize {
    let convs = narrow_shared(NARROW_CHUNKS, 9, LARGE_TILE.halo).max(conv_shared(2, 9, TILE.halo, 128));
    convs.max(weight_shared(144, [32, 32], precision.activation()))
}

impl Cuda {
    /// `epilogue(x ∗ weight)`; `flipped`: with the weight turned around and its channels swapped.
    pub(super) fn run_conv(
        &self,
        shape: ConvShape,
        x: &Tensor,
        weight: &Tensor,
        flipped: bool,
        epilogue: Epilogue,
        to: Element,
    ) -> Tensor {
        check_pixels(shape);
        // The kernel takes [taps, outputs, inputs], which is how the weights lie for the backward pass.
        let (out, weight) = (self.empty(shape.output_shape(), to), self.weight_cast(weight, !flipped));
        if self.takes_hopper_conv(shape, x.element()) {
            self.run_hopper_conv(shape, x, &weight, flipped, epilogue, &out);
            return out;
        }
        let (precision, taps) = (self.precision(), shape.taps());
        // The widest block that the channels fill.
        let fills = |&n: &usize| shape.outputs.div_ceil(n) * n < shape.outputs + 32;
        let block = [128, 64].into_iter().find(fills).unwrap_or(32);
        let chunks = (shape.inputs * x.element().size()).div_ceil(64);
        let (kernel, tiling, grid);
        if block == NARROW_OUTPUTS && chunks <= NARROW_CHUNKS {
            tiling = shape.tiling(LARGE_TILE);
            kernel = format!("conv_narrow<{}, {taps}>", precision.name());
            let shared = narrow_shared(chunks, taps, shape.halo(tiling));
            let tiles = shape.batch * tiling.tiles[0] * tiling.tiles[1];
            let columns = shape.outputs.div_ceil(NARROW_OUTPUTS);
            // Blocks that a multiprocessor holds at once, by their shared memory and their registers.
            let occupancy = (self.shared_bytes() / (shared + 2400)).clamp(1, 3);
            let blocks = (self.multiprocessors() * occupancy).div_ceil(columns).min(tiles);
            grid = Grid { shared, ..Grid::blocks(blocks, columns, 1) };
        } else {
            tiling = shape.tiling(TILE);
            kernel = conv_kernel(precision, taps, block);
            let shared = conv_shared(chunks, taps, shape.halo(tiling), block);
            let tiles = shape.batch * tiling.tiles[0] * tiling.tiles[1];
            grid = Grid { shared, ..Grid::blocks(tiles, shape.outputs.div_ceil(block), 1) };
        }
        let args = [
            arg(x),
            weight.arg(),
            optional(epilogue.bias),
            optional(epilogue.residual),
            optional(epilogue.mask),
            arg(&out),
            shape.tiling_arg(tiling),
            Arg::size(shape.inputs),
            Arg::size(shape.outputs),
            Arg::flag(epilogue.relu),
            Arg::flag(flipped),
            Arg::flag(to == Element::F32),
        ];
        self.launch(&kernel, grid, &args);
        out
    }

    /// The gradients of the weights, [taps, inputs, outputs], and where asked for of the bias.
    pub(super) fn run_conv_weight(
        &self,
        shape: ConvShape,
        x: &Tensor,
        dy: &Tensor,
        bias: bool,
    ) -> (Tensor, Option<Tensor>) {
        check_pixels(shape);
        if self.takes_hopper_weight(shape) {
            return self.run_hopper_weight(shape, x, dy, bias);
        }
        let (inputs, outputs, taps) = (shape.inputs, shape.outputs, shape.taps());
        let ([m, n], limits) = weight_tile(inputs, outputs, x.element(), self.shared_per_block())
            .expect("a device with too little shared memory is not opened");
        let tiling = shape.tiling(limits);
        let shared = weight_shared(shape.halo(tiling), [m, n], x.element());
        let blocks = inputs.div_ceil(m) * outputs.div_ceil(n);
        let tiles = shape.batch * tiling.tiles[0] * tiling.tiles[1];
        let per_multiprocessor = if n == 64 { 1 } else { 2 };
        let splits = (self.multiprocessors() * per_multiprocessor / blocks).clamp(1, tiles);
        let parts = splits * warps_k(m);
        let floats = |size: usize| Buffer::new(self, parts * size, Element::F32);
        let (partial, bias_partial) = (floats(taps * inputs * outputs), bias.then(|| floats(outputs)));
        let kernel = weight_kernel(self.precision(), taps, [m, n]);
        let grid = Grid { shared, ..Grid::blocks(splits, inputs.div_ceil(m), outputs.div_ceil(n)) };
        let args = [
            arg(x),
            arg(dy),
            partial.arg(),
            bias_partial.as_ref().map_or(Arg::NULL, Buffer::arg),
            shape.tiling_arg(tiling),
            Arg::size(inputs),
            Arg::size(outputs),
        ];
        self.launch(&kernel, grid, &args);
        let bias = bias_partial.map(|partial| unsummed(partial, parts, [outputs]));
        (unsummed(partial, parts, shape.weight_shape()), bias)
    }

    /// A convolution's weights in the activations' type; `swapped`: [taps, outputs, inputs]. Made when first needed
    /// and kept until the weights change.
    fn weight_cast(&self, weight: &Tensor, swapped: bool) -> Arc<Buffer> {
        let held = buffer(weight);
        held.cached_cast(swapped, || {
            let out = Buffer::new(self, held.len(), self.precision().activation());
            let [_, _, inputs, outputs] = weight.shape().image("a convolution's weight");
            let mut args = vec![held.arg(), out.arg(), Arg::size(inputs), Arg::size(outputs)];
            args.extend([Arg::flag(swapped), Arg::size(held.len())]);
            let kernel = format!("cast_weights<{}>", self.precision().name());
            self.launch(&kernel, Grid::blocks(held.len().div_ceil(256), 1, 1), &args);
            out
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::catching;

    #[test]
    fn more_pixels_than_32_bits_count_are_an_error_that_names_the_images() {
        let shape = |batch| ConvShape { batch, height: 1024, width: 1024, inputs: 1, outputs: 1, kernel: 3 };
        assert_eq!(catching(|| check_pixels(shape(2047))), Ok(()));
        let text = catching(|| check_pixels(shape(2048))).unwrap_err().to_string();
        for wanted in ["2048 images of 1024x1024 is 2147483648", "at most 2147483647", "a smaller batch"] {
            assert!(text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn weight_gradients_take_the_largest_tiles_that_fit() {
        let tile = |channels, element, kib: usize| {
            let (channels, limits) =
                weight_tile(channels, channels, element, (kib << 10) - 2048).expect("room");
            (channels, limits.halo)
        };
        for kib in [99, 163, 227] {
            assert_eq!(tile(64, Element::Bf16, kib), ([64, 64], 216));
            assert_eq!(tile(16, Element::Bf16, kib), ([16, 32], 216));
        }
        assert_eq!(tile(64, Element::F32, 227), ([64, 64], 216));
        assert_eq!(tile(64, Element::F32, 163), ([32, 32], 216));
        assert_eq!(tile(64, Element::F32, 99), ([32, 32], 180));
        assert!(weight_tile(64, 64, Element::F32, 48 << 10).is_none());
    }

    #[test]
    fn tiles_cover_the_image_and_fit_a_block() {
        for (height, width) in [(160, 160), (80, 80), (40, 40), (20, 20), (1, 1), (7, 300), (45, 3), (500, 1)]
        {
            for (kernel, limits) in [(1, TILE), (3, TILE), (1, LARGE_TILE), (3, LARGE_TILE)] {
                let shape = ConvShape { batch: 1, height, width, inputs: 8, outputs: 8, kernel };
                let t = shape.tiling(limits);
                let (tile, halo) = (t.tile[0] * t.tile[1], shape.halo(t));
                assert!(tile <= limits.tile && halo <= limits.halo, "{shape:?}: {t:?}");
                let covered = [0, 1].map(|i| t.tiles[i] * t.tile[i]);
                assert!(covered[0] >= height && covered[1] >= width, "{shape:?}: {t:?}");
            }
        }
        let paper = |size| {
            let shape = ConvShape { batch: 1, height: size, width: size, inputs: 8, outputs: 8, kernel: 3 };
            let [rows, columns] = shape.tiling(TILE).tiles;
            (size * size) as f64 / (rows * columns * TILE.tile) as f64
        };
        assert!([160, 80, 40, 20].iter().all(|&size| paper(size) > 0.75), "share of a tile that is used");
    }
}
