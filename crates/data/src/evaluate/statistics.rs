//! Each image as one row of numbers whose column sums determine the whole summary. A bootstrap resample
//! is then a weighted sum of rows, whether a score is a mean over images or pooled from all of them.

use std::collections::BTreeMap;

use super::pooled::PooledBins;
use super::scores::{Details, PooledDetails, Scores, Summary, TruthScores};
use super::{CaseScore, LARGER_THAN};
use crate::metric::calibration::{self, BinSum, PixelBins};
use crate::metric::{area, percentile};
use crate::report::ModeProbability;

/// What the columns of a row mean: the edges of the pooled bins and the largest number of true modes.
pub(super) struct Layout {
    mode_edges: Vec<f64>,
    empty_edges: Vec<f64>,
    /// Areas and the edges for the probabilities of more; none where nobody drew anything, or without details.
    larger: Vec<(f64, Vec<f64>)>,
    /// Bins of the areas' histogram; none without details.
    pit: usize,
    modes: usize,
}

impl Layout {
    /// The layout for these images; the bins are theirs and stay fixed in every resample.
    pub fn of(scores: &[CaseScore]) -> Self {
        let modes = scores.iter().flat_map(|score| score.mode_points.iter().map(|point| point.0)).collect();
        let empty = scores.iter().map(|score| score.row.scores.empty_probability).collect();
        let mut drawn: Vec<f64> = scores.iter().flat_map(|score| score.sizes.drawn_areas()).collect();
        drawn.sort_by(f64::total_cmp);
        let edges = |threshold: f64| {
            calibration::equal_count_edges(scores.iter().map(|score| score.larger(threshold).0).collect())
        };
        let thresholds =
            LARGER_THAN.iter().filter(|_| !drawn.is_empty()).map(|&share| percentile(&drawn, share));
        Self {
            mode_edges: calibration::equal_count_edges(modes),
            empty_edges: calibration::equal_count_edges(empty),
            larger: thresholds.map(|threshold| (threshold, edges(threshold))).collect(),
            pit: if scores.iter().any(|score| score.sizes.is_known()) { area::PIT_BINS } else { 0 },
            modes: scores.iter().map(|score| score.mode_errors.len()).max().unwrap_or(0),
        }
    }

    /// The areas whose exceedance is judged.
    pub fn larger(&self) -> impl Iterator<Item = f64> + '_ {
        self.larger.iter().map(|(threshold, _)| *threshold)
    }

    /// The bin of an output's probability.
    pub fn mode_bin(&self, probability: f64) -> usize {
        calibration::bin_of(&self.mode_edges, probability)
    }

    /// The bins of an image: of its probability of nothing, and of more than each area.
    pub fn image_bins(&self, score: &CaseScore) -> (usize, Vec<usize>) {
        let larger =
            self.larger.iter().map(|(area, edges)| calibration::bin_of(edges, score.larger(*area).0));
        (calibration::bin_of(&self.empty_edges, score.row.scores.empty_probability), larger.collect())
    }

    /// One image's row.
    pub fn row(&self, score: &CaseScore) -> Vec<f64> {
        let image = &score.row;
        let mut row = vec![1.0];
        row.extend(image.scores.values());
        row.extend(image.details.values().into_iter().flat_map(counted));
        row.extend(counted(image.oracle_ged.unwrap_or(f64::NAN)));
        row.push(f64::from(u8::from(image.truth.is_some())));
        row.extend(image.truth.map_or(vec![0.0; TruthScores::KEYS.len()], |truth| truth.values()));
        self.image_sums(score).write(&mut row);
        for mode in 0..self.modes {
            row.extend(score.mode_errors.get(mode).map_or([0.0; 3], |error| [1.0, *error, error * error]));
        }
        row
    }

    /// What one image adds to the pooled bins.
    fn image_sums(&self, score: &CaseScore) -> PooledBins {
        let mut bins = self.no_bins();
        for &(probability, frequency) in &score.mode_points {
            bins.modes[self.mode_bin(probability)].add(probability, frequency);
        }
        let (empty_bin, larger_bins) = self.image_bins(score);
        let scores = &score.row.scores;
        bins.empty[empty_bin].add(scores.empty_probability, scores.empty_label_share);
        bins.pixels = score.pixels;
        for ((bins, bin), (area, _)) in bins.larger.iter_mut().zip(larger_bins).zip(&self.larger) {
            let (probability, frequency) = score.larger(*area);
            bins[bin].add(probability, frequency);
        }
        if self.pit > 0 {
            bins.pit = score.area_pit();
        }
        bins
    }

    fn no_bins(&self) -> PooledBins {
        let none = |edges: &Vec<f64>| vec![BinSum::default(); edges.len() + 1];
        PooledBins {
            modes: none(&self.mode_edges),
            empty: none(&self.empty_edges),
            pixels: PixelBins::default(),
            larger: self.larger.iter().map(|(_, edges)| none(edges)).collect(),
            pit: vec![0.0; self.pit],
        }
    }

    /// The summary that column sums determine.
    pub fn summary(&self, totals: &[f64], groups: usize) -> Summary {
        let mut next = totals.iter().copied();
        let cases = take(&mut next);
        let scores = Scores::taken_from(&mut next.by_ref().map(|sum| sum / cases));
        let mut mean = std::iter::from_fn(|| {
            let (count, sum) = (take(&mut next), take(&mut next));
            Some(if count > 0.0 { sum / count } else { f64::NAN })
        });
        let details = Details::taken_from(&mut mean);
        let oracle = mean.next().filter(|oracle| !oracle.is_nan());
        let truths = take(&mut next);
        let truth = TruthScores::taken_from(&mut next.by_ref().map(|sum| sum / truths));
        let bins = self.no_bins().read(&mut next);
        let mut squares = 0.0;
        let mut errors = 0.0;
        while let Some(count) = next.next() {
            let (sum, square_sum) = (take(&mut next), take(&mut next));
            if count > 0.0 {
                errors += count;
                squares += (square_sum - sum * sum / count).max(0.0);
            }
        }
        let [larger_q25_ece, larger_q50_ece, larger_q75_ece] = bins.larger_errors();
        let (top, expected) = (
            lesion_scores(details.lesions, details.lesions_found_top, details.lesions_false_top),
            lesion_scores(details.lesions, details.lesions_found_expected, details.lesions_false_expected),
        );
        Summary {
            cases: cases as usize,
            groups,
            scores,
            pooled: bins.scores(),
            details,
            pooled_details: PooledDetails {
                lesion_sensitivity_top: top[0],
                lesion_f1_top: top[1],
                lesion_sensitivity_expected: expected[0],
                lesion_f1_expected: expected[1],
                larger_q25_ece,
                larger_q50_ece,
                larger_q75_ece,
                area_pit_error: bins.pit_error(),
            },
            oracle_ged: oracle,
            truth: (truths > 0.0).then_some(truth),
            mode_probability_std: (errors > 0.0).then(|| (squares / errors).sqrt()),
        }
    }

    /// The pooled bins inside column sums.
    pub fn bins(&self, totals: &[f64]) -> PooledBins {
        let before = 1 + Scores::KEYS.len() + 2 * Details::KEYS.len() + 2 + 1 + TruthScores::KEYS.len();
        self.no_bins().read(&mut totals[before..].iter().copied())
    }
}

