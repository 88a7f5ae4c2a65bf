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
mod views;

pub(crate) use fit::fitted_temperature;

use crate::batch::interleaved;
use crate::error::caught;
use crate::model::Model;
use crate::network::Network;
use crate::recipe::{CodeEntry, ModelRecipe, PredictRecipe, Recipe};
use crate::temperature::Temperature;
use crate::{Error, Result};
use multivalued_data::metric::overlap::iou;
use multivalued_data::{Case, CaseList, Hypothesis, Image, Mask, Prediction};
use multivalued_engine::{Device, PackedMasks, Tape, Tensor, Var};
use rayon::prelude::*;
use std::borrow::Borrow;
use std::ops::Range;
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

/// What the networks are given at once. The same on every machine with such a device, so that results are, too.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// Images, or views of them, that are encoded together, where they have one size.
    views: usize,
    /// Values that are held. Sixteen images of 2048x2048 would need sixteen times half a gigabyte for a single layer.
    values: usize,
}

impl Load {
    /// Half a gigabyte in f32.
    const OF_PROCESSOR: Self = Self { views: 16, values: 1 << 27 };
    /// 64 MiB in f32. What a page's memory once grew to it keeps.
    const OF_PAGE: Self = Self { views: 16, values: 1 << 24 };
    /// Two gigabytes in f32. A GPU is not busy with fewer views.
    const OF_GPU: Self = Self { views: 128, values: 1 << 29 };

    fn of(device: &Device) -> Self {
        match device.computes_beside() {
            true => Self::OF_GPU,
            false if cfg!(target_arch = "wasm32") => Self::OF_PAGE,
            false => Self::OF_PROCESSOR,
        }
    }
}

/// Images, or views of them, that networks on a device are given at once, if they are not too large for that.
pub fn views_together(device: &Device) -> usize {
    Load::of(device).views
}

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
    predict_in_turns(model, recipe, images, Load::of(model.device()).values)
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

/// Values held while one image (or view) is encoded and decoded: every level's features, which the decoder
/// needs, and what its last and largest block works on.
fn encoding_values(model: &ModelRecipe, [width, height]: [usize; 2]) -> usize {
    let levels: usize =
        model.channels.iter().enumerate().map(|(level, channels)| (channels >> (2 * level)) + 1).sum();
    let (finest, next) = (model.channels[0], model.channels.get(1).copied().unwrap_or(0));
    // The coarser level enlarged, both side by side, and four of the block's own layers.
    let block = next + (next + finest) + 4 * finest;
    width * height * (model.input_channels + levels + block + model.head_width)
}

/// How many outputs of each of some images (or views) are generated at once.
pub(crate) fn outputs_together(
    device: &Device,
    model: &ModelRecipe,
    images: usize,
    size: [usize; 2],
) -> usize {
    outputs_within(Load::of(device).values, model, images, size)
}

fn outputs_within(at_once: usize, model: &ModelRecipe, images: usize, size: [usize; 2]) -> usize {
    let held = match model.code_entry {
        // Two of the head's layers.
        CodeEntry::Head => 2 * size[0] * size[1] * model.head_width.max(model.channels[0]),
        CodeEntry::Bottleneck => encoding_values(model, size),
    };
    (at_once / (images * held)).max(1)
}

/// Views that are encoded together: all of some images, or some of one image.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    images: Range<usize>,
    views: Range<usize>,
}

impl Part {
    /// How many views there are of all images together.
    fn len(&self) -> usize {
        self.images.len() * self.views.len()
    }
}

/// All views of all images, so many at once.
fn parts(images: usize, views: usize, together: usize) -> Vec<Part> {
    let ranges = |all: usize, step: usize| (0..all).step_by(step).map(move |at| at..(at + step).min(all));
    match together / views {
        0 => (0..images)
            .flat_map(|image| {
                ranges(views, together.max(1)).map(move |views| Part { images: image..image + 1, views })
            })
            .collect(),
        whole => ranges(images, whole).map(|images| Part { images, views: 0..views }).collect(),
    }
}

