//! Conformal sets: the most probable hypotheses of an image, as many as cover readers at a stated level.
//!
//! An annotation's score is the probability of all hypotheses down to the one nearest to it, that one included.
//! The level's quantile of the scores on calibration cases is the mass; an image's set is its hypotheses whose
//! own score is at most the mass. A set therefore holds the hypothesis nearest to an annotation exactly where
//! the annotation's score is at most the mass, which for exchangeable cases happens at least at the level
//! (docs/metrics.md, "Conformal sets").

use crate::{Error, Result};
use multivalued_data::metric::overlap::iou;
use multivalued_data::{Case, CaseList, Hypothesis, Mask, Prediction, Predictions};
use serde::{Deserialize, Serialize};

/// Probabilities are f32: scores closer than this are equal.
const EQUAL: f64 = 1e-6;

/// What calibration leaves: the mass that bounds a set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// The level asked for, such as 0.9.
    pub level: f64,
    /// The most that a set's hypotheses may hold together; 1 keeps all.
    pub mass: f64,
    /// Calibration cases behind it.
    pub cases: usize,
}

/// The place of the hypothesis nearest to an annotation; of equally near ones the first, which is the most probable.
pub(crate) fn nearest<'a>(
    hypotheses: impl IntoIterator<Item = &'a Hypothesis>,
    mask: &Mask,
) -> Result<usize> {
    let mut nearest = (0, f64::NEG_INFINITY);
    for (i, hypothesis) in hypotheses.into_iter().enumerate() {
        let overlap = iou(&hypothesis.mask, mask)?;
        if overlap > nearest.1 {
            nearest = (i, overlap);
        }
    }
    Ok(nearest.0)
}

/// For each hypothesis the probability of all down to it, itself included.
fn scores(prediction: &Prediction) -> impl Iterator<Item = f64> {
    prediction.hypotheses.iter().scan(0.0, |sum, hypothesis| {
        *sum += f64::from(hypothesis.probability);
        Some(*sum)
    })
}

/// Annotations that weigh something, each with its share of its case's weight.
pub(crate) fn shares(case: &Case) -> impl Iterator<Item = (&Mask, f64)> {
    let total: f64 = case.annotations.iter().map(|a| f64::from(a.weight)).sum();
    let weighty = case.annotations.iter().filter(|a| a.weight > 0.0);
    weighty.map(move |a| (&a.mask, f64::from(a.weight) / total))
}

/// The fewest cases whose scores have a quantile at this level: n ≥ level · (n + 1).
fn cases_needed(level: f64) -> usize {
    // Levels such as 0.9 are not exact in binary: 9 cases, not 10.
    (level / (1.0 - level) - 1e-9).ceil() as usize
}

impl Coverage {
    /// Calibrates on cases that were not trained on. Each case counts once, whatever its annotations. An error
    /// where there are fewer cases than the level needs.
    pub fn calibrate(level: f64, cases: &CaseList, predictions: &Predictions) -> Result<Self> {
        let mut known: Vec<(f64, f64)> = Vec::new(); // score, weight
        for (at, case) in cases.iter().enumerate() {
            let (case, prediction) = (case?, predictions.get(at));
            let scores: Vec<f64> = scores(&prediction).collect();
            for (mask, share) in shares(&case) {
                known.push((scores[nearest(&prediction.hypotheses, mask)?], share));
            }
        }
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The (n + 1)-corrected quantile; weights of one case sum to one.
        let wanted = level * (cases.len() + 1) as f64;
        let mut reached = 0.0;
        let quantile = known.iter().find(|(_, weight)| {
            reached += weight;
            reached >= wanted - 1e-9
        });
        let coverage =
            Self { level, mass: quantile.map_or(f64::INFINITY, |known| known.0), cases: cases.len() };
        coverage.check()?;
        Ok(Self { mass: coverage.mass.min(1.0), ..coverage })
    }

