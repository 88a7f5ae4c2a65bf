//! Prediction: Algorithm 2 of the paper.
//!
//! ```text
//! l, p ← E_θ(x), P_ϕ(E_θ(x))
//! drop codes with p < ε;  y_j ← G_θ(l, c_j) for all that are left, in one batch
//! merge equal outputs, renormalise, sort
//! ```

#[cfg(test)]
mod cuda;
mod fit;
mod large;
mod load;
mod settle;
#[cfg(test)]
mod tests;
mod views;

pub(crate) use fit::fitted_temperature;
pub(crate) use load::outputs_per_batch;
pub use load::views_per_batch;
pub(crate) use settle::{masks_of, settle};

use crate::Result;
use crate::batch::interleaved;
use crate::error::caught;
use crate::model::Model;
use crate::network::Network;
use crate::recipe::Recipe;
use crate::temperature::Temperature;
use load::{Load, Part, code_chunks, encoding_values, outputs_within, parts};
use multivalued_data::{Case, CaseList, Hypothesis, Image, Mask, Prediction};
use multivalued_engine::{Device, Tape, Tensor, Var};
use rayon::prelude::*;
use settle::{is_kept, mean_row, moves, must_be_finite, outlined, packed_outlines, settled_with};
use std::borrow::Borrow;
use std::sync::Arc;
use views::Views;

/// Predicts weighted sets of masks for images of any size.
pub struct Predictor {
    network: Network,
    recipe: Recipe,
    limit: Limit,
}

/// How much memory a prediction may take, and who hears of the strips that a large image is computed in.
#[derive(Clone, Default)]
pub struct Limit {
    /// Bytes; none for as many as it takes.
    pub bytes: Option<u64>,
    /// Called with the number of strips that are computed, and of how many.
    pub told: Option<Told>,
}

/// Whoever hears of strips.
pub type Told = Arc<dyn Fn(usize, usize) + Send + Sync>;

impl Predictor {
    /// A predictor from trained networks and the recipe they were trained by.
    pub fn new(network: Network, recipe: &Recipe) -> Self {
        Self { network, recipe: recipe.clone(), limit: Limit::default() }
    }

