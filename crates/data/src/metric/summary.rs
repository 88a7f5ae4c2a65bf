//! A short list in place of a long one: the few hypotheses that stand best for all of them.
//!
//! A hypothesis that is left out gives its probability to the kept one nearest to it. With p before and r after,
//! the loss is the exact GED² between the whole list and the short one:
//!
//! ```text
//! loss = 2 Σ_ij p_i r_j d(s_i, s_j) − Σ_ii' p_i p_i' d(s_i, s_i') − Σ_jj' r_j r_j' d(s_j, s_j')
//! ```
//!
//! The kept ones are found one after the other, each time the one that lowers the loss most, followed by
//! exchanges of a kept one for another as long as they lower the loss.

use super::{Overlaps, WEIGHT_NOISE};
use crate::{Hypothesis, Mask, Prediction, Result};

/// A prediction in short.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The hypotheses that are kept, most probable first, with the probability of all they stand for.
    pub prediction: Prediction,
    /// GED² between the whole prediction and this one.
    pub loss: f64,
}

/// Improvements smaller than this are rounding.
const ROUNDING: f64 = 1e-12;

/// At most `count` hypotheses, those that lose least. Panics where `count` is 0.
pub fn short_list(prediction: &Prediction, count: usize) -> Result<Summary> {
    assert!(count > 0, "a list has at least one hypothesis");
    let all = prediction.len();
    if count >= all {
        return Ok(Summary { prediction: prediction.clone(), loss: 0.0 });
    }
    let set = Set::of(prediction)?;
    let mut best: Option<Choice> = None;
    let mut kept = Vec::new();
    while kept.len() < count {
        let others = (0..all).filter(|other| !kept.contains(other));
        let grown = set.best(others.map(|other| [&kept[..], &[other]].concat()));
        let choice = set.exchanged(grown);
        kept.clone_from(&choice.kept);
        // One more may lose more, where errors made up for each other.
        if best.as_ref().is_none_or(|best| choice.loss < best.loss) {
            best = Some(choice);
        }
    }
    Ok(set.summary(prediction, &best.expect("at least one is kept")))
}

/// Hypotheses whose IoU with a more probable kept one is at least `iou` give their probability to the nearest
/// of these.
pub fn merged(prediction: &Prediction, iou: f64) -> Result<Summary> {
    let set = Set::of(prediction)?;
    let mut order: Vec<usize> = (0..set.weights.len()).collect();
    order.sort_by(|&a, &b| set.weights[b].total_cmp(&set.weights[a]));
    let mut kept: Vec<usize> = Vec::new();
    for one in order {
        if !kept.iter().any(|&other| set.overlaps.iou(one, other) >= iou - WEIGHT_NOISE) {
            kept.push(one);
        }
    }
    if kept.len() == set.weights.len() {
        return Ok(Summary { prediction: prediction.clone(), loss: 0.0 });
    }
    Ok(set.summary(prediction, &set.choice(kept)))
}

/// The hypotheses as a weighted set.
struct Set {
    weights: Vec<f64>,
    overlaps: Overlaps,
    /// For each member Σ p d to all.
    to_all: Vec<f64>,
    /// Σ p p' d.
    within: f64,
}

/// Some members, and what they lose.
struct Choice {
    kept: Vec<usize>,
    /// The weight of all that each kept one stands for.
    weights: Vec<f64>,
    loss: f64,
}

impl Set {
    fn of(prediction: &Prediction) -> Result<Self> {
        let masks: Vec<&Mask> = prediction.hypotheses.iter().map(|one| &one.mask).collect();
        let weights: Vec<f64> = prediction.hypotheses.iter().map(|one| f64::from(one.probability)).collect();
        let overlaps = Overlaps::among("prediction", &masks)?;
        let distances = |i: usize| weights.iter().enumerate().map(move |(j, w)| (i, j, w));
        let to_all: Vec<f64> = (0..weights.len())
            .map(|i| distances(i).map(|(i, j, weight)| weight * (1.0 - overlaps.iou(i, j))).sum())
            .collect();
        let within = weights.iter().zip(&to_all).map(|(weight, distance)| weight * distance).sum();
        Ok(Self { weights, overlaps, to_all, within })
    }

