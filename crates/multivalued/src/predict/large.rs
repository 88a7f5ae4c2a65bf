//! Images that do not fit into memory whole: the networks compute them strip by strip (`model::InStrips`), with the
//! group statistics, the codes and the probabilities of the whole image.

mod drawing;

use super::views::Views;
use super::{Limit, encoding_values, is_kept, mean_row, must_be_finite, outlined, settled_with, tensor_of};
use crate::Result;
use crate::model::{Field, InStrips, Model};
use crate::network::Network;
use crate::recipe::{CodeEntry, ModelRecipe, Recipe};
use drawing::Drawing;
use multivalued_data::memory::in_words;
use multivalued_data::{Hypothesis, Image, Prediction};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Codes that are generated at once, for each strip.
const CODES_AT_ONCE: usize = 2;
/// Buffers that a device keeps free, in terms of those in use.
const POOLED: u64 = 2;
/// Of the memory that is left beside what is kept of a whole image, a strip may take this share.
const SHARE_OF_STRIP: u64 = 2;
/// A strip is at least this large, whatever the memory.
const SMALLEST_STRIP: u64 = 16 << 20;

/// How a large image is predicted.
pub(super) struct Large<'a> {
    model: &'a Model,
    recipe: &'a Recipe,
    limit: &'a Limit,
    /// Pixels of the finest level that are computed at once.
    pixels: usize,
    /// Codes whose logits are kept whole, where several views are averaged.
    codes: usize,
}

/// Bytes of one image of a size that is computed whole: every value once, and again as what the device keeps.
fn whole_bytes(model: &ModelRecipe, size: [usize; 2]) -> u64 {
    POOLED * 4 * encoding_values(model, size) as u64
}

/// How an image of a size is predicted in strips; none where it need not be. An error where it cannot be computed within
/// the limit at all.
pub(super) fn exceeds<'a>(
    network: &'a Network,
    recipe: &'a Recipe,
    size: [usize; 2],
    limit: &'a Limit,
) -> Result<Option<Large<'a>>> {
    let own = &recipe.model;
    let Some(bytes) = limit.bytes.filter(|&bytes| whole_bytes(own, size) > bytes) else { return Ok(None) };
    let refused = |needed: u64, why: &str| {
        let (has, needed) = (in_words(bytes), in_words(needed));
        let [width, height] = size;
        let reason = format!(
            "{has} are too little for {width}x{height} pixels: {why} about {needed}; allow as much, or resample the image"
        );
        Err(multivalued_data::Error::mismatch("--memory", reason).into())
    };
    let whole = |why: &str| refused(whole_bytes(own, size), why);
    let Some(model) = network.model() else { return whole("a baseline is computed whole, which takes") };
    if own.code_entry != CodeEntry::Head || own.channels.len() < 2 {
        return whole("a model of this kind is computed whole, which takes");
    }
    let pixels = (size[0] * size[1]) as u64;
    // Four of the image; what enters the second level, what the decoder gives there and at the third.
    let channels = |level: usize| own.channels.get(level).copied().unwrap_or(0) as u64;
    let image = 4 * 4 * own.input_channels as u64;
    let kept = pixels * (image + channels(0) + channels(1)) + pixels / 4 * channels(2);
    let several = recipe.predict.views > 1;
    let logits = 4 * pixels * own.output_channels() as u64;
    // Of each code its logits of a view, and their mean so far; two more while one is moved back.
    let of_codes = |codes: u64| if several { logits * (2 * codes + 2) } else { 0 };
    let least = kept + of_codes(1) + SMALLEST_STRIP;
    if least > bytes {
        return refused(least, "what is kept of all strips takes");
    }
    let active = model.active_codes().len() as u64;
    let codes = (1..=active).rev().find(|&codes| kept + of_codes(codes) + bytes / 4 <= bytes).unwrap_or(1);
    let strip = ((bytes - kept - of_codes(codes)) / SHARE_OF_STRIP).max(SMALLEST_STRIP);
    let values = encoding_values(own, [1, 1]) + 2 * CODES_AT_ONCE * own.head_width.max(own.channels[0]);
    let pixels = (strip / (POOLED * 4 * values as u64)) as usize;
    Ok(Some(Large { model, recipe, limit, pixels, codes: codes as usize }))
}