/// Sensitivity and F1 from means over images of a reader's lesions, the found and the invented ones; not a number where
/// there is no lesion to speak of.
fn lesion_scores(lesions: f64, found: f64, invented: f64) -> [f64; 2] {
    // Zero by zero is not a number.
    [found / lesions, 2.0 * found / (lesions + found + invented)]
}

/// A number that an image may lack, as how often it is there and its sum.
fn counted(value: f64) -> [f64; 2] {
    if value.is_nan() { [0.0, 0.0] } else { [1.0, value] }
}

pub(super) fn take(next: &mut impl Iterator<Item = f64>) -> f64 {
    next.next().expect("a row has all columns")
}

/// Standard deviation over images (dividing by their number) of each score that an image has by itself.
pub(super) fn standard_deviations(scores: &[CaseScore], summary: &Summary) -> BTreeMap<String, f64> {
    let mut deviations = BTreeMap::new();
    let mut put = |key: &str, mean: f64, values: Vec<f64>| {
        let values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        if !values.is_empty() {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            deviations.insert(key.to_owned(), (squares / values.len() as f64).sqrt());
        }
    };
    let mut put_all = |keys: &[&str], means: Vec<f64>, rows: Vec<Vec<f64>>| {
        for (at, (key, mean)) in keys.iter().zip(means).enumerate() {
            put(key, mean, rows.iter().map(|row| row[at]).collect());
        }
    };
    let rows = scores.iter().map(|score| score.row.scores.values()).collect();
    put_all(Scores::KEYS, summary.scores.values(), rows);
    let rows = scores.iter().map(|score| score.row.details.values()).collect();
    put_all(Details::KEYS, summary.details.values(), rows);
    if let Some(mean) = summary.oracle_ged {
        let rows = scores.iter().filter_map(|score| Some(vec![score.row.oracle_ged?])).collect();
        put_all(&["oracle_ged"], vec![mean], rows);
    }
    if let Some(means) = summary.truth {
        let rows = scores.iter().filter_map(|score| Some(score.row.truth?.values())).collect();
        put_all(TruthScores::KEYS, means.values(), rows);
    }
    deviations
}

/// In how many images each detail is known, where that is not all of them, and the spacing where that is some.
pub(super) fn known_in(scores: &[CaseScore]) -> BTreeMap<String, usize> {
    let rows: Vec<Vec<f64>> = scores.iter().map(|score| score.row.details.values()).collect();
    let count = |at: usize| rows.iter().filter(|row| !row[at].is_nan()).count();
    let counts = Details::KEYS.iter().enumerate().map(|(at, key)| ((*key).to_owned(), count(at)));
    let spaced = scores.iter().filter(|score| score.states_spacing).count();
    let spacing = (spaced > 0).then(|| ("spacing".to_owned(), spaced));
    counts.chain(spacing).filter(|(_, count)| *count < scores.len()).collect()
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
