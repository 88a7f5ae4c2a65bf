//! The networks over an image that is too large to be computed whole: strip by strip of its rows, with the same
//! result.
//!
//! A convolution of a strip needs one more row above and below, which is computed twice. What stands in the way is the
//! group normalisation, whose mean and variance are those of the whole image: each normalisation of a level takes a
//! pass over all strips that only sums up, and is then part of the convolution before it (its scale goes into the
//! weights, its shift into the bias). Levels that fit are computed whole. Of the others only what enters the next
//! coarser level and what leaves the decoder is kept, in this machine's memory; the finer levels' features are
//! computed again where the decoder needs them.

use super::Model;
use super::blocks::{NORM_EPSILON, ResidualBlock};
use super::image_encoder::halved;
use multivalued_engine::{Corners, Device, Tape, Tensor, Var};
use rayon::prelude::*;
use std::ops::Range;

/// Rows that three 3x3 convolutions reach beyond their result.
const REACH: usize = 3;

/// Features of a whole image, channels last, in this machine's memory.
pub(crate) struct Field {
    pub size: [usize; 2],
    pub channels: usize,
    pub values: Vec<f32>,
}

impl Field {
    fn empty(size: [usize; 2], channels: usize) -> Self {
        Self { size, channels, values: Vec::with_capacity(size[0] * size[1] * channels) }
    }

    fn rows(&self, device: &Device, rows: Range<usize>) -> Var {
        let row = self.size[1] * self.channels;
        let shape = [1, rows.len(), self.size[1], self.channels];
        Var::constant(Tensor::from_slice(device, shape, &self.values[rows.start * row..rows.end * row]))
    }

    fn whole(&self, device: &Device) -> Var {
        self.rows(device, 0..self.size[0])
    }

    /// Adds rows below those that are there.
    fn push(&mut self, rows: &Var) {
        self.values.extend(rows.tensor().to_vec());
    }
}

/// Some rows with those that `reach` further, as far as there are any.
fn extended(rows: &Range<usize>, reach: usize, height: usize) -> Range<usize> {
    rows.start.saturating_sub(reach)..(rows.end + reach).min(height)
}

/// Of rows that were computed, those that were wanted.
fn cropped(x: &Var, computed: &Range<usize>, wanted: &Range<usize>) -> Var {
    if computed == wanted {
        return x.clone();
    }
    let [_, rows, width, channels] = *x.shape() else { unreachable!("features are images") };
    let numbers: Vec<usize> = (wanted.start - computed.start..wanted.end - computed.start).collect();
    let chosen = x.reshape([rows, width, channels]).gather_rows(&numbers);
    chosen.reshape([1, wanted.len(), width, channels])
}

/// Rows of a line that are the source of some rows of its resized one.
fn sources(from: usize, to: usize, rows: &Range<usize>) -> Range<usize> {
    let tap = |row: usize| Corners::HalfPixel.tap(from, to, row);
    tap(rows.start).0..tap(rows.end - 1).1 + 1
}

/// Some rows of an image in another height, from the rows `given` of it.
fn rows_resized(x: &Var, given: &Range<usize>, [from, to]: [usize; 2], rows: &Range<usize>) -> Var {
    let [_, _, width, channels] = *x.shape() else { unreachable!("features are images") };
    let mut weights = vec![0.0; rows.len() * given.len()];
    for (line, row) in weights.chunks_exact_mut(given.len()).zip(rows.clone()) {
        let (first, second, share) = Corners::HalfPixel.tap(from, to, row);
        line[first - given.start] += 1.0 - share;
        line[second - given.start] += share;
    }
    let weights = Tensor::from_slice(&x.device(), [rows.len(), given.len()], &weights);
    let resized = Var::constant(weights).matmul(&x.reshape([given.len(), width * channels]));
    resized.reshape([1, rows.len(), width, channels])
}

/// A residual block whose normalisations are those of the whole image.
struct StripBlock<'a> {
    block: &'a ResidualBlock,
    /// Weight and bias of the convolutions whose normalisation is known, with that in them.
    known: Vec<(Var, Var)>,
    height: usize,
}

impl<'a> StripBlock<'a> {
    fn new(tape: &Tape, block: &'a ResidualBlock, height: usize) -> Self {
        let plain = |at: usize| {
            let conv = &block.convs[at];
            (tape.get(conv.weight), tape.get(conv.bias))
        };
        let known = if block.norms.is_none() { (0..3).map(plain).collect() } else { Vec::new() };
        Self { block, known, height }
    }

