//! GED in parts: how much of it is "is anything there?" and how much is shape, and the floor below which no model
//! can be expected to come.
//!
//! **The split.** Between an empty mask and one that is not, d is 1; between two empty masks it is 0. With q and p
//! the empty weight of the labels and of the outputs, and B, L, O the three sums over pairs of masks that are not
//! empty,
//!
//! ```text
//! GED² = 2 [q (1 − p) + p (1 − q) + B] − [2 q (1 − q) + L] − [2 p (1 − p) + O]
//!      = 2 (p − q)² + (2B − L − O)
//! ```
//!
//! The first term is emptiness, the rest shape. d is the mean over classes, so with several classes this holds for
//! each class, and emptiness is the mean over classes of 2 (p_c − q_c)².
//!
//! **The floor.** Let the K readers of an image be independent draws of one distribution, and D the mean distance of
//! two such draws. The model that knew this distribution would have the expected GED 2D − (1 − Σq²) D − D = Σq² D,
//! which is D/K for readers of equal weight. D is estimated from pairs of different readers, Σ q q' d / (1 − Σq²).

use super::{Comparison, WeightedMasks, diversity};

/// A GED in its two parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parts {
    /// The whole.
    pub total: f64,
    /// What comes from the probability of an empty mask.
    pub emptiness: f64,
}

impl Parts {
    /// What comes from the masks themselves. It may be negative, by at most (p − q)², where emptiness is misjudged.
    pub fn shape(&self) -> f64 {
        self.total - self.emptiness
    }
}

/// [`super::ged::limit`] in parts. Where the outputs' probabilities were counted from n draws, emptiness is freed of
/// the draws' pairs with themselves too: 2 (p − q)² − 2 p (1 − p) / (n − 1).
pub fn of_limit(comparison: &Comparison) -> Parts {
    let (labels, outputs) = (comparison.labels(), comparison.outputs());
    let pairs = match outputs.draws() {
        Some(draws) if draws > 1 => 1.0 / (draws - 1) as f64,
        _ => 0.0,
    };
    let emptiness = mean_over_classes(labels, |class| {
        let (q, p) = (labels.empty_weight_of(class), outputs.empty_weight_of(class));
        2.0 * (p - q).powi(2) - pairs * 2.0 * p * (1.0 - p)
    });
    Parts { total: super::ged::limit(comparison), emptiness }
}

/// The floor of a case in parts; none where there is one reader, from whom nothing is known of the others.
pub fn floor(comparison: &Comparison) -> Option<Parts> {
    let labels = comparison.labels();
    let pairs = labels.pair_weight();
    if pairs <= 0.0 {
        return None;
    }
    let share = (1.0 - pairs) / pairs;
    let emptiness = mean_over_classes(labels, |class| {
        let q = labels.empty_weight_of(class);
        2.0 * q * (1.0 - q)
    });
    Some(Parts { total: share * diversity::of_labels(comparison), emptiness: share * emptiness })
}

fn mean_over_classes(set: &WeightedMasks, of_class: impl Fn(usize) -> f64) -> f64 {
    let classes = set.masks()[0].classes();
    (0..classes).map(of_class).sum::<f64>() / classes as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Annotation, Case, Hypothesis, Image, Mask, Prediction};

    fn row(text: &str) -> Mask {
        let pixels: Vec<bool> = text.chars().map(|c| c == '1').collect();
        Mask::from_fn(pixels.len(), 1, |x, _| pixels[x])
    }

    fn case(labels: &[&str]) -> Case {
        let annotation = |text: &&str| Annotation { mask: row(text), rater: None, weight: 1.0 };
        Case {
            id: "a".into(),
            group: "a".into(),
            image: Image::new(1, 1, 1, vec![0.0]),
            annotations: labels.iter().map(annotation).collect(),
            truth: None,
        }
    }

    fn outputs(members: &[(&str, f32)]) -> Prediction {
        let one = |(code, &(text, probability)): (usize, &(&str, f32))| Hypothesis {
            mask: row(text),
            probability,
            code,
        };
        Prediction::stated(members.iter().enumerate().map(one).collect())
    }

    #[test]
    fn a_misjudged_emptiness_is_all_of_the_ged_where_shapes_agree() {
        let (case, prediction) = (case(&["000", "110"]), outputs(&[("110", 0.75), ("000", 0.25)]));
        let parts = of_limit(&Comparison::new(&case, &prediction).unwrap());
        assert!((parts.emptiness - 2.0 * 0.25f64.powi(2)).abs() < 1e-12);
        assert!(parts.shape().abs() < 1e-12);
    }

    #[test]
    fn a_wrong_shape_is_no_emptiness() {
        let (case, prediction) = (case(&["110", "110"]), outputs(&[("011", 1.0)]));
        let parts = of_limit(&Comparison::new(&case, &prediction).unwrap());
        assert_eq!(parts.emptiness, 0.0);
        assert!((parts.shape() - 2.0 * (1.0 - 1.0 / 3.0)).abs() < 1e-12);
    }

    #[test]
    fn the_floor_is_diversity_over_readers() {
        // Two empty, two equal: of six pairs four differ, D = 2/3, all of it emptiness.
        let (four, any) = (case(&["000", "000", "110", "110"]), outputs(&[("110", 1.0)]));
        let found = floor(&Comparison::new(&four, &any).unwrap()).unwrap();
        assert!((found.total - 2.0 / 3.0 / 4.0).abs() < 1e-12);
        assert!(found.shape().abs() < 1e-12);
        // Two that share one pixel of three: D = 2/3, none of it emptiness.
        let found = floor(&Comparison::new(&case(&["110", "011"]), &any).unwrap()).unwrap();
        assert!((found.total - 2.0 / 3.0 / 2.0).abs() < 1e-12);
        assert_eq!(found.emptiness, 0.0);
        assert!(floor(&Comparison::new(&case(&["110"]), &any).unwrap()).is_none());
    }
}
