//! What a recipe will need of memory, counted before any of it is allocated.

use super::{CodeEntry, MethodKind, ModelRecipe, Recipe, Space};
use crate::Result;
use crate::model::EmptyHead;
use multivalued_data::memory::claim;
use std::path::Path;

/// Copies of each weight that training keeps: itself, its gradient, Adam's two moments and the average.
const COPIES_IN_TRAINING: u64 = 5;
/// Activations of the finest level that a step keeps for its gradients, at the least: the outputs of the
/// encoder's and the decoder's convolutions and normalisations there.
const KEPT_ACTIVATIONS: u64 = 8;

impl Recipe {
    /// Refuses networks whose weights do not fit into memory.
    pub(crate) fn check_weights(&self) -> Result<()> {
        refuse_beyond("model.channels", self.weight_bytes())
    }

    /// Refuses a training on so many images of this size (width and height) whose weights, with all that is
    /// kept for each, or whose batches do not fit into memory.
    pub(crate) fn check_training(&self, images: usize, [width, height]: [usize; 2]) -> Result<()> {
        refuse_beyond("model.channels", self.weight_bytes().saturating_mul(COPIES_IN_TRAINING))?;
        let batch = self.train.batch.min(images);
        let what = format!("train.batch ({batch} images of {width}x{height})");
        refuse_beyond(&what, self.step_bytes(batch, [width, height]))
    }

    fn weight_bytes(&self) -> u64 {
        self.weight_count().saturating_mul(size_of::<f32>() as u64)
    }

    /// Bytes that a step needs at the least.
    fn step_bytes(&self, batch: usize, [width, height]: [usize; 2]) -> u64 {
        let pixels = (width as u64).saturating_mul(height as u64).saturating_mul(batch as u64);
        let finest = self.model.channels.first().map_or(0, |&channels| channels as u64);
        // Logits and targets of each annotation.
        let outputs = 2 * self.train.annotations.max(1) as u64 * self.model.output_channels() as u64;
        pixels.saturating_mul(size_of::<f32>() as u64 * (KEPT_ACTIVATIONS * finest + outputs))
    }

    /// The number of values of all named tensors. The recipe must be valid: then nothing overflows.
    fn weight_count(&self) -> u64 {
        let model = &self.model;
        let deepest = model.channels[model.channels.len() - 1];
        let (inputs, outputs) = (model.input_channels, model.output_channels());
        let (n, m) = (model.code_count, model.code_dim);
        let image_encoder = encoder(model, inputs);
        match self.method.kind {
            MethodKind::Unet => image_encoder + generator(model, 0),
            MethodKind::ProbabilisticUnet => {
                let latent = self.method.latent_dim;
                let gaussian = |inputs| encoder(model, inputs) + 2 * layer(1, deepest, latent);
                image_encoder + generator(model, latent) + gaussian(inputs) + gaussian(inputs + outputs)
            }
            MethodKind::Multivalued => {
                let pair_encoder = match self.assignment.space {
                    Space::Embedding => encoder(model, inputs + outputs) + layer(1, deepest, m),
                    Space::Output => 0,
                };
                let classifier = match model.classifier_hidden {
                    0 => layer(1, deepest, m),
                    hidden => layer(1, deepest, hidden) + layer(1, hidden, m),
                };
                // The frame and the codes; of each code its usage and whether it takes part.
                let codes = 2 * (n * m + n) as u64;
                let empty = if model.empty_head { empty_head(model) } else { 0 };
                image_encoder + pair_encoder + classifier + generator(model, m) + codes + empty
            }
        }
    }
}

fn refuse_beyond(key: &str, bytes: u64) -> Result<()> {
    Ok(claim(Path::new(key), bytes).map(drop)?)
}

/// A convolution or a linear layer with its bias.
fn layer(kernel: usize, inputs: usize, outputs: usize) -> u64 {
    ((kernel * kernel * inputs + 1) * outputs) as u64
}

/// A residual block, as `model/blocks.rs` makes it.
fn block(inputs: usize, outputs: usize, norm_group: usize) -> u64 {
    let norms = if norm_group > 0 { 6 * outputs as u64 } else { 0 };
    let skip = if inputs == outputs { 0 } else { layer(1, inputs, outputs) };
    layer(3, inputs, outputs) + 2 * layer(3, outputs, outputs) + norms + skip
}

