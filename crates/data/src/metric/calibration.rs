//! Are the probabilities honest? Of pixels, of modes, and of "nothing there".
//!
//! Mode calibration asks, for each annotation, which output it stands for: the nearest by 1 − IoU, ties
//! to the lower index, that is to the more probable output. It judges the probabilities alone; a single
//! output of probability one is perfectly calibrated whatever it shows, so read it beside GED or HM-IoU.

use serde::{Deserialize, Serialize};

use super::{Comparison, WEIGHT_NOISE};

/// Probabilities below this count as this in the negative log-likelihood: the paper's ε.
pub const NLL_FLOOR: f64 = 1e-5;
/// Bins of every expected calibration error.
pub(crate) const BINS: usize = 10;

/// For each label the output it is assigned to.
pub fn assigned(comparison: &Comparison) -> Vec<usize> {
    let outputs = comparison.outputs().masks().len();
    let of = |label| nearest(outputs, |output| comparison.iou(label, output));
    (0..comparison.labels().masks().len()).map(of).collect()
}

/// The index of the largest IoU, the first of those that rounding alone sets apart.
pub(crate) fn nearest(count: usize, iou: impl Fn(usize) -> f64) -> usize {
    let mut best = 0;
    for index in 1..count {
        if iou(index) > iou(best) + 1e-12 {
            best = index;
        }
    }
    best
}

/// For each output the weight of the labels assigned to it.
pub(crate) fn frequencies(comparison: &Comparison) -> Vec<f64> {
    let mut frequencies = vec![0.0; comparison.outputs().masks().len()];
    for (output, q) in assigned(comparison).into_iter().zip(comparison.labels().weights()) {
        frequencies[output] += q;
    }
    frequencies
}

/// Mode Brier score, Σ_k q_k Σ_j (p_j − 1[j is assigned to k])²: 0 at best, 2 at worst.
pub fn mode_brier(comparison: &Comparison) -> f64 {
    let p = comparison.outputs().weights();
    let squares: f64 = p.iter().map(|p| p * p).sum();
    frequencies(comparison).iter().zip(p).map(|(f, p)| f * (squares - 2.0 * p + 1.0)).sum()
}

/// Mode negative log-likelihood, −Σ_k q_k ln max(p of the output assigned to k, [`NLL_FLOOR`]).
pub fn mode_nll(comparison: &Comparison) -> f64 {
    let p = comparison.outputs().weights();
    frequencies(comparison).iter().zip(p).fold(0.0, |sum, (f, p)| sum - f * p.max(NLL_FLOOR).ln())
}

/// What fell into one bin of a reliability diagram.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct BinSum {
    /// How many points.
    pub count: f64,
    /// The sum of their predicted probabilities.
    pub probability: f64,
    /// The sum of their observed frequencies.
    pub frequency: f64,
}

impl BinSum {
    /// Adds one point.
    pub fn add(&mut self, probability: f64, frequency: f64) {
        self.count += 1.0;
        self.probability += probability;
        self.frequency += frequency;
    }

    fn gap(&self) -> f64 {
        (self.probability - self.frequency).abs()
    }
}

/// Expected calibration error: the mean over points of their bin's |mean probability − mean frequency|.
pub(crate) fn expected_error(bins: &[BinSum]) -> f64 {
    let points: f64 = bins.iter().map(|bin| bin.count).sum();
    if points == 0.0 { 0.0 } else { bins.iter().map(BinSum::gap).sum::<f64>() / points }
}

/// One bar of a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// How many points fell into it.
    pub count: f64,
    /// Their mean predicted probability.
    pub probability: f64,
    /// Their mean observed frequency.
    pub frequency: f64,
}

/// The bars of a reliability diagram, empty bins left out.
pub(crate) fn reliability(bins: &[BinSum]) -> Vec<ReliabilityBin> {
    let bar = |bin: &BinSum| ReliabilityBin {
        count: bin.count,
        probability: bin.probability / bin.count,
        frequency: bin.frequency / bin.count,
    };
    bins.iter().filter(|bin| bin.count > 0.0).map(bar).collect()
}

/// Upper edges of at most [`BINS`] bins that hold equally many of the points, the last edge left out.
/// Probabilities that only f32 noise sets apart stay together, so that neither it nor the order of the
/// points matters; where many are equal the bins become fewer.
pub(crate) fn equal_count_edges(mut probabilities: Vec<f64>) -> Vec<f64> {
    probabilities.sort_by(f64::total_cmp);
    let count = probabilities.len();
    let mut edges: Vec<f64> = (1..BINS)
        .filter_map(|bin| probabilities.get((bin * count).div_ceil(BINS).max(1) - 1).copied())
        .collect();
    edges.dedup_by(|edge, kept| *edge <= *kept + WEIGHT_NOISE);
    edges
}

