//! Each image as one row of numbers whose column sums determine the whole summary. A bootstrap resample
//! is then a weighted sum of rows, whether a score is a mean over images or pooled from all of them.

use std::collections::BTreeMap;

use super::CaseScore;
use super::scores::{PooledScores, Scores, Summary, TruthScores};
use crate::metric::calibration::{self, BinSum, PixelBins};
use crate::report::ModeProbability;

/// What the columns of a row mean: the edges of the pooled bins and the largest number of true modes.
pub(super) struct Layout {
    mode_edges: Vec<f64>,
    empty_edges: Vec<f64>,
    modes: usize,
}

/// The pooled bins of some set of images.
pub(super) struct PooledBins {
    pub modes: Vec<BinSum>,
    pub empty: Vec<BinSum>,
    pub pixels: PixelBins,
}

impl Layout {
    /// The layout for these images; the bins are theirs and stay fixed in every resample.
    pub fn of(scores: &[CaseScore]) -> Self {
        let modes = scores.iter().flat_map(|score| score.mode_points.iter().map(|point| point.0)).collect();
        let empty = scores.iter().map(|score| score.row.scores.empty_probability).collect();
        Self {
            mode_edges: calibration::equal_count_edges(modes),
            empty_edges: calibration::equal_count_edges(empty),
            modes: scores.iter().map(|score| score.mode_errors.len()).max().unwrap_or(0),
        }
    }

    /// One image's row.
    pub fn row(&self, score: &CaseScore) -> Vec<f64> {
        let image = &score.row;
        let mut row = vec![1.0];
        row.extend(image.scores.values());
        row.extend([f64::from(u8::from(image.oracle_ged.is_some())), image.oracle_ged.unwrap_or(0.0)]);
        row.push(f64::from(u8::from(image.truth.is_some())));
        row.extend(image.truth.map_or(vec![0.0; TruthScores::KEYS.len()], |truth| truth.values()));

        let mut modes = vec![BinSum::default(); self.mode_edges.len() + 1];
        for &(probability, frequency) in &score.mode_points {
            modes[calibration::bin_of(&self.mode_edges, probability)].add(probability, frequency);
        }
        let mut empty = vec![BinSum::default(); self.empty_edges.len() + 1];
        let (probability, frequency) = (image.scores.empty_probability, image.scores.empty_label_share);
        empty[calibration::bin_of(&self.empty_edges, probability)].add(probability, frequency);
        let pixels = &score.pixels;
        for bin in modes.iter().chain(&empty).chain(&pixels.bins).chain([&pixels.zero]) {
            row.extend([bin.count, bin.probability, bin.frequency]);
        }
        row.push(pixels.missed);

        for mode in 0..self.modes {
            row.extend(score.mode_errors.get(mode).map_or([0.0; 3], |error| [1.0, *error, error * error]));
        }
        row
    }

    /// The summary that column sums determine.
    pub fn summary(&self, totals: &[f64], groups: usize) -> Summary {
        let mut next = totals.iter().copied();
        let cases = take(&mut next);
        let scores = Scores::taken_from(&mut next.by_ref().map(|sum| sum / cases));
        let (oracles, oracle_sum) = (take(&mut next), take(&mut next));
        let truths = take(&mut next);
        let truth = TruthScores::taken_from(&mut next.by_ref().map(|sum| sum / truths));
        let bins = self.take_bins(&mut next);
        let mut squares = 0.0;
        let mut errors = 0.0;
        while let Some(count) = next.next() {
            let (sum, square_sum) = (take(&mut next), take(&mut next));
            if count > 0.0 {
                errors += count;
                squares += (square_sum - sum * sum / count).max(0.0);
            }
        }
        Summary {
            cases: cases as usize,
            groups,
            scores,
            pooled: PooledScores {
                mode_ece: calibration::expected_error(&bins.modes),
                empty_ece: calibration::expected_error(&bins.empty),
                pixel_ece: bins.pixels.error_of_positive(),
                pixel_ece_zero_bin: bins.pixels.error_with_zero_bin(),
                pixel_ece_union: bins.pixels.error_on_union(),
            },
            oracle_ged: (oracles > 0.0).then(|| oracle_sum / oracles),
            truth: (truths > 0.0).then_some(truth),
            mode_probability_std: (errors > 0.0).then(|| (squares / errors).sqrt()),
        }
    }

    /// The pooled bins inside column sums.
    pub fn bins(&self, totals: &[f64]) -> PooledBins {
        let before = 1 + Scores::KEYS.len() + 2 + 1 + TruthScores::KEYS.len();
        self.take_bins(&mut totals[before..].iter().copied())
    }

    fn take_bins(&self, next: &mut impl Iterator<Item = f64>) -> PooledBins {
        let mut bin = || BinSum { count: take(next), probability: take(next), frequency: take(next) };
        let modes = (0..=self.mode_edges.len()).map(|_| bin()).collect();
        let empty = (0..=self.empty_edges.len()).map(|_| bin()).collect();
        let bins = std::array::from_fn(|_| bin());
        let zero = bin();
        PooledBins { modes, empty, pixels: PixelBins { bins, zero, missed: take(next) } }
    }
}

fn take(next: &mut impl Iterator<Item = f64>) -> f64 {
    next.next().expect("a row has all columns")
}

/// Standard deviation over images (dividing by their number) of each score that an image has by itself.
pub(super) fn standard_deviations(scores: &[CaseScore], summary: &Summary) -> BTreeMap<String, f64> {
    let mut deviations = BTreeMap::new();
    let mut put = |key: &str, mean: f64, values: Vec<f64>| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        deviations.insert(key.to_owned(), (squares / values.len() as f64).sqrt());
    };
    let rows: Vec<Vec<f64>> = scores.iter().map(|score| score.row.scores.values()).collect();
    for (at, (key, mean)) in Scores::KEYS.iter().zip(summary.scores.values()).enumerate() {
        put(key, mean, rows.iter().map(|row| row[at]).collect());
    }
    if let Some(mean) = summary.oracle_ged {
        put("oracle_ged", mean, scores.iter().filter_map(|score| score.row.oracle_ged).collect());
    }
    if let Some(means) = summary.truth {
        let rows: Vec<_> = scores.iter().filter_map(|score| Some(score.row.truth?.values())).collect();
        for (at, (key, mean)) in TruthScores::KEYS.iter().zip(means.values()).enumerate() {
            put(key, mean, rows.iter().map(|row| row[at]).collect());
        }
    }
    deviations
}

/// Each mode's predicted and true probability over all images; nothing where one of them has no truth or
/// another number of modes, since a place in the truth then means nothing.
pub(super) fn mode_probabilities(scores: &[CaseScore]) -> Vec<ModeProbability> {
    let modes = scores[0].mode_truth.len();
    if scores.iter().any(|score| score.mode_truth.len() != modes) {
        return Vec::new();
    }
    let mean =
        |value: &dyn Fn(&CaseScore) -> f64| scores.iter().map(value).sum::<f64>() / scores.len() as f64;
    (0..modes)
        .map(|mode| {
            let predicted = |score: &CaseScore| score.mode_truth[mode] + score.mode_errors[mode];
            let centre = mean(&predicted);
            ModeProbability {
                mean: centre,
                std: mean(&|score| (predicted(score) - centre).powi(2)).sqrt(),
                truth: mean(&|score| score.mode_truth[mode]),
            }
        })
        .collect()
}
