//! Prediction: Algorithm 2 of the paper.
//!
//! ```text
//! l, p ← E_θ(x), P_φ(E_θ(x))
//! drop codes with p < ε;  y_j ← G_θ(l, c_j) for all that are left, in one batch
//! merge equal outputs, renormalise, sort
//! ```

use crate::Result;
use crate::batch::interleaved;
use crate::model::Model;
use crate::network::Network;
use crate::recipe::{PredictRecipe, Recipe};
use multivalued_data::metric::overlap::iou;
use multivalued_data::{Case, Hypothesis, Image, Mask, Prediction};
use multivalued_engine::{Tape, Tensor, Var};
use rayon::prelude::*;

/// Predicts weighted sets of masks for images of any size.
pub struct Predictor {
    network: Network,
    recipe: Recipe,
}

/// Images that are encoded together, where they have one size.
const TOGETHER: usize = 16;
/// Values of one of the head's layers that are computed at once: half a gigabyte. All 256 codes of a batch
/// of LIDC slices would need sixteen times that.
const AT_ONCE: usize = 1 << 27;

impl Predictor {
    /// A predictor from trained networks and the recipe they were trained by.
    pub fn new(network: Network, recipe: &Recipe) -> Self {
        Self { network, recipe: recipe.clone() }
    }

    /// The networks.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The recipe they were trained by.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The weighted set of each image, most probable first. An error where an image has another number
    /// of channels than the networks take.
    pub fn predict(&self, images: &[&Image]) -> Result<Vec<Prediction>> {
        let takes = self.recipe.model.input_channels;
        if let Some((at, image)) = images.iter().enumerate().find(|(_, image)| image.channels() != takes) {
            let has = image.channels();
            return Err(multivalued_data::Error::mismatch(
                format!("image {} of {}", at + 1, images.len()),
                format!("it has {has} channels, the model takes {takes}; convert it"),
            )
            .into());
        }
        Ok(predict_images(&self.network, &self.recipe, images))
    }
}

/// Predictions for all cases, with the recipe's options. Panics unless the images have the channels that
/// the networks take, as training cases do.
pub fn predict_cases(network: &Network, recipe: &Recipe, cases: &[Case]) -> Vec<Prediction> {
    let images: Vec<&Image> = cases.iter().map(|case| &case.image).collect();
    predict_images(network, recipe, &images)
}

fn predict_images(network: &Network, recipe: &Recipe, images: &[&Image]) -> Vec<Prediction> {
    let mut out = Vec::with_capacity(images.len());
    let mut rest = images;
    while let Some(first) = rest.first() {
        let size = |image: &Image| [image.width(), image.height()];
        let alike = rest.iter().take(TOGETHER).take_while(|image| size(image) == size(first)).count();
        let pixels: Vec<f32> = rest[..alike]
            .iter()
            .flat_map(|image| {
                let mut image = (*image).clone();
                recipe.data.normalise.apply(&mut image);
                interleaved(&image)
            })
            .collect();
        let shape = [alike, first.height(), first.width(), recipe.model.input_channels];
        let batch = Tensor::from_slice(network.device(), shape, &pixels);
        // Inside the pool, so that the many small parallel loops start without waking it.
        out.extend(rayon::scope(|_| network.predict_batch(&recipe.predict, &batch)));
        rest = &rest[alike..];
    }
    out
}

/// Algorithm 2 for a batch of normalised images.
///
/// Codes are kept per batch: those that some image gives at least ε. Differs: probabilities are those
/// among the codes that take part, renormalised after the drop; outputs that are (nearly) the same are
/// merged, since N_x counts outputs and not codes. Where nothing reaches ε, the most probable code stays.
pub(crate) fn predict_batch(model: &Model, options: &PredictRecipe, images: &Tensor) -> Vec<Prediction> {
    predict_in_turns(model, options, images, AT_ONCE)
}

/// The same with so many values of the head at once; codes beyond that take turns.
fn predict_in_turns(
    model: &Model,
    options: &PredictRecipe,
    images: &Tensor,
    at_once: usize,
) -> Vec<Prediction> {
    let tape = Tape::frozen(&model.parameters);
    let encoded = model.encode(&tape, &Var::constant(images.clone()));
    let active = model.active_codes();
    let probabilities = model.probabilities(&encoded, &active).into_tensor().to_vec();
    let rows: Vec<&[f32]> = probabilities.chunks_exact(active.len()).collect();
    let best = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
    let kept: Vec<usize> = (0..active.len())
        .filter(|&j| rows.iter().any(|row| row[j] >= options.min_probability || best(row) == j))
        .collect();
    let mut found: Vec<Vec<Hypothesis>> = rows.iter().map(|_| Vec::new()).collect();
    let head = model.recipe.head_width.max(model.recipe.channels[0]);
    let [batch, height, width, _] = *images.shape() else { unreachable!("images have four axes") };
    let turn = (at_once / (batch * height * width * head)).max(1);
    for kept in kept.chunks(turn) {
        let codes: Vec<usize> = kept.iter().map(|&j| active[j]).collect();
        let logits = model.generate_all(&tape, &encoded, &codes);
        let channels = logits.shape().last();
        let values = logits.into_tensor().to_vec();
        let outputs = values.par_chunks_exact(kept.len() * height * width * channels);
        found.par_iter_mut().zip(&rows).zip(outputs).for_each(|((hypotheses, row), outputs)| {
            for (&j, logits) in kept.iter().zip(outputs.chunks_exact(height * width * channels)) {
                if row[j] >= options.min_probability || best(row) == j {
                    let mask = mask_of(logits, width, height, channels);
                    hypotheses.push(Hypothesis { mask, probability: row[j], code: active[j] });
                }
            }
        });
    }
    let settled = found.into_par_iter().map(|mut hypotheses| {
        hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.code.cmp(&b.code)));
        settle(hypotheses, options.merge_iou)
    });
    settled.collect()
}

