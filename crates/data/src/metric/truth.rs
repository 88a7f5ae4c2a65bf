//! Against known modes: were they found, and with the right probability? Each function answers `None`
//! where the truth is not known.

use super::{Comparison, calibration, ged};

/// An output shows a mode when their IoU reaches this.
pub const MATCH_IOU: f64 = 0.9;
/// A mode is found when an output that shows it has at least this share of its probability.
pub const FOUND_SHARE: f64 = 0.5;

/// IoU of a true mode with an output.
fn iou(comparison: &Comparison, mode: usize, output: usize) -> Option<f64> {
    let modes = comparison.mode_side()?;
    Some(comparison.overlaps().iou(modes.first + mode, comparison.output_side().first + output))
}

fn shows(comparison: &Comparison, mode: usize, output: usize) -> bool {
    iou(comparison, mode, output).is_some_and(|iou| iou >= MATCH_IOU)
}

/// The exact GED² of the true distribution itself against the annotations: what a model reaches in the
/// mean that knows all but the draws which the image does not show, and says one output per mode.
pub fn oracle_ged(comparison: &Comparison) -> Option<f64> {
    Some(ged::energy(comparison.overlaps(), comparison.label_side(), comparison.mode_side()?))
}

/// Mode recall: the share of true modes for which one output has IoU ≥ 0.9 and p ≥ 0.5 q.
pub fn recall(comparison: &Comparison) -> Option<f64> {
    let modes = comparison.modes()?.weights();
    let p = comparison.outputs().weights();
    let enough = |q: f64, p: f64| p >= FOUND_SHARE * q * (1.0 - super::WEIGHT_NOISE);
    let found = |mode: usize| (0..p.len()).any(|j| enough(modes[mode], p[j]) && shows(comparison, mode, j));
    Some((0..modes.len()).filter(|&mode| found(mode)).count() as f64 / modes.len() as f64)
}

/// Mode precision: the probability of the outputs that show some true mode (IoU ≥ 0.9).
pub fn precision(comparison: &Comparison) -> Option<f64> {
    let modes = comparison.modes()?.weights().len();
    let shown = |output: usize| (0..modes).any(|mode| shows(comparison, mode, output));
    let p = comparison.outputs().weights().iter().enumerate();
    Some(p.fold(0.0, |sum, (output, p)| if shown(output) { sum + p } else { sum }))
}

/// For each true mode the predicted probability minus the true one. A mode's predicted probability is
/// that of the outputs nearest to it (by 1 − IoU, ties to the lower mode).
pub fn probability_errors(comparison: &Comparison) -> Option<Vec<f64>> {
    let mut errors: Vec<f64> = comparison.modes()?.weights().iter().map(|q| -q).collect();
    for (output, p) in comparison.outputs().weights().iter().enumerate() {
        let of_mode = |mode| iou(comparison, mode, output).unwrap_or(0.0);
        let nearest = calibration::nearest(errors.len(), of_mode);
        errors[nearest] += p;
    }
    Some(errors)
}

/// The mean over modes of |predicted − true probability|.
pub fn probability_mae(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64
}

/// Total variation between the true distribution and the outputs, an output counting for the mode it shows
/// (IoU ≥ 0.9, the nearest) and for none where it shows none: ½ (Σ |predicted − true| + the probability of those).
pub fn total_variation_shown(comparison: &Comparison) -> Option<f64> {
    let mut errors: Vec<f64> = comparison.modes()?.weights().iter().map(|q| -q).collect();
    let mut shown_nowhere = 0.0;
    for (output, p) in comparison.outputs().weights().iter().enumerate() {
        let of_mode = |mode| iou(comparison, mode, output).unwrap_or(0.0);
        let nearest = calibration::nearest(errors.len(), of_mode);
        *if shows(comparison, nearest, output) { &mut errors[nearest] } else { &mut shown_nowhere } += p;
    }
    Some(total_variation(&errors) + shown_nowhere / 2.0)
}

/// Total variation between predicted and true mode probabilities, half the sum of |predicted − true|.
pub fn total_variation(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error.abs()).sum::<f64>() / 2.0
}
