//! G_θ: from an image's features and a code to an output.

use super::blocks::{Conv, Init, ResidualBlock};
use crate::recipe::{CodeEntry, ModelRecipe};
use multivalued_engine::{Corners, ParameterId, Tape, Var};

/// A decoder of residual blocks with skips at every level, and a head of 1x1 convolutions that the
/// code enters.
///
/// A 1x1 convolution of [features, tiled code] is a 1x1 convolution of the features plus a linear map
/// of the code, the same at every pixel: a hypothesis is only a bias on the head. So the decoder runs
/// once per image, whatever the number of codes.
///
/// Paper: §3.2, §4.1 "the model's last layers with 1x1 convolutions".
pub(crate) struct Generator {
    /// The deepest first.
    pub(super) blocks: Vec<ResidualBlock>,
    /// The layer the code enters: a 1x1 convolution here, the code's part beside it.
    entry: Conv,
    /// None where the recipe's codes have no dimensions: a network of one output.
    code_weight: Option<ParameterId>,
    hidden: Vec<Conv>,
    output: Conv,
    code_entry: CodeEntry,
}

/// Features that any code can be decoded from.
pub(crate) struct Decoded {
    /// With the head as entry: what the code's bias is added to. With the bottleneck: the encoder's levels.
    levels: Vec<Var>,
}

impl Generator {
    pub fn new(init: &mut Init, recipe: &ModelRecipe) -> Self {
        let channels = &recipe.channels;
        let (finest, deepest) = (channels[0], channels[channels.len() - 1]);
        let blocks = channels
            .windows(2)
            .enumerate()
            .rev()
            .map(|(i, pair)| {
                let name = format!("generator.block{i}");
                ResidualBlock::new(init, &name, pair[0] + pair[1], pair[0], recipe.norm_group)
            })
            .collect();
        let (entry_inputs, entry_outputs) = match recipe.code_entry {
            CodeEntry::Head => (finest, recipe.head_width),
            CodeEntry::Bottleneck => (deepest, deepest),
        };
        let entry = Conv::new(init, "generator.entry", 1, entry_inputs, entry_outputs);
        // Unit codes are to move the features as much as the features themselves vary.
        let limit = f64::from(recipe.code_scale) * 3f64.sqrt();
        let code_shape = [recipe.code_dim, entry_outputs];
        let code_weight =
            (recipe.code_dim > 0).then(|| init.uniform("generator.code.weight", &code_shape, limit));
        let width = recipe.head_width;
        let first = if recipe.code_entry == CodeEntry::Head { width } else { finest };
        let hidden = (0..recipe.head_hidden)
            .map(|i| {
                Conv::new(init, &format!("generator.hidden{i}"), 1, if i == 0 { first } else { width }, width)
            })
            .collect::<Vec<_>>();
        let last = if hidden.is_empty() { first } else { width };
        let output = Conv::new(init, "generator.output", 1, last, recipe.output_channels());
        Self { blocks, entry, code_weight, hidden, output, code_entry: recipe.code_entry }
    }

    /// The part of the work that does not depend on the code; and the decoder's last features where they do not
    /// depend on it.
    ///
    /// # Shapes
    /// the encoder's levels
    pub fn prepare(&self, tape: &Tape, levels: &[Var]) -> (Decoded, Option<Var>) {
        match self.code_entry {
            CodeEntry::Head => {
                let features = self.decode(tape, levels);
                (self.prepare_decoded(tape, &features), Some(features))
            }
            CodeEntry::Bottleneck => {
                let mut levels = levels.to_vec();
                let deepest = levels.len() - 1;
                levels[deepest] = self.entry.forward(tape, &levels[deepest]);
                (Decoded { levels }, None)
            }
        }
    }

    /// The same of the decoder's last features, where the code enters the head.
    pub fn prepare_decoded(&self, tape: &Tape, features: &Var) -> Decoded {
        Decoded { levels: vec![self.entry.forward(tape, features)] }
    }

    /// The logits of K outputs for each image.
    ///
    /// # Shapes
    /// codes [batch·K, code_dim] → [batch·K, height, width, output channels]
    pub fn generate(&self, tape: &Tape, decoded: &Decoded, codes: &Var) -> Var {
        let code_weight = self.code_weight.expect("a generator that was made for codes");
        let bias = codes.matmul(&tape.get(code_weight));
        match self.code_entry {
            CodeEntry::Head => {
                let layers: Vec<[Var; 2]> =
                    self.hidden.iter().chain([&self.output]).map(|l| l.get(tape)).collect();
                let layers: Vec<[&Var; 2]> = layers.iter().map(|layer| layer.each_ref()).collect();
                decoded.levels[0].pixel_layers(&bias, &layers)
            }
            CodeEntry::Bottleneck => {
                let deepest = decoded.levels.len() - 1;
                let repeats = codes.shape()[0] / decoded.levels[0].shape()[0];
                let images = decoded.levels[0].shape()[0];
                let rows: Vec<usize> = (0..images * repeats).map(|row| row / repeats).collect();
                let mut levels: Vec<Var> =
                    decoded.levels[..deepest].iter().map(|level| level.gather_rows(&rows)).collect();
                levels.push(decoded.levels[deepest].add_sample_bias_relu(&bias));
                self.finish(tape, self.decode(tape, &levels))
            }
        }
    }

    /// The logits of the one output of a network without codes, whose entry is the head.
    ///
    /// # Shapes
    /// → [batch, height, width, output channels]
    pub fn generate_one(&self, tape: &Tape, decoded: &Decoded) -> Var {
        self.finish(tape, decoded.levels[0].relu())
    }

    /// The layers after the one that the code enters.
    fn finish(&self, tape: &Tape, mut x: Var) -> Var {
        for hidden in &self.hidden {
            x = hidden.forward_relu(tape, &x);
        }
        self.output.logits(tape, &x)
    }

    /// Up-sampling aims at the skip's own size, so that any image size works.
    fn decode(&self, tape: &Tape, levels: &[Var]) -> Var {
        let mut x = levels[levels.len() - 1].clone();
        for (block, skip) in self.blocks.iter().zip(levels.iter().rev().skip(1)) {
            x = block.forward(tape, &x.resize_concat(skip, Corners::HalfPixel));
        }
        x
    }
}
