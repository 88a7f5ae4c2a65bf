//! How far the members of a weighted set lie apart: Σ w w' (1 - IoU) over all ordered pairs.

use super::{Comparison, Overlaps, Side};

/// Diversity of the outputs, Σ p p' d(s, s').
pub fn of_outputs(comparison: &Comparison) -> f64 {
    within(comparison.overlaps(), comparison.output_side())
}

/// Diversity of the annotations, Σ q q' d(y, y').
pub fn of_labels(comparison: &Comparison) -> f64 {
    within(comparison.overlaps(), comparison.label_side())
}

/// Mean distance of two independent draws from one set; a mask with itself adds nothing.
pub fn within(overlaps: &Overlaps, side: Side) -> f64 {
    let mut pairs = 0.0;
    for (i, &weight) in side.weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
        let before = &overlaps.iou_before(side.first + i)[side.first..];
        pairs += weight * before.iter().zip(side.weights).map(|(iou, w)| w * (1.0 - iou)).sum::<f64>();
    }
    2.0 * pairs
}

/// Mean distance of a draw from one set and an independent draw from the other.
pub fn between(overlaps: &Overlaps, a: Side, b: Side) -> f64 {
    let mut sum = 0.0;
    for (i, &weight) in a.weights.iter().enumerate() {
        for (j, &other) in b.weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            sum += weight * other * (1.0 - overlaps.iou(a.first + i, b.first + j));
        }
    }
    sum
}
