//! A short list in place of a long one: the few hypotheses that stand best for all of them.
//!
//! A hypothesis that is left out gives its probability to one that is kept. With p before and r after, the loss
//! is the exact GED² between the whole list and the short one:
//!
//! ```text
//! loss = 2 Σ_ij p_i r_j d(s_i, s_j) − Σ_ii' p_i p_i' d(s_i, s_i') − Σ_jj' r_j r_j' d(s_j, s_j')
//! ```
//!
//! The kept ones are found one after the other, each time the one that lowers the loss most, followed by
//! exchanges of a kept one for another as long as they lower the loss. Probabilities go to the nearest kept one
//! first, then to another as long as that lowers the loss.

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
    let set = Set::of(prediction)?;
    let all = set.weights.len();
    if count >= all {
        return Ok(Summary { prediction: prediction.clone(), loss: 0.0 });
    }
    let mut best = set.best((0..all).map(|one| vec![one]));
    let mut kept = best.kept.clone();
    loop {
        let choice = set.exchanged(set.choice(kept, 0.0));
        kept = choice.kept.clone();
        // One more could lose more, where errors made up for each other.
        if choice.loss < best.loss {
            best = choice;
        }
        if kept.len() == count {
            return Ok(set.summary(prediction, &best));
        }
        let others = (0..all).filter(|other| !kept.contains(other));
        kept = set.best(others.map(|other| [&kept[..], &[other]].concat())).kept;
    }
}

/// Hypotheses whose IoU with a more probable kept one is at least `iou` give that one, or another that is as
/// near, their probability.
pub fn merged(prediction: &Prediction, iou: f64) -> Result<Summary> {
    let set = Set::of(prediction)?;
    let mut order: Vec<usize> = (0..set.weights.len()).collect();
    order.sort_by(|&a, &b| set.weights[b].total_cmp(&set.weights[a]));
    let mut kept: Vec<usize> = Vec::new();
    for one in order {
        if !kept.iter().any(|&other| set.iou(one, other) >= iou - WEIGHT_NOISE) {
            kept.push(one);
        }
    }
    if kept.len() == set.weights.len() {
        return Ok(Summary { prediction: prediction.clone(), loss: 0.0 });
    }
    Ok(set.summary(prediction, &set.choice(kept, iou)))
}

/// The hypotheses as a weighted set.
struct Set {
    weights: Vec<f64>,
    overlaps: Overlaps,
    /// For each member the mean distance to all.
    to_all: Vec<f64>,
    /// Σ p p' d.
    within: f64,
}

/// Some members, and to which of them each member's weight goes.
struct Choice {
    kept: Vec<usize>,
    /// By member, a place in `kept`.
    goes_to: Vec<usize>,
    loss: f64,
}

impl Set {
    fn of(prediction: &Prediction) -> Result<Self> {
        let masks: Vec<&Mask> = prediction.hypotheses.iter().map(|one| &one.mask).collect();
        let weights: Vec<f64> = prediction.hypotheses.iter().map(|one| f64::from(one.probability)).collect();
        let overlaps = Overlaps::among("prediction", &masks)?;
        let mean = |i: usize| weights.iter().enumerate().map(|(j, w)| w * (1.0 - overlaps.iou(i, j))).sum();
        let to_all: Vec<f64> = (0..weights.len()).map(mean).collect();
        let within = weights.iter().zip(&to_all).map(|(weight, mean)| weight * mean).sum();
        Ok(Self { weights, overlaps, to_all, within })
    }

    fn iou(&self, a: usize, b: usize) -> f64 {
        self.overlaps.iou(a, b)
    }

    fn loss(&self, kept: &[usize], after: &[f64]) -> f64 {
        // Weights may sum to something else than one by rounding; distances of a set to itself are none.
        let total: f64 = self.weights.iter().sum();
        let (mut between, mut within) = (0.0, 0.0);
        for (&a, &weight) in kept.iter().zip(after) {
            between += weight * self.to_all[a];
            for (&b, &other) in kept.iter().zip(after) {
                within += weight * other * (1.0 - self.iou(a, b));
            }
        }
        ((2.0 * between - self.within - within) / (total * total)).max(0.0)
    }

