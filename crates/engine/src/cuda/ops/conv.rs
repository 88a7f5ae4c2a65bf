//! Convolutions, forward and backward, on the tensor cores.

use super::reduce::{Masked, mask_and_sum};
use super::{arg, buffer, converted, element, empty, optional, sum_parts};
use crate::cuda::{Arg, Buffer, Cuda, Element, Grid, Precision};
use crate::ops::conv::Output;
use crate::shape::Shape;
use crate::tape::Var;
use crate::tensor::Tensor;
use std::sync::Arc;

/// The most pixels of a tile, and of a tile with its neighbours.
#[derive(Debug, Clone, Copy)]
struct Limits {
    tile: usize,
    halo: usize,
}

/// The kernels could take a halo of 256. This one only makes tiles smaller that are at most three pixels high or
/// wide, and lets bf16 fit GPUs that give a block 99 KiB of shared memory.
const TILE: Limits = Limits { tile: 128, halo: 216 };
/// Of the kernel for few channels.
const WIDE_TILE: Limits = Limits { tile: 256, halo: 330 };
/// The kernels number pixels by 32 bits.
const MOST_PIXELS: usize = i32::MAX as usize;
/// Bytes of a row of the convolution's tiles in shared memory.
const ROW: usize = 80;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ConvShape {
    pub batch: usize,
    pub height: usize,
    pub width: usize,
    pub inputs: usize,
    pub outputs: usize,
    /// 1 or 3.
    pub kernel: usize,
}

/// How the pixels are cut into tiles.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tiling {
    tile: [usize; 2],
    tiles: [usize; 2],
}

impl ConvShape {
    fn taps(self) -> usize {
        self.kernel * self.kernel
    }

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
        let sizes = [self.batch, self.height, self.width, t.tile[0], t.tile[1], t.tiles[0], t.tiles[1]];
        Arg::sizes(sizes)
    }
}

/// Chunks of 64 bytes of channels that the kernel for few channels takes at most.
const NARROW_CHUNKS: usize = 2;

/// Bytes of shared memory: all weights of 32 outputs, and two tiles with their neighbours.
fn narrow_shared(chunks: usize, taps: usize, halo: usize) -> usize {
    (chunks * taps * 32 + 2 * halo) * ROW
}

/// Of the kernel for many channels: tiles and weights of the present and the next step, then the results.
fn conv_shared(chunks: usize, taps: usize, halo: usize, block: usize) -> usize {
    let together = if taps == 9 { 3 } else { 1 };
    let copies = (chunks.min(2) * halo + 2 * together * block) * ROW;
    copies.max(TILE.tile * (block + 8) * 4)
}

/// Of the weight gradient's: tiles of both operands, for the present and the next step.
fn weight_shared(halo: usize, [m, n]: [usize; 2], element: Element) -> usize {
    let size = element.size();
    let padding = if size == 2 { 16 } else { 32 };
    2 * (halo * (m * size + padding) + TILE.tile * (n * size + padding))
}

/// The most shared memory that any of these kernels asks for in a precision.
pub(in crate::cuda) fn most_shared(precision: Precision) -> usize {
    let largest = [
        narrow_shared(NARROW_CHUNKS, 9, WIDE_TILE.halo),
        conv_shared(2, 9, TILE.halo, 128),
        weight_shared(TILE.halo, [64, 64], precision.activation()),
    ];
    largest.into_iter().max().unwrap_or_default()
}

/// What happens to a convolution's sums before they are written.
#[derive(Default)]
struct Epilogue<'a> {
    bias: Option<&'a Tensor>,
    residual: Option<&'a Tensor>,
    relu: bool,
    /// The result is dropped where this is not positive.
    mask: Option<&'a Tensor>,
}

