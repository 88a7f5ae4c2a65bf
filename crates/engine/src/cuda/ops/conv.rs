//! Convolutions, forward and backward, on the tensor cores.

use super::reduce::{Masked, mask_and_sum};
use super::{arg, buffer, converted, element, empty, optional, sum_parts};
use crate::cuda::{Arg, Buffer, Cuda, Element, Grid};
use crate::tape::Var;
use crate::tensor::Tensor;
use std::sync::Arc;

/// Pixels of a tile.
const TILE: usize = 128;
/// Pixels of a tile and its neighbours that a block can copy.
const MOST_HALO: usize = 256;
/// Bytes of a row of the convolution's tiles in shared memory.
const ROW: usize = 80;
/// Outputs of at most so many channels are logits, which stay f32.
const LOGITS: usize = 4;

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
    fn tiling(self) -> Tiling {
        let border = self.kernel - 1;
        let halo = |[h, w]: [usize; 2]| (h + border) * (w + border);
        let cut = |w: usize| {
            let most = (MOST_HALO / (w + border)).saturating_sub(border).min(TILE / w);
            let tile = [most.clamp(1, self.height), w];
            Tiling { tile, tiles: [self.height.div_ceil(tile[0]), self.width.div_ceil(w)] }
        };
        let cost = |t: &Tiling| {
            let count = t.tiles[0] * t.tiles[1];
            // Rows of eight pixels meet eight banks; others cost a little.
            (count * 1000 + count * halo(t.tile) * if t.tile[1].is_multiple_of(8) { 1 } else { 2 }, t.tile[1])
        };
        (1..=self.width.min(TILE))
            .map(cut)
            .filter(|t| halo(t.tile) <= MOST_HALO)
            .min_by_key(cost)
            .expect("a tile of one column is small enough")
    }

    fn halo(self, tiling: Tiling) -> usize {
        (tiling.tile[0] + self.kernel - 1) * (tiling.tile[1] + self.kernel - 1)
    }

    fn tiling_arg(self, t: Tiling) -> Arg {
        let sizes = [self.batch, self.height, self.width, t.tile[0], t.tile[1], t.tiles[0], t.tiles[1]];
        Arg::Ints(sizes.map(|size| size as i32))
    }
}

/// `x ∗ weight (+ bias) (+ residual) (relu)`; the weight is [taps, outputs, inputs].
fn run(
    shape: ConvShape,
    x: &Tensor,
    weight: &Buffer,
    bias: Option<&Tensor>,
    residual: Option<&Tensor>,
    relu: bool,
    flip: bool,
    out: &Tensor,
) {
    let cuda = buffer(x).cuda();
    let tiling = shape.tiling();
    // The widest block that the channels fill.
    let block =
        [128, 64].into_iter().find(|&n| shape.outputs.div_ceil(n) * n < shape.outputs + 32).unwrap_or(32);
    let (together, size) = (if shape.kernel == 3 { 3 } else { 1 }, element(x).size());
    let images = if shape.inputs * size > 64 { 2 } else { 1 };
    let copies = (images * shape.halo(tiling) + 2 * together * block) * ROW;
    let staged = TILE * (block + 8) * 4;
    let [down, across] = tiling.tiles;
    let grid = Grid {
        shared: copies.max(staged),
        ..Grid::blocks(shape.batch * down * across, shape.outputs.div_ceil(block), 1)
    };
    let kernel = format!("conv<{}, {}, {block}>", cuda.precision().name(), shape.taps());
    let args = [
        arg(x),
        weight.arg(),
        optional(bias),
        optional(residual),
        arg(out),
        shape.tiling_arg(tiling),
        Arg::size(shape.inputs),
        Arg::size(shape.outputs),
        Arg::flag(relu),
        Arg::flag(flip),
        Arg::flag(element(out) == Element::F32),
    ];
    cuda.launch(&kernel, grid, &args);
}

