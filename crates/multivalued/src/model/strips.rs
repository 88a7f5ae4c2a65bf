//! The networks over an image that is too large to be computed whole: strip by strip of its rows, with the same
//! result.
//!
//! A convolution of a strip needs one more row above and below, which is computed twice. What stands in the way is the
//! group normalisation, whose mean and variance are those of the whole image: each normalisation of a level takes a
//! pass over all strips that only sums up, and is then part of the convolution before it (its scale goes into the
//! weights, its shift into the bias). Levels that fit are computed whole. Of the others only what enters the next
//! coarser level and what leaves the decoder is kept, in this machine's memory; the finer levels' features are
//! computed again where the decoder needs them.

mod block;
mod rows;

pub(crate) use rows::Field;

use super::Model;
use super::image_encoder::halved;
use block::{REACH, StripBlock};
use multivalued_engine::{Corners, Device, Tape, Tensor, Var};
use rows::{rows_resized, sources};
use std::ops::Range;

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
        at_once: usize,
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
                for (chunk, some) in codes.chunks(at_once).enumerate() {
                    let chosen = model.codebook.codes(tape).gather_rows(some);
                    let logits = model.generator.generate(tape, &prepared, &chosen);
                    take(strip.clone(), chunk * at_once, logits.into_tensor());
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
