//! The oracle: what a model would say that knows the task's generator but not the hidden draws.

use crate::{Case, Hypothesis, Mask, Prediction};

/// The oracle's prediction: the true modes, most probable first, each with its index as its code.
/// None where the case has no truth.
pub fn oracle_prediction(case: &Case) -> Option<Prediction> {
    let modes = case.truth.as_ref()?.iter().enumerate();
    let mut hypotheses: Vec<Hypothesis> = modes
        .map(|(code, mode)| Hypothesis { mask: mode.mask.clone(), probability: mode.probability, code })
        .collect();
    hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    Some(Prediction { hypotheses })
}

/// The oracle's exact GED against the case's weighted annotations: zero where nothing is hidden, else,
/// in the mean over cases, the floor of a model with one output per mode. It is not the floor of all
/// models: one that spreads many outputs over a mode's hidden draw can go below it (on `shapes` to
/// about 63 % of it). None where the case has no truth or no annotation.
pub fn oracle_ged(case: &Case) -> Option<f64> {
    let truth: Weighted = case.truth.as_ref()?.iter().map(|m| (&m.mask, f64::from(m.probability))).collect();
    let annotations: Weighted = case.annotations.iter().map(|a| (&a.mask, f64::from(a.weight))).collect();
    if truth.is_empty() || annotations.is_empty() {
        return None;
    }
    Some(exact_ged(&annotations, &truth))
}

pub(super) type Weighted<'a> = Vec<(&'a Mask, f64)>;

/// The squared generalised energy distance of two weighted sets, with d = 1 - IoU over all pairs:
/// ```text
/// 2 Σ q_i p_j d(y_i, s_j) - Σ q_i q_i' d(y_i, y_i') - Σ p_j p_j' d(s_j, s_j')
/// ```
pub(super) fn exact_ged(labels: &Weighted, outputs: &Weighted) -> f64 {
    let spread = |left: &Weighted, right: &Weighted| -> f64 {
        let total = |set: &Weighted| set.iter().map(|(_, weight)| weight).sum::<f64>();
        let pairs = left.iter().flat_map(|(a, p)| right.iter().map(move |(b, q)| p * q * (1.0 - iou(a, b))));
        pairs.sum::<f64>() / (total(left) * total(right))
    };
    // Rounding may leave a tiny negative value where the sets are equal.
    (2.0 * spread(labels, outputs) - spread(labels, labels) - spread(outputs, outputs)).max(0.0)
}

/// Intersection over union; 1 for two empty masks.
pub(super) fn iou(a: &Mask, b: &Mask) -> f64 {
    let (mut shared, mut either) = (0, 0);
    for (a, b) in a.words().iter().zip(b.words()) {
        shared += (a & b).count_ones();
        either += (a | b).count_ones();
    }
    if either == 0 { 1.0 } else { f64::from(shared) / f64::from(either) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Annotation, Image, Mode};

    fn row(pixels: usize) -> Mask {
        Mask::from_fn(10, 1, |x, _| x < pixels)
    }

    fn case(annotations: &[(usize, f32)], truth: &[(usize, f32)]) -> Case {
        Case {
            id: "by hand".into(),
            group: "by hand".into(),
            image: Image::new(10, 1, 1, vec![0.0; 10]),
            annotations: annotations
                .iter()
                .map(|&(pixels, weight)| Annotation { mask: row(pixels), rater: None, weight })
                .collect(),
            truth: Some(truth.iter().map(|&(n, probability)| Mode { mask: row(n), probability }).collect()),
        }
    }

    #[test]
    fn values_by_hand() {
        // One mask of 5 pixels against one of 10: 2 d = 1.
        assert_eq!(oracle_ged(&case(&[(5, 1.0)], &[(10, 1.0)])), Some(1.0));
        // Two of four labels empty and two alike, all outputs empty: 2·0.5 - 0.5 = 0.5.
        let half_empty = [(0, 1.0), (0, 1.0), (4, 1.0), (4, 1.0)];
        assert_eq!(oracle_ged(&case(&half_empty, &[(0, 1.0)])), Some(0.5));
        // Weights only count against each other; equal sets are at distance zero.
        assert_eq!(oracle_ged(&case(&[(4, 3.0), (8, 1.0)], &[(8, 0.25), (4, 0.75)])), Some(0.0));
        assert_eq!(oracle_ged(&case(&[], &[(8, 1.0)])), None);
    }

    #[test]
    fn the_prediction_is_sorted_and_keeps_the_modes_as_codes() {
        let prediction = oracle_prediction(&case(&[], &[(1, 0.2), (2, 0.5), (3, 0.3)])).unwrap();
        let codes: Vec<usize> = prediction.hypotheses.iter().map(|h| h.code).collect();
        assert_eq!(codes, [1, 2, 0]);
        assert_eq!(prediction.hypotheses[0].mask, row(2));
    }
}