    /// The inputs of convolution `at`.
    fn before(&self, at: usize, x: &Var) -> Var {
        self.known[..at].iter().fold(x.clone(), |x, (weight, bias)| x.conv2d_relu(weight, Some(bias)))
    }

    /// Sums up what the normalisations need: one pass over all strips for each of them. `input` gives rows of the
    /// block's input.
    fn learn(
        &mut self,
        tape: &Tape,
        strips: &[Range<usize>],
        input: &dyn Fn(Range<usize>) -> Var,
        told: &mut dyn FnMut(),
    ) {
        while self.known.len() < 3 {
            let at = self.known.len();
            let conv = &self.block.convs[at];
            let channels = tape.get(conv.bias).shape()[0];
            let mut sums = vec![[0.0; 2]; channels];
            let mut pixels = 0;
            for strip in strips {
                let around = extended(strip, at + 1, self.height);
                let y = conv.forward(tape, &self.before(at, &input(around.clone())));
                let values = cropped(&y, &around, strip).tensor().to_vec();
                pixels += values.len() / channels;
                add_sums(&mut sums, &values);
                told();
            }
            self.known.push(self.folded(tape, at, &sums, pixels));
        }
    }

    /// A convolution with its normalisation in it.
    fn folded(&self, tape: &Tape, at: usize, sums: &[[f64; 2]], pixels: usize) -> (Var, Var) {
        let (conv, norms) = (&self.block.convs[at], self.block.norms.as_ref().expect("a block that learns"));
        let [weight, bias] = [conv.weight, conv.bias].map(|id| tape.get(id).tensor().to_vec());
        let [scale, shift] = [norms[at].scale, norms[at].shift].map(|id| tape.get(id).tensor().to_vec());
        let channels = bias.len();
        let per_group = channels / norms[at].groups;
        let (mut factors, mut offsets) = (vec![0.0; channels], vec![0.0; channels]);
        for (group, sums) in sums.chunks_exact(per_group).enumerate() {
            let count = (pixels * per_group) as f64;
            let mean = sums.iter().map(|sum| sum[0]).sum::<f64>() / count;
            let variance = (sums.iter().map(|sum| sum[1]).sum::<f64>() / count - mean * mean).max(0.0);
            let inverse = 1.0 / (variance + f64::from(NORM_EPSILON)).sqrt();
            for channel in group * per_group..(group + 1) * per_group {
                let factor = inverse * f64::from(scale[channel]);
                factors[channel] = factor as f32;
                offsets[channel] =
                    ((f64::from(bias[channel]) - mean) * factor + f64::from(shift[channel])) as f32;
            }
        }
        let weight: Vec<f32> =
            weight.iter().enumerate().map(|(at, value)| value * factors[at % channels]).collect();
        let device = tape.get(conv.weight).device();
        let constant =
            |shape: &[usize], values: &[f32]| Var::constant(Tensor::from_slice(&device, shape, values));
        (constant(&tape.get(conv.weight).shape(), &weight), constant(&[channels], &offsets))
    }

    /// Some rows of the block's output.
    fn rows(&self, tape: &Tape, rows: Range<usize>, input: &dyn Fn(Range<usize>) -> Var) -> Var {
        let around = extended(&rows, REACH, self.height);
        let x = input(around.clone());
        let skip = self.block.skip.as_ref().map_or_else(|| x.clone(), |skip| skip.forward(tape, &x));
        let (weight, bias) = &self.known[2];
        let y = self.before(2, &x).conv2d_add_relu(weight, Some(bias), &skip);
        cropped(&y, &around, &rows)
    }
}

/// Adds values and their squares, by channel; in chunks of fixed length, whatever the threads.
fn add_sums(sums: &mut [[f64; 2]], values: &[f32]) {
    let channels = sums.len();
    let chunks = values.par_chunks(channels * 4096).map(|chunk| {
        let mut sums = vec![[0.0; 2]; channels];
        for pixel in chunk.chunks_exact(channels) {
            for (sum, &value) in sums.iter_mut().zip(pixel) {
                let value = f64::from(value);
                sum[0] += value;
                sum[1] += value * value;
            }
        }
        sums
    });
    for chunk in chunks.collect::<Vec<_>>() {
        sums.iter_mut().zip(chunk).for_each(|(sum, more)| {
            sum[0] += more[0];
            sum[1] += more[1];
        });
    }
}

