//! What a trainer trains and a predictor predicts with: the method's model, or a baseline.

use crate::Result;
use crate::baseline::{ProbabilisticUnet, Unet};
use crate::error::caught;
use crate::model::Model;
use crate::predict::{predict_batch, tensor_of};
use crate::recipe::{MethodKind, Recipe};
use crate::train::{Losses, StepContext, StepResult, forward, step};
use multivalued_data::{Image, Prediction};
use multivalued_engine::{Adam, Device, Listing, Parameters, Tape, Tensor, Var};

/// The networks of the recipe's method, with their parameters.
pub struct Network(Kind);

/// By method.
enum Kind {
    Multivalued(Box<Model>),
    ProbabilisticUnet(Box<ProbabilisticUnet>),
    Unet(Box<Unet>),
}

impl Network {
    /// Networks at their start. The recipe must be valid. An error where there is no memory for them.
    pub fn new(recipe: &Recipe, device: &Device) -> Result<Self> {
        recipe.check_weights()?;
        let kind = caught(|| match recipe.method.kind {
            MethodKind::Multivalued => Ok(Kind::Multivalued(Box::new(Model::new(recipe, device)?))),
            MethodKind::ProbabilisticUnet => {
                Ok(Kind::ProbabilisticUnet(Box::new(ProbabilisticUnet::new(recipe, device))))
            }
            MethodKind::Unet => Ok(Kind::Unet(Box::new(Unet::new(recipe, device)))),
        });
        kind.map(Self)
    }

    /// The method's own model; none for a baseline, which has no codes.
    pub fn model(&self) -> Option<&Model> {
        match &self.0 {
            Kind::Multivalued(model) => Some(model),
            _ => None,
        }
    }

    pub(crate) fn model_mut(&mut self) -> Option<&mut Model> {
        match &mut self.0 {
            Kind::Multivalued(model) => Some(model),
            _ => None,
        }
    }

    /// Its named tensors.
    pub fn parameters(&self) -> &Parameters {
        match &self.0 {
            Kind::Multivalued(model) => &model.parameters,
            Kind::ProbabilisticUnet(network) => &network.parameters,
            Kind::Unet(network) => &network.parameters,
        }
    }

    pub(crate) fn parameters_mut(&mut self) -> &mut Parameters {
        match &mut self.0 {
            Kind::Multivalued(model) => &mut model.parameters,
            Kind::ProbabilisticUnet(network) => &mut network.parameters,
            Kind::Unet(network) => &mut network.parameters,
        }
    }

    /// Takes all values from a safetensors file; says why not where they are another model's or damaged.
    pub(crate) fn load(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        self.parameters_mut().load_safetensors(bytes).map_err(|error| error.to_string())?;
        match self.model().is_some_and(|model| model.active_codes().is_empty()) {
            true => Err("tensor `codebook.active` is zero: no code takes part. The file is damaged".into()),
            false => Ok(()),
        }
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        match &self.0 {
            Kind::Multivalued(model) => model.device(),
            Kind::ProbabilisticUnet(network) => network.device(),
            Kind::Unet(network) => network.device(),
        }
    }

    /// One step of training.
    pub(crate) fn step(&mut self, adam: &mut Adam, context: StepContext) -> StepResult {
        match &mut self.0 {
            Kind::Multivalued(model) => step(model, adam, context),
            Kind::ProbabilisticUnet(network) => network.step(adam, context),
            Kind::Unet(network) => network.step(adam, context),
        }
    }

    /// The operations of one step of training, with what each took. Nothing moves.
    pub(crate) fn operations(&self, context: StepContext) -> Listing {
        let tape = Tape::timed(self.parameters());
        let losses: Losses = match &self.0 {
            Kind::Multivalued(model) => forward(model, &tape, context).losses,
            Kind::ProbabilisticUnet(network) => network.step_losses(&tape, context),
            Kind::Unet(network) => network.losses(&tape, context),
        };
        let total = losses.total();
        tape.listed(&total).1
    }

    /// What the networks say of normalised images before masks are made of it: the probabilities of the codes that
    /// take part (and, last, of the empty mask where a head of its own says it), and the logits of each. Of samples
    /// as many as there is noise for.
    ///
    /// # Shapes
    /// [images, height, width, channels] → [images, outputs (+ 1)], [images·outputs, height, width, output channels]
    pub(crate) fn stated(&self, images: &Tensor, noise: &[f32]) -> (Vec<f32>, Tensor) {
        let count = images.shape()[0];
        match &self.0 {
            Kind::Multivalued(model) => {
                let tape = Tape::frozen(&model.parameters);
                let encoded = model.encode(&tape, &Var::constant(images.clone()));
                let active = model.active_codes();
                let mut stated = model.probabilities(&encoded, &active).into_tensor().to_vec();
                if let Some(logits) = &encoded.empty {
                    let empty = logits.sigmoid().into_tensor().to_vec();
                    let rows = stated.chunks_exact(active.len()).zip(empty);
                    let row = |(row, empty): (&[f32], f32)| {
                        row.iter().map(|one| one * (1.0 - empty)).chain([empty]).collect::<Vec<_>>()
                    };
                    stated = rows.flat_map(row).collect();
                }
                (stated, model.generate_all(&tape, &encoded, &active).into_tensor())
            }
            Kind::ProbabilisticUnet(network) => {
                let logits = network.sampled(images, noise);
                let samples = logits.shape()[0];
                (vec![count as f32 / samples as f32; samples], logits)
            }
            Kind::Unet(network) => {
                (vec![1.0; count], network.logits(&Tape::frozen(&network.parameters), images).into_tensor())
            }
        }
    }

    /// The weighted set of each of a batch of normalised images of one size.
    pub(crate) fn predict_batch(&self, recipe: &Recipe, images: &[Image]) -> Result<Vec<Prediction>> {
        match &self.0 {
            Kind::Multivalued(model) => predict_batch(model, recipe, images),
            Kind::ProbabilisticUnet(network) => {
                network.predict_batch(recipe, &tensor_of(images, self.device()))
            }
            Kind::Unet(network) => network.predict_batch(&tensor_of(images, self.device())),
        }
    }
}
