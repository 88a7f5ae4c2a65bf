//! The networks of the framework and what they share: E_θ, E_φ, G_θ, P_ϕ and C.

mod blocks;
mod classifier;
mod codebook;
mod empty_head;
mod generator;
mod image_encoder;
mod pair_encoder;
#[cfg(test)]
mod parity;
mod simplex_etf;
mod strips;

pub(crate) use blocks::{Init, Linear, NORM_EPSILON, norm_groups};
pub(crate) use codebook::{Codebook, Update, Updated, mean_inner_product, orthogonality_threshold};
pub(crate) use empty_head::EmptyHead;
pub(crate) use generator::{Decoded, Generator};
pub(crate) use image_encoder::ImageEncoder;
pub(crate) use pair_encoder::PairEncoder;
pub use simplex_etf::simplex_etf;
pub(crate) use strips::{Field, InStrips};

use crate::Result;
use crate::error::caught;
use crate::recipe::{ModelRecipe, Recipe, Space};
use classifier::Classifier;
use multivalued_engine::{Device, ParameterId, Parameters, Tape, Tensor, Var};
use std::sync::{Mutex, PoisonError};

/// All networks, and their parameters.
pub struct Model {
    pub(crate) recipe: ModelRecipe,
    pub(crate) parameters: Parameters,
    pub(crate) codebook: Codebook,
    pub(crate) pair_encoder: Option<PairEncoder>,
    image_encoder: ImageEncoder,
    classifier: Classifier,
    generator: Generator,
    /// Where the recipe has one (`model.empty_head`).
    empty_head: Option<EmptyHead>,
    /// `loss.probability_gradient`.
    probability_gradient: f32,
    /// 1 for codes that take part, 0 for those in reserve.
    active: ParameterId,
    /// The codes that take part, with the tensor they were read from: every step asks for them, and a GPU is
    /// asked again only when the tensor is another.
    known_active: Mutex<Option<(Tensor, Vec<usize>)>>,
    device: Device,
}

/// What the image alone determines: any code can be decoded from it, and how probable each one is.
pub(crate) struct Encoded {
    pub decoded: Decoded,
    /// [batch, code_dim]
    pub h: Var,
    /// [batch, code_count]: of codes, given that something is there where the model has a head for nothing.
    pub logits: Var,
    /// [batch, 1]: the logit of the empty mask, where the model has a head for it.
    pub empty: Option<Var>,
    pub batch: usize,
}

