//! Prediction: Algorithm 2 of the paper.
//!
//! ```text
//! l, p ← E_θ(x), P_φ(E_θ(x))
//! drop codes with p < ε;  y_j ← G_θ(l, c_j) for all that are left, in one batch
//! merge equal outputs, renormalise, sort
//! ```

mod views;

use crate::batch::interleaved;
use crate::model::Model;
use crate::network::Network;
use crate::recipe::Recipe;
use crate::{Error, Result};
use multivalued_data::metric::overlap::iou;
use multivalued_data::{Case, Hypothesis, Image, Mask, Prediction};
use multivalued_engine::{Device, Tape, Tensor, Var};
use rayon::prelude::*;
use views::Views;

/// Predicts weighted sets of masks for images of any size.
pub struct Predictor {
    network: Network,
    recipe: Recipe,
}

/// Images, or views of them, that are encoded together, where they have one size.
const TOGETHER: usize = 16;
/// Values of one of the head's layers that are computed at once: half a gigabyte. All 256 codes of a batch
/// of LIDC slices would need sixteen times that.
const AT_ONCE: usize = 1 << 27;

impl Predictor {
    /// A predictor from trained networks and the recipe they were trained by.
    pub fn new(network: Network, recipe: &Recipe) -> Self {
        Self { network, recipe: recipe.clone() }
    }

    /// The same with another number of views of each image (`predict.views`).
    pub fn with_views(mut self, views: usize) -> Result<Self> {
        self.recipe.predict.views = views;
        self.recipe.validate()?;
        Ok(self)
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
        self.check(images)?;
        predict_images(&self.network, &self.recipe, images)
    }

    /// Refuses images that [`predict`](Self::predict) would refuse.
    pub fn check(&self, images: &[&Image]) -> Result<()> {
        let takes = self.recipe.model.input_channels;
        match images.iter().enumerate().find(|(_, image)| image.channels() != takes) {
            None => Ok(()),
            Some((at, image)) => Err(multivalued_data::Error::mismatch(
                format!("image {} of {}", at + 1, images.len()),
                format!("it has {} channels, the model takes {takes}; convert it", image.channels()),
            )
            .into()),
        }
    }
}

/// Predictions for all cases, with the recipe's options. Panics unless the images have the channels that
/// the networks take, as training cases do; an error where what they say is not finite.
pub fn predict_cases(network: &Network, recipe: &Recipe, cases: &[Case]) -> Result<Vec<Prediction>> {
    let images: Vec<&Image> = cases.iter().map(|case| &case.image).collect();
    predict_images(network, recipe, &images)
}

fn predict_images(network: &Network, recipe: &Recipe, images: &[&Image]) -> Result<Vec<Prediction>> {
    let mut out = Vec::with_capacity(images.len());
    let mut rest = images;
    while let Some(first) = rest.first() {
        let size = |image: &Image| [image.width(), image.height()];
        let most = (TOGETHER / recipe.predict.views).max(1);
        let alike = rest.iter().take(most).take_while(|image| size(image) == size(first)).count();
        let images: Vec<Image> = rest[..alike]
            .iter()
            .map(|image| {
                let mut image = (*image).clone();
                recipe.data.normalise.apply(&mut image);
                image
            })
            .collect();
        // Inside the pool, so that the many small parallel loops start without waking it.
        out.extend(rayon::scope(|_| network.predict_batch(recipe, &images))?);
        rest = &rest[alike..];
    }
    Ok(out)
}

/// Algorithm 2 for a batch of normalised images.
///
/// Codes are kept per batch: those that some image gives at least ε. Differs: probabilities are those
/// among the codes that take part, renormalised after the drop; outputs that are (nearly) the same are
/// merged, since N_x counts outputs and not codes. Where nothing reaches ε, the most probable code stays.
pub(crate) fn predict_batch(model: &Model, recipe: &Recipe, images: &[Image]) -> Result<Vec<Prediction>> {
    predict_in_turns(model, recipe, images, AT_ONCE)
}

/// Images of one size as a tensor.
///
/// # Shapes
/// [images, height, width, channels]
pub(crate) fn tensor_of(images: &[Image], device: &Device) -> Tensor {
    let first = &images[0];
    let pixels: Vec<f32> = images.iter().flat_map(interleaved).collect();
    Tensor::from_slice(device, [images.len(), first.height(), first.width(), first.channels()], &pixels)
}

/// The same with so many values of the head at once; codes beyond that take turns.
fn predict_in_turns(
    model: &Model,
    recipe: &Recipe,
    images: &[Image],
    at_once: usize,
) -> Result<Vec<Prediction>> {
    let options = &recipe.predict;
    let [width, height] = [images[0].width(), images[0].height()];
    let views = Views::new(recipe, [width, height]);
    let seen: Vec<Image> = images.par_iter().flat_map_iter(|image| views.of(image)).collect();
    let tape = Tape::frozen(&model.parameters);
    let encoded = model.encode(&tape, &Var::constant(tensor_of(&seen, model.device())));
    let active = model.active_codes();
    let stated = model.probabilities(&encoded, &active).into_tensor().to_vec();
    must_be_finite(&stated, "probabilities")?;
    let rows: Vec<Vec<f32>> = stated
        .chunks_exact(views.len() * active.len())
        .map(|of_views| mean_row(of_views, active.len()))
        .collect();
    let best = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
    let kept: Vec<usize> = (0..active.len())
        .filter(|&j| rows.iter().any(|row| row[j] >= options.min_probability || best(row) == j))
        .collect();
    let mut found: Vec<Vec<Hypothesis>> = rows.iter().map(|_| Vec::new()).collect();
    let head = model.recipe.head_width.max(model.recipe.channels[0]);
    let turn = (at_once / (seen.len() * height * width * head)).max(1);
    for kept in kept.chunks(turn) {
        let codes: Vec<usize> = kept.iter().map(|&j| active[j]).collect();
        let logits = model.generate_all(&tape, &encoded, &codes);
        let channels = logits.shape().last();
        let values = logits.into_tensor().to_vec();
        must_be_finite(&values, "logits")?;
        let output = height * width * channels;
        let of_images = values.par_chunks_exact(views.len() * kept.len() * output);
        found.par_iter_mut().zip(&rows).zip(of_images).for_each(|((hypotheses, row), of_views)| {
            for (at, &j) in kept.iter().enumerate() {
                if row[j] >= options.min_probability || best(row) == j {
                    let of_views = of_views.chunks_exact(output).skip(at).step_by(kept.len());
                    let mask = mask_of(&views.mean(of_views), width, height, channels);
                    hypotheses.push(Hypothesis { mask, probability: row[j], code: active[j] });
                }
            }
        });
    }
    let settled = found.into_par_iter().map(|mut hypotheses| {
        hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.code.cmp(&b.code)));
        settle(hypotheses, options.merge_iou)
    });
    Ok(settled.collect())
}

