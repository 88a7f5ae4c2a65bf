//! A plain U-Net: one output of probability one.

use super::{Losses, descend};
use crate::Result;
use crate::loss;
use crate::model::{Decoded, Generator, ImageEncoder, Init};
use crate::predict::masks_of;
use crate::recipe::{ModelRecipe, Recipe};
use crate::train::{StepContext, StepResult, Term};
use multivalued_data::{Hypothesis, Prediction};
use multivalued_engine::{Adam, Device, Parameters, Tape, Tensor, Var};

/// The method's image encoder and generator, without codes.
pub(crate) struct Unet {
    pub parameters: Parameters,
    body: Body,
    device: Device,
}

/// An encoder and a decoder with skips, whose 1x1 head may take a vector per output.
pub(super) struct Body {
    encoder: ImageEncoder,
    pub generator: Generator,
}

impl Body {
    /// A U-Net whose head takes vectors of `vector_dim` dimensions; 0 for none.
    pub fn new(init: &mut Init, recipe: &ModelRecipe, vector_dim: usize) -> Self {
        let recipe = ModelRecipe { code_dim: vector_dim, ..recipe.clone() };
        let inputs = recipe.input_channels;
        Self {
            encoder: ImageEncoder::new(init, "image_encoder", inputs, &recipe.channels, recipe.norm_group),
            generator: Generator::new(init, &recipe),
        }
    }

    /// All of the work that the image alone determines.
    pub fn features(&self, tape: &Tape, images: &Var) -> Decoded {
        self.generator.prepare(tape, &self.encoder.forward(tape, images)).0
    }
}

impl Unet {
    pub fn new(recipe: &Recipe, device: &Device) -> Self {
        let mut parameters = Parameters::new();
        let mut init = Init { device, parameters: &mut parameters, seed: recipe.train.seed };
        let body = Body::new(&mut init, &recipe.model, 0);
        Self { parameters, body, device: device.clone() }
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn step(&mut self, adam: &mut Adam, context: StepContext) -> StepResult {
        let tape = Tape::recording(&self.parameters);
        let losses = self.losses(&tape, context);
        descend(tape, losses, &mut self.parameters, adam, context)
    }

    /// The recipe's distance from the output to the mean of the image's annotations: with cross-entropy
    /// the same as the mean of the distances.
    pub fn losses(&self, tape: &Tape, context: StepContext) -> Losses {
        let StepContext { recipe, batch, progress, .. } = context;
        let logits = self.logits(tape, &batch.images);
        let images = logits.shape()[0];
        let size = logits.shape().volume() / images;
        let weights = Tensor::from_slice(&self.device, [images, batch.per_image], &batch.weights);
        let means = Var::constant(weights).batched_matmul(&Var::constant(batch.annotations.clone()), images);
        let units = loss::units(&batch.areas.to_vec(), size);
        let reconstruction =
            loss::reconstruction(recipe.loss.reconstruction, &logits, means.tensor(), &units).mean();
        let mut losses = Losses::new(recipe, progress);
        losses.add(Term::Reconstruction, reconstruction);
        losses
    }

    /// # Shapes
    /// [images, height, width, channels] → [images, height, width, output channels]
    pub fn logits(&self, tape: &Tape, images: &Tensor) -> Var {
        let features = self.body.features(tape, &Var::constant(images.clone()));
        self.body.generator.generate_one(tape, &features)
    }

    /// One mask for each image.
    pub fn predict_batch(&self, images: &Tensor) -> Result<Vec<Prediction>> {
        let logits = self.logits(&Tape::frozen(&self.parameters), images);
        let [_, height, width, channels] = *logits.shape() else { unreachable!("outputs are images") };
        let packed = [logits.into_tensor().pack_masks()];
        let masks = masks_of(&packed, [width, height], (channels - 1).max(1))?.into_iter().flatten();
        let predictions =
            masks.map(|mask| Prediction::stated(vec![Hypothesis { mask, probability: 1.0, code: 0 }]));
        Ok(predictions.collect())
    }
}