/// The gradient of the weights, [taps, inputs, outputs].
fn weight_gradient(shape: ConvShape, x: &Tensor, dy: &Tensor, like: &Tensor) -> Tensor {
    let cuda = buffer(x).cuda();
    let tiling = shape.tiling();
    let (inputs, outputs, taps) = (shape.inputs, shape.outputs, shape.taps());
    let [m, n] = match (inputs, outputs) {
        (..=16, _) => [16, 32],
        (64.., 64..) => [64, 64],
        _ => [32, 32],
    };
    let size = element(x).size();
    let padding = if size == 2 { 16 } else { 32 };
    let stage = shape.halo(tiling) * (m * size + padding) + TILE * (n * size + padding);
    let warps_k = 8 / (m / 16 * 2);
    let blocks = inputs.div_ceil(m) * outputs.div_ceil(n);
    let tiles = shape.batch * tiling.tiles[0] * tiling.tiles[1];
    let per_multiprocessor = if m == 64 { 1 } else { 2 };
    let splits = (cuda.multiprocessors() * per_multiprocessor / blocks).clamp(1, tiles);
    let volume = taps * inputs * outputs;
    let partial = empty(cuda, [splits * warps_k, volume], Element::F32);
    let kernel = format!("conv_weight<{}, {taps}, {m}, {n}>", cuda.precision().name());
    let grid = Grid { shared: 2 * stage, ..Grid::blocks(splits, inputs.div_ceil(m), outputs.div_ceil(n)) };
    let args =
        [arg(x), arg(dy), arg(&partial), shape.tiling_arg(tiling), Arg::size(inputs), Arg::size(outputs)];
    cuda.launch(&kernel, grid, &args);
    sum_parts(&partial, 1, splits * warps_k, like.shape(), 1.0)
}

/// A convolution's weights in the activations' type; `swapped`: [taps, outputs, inputs].
fn twin(weight: &Tensor, swapped: bool) -> Arc<Buffer> {
    let held = buffer(weight);
    held.twin(swapped, || {
        let cuda: &Cuda = held.cuda();
        let to = cuda.precision().activation();
        let out = Buffer::new(cuda, held.len(), to);
        let [_, _, inputs, outputs] = weight.shape().image("a convolution's weight");
        let kernel = format!("weight_twin<{}>", to.name());
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
    shape: ConvShape,
) -> Var {
    let cuda = buffer(x.tensor()).cuda().clone();
    let activation = cuda.precision().activation();
    let given = element(x.tensor());
    let image = converted(x.tensor(), activation);
    let out_element = if shape.outputs <= LOGITS { Element::F32 } else { activation };
    let out = empty(&cuda, [shape.batch, shape.height, shape.width, shape.outputs], out_element);
    let added = residual.map(|residual| converted(residual.tensor(), activation));
    let (bias_tensor, weights) = (bias.map(Var::tensor), twin(weight.tensor(), true));
    run(shape, &image, &weights, bias_tensor, added.as_ref(), relu, false, &out);

    let (w, y) = (weight.tensor().clone(), relu.then(|| out.clone()));
    let (to_x, to_w) = (x.target(), weight.target());
    let (to_bias, to_residual) = (bias.and_then(Var::target), residual.and_then(Var::target));
    let mut operands = vec![x, weight];
    operands.extend(bias);
    operands.extend(residual);
    Var::record(&operands, out, move |dy, flow| {
        let Masked { dy, sums } =
            mask_and_sum(dy, y.as_ref(), activation, shape.outputs, 1, to_bias.is_some(), 1.0);
        drop(y);
        if let Some(sums) = sums {
            flow.add(to_bias, || sums.reshaped([shape.outputs]));
        }
        flow.sum(to_x, |so_far| {
            let back = ConvShape { inputs: shape.outputs, outputs: shape.inputs, ..shape };
            let dx = empty(&cuda, image.shape(), given);
            // What has already come is added as a residual, which spares a sweep.
            let so_far = so_far.map(|so_far| converted(&so_far, activation));
            run(back, &dy, &twin(&w, false), None, so_far.as_ref(), false, true, &dx);
            dx
        });
        flow.add(to_w, || weight_gradient(shape, &image, &dy, &w));
        flow.add(to_residual, || dy);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_image_and_fit_a_block() {
        for (height, width) in [(160, 160), (80, 80), (40, 40), (20, 20), (1, 1), (7, 300), (45, 3), (500, 1)]
        {
            for kernel in [1, 3] {
                let shape = ConvShape { batch: 1, height, width, inputs: 8, outputs: 8, kernel };
                let t = shape.tiling();
                assert!(t.tile[0] * t.tile[1] <= TILE && shape.halo(t) <= MOST_HALO, "{shape:?}: {t:?}");
                let covered = [0, 1].map(|i| t.tiles[i] * t.tile[i]);
                assert!(covered[0] >= height && covered[1] >= width, "{shape:?}: {t:?}");
            }
        }
        let paper = |size| {
            let shape = ConvShape { batch: 1, height: size, width: size, inputs: 8, outputs: 8, kernel: 3 };
            let [down, across] = shape.tiling().tiles;
            (size * size) as f64 / (down * across * TILE) as f64
        };
        assert!([160, 80, 40, 20].iter().all(|&size| paper(size) > 0.75), "share of a tile that is used");
    }
}