/// Codes that are generated together, at most so many. Powers of two: batches keep different numbers of codes, but
/// ask for buffers of few sizes, which the device has from the batch before.
fn turns(mut kept: &[usize], most: usize) -> Vec<&[usize]> {
    let mut turns = Vec::new();
    while !kept.is_empty() {
        let (turn, rest) = kept.split_at(1 << most.min(kept.len()).ilog2());
        turns.push(turn);
        kept = rest;
    }
    turns
}

/// The same with so many values at once. Views beyond that are encoded one part after the other, and codes
/// take turns. The device is waited for twice: for the probabilities, and for the masks' bits.
fn predict_in_turns(
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
    let turns = turns(&kept, outputs_within(at_once, &model.recipe, most, size));
    // By turn, the sums over the views so far where an image's views do not fit into one part.
    let mut sums: Vec<Option<Tensor>> = vec![None; turns.len()];
    let (mut whose, mut packed) = (Vec::new(), Vec::new());
    for part in &parts {
        let encoded = encoded.take().unwrap_or_else(|| encode(part));
        for (turn, sum) in turns.iter().zip(&mut sums) {
            let codes: Vec<usize> = turn.iter().map(|&j| active[j]).collect();
            let logits = model.generate_all(&tape, &encoded, &codes).into_tensor();
            let mean = views.mean(&logits, part.views.clone(), turn.len(), sum.take());
            if part.views.end < views.len() {
                *sum = Some(mean);
            } else {
                whose.push((part.images.clone(), *turn));
                packed.extend(packed_outlines(recipe, mean));
            }
        }
    }
    let mut found: Vec<Vec<Hypothesis>> = rows.iter().map(|_| Vec::new()).collect();
    let masks = masks_of(&packed, size, model.recipe.classes)?;
    for ((images, turn), outlines) in whose.into_iter().zip(masks.chunks_exact(1 + moves(options).len())) {
        let first = images.start;
        let of_images = found[images.clone()].par_iter_mut().zip(&rows[images.clone()]).zip(images);
        of_images.for_each(|((found, row), image)| {
            for (at, &j) in turn.iter().enumerate().filter(|(_, j)| is_kept(row, **j)) {
                let own = |masks: &Vec<Mask>| masks[(image - first) * turn.len() + at].clone();
                found.extend(outlined(outlines.iter().map(own).collect(), row[j], active[j]));
            }
        });
    }
    let settled = found.into_par_iter().zip(empty);
    Ok(settled.map(|(hypotheses, empty)| settled_with(recipe, size, hypotheses, empty)).collect())
}

/// Whether a code's output is generated: it has at least ε, or none has more.
fn is_kept(options: &PredictRecipe, row: &[f32], j: usize) -> bool {
    let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
    row[j] >= options.min_probability || best == j
}

/// What is added to the logits for the outlines further out and further in; the outline itself is the first.
fn moves(options: &PredictRecipe) -> Vec<f32> {
    if options.spread > 0.0 { vec![options.spread, -options.spread] } else { Vec::new() }
}

/// The masks that logits of whole images state, then those with their outlines moved.
fn packed_outlines(recipe: &Recipe, logits: Tensor) -> Vec<PackedMasks> {
    let logits = Var::constant(logits);
    // Where a head of its own says how probable the empty mask is, the codes say what there is if there is anything:
    // an empty mask of theirs would count the same chance twice.
    let own = match recipe.model.empty_head {
        true => logits.tensor().pack_masks_with_pixels(),
        false => logits.tensor().pack_masks(),
    };
    let moved = moves(&recipe.predict).into_iter();
    let moved = moved.map(|by| logits.add_scalar(by).into_tensor().pack_masks());
    [own].into_iter().chain(moved).collect()
}