impl Large<'_> {
    /// The prediction of one normalised image.
    pub fn predict(&self, image: Image) -> Result<Prediction> {
        let size = [image.width(), image.height()];
        let views = Views::new(self.recipe, size);
        let own = tensor_of(&[image], self.model.device());
        let active = self.model.active_codes();
        let counted = Counted { done: AtomicUsize::new(0), all: AtomicUsize::new(0), limit: self.limit };
        let encode = |view: usize| {
            let moved = views.of(&own, view..view + 1);
            let channels = moved.shape()[3];
            let field = Field { size: [size[1], size[0]], channels, values: moved.to_vec() };
            InStrips::new(self.model, field, self.pixels, &mut || counted.add())
        };
        let passes = InStrips::passes(self.model, [size[1], size[0]], self.pixels);
        // What is known of the codes needs the encoder alone; of a single view it is not computed again.
        let (mut first, mut stated) = (None, Vec::new());
        let each: usize = passes.iter().sum();
        let again = if views.len() == 1 { 0 } else { passes[0] };
        counted.expect(views.len() * (each + again));
        for view in 0..views.len() {
            let encoded = encode(view);
            stated.extend(encoded.probabilities(&active));
            first = (views.len() == 1).then_some(encoded);
        }
        must_be_finite(&stated, "probabilities")?;
        let row = mean_row(&stated, active.len());
        let options = &self.recipe.predict;
        let kept: Vec<usize> = (0..active.len()).filter(|&j| is_kept(options, &row, j)).collect();
        let chunks: Vec<&[usize]> =
            kept.chunks(if views.len() == 1 { kept.len() } else { self.codes }).collect();
        counted.expect((chunks.len() - 1) * views.len() * each);
        let (mut hypotheses, mut empty) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let codes: Vec<usize> = chunk.iter().map(|&j| active[j]).collect();
            let mut drawing = Drawing::new(self.recipe, self.model.device(), size, &views, codes.len());
            for view in 0..views.len() {
                let encoded = first.take().unwrap_or_else(|| encode(view));
                let mut fault = None;
                let nothing = encoded.generate(
                    &codes,
                    CODES_AT_ONCE,
                    &mut || counted.add(),
                    &mut |rows, at, logits| {
                        fault = fault.take().or(drawing.add(rows, at, &logits).err());
                    },
                );
                fault.map_or(Ok(()), Err)?;
                drawing.end_view(view);
                empty.extend(nothing);
            }
            for (outlines, &j) in drawing.masks()?.into_iter().zip(chunk) {
                hypotheses.extend(outlined(outlines, row[j], active[j]));
            }
        }
        must_be_finite(&empty, "probabilities")?;
        // Each chunk of codes says it again.
        let empty = (!empty.is_empty()).then(|| empty.iter().sum::<f32>() / empty.len() as f32);
        let hypotheses: Vec<Hypothesis> = hypotheses;
        Ok(settled_with(self.recipe, size, hypotheses, empty))
    }
}

/// Strips that were computed.
struct Counted<'a> {
    done: AtomicUsize,
    all: AtomicUsize,
    limit: &'a Limit,
}