/// A level of the encoder.
enum Level<'a> {
    /// Its features, where they were computed whole.
    Whole(Field),
    /// What enters it, and how its features come from that.
    Strips(Field, StripBlock<'a>),
}

impl Level<'_> {
    fn size(&self) -> [usize; 2] {
        match self {
            Self::Whole(features) => features.size,
            Self::Strips(input, _) => input.size,
        }
    }

    fn rows(&self, tape: &Tape, device: &Device, rows: Range<usize>) -> Var {
        match self {
            Self::Whole(features) => features.rows(device, rows),
            Self::Strips(input, block) => block.rows(tape, rows, &|rows| input.rows(device, rows)),
        }
    }
}

/// An image encoded in strips: as [`super::Encoded`], for codes that enter the head.
pub(crate) struct InStrips<'a> {
    model: &'a Model,
    tape: Tape,
    levels: Vec<Level<'a>>,
    /// [1, height, width, channels]
    deepest: Var,
    /// Pixels of a strip of the finest level, at most; fewer channels make no more of them.
    pixels: usize,
}

impl<'a> InStrips<'a> {
    /// Encodes an image; of a level at most so many pixels are computed at once. `told` is called for each strip.
    pub fn new(model: &'a Model, image: Field, pixels: usize, told: &mut dyn FnMut()) -> Self {
        let (tape, device) = (Tape::frozen(&model.parameters), &model.device);
        let blocks = &model.image_encoder.blocks;
        let mut levels: Vec<Level> = Vec::new();
        let mut input = image;
        for (at, block) in blocks.iter().enumerate() {
            let size = input.size;
            let strips = strips(size, allowed(model, pixels, at));
            let level = match strips.len() {
                1 => {
                    let features = block.forward(&tape, &input.whole(device));
                    told();
                    let channels = features.shape()[3];
                    Level::Whole(Field { size, channels, values: features.tensor().to_vec() })
                }
                _ => {
                    let mut block = StripBlock::new(&tape, block, size[0]);
                    block.learn(&tape, &strips, &|rows| input.rows(device, rows), told);
                    Level::Strips(input, block)
                }
            };
            let next = if at + 1 < blocks.len() { halved(size) } else { size };
            let channels = model.recipe.channels[at];
            let mut coarser = Field::empty(next, channels);
            for strip in self::strips(next, allowed(model, pixels, at) / shrinkage(size, next)) {
                let needed = sources(size[0], next[0], &strip);
                let rows = level.rows(&tape, device, needed.clone());
                let narrow = rows.resize_bilinear(needed.len(), next[1], Corners::HalfPixel);
                coarser.push(&rows_resized(&narrow, &needed, [size[0], next[0]], &strip));
                told();
            }
            input = coarser;
            levels.push(level);
        }
        let deepest = input.whole(device);
        Self { model, tape, levels, deepest, pixels }
    }

    /// How often [`new`](Self::new) and [`generate`](Self::generate) tell of a strip, for an image of a size.
    pub fn passes(model: &Model, size: [usize; 2], pixels: usize) -> [usize; 2] {
        let last = model.image_encoder.blocks.len() - 1;
        let learning = if model.recipe.norm_group > 0 { 3 } else { 0 };
        let (mut size, mut passes) = (size, [0, 0]);
        for level in 0..=last {
            let allowed = allowed(model, pixels, level);
            let count = strips(size, allowed).len();
            let next = if level < last { halved(size) } else { size };
            let coarser = strips(next, allowed / shrinkage(size, next)).len();
            let whole = count == 1;
            passes[0] += coarser + if whole { 1 } else { learning * count };
            if level < last {
                passes[1] += count * if whole { 1 } else { 1 + learning };
            }
            size = next;
        }
        passes
    }

    /// The probabilities of some codes, as if there were no others.
    pub fn probabilities(&self, codes: &[usize]) -> Vec<f32> {
        let (_, logits) =
            self.model.classifier.forward(&self.tape, &self.deepest, self.model.probability_gradient);
        super::select_columns(&logits, codes, &self.model.device).softmax().tensor().to_vec()
    }