    /// Some members, each with the weight of those it is nearest to; of equally near ones the one that is listed
    /// first, the more probable one, has it.
    fn choice(&self, mut kept: Vec<usize>) -> Choice {
        kept.sort_unstable();
        let mut weights = vec![0.0; kept.len()];
        for (member, weight) in self.weights.iter().enumerate() {
            let mut nearest = (0, f64::NEG_INFINITY);
            for (place, &one) in kept.iter().enumerate() {
                // A member that is kept keeps its own, beside equal ones too.
                let iou = if one == member { f64::INFINITY } else { self.overlaps.iou(member, one) };
                if iou > nearest.1 {
                    nearest = (place, iou);
                }
            }
            weights[nearest.0] += weight;
        }
        let mut loss = -self.within;
        for (&a, &weight) in kept.iter().zip(&weights) {
            loss += 2.0 * weight * self.to_all[a];
            for (&b, &other) in kept.iter().zip(&weights) {
                loss -= weight * other * (1.0 - self.overlaps.iou(a, b));
            }
        }
        Choice { kept, weights, loss: loss.max(0.0) }
    }

    /// The choice of least loss; of equal ones the first.
    fn best(&self, choices: impl Iterator<Item = Vec<usize>>) -> Choice {
        let choices = choices.map(|kept| self.choice(kept));
        choices.min_by(|a, b| a.loss.total_cmp(&b.loss)).expect("there is something to choose from")
    }

    /// Exchanges a kept member for another as long as that lowers the loss. Some must not be kept.
    fn exchanged(&self, mut best: Choice) -> Choice {
        loop {
            let kept = &best.kept;
            let others = (0..self.weights.len()).filter(|other| !kept.contains(other));
            let pairs = others.flat_map(|other| (0..kept.len()).map(move |place| (place, other)));
            let exchanges = pairs.map(|(place, other)| {
                let mut kept = kept.clone();
                kept[place] = other;
                kept
            });
            let better = self.best(exchanges);
            if better.loss >= best.loss - ROUNDING {
                return best;
            }
            best = better;
        }
    }