/// The outlines of a code's mask, which share its probability.
fn outlined(outlines: Vec<Mask>, probability: f32, code: usize) -> Vec<Hypothesis> {
    let probability = probability / outlines.len() as f32;
    let own = outlines[0].clone();
    // A small mask would vanish; whether there is anything is another question.
    let sound = |mask: Mask| if mask.is_empty() { own.clone() } else { mask };
    outlines.into_iter().map(|mask| Hypothesis { mask: sound(mask), probability, code }).collect()
}

/// The prediction of the codes' masks, and of the empty mask where a head of its own says how probable that is.
fn settled_with(
    recipe: &Recipe,
    size: [usize; 2],
    mut hypotheses: Vec<Hypothesis>,
    empty: Option<f32>,
) -> Prediction {
    let (model, options) = (&recipe.model, &recipe.predict);
    if let Some(empty) = empty {
        hypotheses.iter_mut().for_each(|one| one.probability *= 1.0 - empty);
        let mask = Mask::empty(size[0], size[1], model.classes);
        hypotheses.push(Hypothesis { mask, probability: empty, code: model.code_count });
        hypotheses.retain(|one| one.probability >= options.min_probability);
    }
    hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.code.cmp(&b.code)));
    settle(hypotheses, options.merge_iou)
}

/// The masks that were packed where the networks computed. An error where a logit was not finite.
pub(crate) fn masks_of(
    packed: &[PackedMasks],
    [width, height]: [usize; 2],
    classes: usize,
) -> Result<Vec<Vec<Mask>>> {
    let words = PackedMasks::words(packed).ok_or(Error::NotFinite { what: "logits" })?;
    let each = (width * height).div_ceil(64) * classes;
    let mask = |words: &[u64]| {
        Mask::from_words(width, height, classes, words.to_vec()).expect("words of masks of this size")
    };
    Ok(words.iter().map(|words| words.par_chunks_exact(each).map(mask).collect()).collect())
}

/// Refuses outputs of which no probability can be made.
fn must_be_finite(values: &[f32], what: &'static str) -> Result<()> {
    match values.iter().all(|value| value.is_finite()) {
        true => Ok(()),
        false => Err(Error::NotFinite { what }),
    }
}

/// The mean of some rows.
fn mean_row(rows: &[f32], width: usize) -> Vec<f32> {
    let count = (rows.len() / width) as f32;
    (0..width).map(|column| rows.iter().skip(column).step_by(width).sum::<f32>() / count).collect()
}