/// Refuses outputs of which no mask and no probability can be made.
pub(crate) fn must_be_finite(values: &[f32], what: &'static str) -> Result<()> {
    let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
    match values.par_chunks(1 << 16).all(finite) {
        true => Ok(()),
        false => Err(Error::NotFinite { what }),
    }
}

/// The mean of some rows.
fn mean_row(rows: &[f32], width: usize) -> Vec<f32> {
    let count = (rows.len() / width) as f32;
    (0..width).map(|column| rows.iter().skip(column).step_by(width).sum::<f32>() / count).collect()
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
        let network = Network::new(&recipe, &Device::cpu()).unwrap();
        let model = network.model().unwrap();
        let [together, alone] =
            [AT_ONCE, 1].map(|at_once| predict_in_turns(model, &recipe, &pictures(), at_once).unwrap());
        assert!(together.iter().any(|prediction| prediction.len() > 1), "{together:?}");
        assert_eq!(together, alone);
    }

    /// Two images of nothing in particular.
    fn pictures() -> [Image; 2] {
        [37, 53].map(|by| Image::new(16, 16, 1, (0..256).map(|at| (at * by % 101) as f32 / 100.0).collect()))
    }

    #[test]
    fn with_all_eight_views_a_turned_image_has_turned_outputs() {
        let turns = [
            "augment.flip_horizontal=0.5",
            "augment.quarter_turns=true",
            "predict.views=8",
            "predict.merge_iou=1",
        ];
        let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, &turns);
        let network = Network::new(&recipe, &Device::cpu()).unwrap();
        let model = network.model().unwrap();
        let turn = &recipe.augment.views(8, [16, 16])[3];
        let (images, turned) = (pictures(), pictures().map(|image| turn.moved(&image)));
        let [upright, turned] =
            [images, turned].map(|images| predict_batch(model, &recipe, &images).unwrap());
        let back = turn.way_back([16, 16]);
        let as_image = |mask: &Mask| {
            Image::new(
                16,
                16,
                1,
                (0..256).map(|at| f32::from(u8::from(mask.get(0, at % 16, at / 16)))).collect(),
            )
        };
        let mut pixels = (0, 0);
        for (upright, turned) in upright.iter().zip(&turned) {
            for one in &upright.hypotheses {
                let same = turned.hypotheses.iter().find(|other| other.code == one.code).expect("its code");
                assert!((one.probability - same.probability).abs() < 1e-5, "{one:?} {same:?}");
                let (mask, other) = (as_image(&one.mask), back.apply(&as_image(&same.mask)));
                pixels.0 += 256;
                // Sums in another order may fall on the other side of zero.
                pixels.1 += mask.pixels().iter().zip(other.pixels()).filter(|(a, b)| a != b).count();
            }
        }
        assert!(pixels.0 > 0 && pixels.1 * 100 <= pixels.0, "{pixels:?}");
        // One view of the same images says something else.
        let one = Recipe {
            predict: crate::recipe::PredictRecipe { views: 1, ..recipe.predict.clone() },
            ..recipe.clone()
        };
        assert_ne!(predict_batch(model, &one, &pictures()).unwrap(), upright);
    }

    #[test]
    fn an_image_with_other_channels_is_refused_with_both_numbers() {
        let recipe = Recipe::named("shapes-tiny").unwrap();
        let network = Network::new(&recipe, &Device::cpu()).unwrap();
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
    fn outputs_that_are_no_numbers_are_an_error_and_no_mask() {
        for (kind, tensor) in [
            ("multivalued", "classifier"),
            ("multivalued", "codebook.codes"),
            ("multivalued", "generator"),
            ("probabilistic-unet", "generator"),
            ("unet", "generator"),
        ] {
            let kind = format!("method.kind={kind}");
            let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, &[&kind]);
            let mut network = Network::new(&recipe, &Device::cpu()).unwrap();
            let parameters = network.parameters_mut();
            // Finite, as a file may hold them; what is computed from them is not.
            let id = parameters
                .ids()
                .filter(|&id| {
                    let name = parameters.get(id).name();
                    name.contains(tensor) && (name.ends_with("weight") || name == tensor)
                })
                .last()
                .unwrap();
            parameters.modify(id, |values| values.fill(f32::MAX));
            let predicted = Predictor::new(network, &recipe).predict(&pictures().each_ref());
            assert!(matches!(predicted, Err(Error::NotFinite { .. })), "{kind} {tensor}: {predicted:?}");
        }
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
