//! What the networks say, made a prediction: which codes are kept, their masks and outlines, and equal ones merged.

use crate::recipe::{PredictRecipe, Recipe};
use crate::{Error, Result};
use multivalued_data::metric::overlap::iou;
use multivalued_data::{Hypothesis, Mask, Prediction};
use multivalued_engine::{PackedMasks, Tensor, Var};
use rayon::prelude::*;

/// Whether a code's output is generated: it has at least ε, or none has more.
pub(super) fn is_kept(options: &PredictRecipe, row: &[f32], j: usize) -> bool {
    let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
    row[j] >= options.min_probability || best == j
}

/// What is added to the logits for the outlines further out and further in; the outline itself is the first.
pub(super) fn moves(options: &PredictRecipe) -> Vec<f32> {
    if options.spread > 0.0 { vec![options.spread, -options.spread] } else { Vec::new() }
}

/// The masks that logits of whole images state, then those with their outlines moved.
pub(super) fn packed_outlines(recipe: &Recipe, logits: Tensor) -> Vec<PackedMasks> {
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
pub(super) fn outlined(outlines: Vec<Mask>, probability: f32, code: usize) -> Vec<Hypothesis> {
    let probability = probability / outlines.len() as f32;
    let own = outlines[0].clone();
    // A small mask would vanish; whether there is anything is another question.
    let sound = |mask: Mask| if mask.is_empty() { own.clone() } else { mask };
    outlines.into_iter().map(|mask| Hypothesis { mask: sound(mask), probability, code }).collect()
}

/// The prediction of the codes' masks, and of the empty mask where a head of its own says how probable that is.
pub(super) fn settled_with(
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
pub(super) fn must_be_finite(values: &[f32], what: &'static str) -> Result<()> {
    match values.iter().all(|value| value.is_finite()) {
        true => Ok(()),
        false => Err(Error::NotFinite { what }),
    }
}

/// The mean of some rows.
pub(super) fn mean_row(rows: &[f32], width: usize) -> Vec<f32> {
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
