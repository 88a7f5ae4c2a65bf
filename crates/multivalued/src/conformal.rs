//! Conformal sets: the smallest set of hypotheses that covers the truth at a stated level.
//!
//! An annotation's score is the probability of all hypotheses down to the one nearest to it (adaptive
//! prediction sets). The level's quantile of the scores on calibration cases is the mass that a new
//! image's set must reach; if calibration and new cases are exchangeable, such sets hold the hypothesis
//! nearest to a new annotation with at least that probability.

use crate::{Error, Result};
use multivalued_data::metric::overlap::iou;
use multivalued_data::{Case, Prediction};
use serde::{Deserialize, Serialize};

/// What calibration leaves: the mass a set must reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// The level asked for, such as 0.9.
    pub level: f64,
    /// Probability that the set's hypotheses must reach together; above 1 all are kept.
    pub mass: f64,
    /// Calibration cases behind it.
    pub cases: usize,
}

/// The probability of all hypotheses down to the one nearest to an annotation.
fn score(prediction: &Prediction, mask: &multivalued_data::Mask) -> Result<f64> {
    let mut nearest = (0, f64::NEG_INFINITY);
    for (i, hypothesis) in prediction.hypotheses.iter().enumerate() {
        let overlap = iou(&hypothesis.mask, mask)?;
        if overlap > nearest.1 {
            nearest = (i, overlap);
        }
    }
    Ok(prediction.hypotheses[..=nearest.0].iter().map(|h| f64::from(h.probability)).sum())
}

impl Coverage {
    /// Calibrates on cases that were not trained on. Each case counts once, whatever its annotations.
    pub fn calibrate(level: f64, cases: &[Case], predictions: &[Prediction]) -> Result<Self> {
        if !(0.0 < level && level < 1.0) {
            return Err(Error::recipe("coverage", format!("{level} is outside 0 to 1")));
        }
        if cases.len() < 2 {
            return Err(Error::recipe(
                "coverage",
                format!("calibration needs at least 2 cases, not {}", cases.len()),
            ));
        }
        let mut scores: Vec<(f64, f64)> = Vec::new(); // score, weight
        for (case, prediction) in cases.iter().zip(predictions) {
            let total: f64 = case.annotations.iter().map(|a| f64::from(a.weight)).sum();
            for annotation in case.annotations.iter().filter(|a| a.weight > 0.0) {
                scores.push((score(prediction, &annotation.mask)?, f64::from(annotation.weight) / total));
            }
        }
        scores.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The (n + 1)-corrected quantile; weights of one case sum to one.
        let wanted = level * (cases.len() + 1) as f64;
        let mut reached = 0.0;
        let mass = scores
            .iter()
            .find(|(_, weight)| {
                reached += weight;
                reached >= wanted - 1e-9
            })
            .map_or(2.0, |(score, _)| *score);
        Ok(Self { level, mass, cases: cases.len() })
    }

    /// The smallest set, most probable first, that reaches the mass. Its probabilities stay as they were:
    /// what is left out keeps its share.
    pub fn set(&self, prediction: &Prediction) -> Prediction {
        let mut reached = 0.0;
        let mut hypotheses = Vec::new();
        for hypothesis in &prediction.hypotheses {
            if reached >= self.mass - 1e-6 {
                break;
            }
            reached += f64::from(hypothesis.probability);
            hypotheses.push(hypothesis.clone());
        }
        Prediction { hypotheses, draws: prediction.draws }
    }

    /// The weighted share of annotations whose nearest hypothesis is in its case's set.
    pub fn measured(&self, cases: &[Case], predictions: &[Prediction]) -> Result<f64> {
        let (mut covered, mut all) = (0.0, 0.0);
        for (case, prediction) in cases.iter().zip(predictions) {
            let total: f64 = case.annotations.iter().map(|a| f64::from(a.weight)).sum();
            for annotation in &case.annotations {
                let weight = f64::from(annotation.weight) / total;
                all += weight;
                if score(prediction, &annotation.mask)? <= self.mass + 1e-6 {
                    covered += weight;
                }
            }
        }
        Ok(covered / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_data::draw::Draw;
    use multivalued_data::{Annotation, Hypothesis, Image, Mask};

    /// Cases whose annotation is hypothesis j with the probability that the prediction says.
    fn honest(count: usize, seed: u64) -> (Vec<Case>, Vec<Prediction>) {
        let mask = |j: usize| Mask::from_fn(8, 8, |x, _| x == j);
        (0..count)
            .map(|i| {
                let mut draw = Draw::new(seed, &["conformal"], i as u64);
                let raw: Vec<f32> = (0..5).map(|_| draw.uniform(0.05, 1.0) as f32).collect();
                let total: f32 = raw.iter().sum();
                let mut hypotheses: Vec<Hypothesis> = raw
                    .iter()
                    .enumerate()
                    .map(|(j, p)| Hypothesis { mask: mask(j), probability: p / total, code: j })
                    .collect();
                hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability));
                let mut rest = draw.unit() as f32;
                let drawn = hypotheses.iter().find(|h| {
                    rest -= h.probability;
                    rest < 0.0
                });
                let mask = drawn.unwrap_or(&hypotheses[0]).mask.clone();
                let case = Case {
                    id: i.to_string(),
                    group: i.to_string(),
                    image: Image::new(8, 8, 1, vec![0.0; 64]),
                    annotations: vec![Annotation { mask, rater: None, weight: 1.0 }],
                    truth: None,
                };
                (case, Prediction::stated(hypotheses))
            })
            .unzip()
    }

    #[test]
    fn new_cases_are_covered_at_the_level() {
        for level in [0.5, 0.8, 0.95] {
            let (cases, predictions) = honest(400, 1);
            let coverage = Coverage::calibrate(level, &cases, &predictions).unwrap();
            let (cases, predictions) = honest(2000, 2);
            let measured = coverage.measured(&cases, &predictions).unwrap();
            assert!(measured >= level - 0.04 && measured <= level + 0.2, "{level}: {measured}");
            let mean_size = predictions.iter().map(|p| coverage.set(p).len()).sum::<usize>() as f64
                / predictions.len() as f64;
            // The least probable of the five has 8 % on average: above 92 % a set must hold them all.
            assert!(mean_size < 5.0 || level > 0.92, "{level}: sets of {mean_size}");
        }
    }

    #[test]
    fn bad_levels_are_refused() {
        let (cases, predictions) = honest(10, 3);
        assert!(Coverage::calibrate(1.0, &cases, &predictions).is_err());
        assert!(Coverage::calibrate(0.9, &cases[..1], &predictions[..1]).is_err());
    }
}