/// The bin of a probability: an edge belongs to the bin below it.
pub(crate) fn bin_of(edges: &[f64], probability: f64) -> usize {
    edges.partition_point(|&edge| edge + WEIGHT_NOISE < probability)
}

/// Pixels by the marginal probability that the outputs give them, in ten bins (lo, hi] of equal width,
/// and apart from them the pixels of probability zero. Classes are pooled: a point is a pixel of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PixelBins {
    /// Pixels of positive probability.
    pub bins: [BinSum; BINS],
    /// Pixels that no output contains.
    pub zero: BinSum,
    /// How many of those some label contains.
    pub missed: f64,
}

impl PixelBins {
    /// Adds one class of one image, given the marginal maps of its labels and outputs.
    pub fn add_maps(&mut self, labels: &[f64], outputs: &[f64]) {
        for (&q, &p) in labels.iter().zip(outputs) {
            if p > 0.0 {
                self.bins[Self::bin_of(p)].add(p, q);
            } else {
                self.zero.add(0.0, q);
                self.missed += f64::from(u8::from(q > 0.0));
            }
        }
    }

    /// The bin of a positive probability.
    pub fn bin_of(probability: f64) -> usize {
        // The tolerance keeps 0.3 out of (0.3, 0.4] when f32 made it 0.30000001.
        ((probability - WEIGHT_NOISE) * BINS as f64).ceil().clamp(1.0, BINS as f64) as usize - 1
    }

    fn gaps(&self) -> f64 {
        self.bins.iter().map(BinSum::gap).sum()
    }

    fn positive(&self) -> f64 {
        self.bins.iter().map(|bin| bin.count).sum()
    }

    /// MoSE's convention: pixels of probability zero are in no bin but in the denominator.
    pub fn error_of_positive(&self) -> f64 {
        self.gaps() / (self.positive() + self.zero.count)
    }

    /// Pixels of probability zero are a bin of their own, so that missed foreground counts.
    pub fn error_with_zero_bin(&self) -> f64 {
        (self.gaps() + self.zero.gap()) / (self.positive() + self.zero.count)
    }

    /// Over the pixels that some label or output contains: the background does not dilute it.
    pub fn error_on_union(&self) -> f64 {
        let union = self.positive() + self.missed;
        if union == 0.0 { 0.0 } else { (self.gaps() + self.zero.gap()) / union }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_count_bins_keep_equal_probabilities_together() {
        let edges = equal_count_edges((1..=20).map(|k| f64::from(k) / 20.0).collect());
        assert_eq!(edges, (1..10).map(|k| f64::from(2 * k) / 20.0).collect::<Vec<_>>());
        assert_eq!((bin_of(&edges, 0.1), bin_of(&edges, 0.15), bin_of(&edges, 1.0)), (0, 1, 9));
        let ties = equal_count_edges([0.25; 19].into_iter().chain([1.0]).collect());
        assert_eq!(ties, [0.25]);
        assert_eq!((bin_of(&ties, 0.25), bin_of(&ties, 1.0)), (0, 1));
        assert!(equal_count_edges(Vec::new()).is_empty());
    }

    #[test]
    fn the_error_is_the_gap_weighted_by_count() {
        let mut bins = [BinSum::default(); 2];
        bins[0].add(0.1, 0.0);
        bins[0].add(0.3, 0.0);
        bins[1].add(0.8, 1.0);
        assert!((expected_error(&bins) - (2.0 / 3.0 * 0.2 + 1.0 / 3.0 * 0.2)).abs() < 1e-12);
        assert_eq!(expected_error(&[]), 0.0);
        assert_eq!(reliability(&bins)[1], ReliabilityBin { count: 1.0, probability: 0.8, frequency: 1.0 });
    }

    #[test]
    fn three_readings_of_pixel_calibration() {
        let mut pixels = PixelBins::default();
        // Four background pixels, one missed by the outputs, one overconfident, one exact.
        pixels.add_maps(&[0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 1.0], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.9, 1.0]);
        assert_eq!(pixels.zero.count, 5.0);
        assert!((pixels.error_of_positive() - 0.4 / 7.0).abs() < 1e-12);
        assert!((pixels.error_with_zero_bin() - 0.9 / 7.0).abs() < 1e-12);
        assert!((pixels.error_on_union() - 0.9 / 3.0).abs() < 1e-12);
        assert_eq!(PixelBins::default().error_on_union(), 0.0);
    }
}