/// `x ∗ weight`, and the epilogue; the weight is [taps, outputs, inputs], `flip` turns it around.
fn run(shape: ConvShape, x: &Tensor, weight: &Buffer, epilogue: &Epilogue, flip: bool, out: &Tensor) {
    let cuda = buffer(x).cuda();
    let (precision, taps) = (cuda.precision().name(), shape.taps());
    // The widest block that the channels fill.
    let fills = |&n: &usize| shape.outputs.div_ceil(n) * n < shape.outputs + 32;
    let block = [128, 64].into_iter().find(fills).unwrap_or(32);
    let chunks = (shape.inputs * element(x).size()).div_ceil(64);
    let (kernel, tiling, grid);
    if block == 32 && chunks <= NARROW_CHUNKS {
        tiling = shape.tiling(WIDE_TILE);
        kernel = format!("conv_narrow<{precision}, {taps}>");
        let shared = narrow_shared(chunks, taps, shape.halo(tiling));
        let tiles = shape.batch * tiling.tiles[0] * tiling.tiles[1];
        let columns = shape.outputs.div_ceil(32);
        // As many blocks as can be at work at once, by their shared memory and their registers.
        let together = (cuda.shared_bytes() / (shared + 2400)).clamp(1, 3);
        let blocks = (cuda.multiprocessors() * together).div_ceil(columns).min(tiles);
        grid = Grid { shared, ..Grid::blocks(blocks, columns, 1) };
    } else {
        tiling = shape.tiling(TILE);
        kernel = format!("conv<{precision}, {taps}, {block}>");
        let shared = conv_shared(chunks, taps, shape.halo(tiling), block);
        let [down, across] = tiling.tiles;
        let blocks = Grid::blocks(shape.batch * down * across, shape.outputs.div_ceil(block), 1);
        grid = Grid { shared, ..blocks };
    }
    let args = [
        arg(x),
        weight.arg(),
        optional(epilogue.bias),
        optional(epilogue.residual),
        optional(epilogue.mask),
        arg(out),
        shape.tiling_arg(tiling),
        Arg::size(shape.inputs),
        Arg::size(shape.outputs),
        Arg::flag(epilogue.relu),
        Arg::flag(flip),
        Arg::flag(element(out) == Element::F32),
    ];
    cuda.launch(&kernel, grid, &args);
}

/// The gradients of the weights, [taps, inputs, outputs], and where asked for of the bias.
fn weight_gradient(
    shape: ConvShape,
    x: &Tensor,
    dy: &Tensor,
    like: &Tensor,
    bias: bool,
) -> (Tensor, Option<Tensor>) {
    let cuda = buffer(x).cuda();
    let tiling = shape.tiling(TILE);
    let (inputs, outputs, taps) = (shape.inputs, shape.outputs, shape.taps());
    let [m, n] = match (inputs, outputs) {
        (..=16, _) => [16, 32],
        (64.., 64..) => [64, 64],
        _ => [32, 32],
    };
    let shared = weight_shared(shape.halo(tiling), [m, n], element(x));
    let warps_k = 8 / (m / 16 * 2);
    let blocks = inputs.div_ceil(m) * outputs.div_ceil(n);
    let tiles = shape.batch * tiling.tiles[0] * tiling.tiles[1];
    let per_multiprocessor = if n == 64 { 1 } else { 2 };
    let splits = (cuda.multiprocessors() * per_multiprocessor / blocks).clamp(1, tiles);
    let parts = splits * warps_k;
    let partial = empty(cuda, [parts, taps * inputs * outputs], Element::F32);
    let bias_partial = bias.then(|| empty(cuda, [parts, outputs], Element::F32));
    let kernel = format!("conv_weight<{}, {taps}, {m}, {n}>", cuda.precision().name());
    let grid = Grid { shared, ..Grid::blocks(splits, inputs.div_ceil(m), outputs.div_ceil(n)) };
    let args = [
        arg(x),
        arg(dy),
        arg(&partial),
        optional(bias_partial.as_ref()),
        shape.tiling_arg(tiling),
        Arg::size(inputs),
        Arg::size(outputs),
    ];
    cuda.launch(&kernel, grid, &args);
    let bias = bias_partial.map(|partial| sum_parts(&partial, 1, parts, [outputs], 1.0));
    (sum_parts(&partial, 1, parts, like.shape(), 1.0), bias)
}