    fn summary(&self, prediction: &Prediction, choice: &Choice) -> Summary {
        let keep = |(&one, &weight): (&usize, &f64)| {
            let hypothesis = &prediction.hypotheses[one];
            Hypothesis { probability: weight as f32, ..hypothesis.clone() }
        };
        let mut hypotheses: Vec<Hypothesis> = choice.kept.iter().zip(&choice.weights).map(keep).collect();
        hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.code.cmp(&b.code)));
        Summary { prediction: Prediction { hypotheses, draws: prediction.draws }, loss: choice.loss }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::metric::{Side, ged};

    /// Rectangles at random places of a strip, some alike, with random probabilities.
    fn random(count: usize, seed: u64) -> Prediction {
        let mut draw = Draw::new(seed, &["summary"], count as u64);
        let raw: Vec<f64> = (0..count).map(|_| draw.uniform(0.02, 1.0)).collect();
        let total: f64 = raw.iter().sum();
        let hypothesis = |(code, raw): (usize, &f64)| {
            let (left, width) = (draw.index(20), draw.index(8));
            let mask = Mask::from_fn(32, 4, |x, _| (left..left + width).contains(&x));
            Hypothesis { mask, probability: (raw / total) as f32, code }
        };
        let mut hypotheses: Vec<Hypothesis> = raw.iter().enumerate().map(hypothesis).collect();
        hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        Prediction::stated(hypotheses)
    }

    /// GED² between two predictions, by the metric.
    fn distance(a: &Prediction, b: &Prediction) -> f64 {
        let both = || a.hypotheses.iter().chain(&b.hypotheses);
        let overlaps = Overlaps::among("both", &both().map(|one| &one.mask).collect::<Vec<_>>()).unwrap();
        let weights: Vec<f64> = both().map(|one| f64::from(one.probability)).collect();
        let (of_a, of_b) = weights.split_at(a.len());
        ged::energy(&overlaps, Side { first: 0, weights: of_a }, Side { first: a.len(), weights: of_b })
    }

    /// The least loss of all subsets of at most a size.
    fn brute_force(prediction: &Prediction, count: usize) -> f64 {
        let set = Set::of(prediction).unwrap();
        let all = set.weights.len();
        let subset = |bits: usize| (0..all).filter(|one| (bits >> one) & 1 == 1).collect::<Vec<_>>();
        let subsets = (1..1usize << all).map(subset).filter(|kept| kept.len() <= count);
        set.best(subsets).loss
    }

    #[test]
    fn short_lists_are_nearly_always_the_best_of_all() {
        let (mut equal, mut all) = (0, 0);
        for seed in 0..60 {
            for (members, count) in [(5, 2), (6, 2), (6, 3), (7, 3)] {
                let prediction = random(members, seed);
                let found = short_list(&prediction, count).unwrap().loss;
                let least = brute_force(&prediction, count);
                assert!(found >= least - 1e-9, "{found} below the least, {least}");
                assert!(found <= 1.5 * least + 1e-9, "{found}, {least}: seed {seed}, {count} of {members}");
                equal += usize::from(found <= least + 1e-9);
                all += 1;
            }
        }
        assert!(equal * 100 >= all * 95, "{equal} of {all} are the best");
    }

    #[test]
    fn probabilities_are_kept_and_losses_are_geds_that_fall_with_the_length() {
        for seed in 0..30 {
            let prediction = random(12, seed);
            let mut before = f64::INFINITY;
            for count in 1..=12 {
                let Summary { prediction: short, loss } = short_list(&prediction, count).unwrap();
                assert!(short.len() <= count);
                let sum: f64 = short.hypotheses.iter().map(|one| f64::from(one.probability)).sum();
                assert!((sum - 1.0).abs() < 1e-5, "{sum}");
                assert!((loss - distance(&prediction, &short)).abs() < 1e-5, "{loss}");
                assert!(loss <= before + 1e-9, "{count}: {loss} after {before}");
                assert!(short.hypotheses.windows(2).all(|pair| pair[0].probability >= pair[1].probability));
                before = loss;
            }
            let whole = short_list(&prediction, 12).unwrap();
            assert_eq!((whole.prediction, whole.loss), (prediction, 0.0));
        }
    }

    #[test]
    fn near_duplicates_go_first() {
        let columns = |from: usize, to: usize| Mask::from_fn(32, 4, |x, _| (from..to).contains(&x));
        let one = |mask, probability, code| Hypothesis { mask, probability, code };
        let prediction = Prediction::stated(vec![
            one(columns(0, 10), 0.4, 0),
            one(columns(0, 11), 0.3, 1),
            one(columns(20, 30), 0.2, 2),
            one(columns(20, 29), 0.1, 3),
        ]);
        let said = |summary: &Summary| -> Vec<(usize, f32)> {
            let rounded = |one: &Hypothesis| (one.code, (one.probability * 100.0).round());
            summary.prediction.hypotheses.iter().map(rounded).collect()
        };
        let two = short_list(&prediction, 2).unwrap();
        assert_eq!(said(&two), [(0, 70.0), (2, 30.0)]);
        assert_eq!(said(&merged(&prediction, 0.9).unwrap()), [(0, 70.0), (2, 30.0)]);
        assert_eq!(said(&merged(&prediction, 0.905).unwrap()), [(0, 70.0), (2, 20.0), (3, 10.0)]);
        assert_eq!(merged(&prediction, 0.95).unwrap().prediction, prediction);
        assert_eq!(said(&merged(&prediction, 0.0).unwrap()), [(0, 100.0)]);
    }

    #[test]
    fn members_are_merged_into_near_ones_alone() {
        for seed in 0..30 {
            let prediction = random(10, seed);
            let Summary { prediction: short, loss } = merged(&prediction, 0.5).unwrap();
            assert!((loss - distance(&prediction, &short)).abs() < 1e-5, "{loss}");
            let iou = |a: &Hypothesis, b: &Hypothesis| crate::metric::iou(&a.mask, &b.mask).unwrap();
            for one in &prediction.hypotheses {
                assert!(short.hypotheses.iter().any(|kept| iou(one, kept) >= 0.5 || one.code == kept.code));
            }
            for (at, one) in short.hypotheses.iter().enumerate() {
                assert!(short.hypotheses[..at].iter().all(|other| iou(one, other) < 0.5));
            }
        }
    }
}