impl Model {
    /// Networks at their start. The recipe must be valid.
    pub fn new(recipe: &Recipe, device: &Device) -> Result<Self> {
        let mut parameters = Parameters::new();
        let model = &recipe.model;
        let mut init = Init { device, parameters: &mut parameters, seed: recipe.train.seed };
        let deepest = model.channels[model.channels.len() - 1];
        let image_encoder = ImageEncoder::new(
            &mut init,
            "image_encoder",
            model.input_channels,
            &model.channels,
            model.norm_group,
        );
        let pair_encoder =
            (recipe.assignment.space == Space::Embedding).then(|| PairEncoder::new(&mut init, model));
        let classifier = Classifier::new(&mut init, model, deepest)?;
        let generator = Generator::new(&mut init, model);
        let codebook = Codebook::new(&mut init, model);
        let empty_head = model.empty_head.then(|| EmptyHead::new(&mut init, model));
        let taking_part = match recipe.assignment.active_codes {
            0 => model.code_count,
            some => some,
        };
        let active: Vec<f32> = (0..model.code_count).map(|j| f32::from(j < taking_part)).collect();
        let active = init.state("codebook.active", &[model.code_count], &active);
        Ok(Self {
            recipe: model.clone(),
            codebook,
            pair_encoder,
            image_encoder,
            classifier,
            generator,
            empty_head,
            probability_gradient: recipe.loss.probability_gradient,
            active,
            known_active: Mutex::default(),
            device: device.clone(),
            parameters,
        })
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its named tensors.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// How many codes take part.
    pub fn active_code_count(&self) -> Result<usize> {
        caught(|| Ok(self.active_codes().len()))
    }

    /// The codes that take part, by index.
    pub(crate) fn active_codes(&self) -> Vec<usize> {
        let tensor = self.parameters.get(self.active).tensor();
        let known = || self.known_active.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, codes)) = &*known()
            && read.shares_values(tensor)
        {
            return codes.clone();
        }
        // Without the lock: reading may wait in a parallel loop, whose other jobs come here, too.
        let active = tensor.to_vec();
        let codes: Vec<usize> = (0..active.len()).filter(|&j| active[j] > 0.5).collect();
        *known() = Some((tensor.clone(), codes.clone()));
        codes
    }

    /// Puts all codes but these into reserve.
    pub(crate) fn set_active(&mut self, codes: &[usize]) {
        // Nobody else holds the tensor then, and it is changed in its place.
        *self.known_active.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        self.parameters.modify(self.active, |active| {
            active.fill(0.0);
            codes.iter().for_each(|&j| active[j] = 1.0);
        });
    }

    /// Everything about images that does not depend on a code.
    ///
    /// # Shapes
    /// [batch, height, width, input channels]
    pub(crate) fn encode(&self, tape: &Tape, images: &Var) -> Encoded {
        let levels = self.image_encoder.forward(tape, images);
        let deepest = &levels[levels.len() - 1];
        let (h, logits) = self.classifier.forward(tape, deepest, self.probability_gradient);
        let (decoded, finest) = self.generator.prepare(tape, &levels);
        let empty = self.empty_head.as_ref().zip(finest);
        let empty =
            empty.map(|(head, finest)| head.forward(tape, &finest, deepest, self.probability_gradient));
        Encoded { decoded, h, logits, empty, batch: images.shape()[0] }
    }

    /// The logits of outputs for given codes, K per image.
    ///
    /// # Shapes
    /// codes [batch·K, code_dim] → [batch·K, height, width, output channels]
    pub(crate) fn generate(&self, tape: &Tape, encoded: &Encoded, codes: &Var) -> Var {
        self.generator.generate(tape, &encoded.decoded, codes)
    }

    /// The logits of the same codes for every image.
    ///
    /// # Shapes
    /// J code indices → [batch·J, height, width, output channels]
    pub(crate) fn generate_all(&self, tape: &Tape, encoded: &Encoded, codes: &[usize]) -> Var {
        let rows: Vec<usize> = (0..encoded.batch).flat_map(|_| codes.iter().copied()).collect();
        self.generate(tape, encoded, &self.codebook.codes(tape).gather_rows(&rows))
    }

    /// The probabilities of some codes, as if there were no others.
    ///
    /// # Shapes
    /// J code indices → [batch, J]
    pub(crate) fn probabilities(&self, encoded: &Encoded, codes: &[usize]) -> Var {
        select_columns(&encoded.logits, codes, &self.device).softmax()
    }
}

/// The same value, of whose gradient only a share goes on: to features that masks are drawn from, too, and that
/// would otherwise be bent until the probabilities of the training cases are memorised.
fn damped(features: &Var, share: f32) -> Var {
    if share == 1.0 {
        return features.clone();
    }
    features.stop_gradient().scale(1.0 - share).add(&features.scale(share))
}

/// Chosen columns of a matrix, by a product with a selection matrix.
pub(crate) fn select_columns(matrix: &Var, columns: &[usize], device: &Device) -> Var {
    let width = matrix.shape()[1];
    let mut selection = vec![0.0; width * columns.len()];
    for (to, &from) in columns.iter().enumerate() {
        selection[from * columns.len() + to] = 1.0;
    }
    matrix.matmul(&Var::constant(Tensor::from_slice(device, [width, columns.len()], &selection)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_damped_features_the_value_stays_and_the_gradient_is_a_share() {
        let device = Device::cpu();
        let mut parameters = Parameters::new();
        let features = parameters.add("features", Tensor::from_slice(&device, [1, 2], &[3.0, -2.0]));
        for share in [0.0, 0.25, 1.0] {
            let tape = Tape::recording(&parameters);
            let damped = damped(&tape.get(features), share);
            assert_eq!(damped.tensor().to_vec(), [3.0, -2.0]);
            let gradients = tape.backward(&damped.mul(&damped).sum());
            let gradient = gradients.get(features).map_or(vec![0.0; 2], |gradient| gradient.to_vec());
            assert_eq!(gradient, [6.0 * share, -4.0 * share], "share {share}");
        }
    }
}