fn encoder(model: &ModelRecipe, inputs: usize) -> u64 {
    let before = std::iter::once(&inputs).chain(&model.channels);
    before.zip(&model.channels).map(|(&inputs, &outputs)| block(inputs, outputs, model.norm_group)).sum()
}

/// A generator whose codes have so many dimensions, as `model/generator.rs` makes it.
fn generator(model: &ModelRecipe, code_dim: usize) -> u64 {
    let channels = &model.channels;
    let (finest, deepest, width) = (channels[0], channels[channels.len() - 1], model.head_width);
    let blocks: u64 =
        channels.windows(2).map(|pair| block(pair[0] + pair[1], pair[0], model.norm_group)).sum();
    let (entry_inputs, entry_outputs, first) = match model.code_entry {
        CodeEntry::Head => (finest, width, width),
        CodeEntry::Bottleneck => (deepest, deepest, finest),
    };
    let hidden: u64 =
        (0..model.head_hidden).map(|i| layer(1, if i == 0 { first } else { width }, width)).sum();
    let last = if model.head_hidden == 0 { first } else { width };
    blocks
        + layer(1, entry_inputs, entry_outputs)
        + (code_dim * entry_outputs) as u64
        + hidden
        + layer(1, last, model.output_channels())
}

/// As `model/empty_head.rs` makes it.
fn empty_head(model: &ModelRecipe) -> u64 {
    let (finest, deepest) = (model.channels[0], model.channels[model.channels.len() - 1]);
    let hidden = EmptyHead::HIDDEN;
    layer(1, finest, 1)
        + layer(1, deepest, 1)
        + layer(1, finest, hidden)
        + 2 * layer(1, deepest, hidden)
        + layer(1, hidden, 1)
}

#[cfg(test)]
mod tests {
    use super::super::BUILT_IN;
    use super::*;
    use crate::network::Network;
    use multivalued_engine::Device;

    #[test]
    fn weights_are_counted_as_the_networks_make_them() {
        let changes: &[&[&str]] = &[
            &[],
            &["assignment.space=embedding", "model.classes=3"],
            &["model.code_entry=bottleneck", "model.head_hidden=0"],
            &["model.norm_group=0", "model.classifier_hidden=0", "model.head_hidden=3", "model.channels=[8]"],
            &["model.empty_head=true"],
            &["method.kind=unet"],
            &["method.kind=probabilistic-unet", "model.input_channels=3"],
        ];
        let mut recipes: Vec<Recipe> =
            BUILT_IN.iter().map(|(name, _)| Recipe::named(name).unwrap()).collect();
        for changes in changes {
            let mut recipe = Recipe::default();
            changes.iter().for_each(|change| recipe.set(change).unwrap());
            recipes.push(recipe);
        }
        for recipe in recipes {
            let network = Network::new(&recipe, &Device::cpu()).unwrap();
            let made: usize =
                network.parameters().iter().map(|parameter| parameter.tensor().shape().volume()).sum();
            assert_eq!(recipe.weight_count(), made as u64, "{}", recipe.to_toml());
        }
    }

    #[test]
    fn what_no_machine_has_is_refused_by_key() {
        if multivalued_data::memory::available() > 1 << 40 {
            return;
        }
        let mut recipe = Recipe::default();
        recipe
            .set("model.channels=[4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096]")
            .unwrap();
        recipe.validate().unwrap();
        let message = recipe.check_training(100, [64, 64]).unwrap_err().to_string();
        assert!(message.starts_with("model.channels: needs ") && message.contains(" are free"), "{message}");
        let mut recipe = Recipe::default();
        recipe.set("train.batch=65536").unwrap();
        recipe.validate().unwrap();
        let message = recipe.check_training(usize::MAX, [2048, 2048]).unwrap_err().to_string();
        assert!(
            message.starts_with("train.batch (65536 images of 2048x2048): needs ")
                && message.contains(" are free"),
            "{message}"
        );
        Recipe::default().check_training(1000, [512, 512]).unwrap();
    }
}