/// A mask from one output's logits: above zero, or the class with the largest.
pub(crate) fn mask_of(logits: &[f32], width: usize, height: usize, channels: usize) -> Mask {
    let mut mask = Mask::empty(width, height, if channels == 1 { 1 } else { channels - 1 });
    for (pixel, logits) in logits.chunks_exact(channels).enumerate() {
        let class = if channels == 1 {
            (logits[0] > 0.0).then_some(0)
        } else {
            let best = (0..channels).fold(0, |best, c| if logits[c] > logits[best] { c } else { best });
            best.checked_sub(1)
        };
        if let Some(class) = class {
            mask.set(class, pixel % width, pixel / width, true);
        }
    }
    mask
}

/// Merges outputs that overlap at least `merge_iou` into the more probable one, then renormalises.
fn settle(sorted: Vec<Hypothesis>, merge_iou: f32) -> Prediction {
    let mut kept: Vec<Hypothesis> = Vec::with_capacity(sorted.len());
    for hypothesis in sorted {
        let same = kept.iter_mut().find(|other| {
            iou(&other.mask, &hypothesis.mask).expect("outputs of one image have one size")
                >= f64::from(merge_iou)
        });
        match same {
            Some(other) => other.probability += hypothesis.probability,
            None => kept.push(hypothesis),
        }
    }
    kept.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.code.cmp(&b.code)));
    let total: f32 = kept.iter().map(|hypothesis| hypothesis.probability).sum();
    kept.iter_mut().for_each(|hypothesis| hypothesis.probability /= total);
    Prediction::stated(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hypothesis(columns: usize, probability: f32, code: usize) -> Hypothesis {
        Hypothesis { mask: Mask::from_fn(8, 8, |x, _| x < columns), probability, code }
    }

    #[test]
    fn equal_outputs_are_merged_and_probabilities_sum_to_one() {
        let sorted = vec![hypothesis(4, 0.4, 3), hypothesis(2, 0.3, 1), hypothesis(4, 0.1, 7)];
        let prediction = settle(sorted, 0.99);
        let summary: Vec<(f32, usize)> =
            prediction.hypotheses.iter().map(|h| (h.probability, h.code)).collect();
        assert_eq!(summary.len(), 2);
        assert!((summary[0].0 - 0.625).abs() < 1e-6 && summary[0].1 == 3);
        assert!((summary[1].0 - 0.375).abs() < 1e-6 && summary[1].1 == 1);
    }

    #[test]
    fn codes_that_take_turns_say_the_same() {
        let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, &[]);
        let network = Network::new(&recipe, &multivalued_engine::Device::cpu()).unwrap();
        let model = network.model().unwrap();
        let pixels: Vec<f32> = (0..2 * 256).map(|at| (at * 37 % 101) as f32 / 100.0).collect();
        let images = Tensor::from_slice(network.device(), [2, 16, 16, 1], &pixels);
        let [together, alone] =
            [AT_ONCE, 1].map(|at_once| predict_in_turns(model, &recipe.predict, &images, at_once));
        assert!(together.iter().any(|prediction| prediction.len() > 1), "{together:?}");
        assert_eq!(together, alone);
    }

    #[test]
    fn an_image_with_other_channels_is_refused_with_both_numbers() {
        let recipe = Recipe::named("shapes-tiny").unwrap();
        let network = Network::new(&recipe, &multivalued_engine::Device::cpu()).unwrap();
        let predictor = Predictor::new(network, &recipe);
        let (grey, colour) = (Image::new(16, 16, 1, vec![0.5; 256]), Image::new(16, 16, 3, vec![0.5; 768]));
        assert_eq!(predictor.predict(&[&grey]).unwrap().len(), 1);
        let message = predictor.predict(&[&grey, &colour]).unwrap_err().to_string();
        assert!(
            message.contains("image 2 of 2") && message.contains("3 channels, the model takes 1"),
            "{message}"
        );
    }

    #[test]
    fn masks_come_from_signs_or_from_the_largest_class() {
        let binary = mask_of(&[1.0, -1.0, 0.0, 2.0], 2, 2, 1);
        assert_eq!(
            [binary.get(0, 0, 0), binary.get(0, 1, 0), binary.get(0, 0, 1), binary.get(0, 1, 1)],
            [true, false, false, true]
        );
        let classes = mask_of(&[3.0, 1.0, 2.0, 0.0, 1.0, 2.0], 2, 1, 3);
        assert_eq!((classes.classes(), classes.get(0, 0, 0), classes.get(1, 1, 0)), (2, false, true));
    }
}