    /// The weights after a choice, beside `kept`.
    fn after(&self, kept: usize, goes_to: &[usize]) -> Vec<f64> {
        let mut after = vec![0.0; kept];
        goes_to.iter().zip(&self.weights).for_each(|(&to, weight)| after[to] += weight);
        after
    }

    /// The best weights of some members that keep their own; others go where the IoU is at least `iou`.
    fn choice(&self, kept: Vec<usize>, iou: f64) -> Choice {
        let all = self.weights.len();
        let nearest = |member: usize| {
            let near =
                |&a: &usize, &b: &usize| self.iou(member, kept[a]).total_cmp(&self.iou(member, kept[b]));
            let own = kept.iter().position(|&one| one == member);
            own.or_else(|| (0..kept.len()).rev().max_by(near)).expect("some are kept")
        };
        let mut goes_to: Vec<usize> = (0..all).map(nearest).collect();
        let mut after = self.after(kept.len(), &goes_to);
        let mut loss = self.loss(&kept, &after);
        loop {
            let before = loss;
            for member in (0..all).filter(|member| !kept.contains(member)) {
                for to in 0..kept.len() {
                    let from = goes_to[member];
                    if to == from || self.iou(member, kept[to]) < iou - WEIGHT_NOISE {
                        continue;
                    }
                    after[from] -= self.weights[member];
                    after[to] += self.weights[member];
                    let moved = self.loss(&kept, &after);
                    if moved < loss - ROUNDING {
                        (loss, goes_to[member]) = (moved, to);
                    } else {
                        after[from] += self.weights[member];
                        after[to] -= self.weights[member];
                    }
                }
            }
            if loss >= before - ROUNDING {
                return Choice { kept, goes_to, loss };
            }
        }
    }

    /// The choice of least loss; of equal ones the first.
    fn best(&self, choices: impl Iterator<Item = Vec<usize>>) -> Choice {
        let choices = choices.map(|kept| self.choice(kept, 0.0));
        choices.min_by(|a, b| a.loss.total_cmp(&b.loss)).expect("there is something to choose from")
    }

    /// Exchanges a kept member for another as long as that lowers the loss.
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
        let after = self.after(choice.kept.len(), &choice.goes_to);
        let keep = |(&one, weight): (&usize, f64)| {
            let hypothesis = &prediction.hypotheses[one];
            Hypothesis { probability: weight as f32, ..hypothesis.clone() }
        };
        let mut hypotheses: Vec<Hypothesis> = choice.kept.iter().zip(after).map(keep).collect();
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

    /// The least loss of all subsets of a size and all ways to hand on probabilities.
    fn brute_force(prediction: &Prediction, count: usize) -> f64 {
        let set = Set::of(prediction).unwrap();
        let all = set.weights.len();
        let mut least = f64::INFINITY;
        for bits in 0..1usize << all {
            let kept: Vec<usize> = (0..all).filter(|one| bits >> one & 1 == 1).collect();
            if kept.is_empty() || kept.len() > count {
                continue;
            }
            let dropped: Vec<usize> = (0..all).filter(|one| bits >> one & 1 == 0).collect();
            for way in 0..kept.len().pow(dropped.len() as u32) {
                let mut after: Vec<f64> = kept.iter().map(|&one| set.weights[one]).collect();
                let mut rest = way;
                for &one in &dropped {
                    after[rest % kept.len()] += set.weights[one];
                    rest /= kept.len();
                }
                least = least.min(set.loss(&kept, &after));
            }
        }
        least
    }

    #[test]
    fn short_lists_are_as_good_as_the_best_of_all() {
        let (mut equal, mut all) = (0, 0);
        for seed in 0..60 {
            for (members, count) in [(5, 2), (6, 2), (6, 3), (7, 2)] {
                let prediction = random(members, seed);
                let (found, least) =
                    (short_list(&prediction, count).unwrap().loss, brute_force(&prediction, count));
                assert!(found >= least - 1e-9, "{found} below the least, {least}");
                assert!(
                    found <= 1.25 * least + 1e-9,
                    "{found} against {least}, seed {seed}, {count} of {members}"
                );
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
