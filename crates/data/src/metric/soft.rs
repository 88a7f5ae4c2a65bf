//! Marginal maps (the probability of each pixel) and soft Dice between them.

use super::{Comparison, WEIGHT_NOISE, WeightedMasks, overlap};

/// Levels at which the two marginal maps are cut.
pub const THRESHOLDS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// For every pixel, row by row, the weight of the masks that contain it.
pub fn marginal(set: &WeightedMasks, class: usize) -> Vec<f64> {
    let mut map = vec![0.0; set.masks()[0].width() * set.masks()[0].height()];
    for (mask, weight) in set.masks().iter().zip(set.weights()) {
        for (pixels, &word) in map.chunks_mut(64).zip(mask.plane(class)) {
            let mut rest = word;
            while rest != 0 {
                pixels[rest.trailing_zeros() as usize] += weight;
                rest &= rest - 1;
            }
        }
    }
    map
}

/// The mean over thresholds t (and classes) of Dice(labels' marginal > t, outputs' marginal > t).
///
/// A marginal counts as above t when it exceeds t by more than the noise of f32 weights: three readers
/// out of ten are not above 0.3.
pub fn soft_dice(comparison: &Comparison) -> f64 {
    let classes = comparison.labels().masks()[0].classes();
    let dice = |class| {
        soft_dice_of_maps(&marginal(comparison.labels(), class), &marginal(comparison.outputs(), class))
    };
    (0..classes).map(dice).sum::<f64>() / classes as f64
}

/// Soft Dice of two marginal maps of one class.
pub(crate) fn soft_dice_of_maps(labels: &[f64], outputs: &[f64]) -> f64 {
    let mut counts = [(0u32, 0u32); THRESHOLDS.len()];
    for (&q, &p) in labels.iter().zip(outputs).filter(|(q, p)| **q + **p > 0.0) {
        for ((sum, both), threshold) in counts.iter_mut().zip(THRESHOLDS) {
            let (label, output) = (q > threshold + WEIGHT_NOISE, p > threshold + WEIGHT_NOISE);
            *sum += u32::from(label) + u32::from(output);
            *both += u32::from(label && output);
        }
    }
    let dice = |(sum, both): (u32, u32)| overlap::share(2.0 * f64::from(both), f64::from(sum));
    counts.into_iter().map(dice).sum::<f64>() / THRESHOLDS.len() as f64
}