    /// Refuses a level that is none, that its number of cases cannot support, or whose mass is no probability.
    pub fn check(&self) -> Result<()> {
        let Self { level, mass, cases } = *self;
        if !(0.0 < level && level < 1.0) {
            return Err(Error::recipe("coverage", format!("{level} is not between 0 and 1")));
        }
        let needed = cases_needed(level);
        if cases < needed {
            let least = cases as f64 / (cases + 1) as f64;
            let lower = if cases == 0 { String::new() } else { format!(", or ask for at most {least:.4}") };
            let reason = format!(
                "a coverage of {level} needs at least {needed} calibration cases, not {cases}; calibrate on more{lower}"
            );
            return Err(Error::recipe("coverage", reason));
        }
        if !(0.0..=1.0 + EQUAL).contains(&mass) {
            return Err(Error::recipe("coverage", format!("a mass of {mass} is not between 0 and 1")));
        }
        Ok(())
    }

    /// The set: the most probable hypotheses whose probabilities together are at most the mass, and the most
    /// probable one in any case. Probabilities stay as they were: what is left out keeps its share.
    pub fn set(&self, prediction: &Prediction) -> Prediction {
        let hypotheses = prediction.hypotheses[..self.size(prediction)].to_vec();
        Prediction { hypotheses, draws: prediction.draws }
    }

    /// How many hypotheses the set holds.
    fn size(&self, prediction: &Prediction) -> usize {
        let within = scores(prediction).take_while(|score| *score <= self.mass + EQUAL).count();
        within.max(1).min(prediction.len())
    }

