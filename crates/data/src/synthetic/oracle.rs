//! The oracle: what a model would say that knows the task's generator but not the hidden draws.

use crate::metric::{Comparison, ged};
use crate::{Case, Error, Hypothesis, Prediction, Result};

/// The oracle's prediction: the true modes, most probable first, each with its index as its code.
/// None where the case has no truth.
pub fn oracle_prediction(case: &Case) -> Option<Prediction> {
    let modes = case.truth.as_ref()?.iter().enumerate();
    let mut hypotheses: Vec<Hypothesis> = modes
        .map(|(code, mode)| Hypothesis { mask: mode.mask.clone(), probability: mode.probability, code })
        .collect();
    hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    Some(Prediction::stated(hypotheses))
}

/// The oracle's exact GED against the case's weighted annotations: zero where nothing is hidden, else,
/// in the mean over cases, the floor of a model with one output per mode. It is not the floor of all
/// models: one that spreads many outputs over a mode's hidden draw can go below it (on `shapes` to
/// about 63 % of it). A report carries it as `oracle_ged`.
pub fn oracle_ged(case: &Case) -> Result<f64> {
    let prediction = oracle_prediction(case).ok_or_else(|| {
        Error::mismatch(format!("case {}", case.id), "its truth is not known, so there is no oracle")
    })?;
    Ok(ged::exact(&Comparison::new(case, &prediction)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Annotation, Image, Mask, Mode};

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
        let half_empty = [(0, 1.0), (0, 1.0), (4, 1.0), (4, 1.0)];
        for (annotations, truth, expected) in [
            // One mask of 5 pixels against one of 10: 2 d = 1.
            (&[(5, 1.0)][..], &[(10, 1.0)][..], 1.0),
            // Two of four labels empty and two alike, all outputs empty: 2·0.5 - 0.5 = 0.5.
            (&half_empty, &[(0, 1.0)], 0.5),
            // Weights only count against each other; equal sets are at distance zero.
            (&[(4, 3.0), (8, 1.0)], &[(8, 0.25), (4, 0.75)], 0.0),
        ] {
            let found = oracle_ged(&case(annotations, truth)).unwrap();
            assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
        }
        let unannotated = oracle_ged(&case(&[], &[(8, 1.0)])).unwrap_err().to_string();
        assert!(unannotated.contains("case by hand"), "{unannotated}");
        let unknown = Case { truth: None, ..case(&[(8, 1.0)], &[]) };
        assert!(oracle_ged(&unknown).unwrap_err().to_string().contains("truth is not known"));
    }

    #[test]
    fn the_prediction_is_sorted_and_keeps_the_modes_as_codes() {
        let prediction = oracle_prediction(&case(&[], &[(1, 0.2), (2, 0.5), (3, 0.3)])).unwrap();
        let codes: Vec<usize> = prediction.hypotheses.iter().map(|h| h.code).collect();
        assert_eq!(codes, [1, 2, 0]);
        assert_eq!(prediction.hypotheses[0].mask, row(2));
    }
}
