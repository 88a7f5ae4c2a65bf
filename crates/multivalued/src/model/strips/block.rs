//! A residual block in strips, with the normalisations of the whole image.

use super::rows::{cropped, extended};
use crate::model::blocks::{NORM_EPSILON, ResidualBlock};
use multivalued_engine::{Tape, Tensor, Var};
use rayon::prelude::*;
use std::ops::Range;

/// Rows that three 3x3 convolutions reach beyond their result.
pub(super) const REACH: usize = 3;

/// A residual block whose normalisations are those of the whole image.
pub(super) struct StripBlock<'a> {
    block: &'a ResidualBlock,
    /// Weight and bias of the convolutions whose normalisation is known, with that in them.
    known: Vec<(Var, Var)>,
    height: usize,
}

impl<'a> StripBlock<'a> {
    pub(super) fn new(tape: &Tape, block: &'a ResidualBlock, height: usize) -> Self {
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
    pub(super) fn learn(
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
    pub(super) fn rows(&self, tape: &Tape, rows: Range<usize>, input: &dyn Fn(Range<usize>) -> Var) -> Var {
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
