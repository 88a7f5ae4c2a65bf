//! A weighted set of masks: annotations with their weights, outputs with their probabilities, or the
//! true modes. Weights are checked on entry, so that no metric has to doubt them.

use std::collections::HashMap;

use crate::draw::Draw;
use crate::{Case, Error, Mask, Mode, Prediction, Result};

/// How far from one the probabilities of a case may sum before they are refused.
pub const SUM_TOLERANCE: f64 = 1e-3;

/// Masks with positive weights that sum to one.
///
/// A member of weight zero is not in the set. Equal outputs are merged (an output is a mask, not the code
/// that drew it) and so are equal true modes; annotations never are.
#[derive(Debug, Clone)]
pub struct WeightedMasks<'a> {
    masks: Vec<&'a Mask>,
    weights: Vec<f64>,
    listed: Vec<usize>,
    pair_weight: f64,
    draws: Option<usize>,
}

impl<'a> WeightedMasks<'a> {
    /// A case's annotations. Their weights are relative: any non-negative numbers, not all zero.
    pub fn annotations(case: &'a Case) -> Result<Self> {
        let listed = case.annotations.iter().map(|a| (&a.mask, f64::from(a.weight)));
        Self::listed_annotations(&case.id, listed)
    }

    /// The same from masks and weights of any origin.
    pub fn listed_annotations(case: &str, listed: impl Iterator<Item = (&'a Mask, f64)>) -> Result<Self> {
        let members = Members { case, kind: "annotation", weight: "weight" };
        Ok(members.read(listed)?.normalised())
    }

    /// The outputs predicted for a case: probabilities that sum to one, sorted here, equal masks merged.
    pub fn outputs(case: &str, prediction: &'a Prediction) -> Result<Self> {
        let listed = prediction.hypotheses.iter().map(|h| (&h.mask, f64::from(h.probability)));
        Self::listed_outputs(case, listed, prediction.draws)
    }

    /// The same from masks and probabilities of any origin, counted from so many draws where they were.
    pub fn listed_outputs(
        case: &str,
        listed: impl Iterator<Item = (&'a Mask, f64)>,
        draws: Option<usize>,
    ) -> Result<Self> {
        let members = Members { case, kind: "output", weight: "probability" };
        let mut set = members.distribution(listed)?.merged().sorted();
        if let Some(draws) = draws {
            set.draws = Some(draws);
            // Equal draws may have been merged before they were listed: each one is a member still.
            set.pair_weight = 1.0 - 1.0 / draws.max(1) as f64;
        }
        Ok(set)
    }

    /// A case's true modes in their own order, equal masks merged.
    pub fn modes(case: &str, modes: &'a [Mode]) -> Result<Self> {
        let listed = modes.iter().map(|m| (&m.mask, f64::from(m.probability)));
        Ok(Members { case, kind: "true mode", weight: "probability" }.distribution(listed)?.merged())
    }

    /// The masks.
    pub fn masks(&self) -> &[&'a Mask] {
        &self.masks
    }

    /// The weights, one per mask; they sum to one.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// For every member as it was listed, weight zero left out: where it is in this set now.
    pub fn listed(&self) -> &[usize] {
        &self.listed
    }

    /// How many draws the weights were counted from; none where they were stated.
    pub fn draws(&self) -> Option<usize> {
        self.draws
    }

    /// `count` independent draws. Where the weights were themselves counted from draws, these are some of
    /// them, none taken twice, as long as there are enough: draws from counted frequencies would carry the
    /// scatter of both.
    pub fn draw(&self, count: usize, random: &mut Draw) -> Vec<usize> {
        match self.draws {
            Some(all) if count <= all => {
                let times = |weight: &f64| (weight * all as f64).round() as usize;
                let mut drawn: Vec<usize> = self
                    .weights
                    .iter()
                    .enumerate()
                    .flat_map(|(at, weight)| std::iter::repeat_n(at, times(weight)))
                    .collect();
                random.shuffle(&mut drawn);
                drawn.truncate(count);
                drawn
            }
            _ => random.weighted(&self.weights, count),
        }
    }

    /// 1 − Σ w² over the members as listed: the weight of the pairs of two different ones. Zero for one.
    pub(crate) fn pair_weight(&self) -> f64 {
        self.pair_weight
    }

    /// The weight of the masks in which no pixel is set.
    pub(crate) fn empty_weight(&self) -> f64 {
        let empty = self.masks.iter().zip(&self.weights).filter(|(mask, _)| mask.is_empty());
        empty.fold(0.0, |sum, (_, weight)| sum + weight)
    }

    /// The weight of the masks in which no pixel is of this class.
    pub(crate) fn empty_weight_of(&self, class: usize) -> f64 {
        let absent = |mask: &Mask| mask.plane(class).iter().all(|&word| word == 0);
        let empty = self.masks.iter().zip(&self.weights).filter(|(mask, _)| absent(mask));
        empty.fold(0.0, |sum, (_, weight)| sum + weight)
    }

    fn normalised(mut self) -> Self {
        let sum: f64 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|weight| *weight /= sum);
        if self.weights.len() > 1 {
            self.pair_weight = 1.0 - self.weights.iter().map(|weight| weight * weight).sum::<f64>();
        }
        self
    }

    fn merged(self) -> Self {
        let mut place = HashMap::new();
        let (mut masks, mut weights) = (Vec::new(), Vec::new());
        let mut listed = Vec::with_capacity(self.masks.len());
        for (&mask, &weight) in self.masks.iter().zip(&self.weights) {
            let at = *place.entry(mask).or_insert(masks.len());
            if at == masks.len() {
                masks.push(mask);
                weights.push(0.0);
            }
            weights[at] += weight;
            listed.push(at);
        }
        Self { masks, weights, listed, ..self }
    }

    fn sorted(self) -> Self {
        let mut order: Vec<usize> = (0..self.masks.len()).collect();
        order.sort_by(|&a, &b| self.weights[b].total_cmp(&self.weights[a]));
        let mut rank = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            rank[old] = new;
        }
        Self {
            masks: order.iter().map(|&old| self.masks[old]).collect(),
            weights: order.iter().map(|&old| self.weights[old]).collect(),
            listed: self.listed.iter().map(|&old| rank[old]).collect(),
            ..self
        }
    }
}