    /// Decodes, and calls `take` with each strip's rows, the place of the first of some codes, and their logits [some
    /// codes, rows, width, output channels]. Gives the probability of the empty mask, where the model has a head for it.
    pub fn generate(
        mut self,
        codes: &[usize],
        together: usize,
        told: &mut dyn FnMut(),
        take: &mut dyn FnMut(Range<usize>, usize, Tensor),
    ) -> Option<f32> {
        let model = self.model;
        let device = &model.device;
        let channels = self.deepest.shape()[3];
        let size = [self.deepest.shape()[1], self.deepest.shape()[2]];
        let mut decoded = Field { size, channels, values: self.deepest.tensor().to_vec() };
        let tape = &self.tape;
        self.levels.pop();
        let mut attention = Attention::default();
        for (block, at) in model.generator.blocks.iter().zip((0..self.levels.len()).rev()) {
            let level = self.levels.pop().expect("a level for each block");
            let [height, width] = level.size();
            let input = |rows: Range<usize>| {
                let needed = sources(decoded.size[0], height, &rows);
                let coarse = decoded.rows(device, needed.clone());
                let taller = rows_resized(&coarse, &needed, [decoded.size[0], height], &rows);
                let enlarged = taller.resize_bilinear(rows.len(), width, Corners::HalfPixel);
                Var::concat_channels(&[&enlarged, &level.rows(tape, device, rows)])
            };
            let strips = strips([height, width], allowed(model, self.pixels, at));
            let mut strip_block = StripBlock::new(tape, block, height);
            let whole = strips.len() == 1;
            if !whole {
                strip_block.learn(tape, &strips, &input, told);
            }
            let mut features =
                Field::empty([height, width], if at > 0 { model.recipe.channels[at] } else { 0 });
            for strip in strips {
                let rows = match whole {
                    true => block.forward(tape, &input(strip.clone())),
                    false => strip_block.rows(tape, strip.clone(), &input),
                };
                told();
                if at > 0 {
                    features.push(&rows);
                    continue;
                }
                if let Some(head) = &model.empty_head {
                    attention.add(&head.attention(tape, &rows), &rows);
                }
                let prepared = model.generator.prepare_decoded(tape, &rows);
                for (turn, some) in codes.chunks(together).enumerate() {
                    let chosen = model.codebook.codes(tape).gather_rows(some);
                    let logits = model.generator.generate(tape, &prepared, &chosen);
                    take(strip.clone(), turn * together, logits.into_tensor());
                }
            }
            decoded = features;
        }
        let head = model.empty_head.as_ref()?;
        let logit =
            head.of_attended(tape, &attention.mean(device), &self.deepest, model.probability_gradient);
        Some(logit.sigmoid().item())
    }
}

/// Pixels of a level that may be computed at once, where so many of the finest may: coarser levels have more channels.
fn allowed(model: &Model, pixels: usize, level: usize) -> usize {
    let channels = &model.recipe.channels;
    pixels * channels[0] / channels[level].max(1)
}

/// Pixels that become one of the next level.
fn shrinkage(size: [usize; 2], next: [usize; 2]) -> usize {
    if size == next { 1 } else { 4 }
}

/// Strips of at most so many pixels, of at least four times the rows that are computed twice.
fn strips([height, width]: [usize; 2], pixels: usize) -> Vec<Range<usize>> {
    let rows = (pixels / width.max(1)).max(4 * REACH);
    // As equal as they can be: the device keeps buffers of few sizes.
    let count = height.div_ceil(rows);
    let rows = height.div_ceil(count);
    (0..height).step_by(rows).map(|from| from..(from + rows).min(height)).collect()
}

/// A mean of features, each pixel weighted by the exponential of its logit, summed up strip by strip.
#[derive(Default)]
struct Attention {
    largest: f64,
    weight: f64,
    sums: Vec<f64>,
}

impl Attention {
    fn add(&mut self, logits: &Var, features: &Var) {
        let (logits, features) = (logits.tensor().to_vec(), features.tensor().to_vec());
        let channels = features.len() / logits.len();
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max).into();
        if self.sums.is_empty() {
            (self.largest, self.sums) = (largest, vec![0.0; channels]);
        }
        if largest > self.largest {
            let shrink = (self.largest - largest).exp();
            self.weight *= shrink;
            self.sums.iter_mut().for_each(|sum| *sum *= shrink);
            self.largest = largest;
        }
        for (logit, pixel) in logits.iter().zip(features.chunks_exact(channels)) {
            let weight = (f64::from(*logit) - self.largest).exp();
            self.weight += weight;
            self.sums.iter_mut().zip(pixel).for_each(|(sum, &value)| *sum += weight * f64::from(value));
        }
    }

    fn mean(&self, device: &Device) -> Var {
        let mean: Vec<f32> = self.sums.iter().map(|sum| (sum / self.weight) as f32).collect();
        Var::constant(Tensor::from_slice(device, [1, mean.len()], &mean))
    }
}