    /// The same within a limit of memory: images that would need more are computed in strips, with the same result.
    pub fn within(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
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

    /// The weighted set of each image, most probable first. An error where an image has another number of
    /// channels than the networks take, no pixels, or values that are no numbers.
    pub fn predict(&self, images: &[&Image]) -> Result<Vec<Prediction>> {
        self.check(images)?;
        predict_images(&self.network, &self.recipe, images, &self.limit)
    }

    /// Refuses images that [`predict`](Self::predict) would refuse.
    pub fn check(&self, images: &[&Image]) -> Result<()> {
        let takes = self.recipe.model.input_channels;
        for (at, image) in images.iter().enumerate() {
            let fault = match image.channels() {
                has if has != takes => {
                    Some(format!("it has {has} channels, the model takes {takes}; convert it"))
                }
                _ => image.fault(),
            };
            if let Some(fault) = fault {
                let what = format!("image {} of {}", at + 1, images.len());
                return Err(multivalued_data::Error::mismatch(what, fault).into());
            }
        }
        Ok(())
    }
}

/// Tells the cases of a list and their predictions, a few at a time, as [`predict_cases`] makes them.
pub(crate) fn predict_list(
    network: &Network,
    recipe: &Recipe,
    cases: &CaseList,
    mut tell: impl FnMut(&[Arc<Case>], Vec<Prediction>) -> Result<()>,
) -> Result<()> {
    for chunk in cases.chunks() {
        let some = cases.get_all(chunk)?;
        let said = predict_cases(network, recipe, &some)?;
        tell(&some, said)?;
    }
    Ok(())
}

/// Predictions for all cases, with the recipe's options. Panics unless the images have the channels that
/// the networks take, as training cases do; an error where what they say is not finite.
pub fn predict_cases(
    network: &Network,
    recipe: &Recipe,
    cases: &[impl Borrow<Case>],
) -> Result<Vec<Prediction>> {
    let images: Vec<&Image> = cases.iter().map(|case| &case.borrow().image).collect();
    predict_images(network, recipe, &images, &Limit::default())
}

fn predict_images(
    network: &Network,
    recipe: &Recipe,
    images: &[&Image],
    limit: &Limit,
) -> Result<Vec<Prediction>> {
    let mut out = Vec::with_capacity(images.len());
    let mut rest = images;
    while let Some(first) = rest.first() {
        let grid = recipe.data.grid();
        let size = |image: &Image| grid.map_or([image.width(), image.height()], |grid| grid.of(image));
        let (views, load) = (recipe.predict.views, Load::of(network.device()));
        let held = encoding_values(&recipe.model, size(first)) * views;
        let most = (load.views / views).min(load.values / held.max(1)).max(1);
        let alike = rest.iter().take(most).take_while(|image| size(image) == size(first)).count();
        let images: Vec<Image> = rest[..alike]
            .par_iter()
            .map(|image| {
                let mut image = image.resampled(size(image));
                recipe.data.normalise.apply(&mut image);
                image
            })
            .collect();
        // Inside the pool, so that the many small parallel loops start without waking it.
        let mut predictions = caught(|| {
            rayon::scope(|_| match large::exceeds(network, recipe, size(first), limit)? {
                None => network.predict_batch(recipe, &images),
                Some(large) => images.into_iter().map(|image| large.predict(image)).collect(),
            })
        })?;
        let temperature = Temperature::of(&recipe.predict);
        predictions.par_iter_mut().for_each(|prediction| temperature.apply(prediction));
        if grid.is_some() {
            predictions.par_iter_mut().zip(&rest[..alike]).for_each(|(prediction, image)| {
                for hypothesis in &mut prediction.hypotheses {
                    hypothesis.mask = hypothesis.mask.resampled([image.width(), image.height()]);
                }
            });
        }
        out.extend(predictions);
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
    predict_in_batches(model, recipe, images, Load::of(model.device()).values)
}

/// Images of one size as a tensor.
///
/// # Shapes
/// [images, height, width, channels]
pub(crate) fn tensor_of(images: &[Image], device: &Device) -> Tensor {
    let first = &images[0];
    let pixels = images.par_iter().map(interleaved).collect::<Vec<_>>().concat();
    Tensor::from_slice(device, [images.len(), first.height(), first.width(), first.channels()], &pixels)
}

/// The same with so many values at once. Beyond that, views are encoded one part after the other, and outputs are
/// generated one chunk of codes after the other. The device is waited for twice: for the probabilities, and for the
/// masks' bits.
fn predict_in_batches(
    model: &Model,
    recipe: &Recipe,
    images: &[Image],
    at_once: usize,
) -> Result<Vec<Prediction>> {
    let options = &recipe.predict;
    let size = [images[0].width(), images[0].height()];
    let views = Views::new(recipe, size);
    let parts = parts(images.len(), views.len(), at_once / encoding_values(&model.recipe, size));
    let tape = Tape::frozen(&model.parameters);
    let encode = |part: &Part| {
        let own = tensor_of(&images[part.images.clone()], model.device());
        model.encode(&tape, &Var::constant(views.of(&own, part.views.clone())))
    };
    let active = model.active_codes();
    let (mut stated, mut empty) = (Vec::new(), Vec::new());
    // Which codes are kept is known when all views have been seen. Several parts are then encoded once more:
    // their features together are what there is no room for.
    let mut encoded = None;
    for part in &parts {
        let of_part = encode(part);
        let said = model.probabilities(&of_part, &active).into_tensor();
        let nothing = of_part.empty.as_ref().map(|logits| logits.sigmoid().into_tensor());
        let mut read = Tensor::to_vecs(&[&said].into_iter().chain(&nothing).collect::<Vec<_>>()).into_iter();
        stated.extend(read.next().into_iter().flatten());
        empty.extend(read.next().into_iter().flatten());
        encoded = (parts.len() == 1).then_some(of_part);
    }
    must_be_finite(&stated, "probabilities")?;
    must_be_finite(&empty, "probabilities")?;
    let rows: Vec<Vec<f32>> = stated
        .chunks_exact(views.len() * active.len())
        .map(|of_views| mean_row(of_views, active.len()))
        .collect();
    // By image, where the model has a head for the empty mask.
    let mut empty = empty.chunks_exact(views.len()).map(|of_views| mean_row(of_views, 1)[0]);
    let empty: Vec<Option<f32>> = rows.iter().map(|_| empty.next()).collect();
    let is_kept = |row: &[f32], j: usize| is_kept(options, row, j);
    let kept: Vec<usize> = (0..active.len()).filter(|&j| rows.iter().any(|row| is_kept(row, j))).collect();
    let most = parts.iter().map(Part::len).max().unwrap_or(1);
    let chunks = code_chunks(&kept, outputs_within(at_once, &model.recipe, most, size));
    // By chunk of codes, the sums over the views so far where an image's views do not fit into one part.
    let mut sums: Vec<Option<Tensor>> = vec![None; chunks.len()];
    let (mut whose, mut packed) = (Vec::new(), Vec::new());
    for part in &parts {
        let encoded = encoded.take().unwrap_or_else(|| encode(part));
        for (chunk, sum) in chunks.iter().zip(&mut sums) {
            let codes: Vec<usize> = chunk.iter().map(|&j| active[j]).collect();
            let logits = model.generate_all(&tape, &encoded, &codes).into_tensor();
            let mean = views.mean(&logits, part.views.clone(), chunk.len(), sum.take());
            if part.views.end < views.len() {
                *sum = Some(mean);
            } else {
                whose.push((part.images.clone(), *chunk));
                packed.extend(packed_outlines(recipe, mean));
            }
        }
    }
    let mut found: Vec<Vec<Hypothesis>> = rows.iter().map(|_| Vec::new()).collect();
    let masks = masks_of(&packed, size, model.recipe.classes)?;
    for ((images, chunk), outlines) in whose.into_iter().zip(masks.chunks_exact(1 + moves(options).len())) {
        let first = images.start;
        let of_images = found[images.clone()].par_iter_mut().zip(&rows[images.clone()]).zip(images);
        of_images.for_each(|((found, row), image)| {
            for (at, &j) in chunk.iter().enumerate().filter(|(_, j)| is_kept(row, **j)) {
                let own = |masks: &Vec<Mask>| masks[(image - first) * chunk.len() + at].clone();
                found.extend(outlined(outlines.iter().map(own).collect(), row[j], active[j]));
            }
        });
    }
    let settled = found.into_par_iter().zip(empty);
    Ok(settled.map(|(hypotheses, empty)| settled_with(recipe, size, hypotheses, empty)).collect())
}