/// Whose members are read, for the error messages.
struct Members<'c> {
    case: &'c str,
    kind: &'static str,
    weight: &'static str,
}

impl Members<'_> {
    fn wrong(&self, reason: impl std::fmt::Display) -> Error {
        Error::mismatch(format!("case {}, {}s", self.case, self.kind), reason)
    }

    fn read<'a>(&self, listed: impl Iterator<Item = (&'a Mask, f64)>) -> Result<WeightedMasks<'a>> {
        let (mut masks, mut weights) = (Vec::new(), Vec::new());
        for (index, (mask, weight)) in listed.enumerate() {
            if !weight.is_finite() || weight < 0.0 {
                return Err(self.wrong(format!(
                    "{} {index} has {} {weight}; it must be a number of at least 0",
                    self.kind, self.weight
                )));
            }
            if weight > 0.0 {
                masks.push(mask);
                weights.push(weight);
            }
        }
        if masks.is_empty() {
            return Err(self.wrong(format!("none has a positive {}; at least one is needed", self.weight)));
        }
        let listed = (0..masks.len()).collect();
        Ok(WeightedMasks { masks, weights, listed, pair_weight: 0.0, draws: None })
    }

    fn distribution<'a>(&self, listed: impl Iterator<Item = (&'a Mask, f64)>) -> Result<WeightedMasks<'a>> {
        let set = self.read(listed)?;
        let sum: f64 = set.weights.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(self.wrong(format!(
                "their probabilities sum to {sum}, not to 1 (within {SUM_TOLERANCE}); normalise them first"
            )));
        }
        Ok(set.normalised())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hypothesis;

    fn dot(at: usize) -> Mask {
        Mask::from_fn(4, 1, |x, _| x == at)
    }

    fn prediction(members: &[(usize, f32)]) -> Prediction {
        let hypotheses = members
            .iter()
            .enumerate()
            .map(|(code, &(at, probability))| Hypothesis { mask: dot(at), probability, code })
            .collect();
        Prediction::stated(hypotheses)
    }

    #[test]
    fn equal_outputs_merge_and_sort_by_probability() {
        let listed = prediction(&[(0, 0.25), (1, 0.25), (2, 0.0), (3, 0.125), (1, 0.375)]);
        let set = WeightedMasks::outputs("a", &listed).unwrap();
        assert_eq!(set.weights(), [0.625, 0.25, 0.125]);
        assert_eq!(set.masks(), [&dot(1), &dot(0), &dot(3)]);
        assert_eq!(set.listed(), [1, 0, 2, 0], "the output of probability 0 is not listed");
    }

    #[test]
    fn draws_are_taken_from_the_draws_they_were_counted_from() {
        let counted = Prediction { draws: Some(8), ..prediction(&[(0, 0.5), (1, 0.375), (2, 0.125)]) };
        let set = WeightedMasks::outputs("a", &counted).unwrap();
        assert_eq!(set.pair_weight(), 0.875);
        let mut all = set.draw(8, &mut Draw::new(1, &["test"], 0));
        all.sort_unstable();
        assert_eq!(all, [0, 0, 0, 0, 1, 1, 1, 2], "eight of eight are all of them");
        let few = set.draw(4, &mut Draw::new(1, &["test"], 0));
        assert!(few.len() == 4 && few.iter().filter(|&&at| at == 2).count() <= 1, "{few:?}");
        assert_eq!(set.draw(20, &mut Draw::new(1, &["test"], 0)).len(), 20, "more than there are: again");
    }

    #[test]
    fn weights_within_tolerance_are_normalised_and_others_refused() {
        let almost = prediction(&[(0, 0.5), (1, 0.4999999)]);
        let set = WeightedMasks::outputs("a", &almost).unwrap();
        assert!((set.weights().iter().sum::<f64>() - 1.0).abs() < 1e-15);
        for (members, said) in [
            (&[(0, 0.5), (1, 0.4)][..], "sum to 0.9"),
            (&[(0, 1.0), (1, 1.0)], "sum to 2"),
            (&[(0, 1.5), (1, -0.5)], "output 1 has probability -0.5"),
            (&[(0, f32::NAN)], "output 0 has probability NaN"),
            (&[(0, f32::INFINITY)], "output 0 has probability inf"),
            (&[], "none has a positive probability"),
            (&[(0, 0.0)], "none has a positive probability"),
        ] {
            let error = WeightedMasks::outputs("scan-7", &prediction(members)).unwrap_err().to_string();
            assert!(error.contains("case scan-7") && error.contains(said), "{error}");
        }
    }
}
