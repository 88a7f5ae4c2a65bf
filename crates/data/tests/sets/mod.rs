//! Cases and predictions from plain lists of masks, for the tests of metrics.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use multivalued_data::{Annotation, Case, Hypothesis, Image, Mask, Mode, Prediction};

/// A one-row mask from zeros and ones.
pub fn bits(text: &str) -> Mask {
    let pixels: Vec<bool> = text.chars().map(|c| c == '1').collect();
    Mask::from_fn(pixels.len(), 1, |x, _| pixels[x])
}

/// A case with these annotations, each of weight one.
pub fn case(id: &str, labels: &[Mask]) -> Case {
    weighted_case(id, labels, &vec![1.0; labels.len()])
}

/// A case with these annotations and weights.
pub fn weighted_case(id: &str, labels: &[Mask], weights: &[f32]) -> Case {
    let annotation = |(mask, &weight): (&Mask, &f32)| Annotation { mask: mask.clone(), rater: None, weight };
    Case {
        id: id.into(),
        group: id.into(),
        image: Image::new(1, 1, 1, vec![0.0]),
        annotations: labels.iter().zip(weights).map(annotation).collect(),
        truth: None,
    }
}

/// The same case with known modes.
pub fn with_truth(case: Case, masks: &[Mask], probabilities: &[f32]) -> Case {
    let mode = |(mask, &probability): (&Mask, &f32)| Mode { mask: mask.clone(), probability };
    Case { truth: Some(masks.iter().zip(probabilities).map(mode).collect()), ..case }
}

/// A prediction of these masks with these probabilities.
pub fn prediction(masks: &[Mask], probabilities: &[f32]) -> Prediction {
    let hypothesis = |(code, (mask, &probability)): (usize, (&Mask, &f32))| Hypothesis {
        mask: mask.clone(),
        probability,
        code,
    };
    Prediction::stated(masks.iter().zip(probabilities).enumerate().map(hypothesis).collect())
}

/// A prediction of equally probable masks.
pub fn uniform(masks: &[Mask]) -> Prediction {
    prediction(masks, &vec![1.0 / masks.len() as f32; masks.len()])
}
