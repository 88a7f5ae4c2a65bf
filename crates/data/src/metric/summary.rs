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
        let choice = set.exchanged(set.grown(&kept));
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
            let nearer =
                |best, place| if self.prefers(member, kept[place], kept[best]) { place } else { best };
            weights[(1..kept.len()).fold(0, nearer)] += weight;
        }
        let loss = self.loss(&kept, &weights);
        Choice { kept, weights, loss }
    }

    /// Whether a member gives its weight to `one` rather than to `other`: the nearer, and of equally near ones the
    /// first. A member that is kept keeps its own.
    fn prefers(&self, member: usize, one: usize, other: usize) -> bool {
        let near = |kept: usize| if kept == member { f64::INFINITY } else { self.overlaps.iou(member, kept) };
        let (one_near, other_near) = (near(one), near(other));
        one_near > other_near || (one_near == other_near && one < other)
    }

    /// GED² between all members and some of them with these weights.
    fn loss(&self, kept: &[usize], weights: &[f64]) -> f64 {
        let mut loss = -self.within;
        for (at, (&one, &weight)) in kept.iter().zip(weights).enumerate() {
            let between: f64 = kept[..at]
                .iter()
                .zip(weights)
                .map(|(&before, &other)| other * (1.0 - self.overlaps.iou(one, before)))
                .sum();
            loss += 2.0 * weight * (self.to_all[one] - between);
        }
        loss.max(0.0)
    }

    /// The kept members with the one more that loses least.
    fn grown(&self, kept: &[usize]) -> Choice {
        let others = (0..self.weights.len()).filter(|other| !kept.contains(other));
        self.best(others.map(|other| [kept, &[other]].concat()))
    }

    /// The choice of least loss; of equal ones the first.
    fn best(&self, choices: impl Iterator<Item = Vec<usize>>) -> Choice {
        let choices = choices.map(|kept| self.choice(kept));
        choices.min_by(|a, b| a.loss.total_cmp(&b.loss)).expect("there is something to choose from")
    }

    /// Exchanges a kept member for another as long as that lowers the loss. Some must not be kept.
    fn exchanged(&self, mut best: Choice) -> Choice {
        while let Some(kept) = self.best_exchange(&best) {
            let better = self.choice(kept);
            if better.loss >= best.loss - ROUNDING {
                break;
            }
            best = better;
        }
        best
    }

    /// The kept members with one of them exchanged for another, so that the loss is least.
    ///
    /// Every exchange is weighed by where each member's weight would go: to the new one if that is nearer than its
    /// own, else, if its own is the one that goes, to the nearer of its second and the new one. So a new one takes
    /// one pass over the members for all places together, and not one for each (Schubert and Rousseeuw, "Faster
    /// k-Medoids Clustering", 2019).
    fn best_exchange(&self, choice: &Choice) -> Option<Vec<usize>> {
        let kept = &choice.kept;
        let nearest_two: Vec<(usize, Option<usize>)> =
            (0..self.weights.len()).map(|member| self.nearest_two(member, kept)).collect();
        // A place for the new one after those of the kept ones.
        let (new, places) = (kept.len(), kept.len() + 1);
        let mut best: Option<(f64, usize, usize)> = None;
        let mut exchanged = kept.clone();
        let mut weights = vec![0.0; kept.len()];
        for other in (0..self.weights.len()).filter(|other| !kept.contains(other)) {
            // What each place loses to the new one, and where its rest would go without it.
            let (mut taken, mut moved) = (vec![0.0; kept.len()], vec![0.0; kept.len() * places]);
            for (member, (&weight, &(own, second))) in self.weights.iter().zip(&nearest_two).enumerate() {
                if self.prefers(member, other, kept[own]) {
                    taken[own] += weight;
                } else {
                    let to = second.filter(|&place| self.prefers(member, kept[place], other)).unwrap_or(new);
                    moved[own * places + to] += weight;
                }
            }
            let all_taken: f64 = taken.iter().sum();
            for gone in 0..kept.len() {
                let moved = &moved[gone * places..][..places];
                for place in (0..kept.len()).filter(|&place| place != gone) {
                    weights[place] = choice.weights[place] - taken[place] + moved[place];
                }
                weights[gone] = all_taken + moved[new];
                exchanged[gone] = other;
                let loss = self.loss(&exchanged, &weights);
                exchanged[gone] = kept[gone];
                if best.is_none_or(|(least, ..)| loss < least) {
                    best = Some((loss, gone, other));
                }
            }
        }
        best.map(|(_, gone, other)| {
            exchanged[gone] = other;
            exchanged
        })
    }

    /// The places of the two kept ones that a member prefers.
    fn nearest_two(&self, member: usize, kept: &[usize]) -> (usize, Option<usize>) {
        let (mut first, mut second) = (0, None);
        for place in 1..kept.len() {
            if self.prefers(member, kept[place], kept[first]) {
                (first, second) = (place, Some(first));
            } else if second.is_none_or(|second: usize| self.prefers(member, kept[place], kept[second])) {
                second = Some(place);
            }
        }
        (first, second)
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
    fn the_best_exchange_is_the_best_of_all_exchanges() {
        for seed in 0..40 {
            let set = Set::of(&random(14, seed)).unwrap();
            for kept in [vec![3], vec![0, 7], vec![1, 2, 5, 13]] {
                let choice = set.choice(kept.clone());
                let exchanges = (0..14).filter(|other| !kept.contains(other)).flat_map(|other| {
                    let kept = &kept;
                    (0..kept.len()).map(move |place| {
                        let mut kept = kept.clone();
                        kept[place] = other;
                        kept
                    })
                });
                let least = set.best(exchanges).loss;
                let found = set.choice(set.best_exchange(&choice).unwrap()).loss;
                assert!((found - least).abs() < 1e-12, "{found}, {least}: seed {seed}, {kept:?}");
            }
        }
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