impl Counted<'_> {
    fn expect(&self, more: usize) {
        self.all.fetch_add(more, Ordering::Relaxed);
    }

    fn add(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(told) = &self.limit.told {
            told(done, self.all.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::tiny_recipe;
    use crate::recipe::Space;
    use multivalued_data::metric::iou;
    use multivalued_engine::Device;
    use std::sync::{Arc, Mutex};

    fn picture([width, height]: [usize; 2], channels: usize) -> Image {
        let value = |at: usize| {
            let (x, y) = (at % width, at / width % height);
            let near = (x as f32 - 0.4 * width as f32).hypot(y as f32 - 0.6 * height as f32);
            (at * 37 % 101) as f32 / 200.0 + (-near / 9.0).exp() + y as f32 / height as f32
        };
        Image::new(width, height, channels, (0..width * height * channels).map(value).collect())
    }

    /// Holds strips against the whole image for a network with weights as at its start.
    fn compare(changes: &[&str], size: [usize; 2]) {
        compare_with(changes, size, 0.0);
    }

    /// The same with another bias of what is not the background.
    fn compare_with(changes: &[&str], size: [usize; 2], bias: f32) {
        let changes = [&["predict.merge_iou=1"], changes].concat();
        let recipe = tiny_recipe(Space::Output, &changes);
        let mut network = Network::new(&recipe, &Device::cpu()).unwrap();
        if bias != 0.0 {
            let output = network.parameters().find("generator.output.bias").unwrap();
            let background = usize::from(recipe.model.classes > 1);
            network.parameters_mut().modify(output, |biases| biases[background..].fill(bias));
        }
        let image = picture(size, recipe.model.input_channels);
        let whole = network.predict_batch(&recipe, std::slice::from_ref(&image)).unwrap().remove(0);
        let heard = Arc::new(Mutex::new((0, 0)));
        let hear = heard.clone();
        let told: super::super::Told = Arc::new(move |done, all| *hear.lock().unwrap() = (done, all));
        let limit = Limit { bytes: Some(1), told: Some(told) };
        let model = network.model().unwrap();
        // Strips as narrow as they get, whatever the memory.
        let large = Large { model, recipe: &recipe, limit: &limit, pixels: 1, codes: 2 };
        let strips = large.predict(image).unwrap();
        let (done, all) = *heard.lock().unwrap();
        assert!(done == all && all > 10, "{done} of {all} strips");
        assert_eq!(strips.len(), whole.len(), "{changes:?}");
        for one in &whole.hypotheses {
            let same = strips.hypotheses.iter().filter(|other| other.code == one.code);
            let found = same.map(|other| (iou(&one.mask, &other.mask).unwrap(), other.probability));
            let (iou, probability) = found.max_by(|a, b| a.0.total_cmp(&b.0)).expect("its code");
            assert!(iou >= 0.98, "{changes:?}: IoU {iou}");
            assert!(
                (probability - one.probability).abs() < 1e-4,
                "{changes:?}: {probability}, {}",
                one.probability
            );
        }
    }

    #[test]
    fn strips_say_what_the_whole_image_says() {
        compare(&[], [40, 96]);
        compare(&["model.empty_head=true"], [33, 75]);
        // No logit is above zero: masks are made of the highest ones.
        compare_with(&["model.empty_head=true"], [33, 75], -30.0);
        compare_with(&["model.empty_head=true", "model.classes=2", "predict.spread=0.1"], [40, 60], -30.0);
        compare(&["model.norm_group=0", "model.classes=2"], [40, 97]);
        compare(&["model.input_channels=2", "predict.spread=0.05"], [31, 64]);
        let eight = ["augment.flip_horizontal=0.5", "augment.quarter_turns=true", "predict.views=8"];
        compare(&eight, [64, 64]);
        compare(
            &["augment.scale=0.2", "augment.rotation=10", "predict.views=3", "model.classes=2"],
            [50, 77],
        );
    }

    #[test]
    fn only_what_does_not_fit_is_computed_in_strips_and_some_of_it_is_refused() {
        let recipe = Recipe::named("lidc").unwrap();
        let network = Network::new(&recipe, &Device::cpu()).unwrap();
        let at = |side: usize, mib: u64| {
            let limit = Limit { bytes: Some(mib << 20), told: None };
            exceeds(&network, &recipe, [side; 2], &limit)
                .map(|large| large.is_some())
                .map_err(|error| error.to_string())
        };
        assert_eq!(at(128, 1 << 10), Ok(false));
        assert_eq!(at(4096, 64 << 10), Ok(false));
        assert_eq!(at(4096, 3 << 10), Ok(true));
        let said = at(4096, 64).unwrap_err();
        assert!(said.contains("--memory") && said.contains("4096x4096"), "{said}");
        let limit = Limit::default();
        assert!(exceeds(&network, &recipe, [16_000; 2], &limit).unwrap().is_none(), "no limit");
    }
}