/// A convolution's weights in the activations' type; `swapped`: [taps, outputs, inputs].
fn twin(weight: &Tensor, swapped: bool) -> Arc<Buffer> {
    let held = buffer(weight);
    held.twin(swapped, || {
        let cuda: &Cuda = held.cuda();
        let to = cuda.precision().activation();
        let out = Buffer::new(cuda, held.len(), to);
        let [_, _, inputs, outputs] = weight.shape().image("a convolution's weight");
        let kernel = format!("weight_twin<{}>", cuda.precision().name());
        let args = [
            held.arg(),
            out.arg(),
            Arg::size(inputs),
            Arg::size(outputs),
            Arg::flag(swapped),
            Arg::size(held.len()),
        ];
        cuda.launch(&kernel, Grid::blocks(held.len().div_ceil(256), 1, 1), &args);
        out
    })
}

pub(crate) fn convolve(
    x: &Var,
    weight: &Var,
    bias: Option<&Var>,
    residual: Option<&Var>,
    relu: bool,
    output: Output,
    shape: ConvShape,
) -> Var {
    let pixels = Shape::from([shape.batch, shape.height, shape.width]).volume();
    assert!(pixels <= MOST_PIXELS, "conv2d: {pixels} pixels at once, a GPU takes {MOST_PIXELS}: {shape:?}");
    let cuda = buffer(x.tensor()).cuda().clone();
    let activation = cuda.precision().activation();
    let given = element(x.tensor());
    let image = converted(x.tensor(), activation);
    let out_element = match output {
        Output::Activation => activation,
        Output::Logits => Element::F32,
    };
    let out = empty(&cuda, [shape.batch, shape.height, shape.width, shape.outputs], out_element);
    let added = residual.map(|residual| converted(residual.tensor(), activation));
    let epilogue = Epilogue { bias: bias.map(Var::tensor), residual: added.as_ref(), relu, mask: None };
    run(shape, &image, &twin(weight.tensor(), true), &epilogue, false, &out);

    let (w, y) = (weight.tensor().clone(), relu.then(|| out.clone()));
    let (to_x, to_w) = (x.target(), weight.target());
    let after_relu = x.ends_in_relu() && given == activation;
    let (to_bias, to_residual) = (bias.and_then(Var::target), residual.and_then(Var::target));
    let mut operands = vec![x, weight];
    operands.extend(bias);
    operands.extend(residual);
    Var::record(&operands, out, move |dy, flow| {
        let y = y.filter(|_| !flow.is_masked());
        let sums_here = to_bias.is_some() && to_w.is_none();
        let Masked { dy, sums } = mask_and_sum(dy, y.as_ref(), activation, shape.outputs, 1, sums_here, 1.0);
        drop(y);
        if let Some(sums) = sums {
            flow.add(to_bias, || sums.reshaped([shape.outputs]));
        }
        flow.sum(to_x, after_relu, |so_far: Option<Tensor>| {
            let back = ConvShape { inputs: shape.outputs, outputs: shape.inputs, ..shape };
            let dx = empty(&cuda, image.shape(), given);
            // What has already come is added as a residual, which spares a sweep.
            let so_far = so_far.map(|so_far| converted(&so_far, activation));
            let mask = after_relu.then_some(&image);
            let epilogue = Epilogue { residual: so_far.as_ref(), mask, ..Epilogue::default() };
            run(back, &dy, &twin(&w, false), &epilogue, true, &dx);
            dx
        });
        if to_w.is_some() {
            let (dw, db) = weight_gradient(shape, &image, &dy, &w, to_bias.is_some());
            flow.add(to_w, || dw);
            if let Some(db) = db {
                flow.add(to_bias, || db);
            }
        }
        flow.add(to_residual, || dy);
    })
    .ending_in_relu(relu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_image_and_fit_a_block() {
        for (height, width) in [(160, 160), (80, 80), (40, 40), (20, 20), (1, 1), (7, 300), (45, 3), (500, 1)]
        {
            for (kernel, limits) in [(1, TILE), (3, TILE), (1, WIDE_TILE), (3, WIDE_TILE)] {
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
            let [down, across] = shape.tiling(TILE).tiles;
            (size * size) as f64 / (down * across * TILE.tile) as f64
        };
        assert!([160, 80, 40, 20].iter().all(|&size| paper(size) > 0.75), "share of a tile that is used");
    }
}