    /// The weighted share of annotations whose nearest hypothesis is in its case's set.
    pub fn measured(&self, cases: &CaseList, predictions: &Predictions) -> Result<f64> {
        let (mut covered, mut all) = (0.0, 0.0);
        for (at, case) in cases.iter().enumerate() {
            let (case, prediction) = (case?, predictions.get(at));
            let size = self.size(&prediction);
            for (mask, share) in shares(&case) {
                all += share;
                if nearest(&prediction.hypotheses, mask)? < size {
                    covered += share;
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
    use multivalued_data::{Annotation, Hypothesis, Image};

    fn mask(j: usize) -> Mask {
        Mask::from_fn(8, 8, |x, y| 8 * y + x == j)
    }

    fn hypothesis(j: usize, probability: f32) -> Hypothesis {
        Hypothesis { mask: mask(j), probability, code: j }
    }

    fn case(masks: impl Iterator<Item = Mask>) -> Case {
        let annotations = masks.map(|mask| Annotation { mask, rater: None, weight: 1.0 }).collect();
        let image = Image::new(8, 8, 1, vec![0.0; 64]);
        Case { id: "one".into(), group: "one".into(), image, annotations, truth: None }
    }

    /// A prediction of random probabilities, most probable first.
    fn prediction(draw: &mut Draw, outputs: usize) -> Prediction {
        let raw: Vec<f32> = (0..outputs).map(|_| draw.uniform(0.05, 1.0) as f32).collect();
        let total: f32 = raw.iter().sum();
        let mut hypotheses: Vec<Hypothesis> =
            raw.iter().enumerate().map(|(j, p)| hypothesis(j, p / total)).collect();
        hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        Prediction::stated(hypotheses)
    }

    /// Cases whose annotations are hypotheses, each with the probability that its prediction says.
    fn honest(count: usize, readers: usize, outputs: usize, draw: &mut Draw) -> (Vec<Case>, Vec<Prediction>) {
        let one = |_| {
            let prediction = prediction(draw, outputs);
            let mut drawn = || {
                let at = draw.unit();
                let place = scores(&prediction).position(|score| at < score).unwrap_or(0);
                prediction.hypotheses[place].mask.clone()
            };
            (case((0..readers).map(|_| drawn())), prediction)
        };
        (0..count).map(one).unzip()
    }

    /// The share of new annotations covered, over 1,000 draws of calibration cases.
    fn simulated(level: f64, cases: usize, readers: usize, outputs: usize) -> f64 {
        let draws = 1000;
        let covered: f64 = (0..draws)
            .map(|at| {
                let mut draw = Draw::new(7, &["conformal"], at);
                let (known, said) = honest(cases, readers, outputs, &mut draw);
                let coverage = Coverage::calibrate(level, &known.into(), &said[..].into()).unwrap();
                let (new, said) = honest(20, readers, outputs, &mut draw);
                coverage.measured(&new.into(), &said[..].into()).unwrap()
            })
            .sum();
        covered / draws as f64
    }

    /// Three standard deviations of what [`simulated`] gives: of calibration sets and of 20 new cases.
    fn error(level: f64, cases: usize) -> f64 {
        let variance = level * (1.0 - level);
        3.0 * (variance * (1.0 / (cases + 2) as f64 + 1.0 / 20.0) / 1000.0).sqrt()
    }

    #[test]
    fn new_readers_are_covered_at_the_level_whatever_the_calibration_cases() {
        // Sixteen outputs of random probabilities: scores are nearly continuous.
        for (level, cases, readers) in [(0.5, 1, 1), (0.6, 9, 1), (0.8, 19, 1), (0.8, 22, 1), (0.8, 19, 3)] {
            let covered = simulated(level, cases, readers, 16);
            let error = error(level, cases);
            assert!(covered >= level - error, "{level} of {cases} cases: {covered}");
            // By at most 1 / (n + 1) too much with one reader, twice that with several. A sixteenth of the
            // readers share the last hypothesis, whose score is 1 in all cases.
            let above = if readers == 1 { 1.0 } else { 2.0 } / (cases + 1) as f64;
            assert!(covered <= level + above + error + 1.0 / 16.0, "{level} of {cases} cases: {covered}");
        }
        // With few outputs the level holds, too; what is above it is due to their size.
        for (level, cases) in [(0.5, 9), (0.8, 19), (0.9, 9)] {
            let covered = simulated(level, cases, 1, 4);
            assert!(covered >= level - error(level, cases), "{level} of {cases} cases: {covered}");
        }
    }

    #[test]
    fn a_set_holds_no_more_than_the_mass() {
        let prediction = Prediction::stated(vec![hypothesis(0, 0.5), hypothesis(1, 0.3), hypothesis(2, 0.2)]);
        let kept = |mass| Coverage { level: 0.5, mass, cases: 9 }.set(&prediction).len();
        // 0.79 does not reach to the second one, which was kept nevertheless.
        assert_eq!([0.2, 0.5, 0.79, 0.8, 0.99, 1.0].map(kept), [1, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn what_is_measured_is_what_the_sets_hold() {
        let mut draw = Draw::new(3, &["conformal"], 0);
        let (cases, predictions) = honest(300, 3, 5, &mut draw);
        for mass in [0.1, 0.3, 0.5, 0.8, 1.0] {
            let coverage = Coverage { level: 0.5, mass, cases: 300 };
            let held = cases.iter().zip(&predictions).flat_map(|(case, prediction)| {
                let set = coverage.set(prediction);
                let holds = move |mask: &Mask| set.hypotheses.iter().any(|h| h.mask == *mask);
                case.annotations.iter().map(move |annotation| holds(&annotation.mask))
            });
            let held: Vec<bool> = held.collect();
            let share = held.iter().filter(|&&held| held).count() as f64 / held.len() as f64;
            let measured = coverage.measured(&cases[..].into(), &predictions[..].into()).unwrap();
            assert!((measured - share).abs() < 1e-9, "{mass}: {measured}, the sets hold {share}");
        }
    }

    #[test]
    fn levels_that_the_cases_cannot_support_are_refused_with_the_number_they_need() {
        let (cases, predictions) = honest(100, 1, 5, &mut Draw::new(3, &["conformal"], 0));
        let calibrate =
            |level, n: usize| Coverage::calibrate(level, &cases[..n].into(), &predictions[..n].into());
        for (level, needed) in [(0.5, 1), (0.6, 2), (0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99)] {
            let coverage = calibrate(level, needed).unwrap();
            assert!(coverage.mass <= 1.0, "{coverage:?}");
            let message = calibrate(level, needed - 1).unwrap_err().to_string();
            let says = format!("{level} needs at least {needed} calibration cases, not {}", needed - 1);
            assert!(message.contains(&says), "{message}");
        }
        assert!(calibrate(0.9, 2).unwrap_err().to_string().contains("at most 0.6667"));
        assert!(calibrate(1.0, 10).is_err() && calibrate(f64::NAN, 10).is_err());
        // What an earlier program wrote for two cases.
        assert!(Coverage { level: 0.9, mass: 2.0, cases: 2 }.check().is_err());
    }
}
