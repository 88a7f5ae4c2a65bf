//! What a weighted set of masks says of single pixels: how probable each label is, and how far hypotheses disagree.

use crate::{Mask, Prediction};

/// The probability of each label at each pixel, the background first: of masks with their probabilities, which need
/// not sum to one.
pub fn label_shares(masks: impl Iterator<Item = (f32, Mask)>, total: f32) -> Vec<Vec<f32>> {
    let mut shares: Vec<Vec<f32>> = Vec::new();
    for (probability, mask) in masks {
        if shares.is_empty() {
            shares = vec![vec![0.0; mask.width() * mask.height()]; mask.classes() + 1];
        }
        let share = probability / total;
        mask.labels().iter().enumerate().for_each(|(at, label)| shares[usize::from(*label)][at] += share);
    }
    // Sums of shares may exceed 1 by rounding.
    shares.iter_mut().flatten().for_each(|share| *share = share.clamp(0.0, 1.0));
    shares
}

impl Prediction {
    /// The probability of each label at each pixel, the background first.
    pub fn label_shares(&self) -> Vec<Vec<f32>> {
        let total = self.hypotheses.iter().map(|one| one.probability).sum();
        label_shares(self.hypotheses.iter().map(|one| (one.probability, one.mask.clone())), total)
    }
}

/// The probability that two independent draws have different labels at a pixel; 0 where all masks agree. Of shares as
/// [`label_shares`] gives them.
pub fn disagreement(shares: &[Vec<f32>]) -> Vec<f32> {
    let at = |pixel: usize| {
        let labels = shares[1..].iter().map(|label| f64::from(label[pixel]));
        let background = 1.0 - labels.clone().sum::<f64>();
        let same = labels.map(|share| share * share).sum::<f64>() + background * background;
        (1.0 - same).max(0.0) as f32
    };
    (0..shares.first().map_or(0, Vec::len)).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hypothesis;

    #[test]
    fn pixels_have_the_probability_of_their_labels_and_of_a_difference() {
        let hypothesis = |width: usize, probability| Hypothesis {
            mask: Mask::from_fn(3, 1, |x, _| x < width),
            probability,
            code: 0,
        };
        let all = Prediction::stated(vec![hypothesis(1, 0.5), hypothesis(2, 0.25), hypothesis(0, 0.25)]);
        let shares = all.label_shares();
        assert_eq!(shares, [[0.25, 0.75, 1.0], [0.75, 0.25, 0.0]]);
        assert_eq!(disagreement(&shares), [0.375, 0.375, 0.0]);
    }
}