/// Merges outputs that overlap at least `merge_iou` into the more probable one, then renormalises.
pub(crate) fn settle(sorted: Vec<Hypothesis>, merge_iou: f32) -> Prediction {
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
    fn a_spread_gives_every_mask_an_outline_further_out_and_one_further_in() {
        let of = |changes: &[&str]| {
            let changes = [&["predict.merge_iou=1"], changes].concat();
            let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, &changes);
            let network = Network::new(&recipe, &Device::cpu()).unwrap();
            predict_batch(network.model().unwrap(), &recipe, &pictures()).unwrap()
        };
        let (plain, spread) = (of(&[]), of(&["predict.spread=0.05"]));
        for (plain, spread) in plain.iter().zip(&spread) {
            assert!(spread.len() > plain.len(), "{spread:?}");
            for one in &plain.hypotheses {
                let outlines: Vec<&Hypothesis> =
                    spread.hypotheses.iter().filter(|other| other.code == one.code).collect();
                let total: f32 = outlines.iter().map(|outline| outline.probability).sum();
                // Equal outlines of several codes are merged into one of them.
                assert!(outlines.len() < 3 || total >= 0.999 * one.probability, "{total} of {one:?}");
                let area = |mask: &Mask| multivalued_data::metric::area::of(mask);
                let both =
                    |other: &Mask| Mask::from_fn(16, 16, |x, y| one.mask.get(0, x, y) && other.get(0, x, y));
                for outline in outlines {
                    let common = area(&both(&outline.mask));
                    assert_eq!(common, area(&one.mask).min(area(&outline.mask)), "one holds the other");
                }
            }
        }
    }

    #[test]
    fn codes_and_views_that_take_turns_say_the_same() {
        let eight = ["augment.flip_horizontal=0.5", "augment.quarter_turns=true", "predict.views=8"];
        let bottleneck = ["model.code_entry=bottleneck", "augment.flip_horizontal=0.5", "predict.views=2"];
        for changes in [&[][..], &eight, &bottleneck] {
            let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, changes);
            let network = Network::new(&recipe, &Device::cpu()).unwrap();
            let model = network.model().unwrap();
            let one = encoding_values(&recipe.model, [16, 16]);
            let together = predict_in_turns(model, &recipe, &pictures(), Load::OF_PROCESSOR.values).unwrap();
            assert!(together.iter().any(|prediction| prediction.len() > 1), "{together:?}");
            for at_once in [1, 3 * one, 8 * one] {
                let parted = predict_in_turns(model, &recipe, &pictures(), at_once).unwrap();
                assert_eq!(parted, together, "{at_once}");
            }
        }
    }

    #[test]
    fn parts_are_whole_images_or_views_of_one() {
        let whole = |images, views: usize| Part { images, views: 0..views };
        assert_eq!(parts(4, 1, 2), [whole(0..2, 1), whole(2..4, 1)]);
        assert_eq!(parts(3, 2, 4), [whole(0..2, 2), whole(2..3, 2)]);
        let of = |image: usize| [0..3, 3..6, 6..8].map(|views| Part { images: image..image + 1, views });
        assert_eq!(parts(2, 8, 3), [of(0), of(1)].concat());
        assert_eq!(parts(2, 1, 0), [whole(0..1, 1), whole(1..2, 1)]);
    }

    #[test]
    fn codes_take_turns_by_powers_of_two() {
        let codes: Vec<usize> = (0..11).collect();
        let lengths = |most| turns(&codes, most).into_iter().map(<[usize]>::len).collect::<Vec<_>>();
        assert_eq!([lengths(64), lengths(7), lengths(1)], [vec![8, 2, 1], vec![4, 4, 2, 1], vec![1; 11]]);
        assert_eq!(turns(&codes, 5).concat(), codes);
        assert!(turns(&[], 5).is_empty());
    }

    #[test]
    fn large_images_are_encoded_within_a_gigabyte() {
        let model = &Recipe::named("lidc").unwrap().model;
        let bytes = |side: usize| 4 * encoding_values(model, [side, side]);
        // Sixteen of LIDC's slices go together; of 2048x2048 pixels it was 16 times this as well.
        for Load { views, values } in [Load::OF_PROCESSOR, Load::OF_GPU] {
            assert!(views * bytes(128) <= 4 * values, "{}", bytes(128));
            assert!(views * bytes(2048) > 16 * (4 * values), "{}", bytes(2048));
        }
        // What is estimated is what is held: at least the finest level's features and the decoder's input.
        assert!(encoding_values(model, [1, 1]) >= 2 * model.channels[0] + model.channels[1]);
    }

    #[test]
    fn images_without_pixels_or_numbers_are_refused() {
        let recipe = Recipe::named("shapes-tiny").unwrap();
        let predictor = Predictor::new(Network::new(&recipe, &Device::cpu()).unwrap(), &recipe);
        let sound = Image::new(16, 16, 1, vec![0.5; 256]);
        for (bad, says) in [
            (Image::new(0, 16, 1, Vec::new()), "0x16 pixels"),
            (Image::new(16, 16, 1, [vec![0.5; 253], vec![f32::NAN; 3]].concat()), "3 of 256 values are NaN"),
            (Image::new(2, 2, 1, vec![f32::INFINITY; 4]), "4 of 4 values"),
        ] {
            let message = predictor.predict(&[&sound, &bad]).unwrap_err().to_string();
            assert!(message.contains("image 2 of 2") && message.contains(says), "{message}");
        }
    }

    #[test]
    fn a_head_for_nothing_adds_the_empty_mask_to_what_codes_say() {
        let changes = ["model.empty_head=true", "predict.merge_iou=1"];
        let recipe = crate::fixture::tiny_recipe(crate::recipe::Space::Output, &changes);
        let mut network = Network::new(&recipe, &Device::cpu()).unwrap();
        let predict = |network: &Network| {
            predict_batch(network.model().unwrap(), &recipe, &pictures()).unwrap().swap_remove(0)
        };
        let of_nothing = |said: &Prediction| -> f32 {
            said.hypotheses.iter().filter(|one| one.mask.is_empty()).map(|one| one.probability).sum()
        };
        let bias = network.parameters().find("empty.output.bias").unwrap();
        let output = network.parameters().find("generator.output.bias").unwrap();
        // What the head says holds even where no logit of any code is above zero.
        for below in [0.0, -30.0] {
            network.parameters_mut().modify(output, |bias| bias.fill(below));
            let [alone, zero, three] = [-50.0, 0.0, 3.0].map(|value| {
                network.parameters_mut().modify(bias, |bias| bias.fill(value));
                let said = predict(&network);
                assert!((said.hypotheses.iter().map(|one| one.probability).sum::<f32>() - 1.0).abs() < 1e-5);
                1.0 - of_nothing(&said)
            });
            assert!((alone - 1.0).abs() < 1e-5, "no code shows nothing: {alone}");
            let logit = |something: f32| (1.0 / something - 1.0).ln();
            assert!((logit(three) - logit(zero) - 3.0).abs() < 1e-3, "{zero} {three}");
        }
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
        let turn = Views::new(&recipe, [16, 16]);
        let images = pictures();
        let turned = turn.of(&tensor_of(&images, &Device::cpu()), 3..4).to_vec();
        let turned: Vec<Image> =
            turned.chunks_exact(256).map(|values| Image::new(16, 16, 1, values.to_vec())).collect();
        let [upright, turned] =
            [&images[..], &turned].map(|images| predict_batch(model, &recipe, images).unwrap());
        let pixels_of = |mask: &Mask| {
            (0..256).map(|at| f32::from(u8::from(mask.get(0, at % 16, at / 16)))).collect::<Vec<f32>>()
        };
        let moved_back = |mask: &Mask| {
            let mask = Tensor::from_slice(&Device::cpu(), [1, 16, 16, 1], &pixels_of(mask));
            // All other views say nothing, and each of eight has an eighth.
            let other = Tensor::zeros(&Device::cpu(), [1, 16, 16, 1]);
            let mean = (0..8).fold(None, |mean, view| {
                Some(turn.mean(if view == 3 { &mask } else { &other }, view..view + 1, 1, mean))
            });
            mean.unwrap().to_vec().into_iter().map(|value| 8.0 * value).collect::<Vec<f32>>()
        };
        let mut pixels = (0, 0);
        for (upright, turned) in upright.iter().zip(&turned) {
            for one in &upright.hypotheses {
                let same = turned.hypotheses.iter().find(|other| other.code == one.code).expect("its code");
                assert!((one.probability - same.probability).abs() < 1e-5, "{one:?} {same:?}");
                pixels.0 += 256;
                // Sums in another order may fall on the other side of zero.
                let other = moved_back(&same.mask);
                pixels.1 += pixels_of(&one.mask).into_iter().zip(other).filter(|(a, b)| a != b).count();
            }
        }
        assert!(pixels.0 > 0 && pixels.1 * 100 <= pixels.0, "{pixels:?}");
        // One view of the same images says something else.
        let one = Recipe { predict: PredictRecipe { views: 1, ..recipe.predict.clone() }, ..recipe.clone() };
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
}
