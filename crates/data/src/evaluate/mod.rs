//! Every metric of every case, in parallel, and their summary with bootstrap intervals.
//!
//! [`evaluate`] takes cases and predictions side by side. Where they do not fit into memory together,
//! call [`score`] on one case after the other and hand the results to [`summarise`].

mod bootstrap;
mod details;
mod noise;
mod pooled;
mod scores;
mod sizes;
mod statistics;
pub mod volumes;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::draw::Draw;
use crate::metric::{
    CONVENTION, Comparison, WeightedMasks, area, boundary, calibration, count, diversity, ged, lesion,
    matching, soft, truth,
};
use crate::report::{self, ImageRow, Larger, Measures, Reliability, Report};
use crate::{Case, CaseList, Error, Prediction, Result};

pub(crate) use noise::LEAST_GROUPS;
pub use scores::{Details, PooledDetails, PooledScores, Scores, Summary, TruthScores};
use sizes::Sizes;
use statistics::{Layout, known_in, mode_probabilities, standard_deviations};

/// "Larger than A" is judged for these quantiles of the areas that readers marked.
pub const LARGER_THAN: [f64; 3] = [0.25, 0.5, 0.75];

/// What distances are measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Where every image states the distance of its pixels.
    #[serde(rename = "mm")]
    Millimetres,
    /// Otherwise.
    #[serde(rename = "px")]
    Pixels,
}

impl Unit {
    /// The unit that all cases allow.
    pub fn of(cases: &[Case]) -> Self {
        let stated = |case: &Case| Self::stated(case).is_some();
        if cases.iter().all(stated) { Self::Millimetres } else { Self::Pixels }
    }

    /// The same for cases that may lie on disk. All are read only where all state it.
    pub fn of_list(cases: &CaseList) -> Result<Self> {
        for case in cases.iter() {
            if Self::stated(&*case?).is_none() {
                return Ok(Self::Pixels);
            }
        }
        Ok(Self::Millimetres)
    }

    /// As tables and pages write it.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Millimetres => "mm",
            Self::Pixels => "px",
        }
    }

    /// The distance of two columns and of two rows, where the image states it.
    pub fn stated(case: &Case) -> Option<[f64; 2]> {
        let [across, down, _] = case.image.geometry.as_ref()?.spacing.map(f64::from);
        [across, down].iter().all(|step| step.is_finite() && *step > 0.0).then_some([across, down])
    }
}

/// What an evaluation needs to know besides cases and predictions.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The split's name, printed with every number.
    pub split: String,
    /// The data set's hash, where it has one.
    pub data_hash: Option<String>,
    /// Seed of the draws behind sampled GED and of the bootstrap.
    pub seed: u64,
    /// Bootstrap resamples behind each interval.
    pub resamples: usize,
    /// Whether parts of the GED, consensus masks, boundaries, lesions, sizes and noise floors are looked at too.
    pub details: bool,
    /// What distances are measured in; [`evaluate`] finds it out itself.
    pub unit: Unit,
}

impl Settings {
    /// Seed 0, 1,000 resamples, and details in pixels.
    pub fn new(split: impl Into<String>) -> Self {
        let (seed, resamples, unit) = (0, 1000, Unit::Pixels);
        Self { split: split.into(), data_hash: None, seed, resamples, details: true, unit }
    }
}

/// One case's scores, and what it adds to the scores that only all cases together have.
#[derive(Debug, Clone)]
pub struct CaseScore {
    /// The case's row of the report.
    pub row: ImageRow,
    /// For each output its probability and the weight of the labels assigned to it.
    mode_points: Vec<(f64, f64)>,
    pixels: calibration::PixelBins,
    mode_errors: Vec<f64>,
    mode_truth: Vec<f64>,
    /// Empty ones and all: of the annotations, and of the outputs as listed.
    empty_labels: (usize, usize),
    empty_outputs: (usize, usize),
    sizes: Sizes,
    /// The probability of the hypotheses behind expectations over them.
    expected_mass: f64,
    states_spacing: bool,
}

impl CaseScore {
    /// The probability of more than an area, and the share of annotations that have more.
    fn larger(&self, area: f64) -> (f64, f64) {
        let outputs = self.mode_points.iter().enumerate();
        let larger = outputs.filter(|(output, _)| self.sizes.output_area(*output) > area);
        (larger.fold(0.0, |sum, (_, (p, _))| sum + p), self.sizes.labels_larger(area))
    }

    /// The histogram of where the annotations' areas lie among the outputs'.
    fn area_pit(&self) -> Vec<f64> {
        let p: Vec<f64> = self.mode_points.iter().map(|point| point.0).collect();
        let mut bins = vec![0.0; area::PIT_BINS];
        for (&area, weight) in self.sizes.labels.iter().zip(&self.sizes.label_weights) {
            for (sum, mass) in bins.iter_mut().zip(area::pit(area, &self.sizes.outputs, &p)) {
                *sum += weight * mass;
            }
        }
        bins
    }
}

/// The interval that holds the mean of one number per case in 95 % of 1,000 resamples of the groups; none where
/// there is one group.
pub fn mean_interval<'a>(values: &[f64], groups: impl Iterator<Item = &'a str>) -> Option<[f64; 2]> {
    let rows: Vec<Vec<f64>> = values.iter().map(|&value| vec![value, 1.0]).collect();
    let units = bootstrap::sum_by(&rows, groups);
    let mean = |sums: &[f64]| vec![("mean", sums[0] / sums[1])];
    bootstrap::intervals(&units, &Settings::new(""), mean).remove("mean").flatten()
}

/// Scores all cases and summarises them; prediction k is of case k.
pub fn evaluate(cases: &[Case], predictions: &[Prediction], settings: &Settings) -> Result<Report> {
    if predictions.len() != cases.len() {
        return Err(Error::mismatch(
            "evaluation",
            format!("{} predictions for {} cases; give one for each", predictions.len(), cases.len()),
        ));
    }
    let settings = &Settings { unit: Unit::of(cases), ..settings.clone() };
    let pairs = cases.par_iter().zip(predictions);
    // Collected before the first fault is taken, so that the message does not depend on threads.
    let scores: Vec<Result<CaseScore>> =
        pairs.map(|(case, prediction)| score(case, prediction, settings)).collect();
    summarise(&scores.into_iter().collect::<Result<Vec<_>>>()?, settings)
}

/// Scores one case; the result depends on the settings and the case alone.
pub fn score(case: &Case, prediction: &Prediction, settings: &Settings) -> Result<CaseScore> {
    let comparison = &Comparison::new(case, prediction)?;
    let (labels, outputs) = (comparison.labels(), comparison.outputs());
    let p = outputs.weights();

    let random = &mut Draw::new(settings.seed, &["ged", &case.id], 0);
    let draws = ged::SAMPLE_COUNTS.map(|n| outputs.draw(n, random));
    let [ged_4, ged_16, ged_32, ged_50, ged_100] =
        [0, 1, 2, 3, 4].map(|at| ged::of_draws(comparison, &draws[at]));
    let sixteen = ged::draw_weights(comparison, &draws[1]);

    let mut sizes = Sizes::default();
    let (mut details, mut expected_mass) = (Details::default(), 1.0);
    if settings.details {
        (details, expected_mass) = details::of(case, comparison, settings)?;
        sizes = Sizes::of(labels, outputs, details::spacing(case, settings.unit)?);
    }
    let mut pixels = calibration::PixelBins::default();
    let mut soft_dice = 0.0;
    let classes = labels.masks()[0].classes();
    for class in 0..classes {
        let (of_labels, of_outputs) = (soft::marginal(labels, class), soft::marginal(outputs, class));
        pixels.add_maps(&of_labels, &of_outputs);
        if settings.details {
            sizes.add_class(outputs, class, &of_outputs);
        }
        soft_dice += soft::soft_dice_of_maps(&of_labels, &of_outputs) / classes as f64;
    }

    let n_x = count::at_least(p, count::PAPER_THRESHOLD) as f64;
    let n_x_1pct = count::at_least(p, 1e-2) as f64;
    let scores = Scores {
        ged_exact: ged::exact(comparison),
        ged_limit: ged::limit(comparison),
        ged_unbiased: ged::unbiased(comparison),
        ged_4,
        ged_16,
        ged_32,
        ged_50,
        ged_100,
        hm_iou: matching::hm_iou(comparison),
        hm_iou_16: matching::hm_iou_weighing(comparison, &sixteen),
        soft_dice,
        dice_max_labels: matching::dice_max_of_labels(comparison),
        iou_max_labels: matching::iou_max_of_labels(comparison),
        dice_max_outputs: matching::dice_max_of_outputs(comparison),
        dice_match: matching::dice_match(comparison),
        dice_mean: matching::dice_mean(comparison),
        diversity_outputs: diversity::of_outputs(comparison),
        diversity_labels: diversity::of_labels(comparison),
        mode_brier: calibration::mode_brier(comparison),
        mode_nll: calibration::mode_nll(comparison),
        empty_probability: outputs.empty_weight(),
        empty_label_share: labels.empty_weight(),
        n_x,
        n_x_01pct: count::at_least(p, 1e-3) as f64,
        n_x_1pct,
        n_x_99mass: count::for_mass(p, 0.99) as f64,
        n_x_effective: count::effective(p),
        n_x_listed: outputs.listed().len() as f64,
    };

    let mode_errors = truth::probability_errors(comparison).unwrap_or_default();
    let truth_scores = comparison.modes().and_then(|modes| {
        let n_true = modes.masks().len() as f64;
        Some(TruthScores {
            mode_recall: truth::recall(comparison)?,
            mode_precision: truth::precision(comparison)?,
            mode_probability_mae: truth::probability_mae(&mode_errors),
            total_variation: truth::total_variation(&mode_errors),
            total_variation_shown: truth::total_variation_shown(comparison)?,
            n_x_error: (n_x - n_true).abs(),
            n_x_1pct_error: (n_x_1pct - n_true).abs(),
        })
    });
    let empty = |set: &WeightedMasks| {
        let empty = set.listed().iter().filter(|&&at| set.masks()[at].is_empty()).count();
        (empty, set.listed().len())
    };
    Ok(CaseScore {
        row: ImageRow {
            id: case.id.clone(),
            group: case.group.clone(),
            scores,
            details,
            oracle_ged: truth::oracle_ged(comparison),
            truth: truth_scores,
        },
        mode_points: p.iter().copied().zip(calibration::frequencies(comparison)).collect(),
        pixels,
        mode_errors,
        mode_truth: comparison.modes().map_or(Vec::new(), |modes| modes.weights().to_vec()),
        empty_labels: empty(labels),
        empty_outputs: empty(outputs),
        sizes,
        expected_mass,
        states_spacing: Unit::stated(case).is_some(),
    })
}

/// The report over scored cases: means, intervals over images and, where groups hold several images,
/// over groups, the standard deviation over images, and the bins of the reliability diagrams.
pub fn summarise(scores: &[CaseScore], settings: &Settings) -> Result<Report> {
    if scores.is_empty() {
        return Err(Error::mismatch(
            "evaluation",
            format!("split {:?} has no case to score", settings.split),
        ));
    }
    let layout = Layout::of(scores);
    let by_image: Vec<Vec<f64>> = scores.iter().map(|score| layout.row(score)).collect();
    let by_group = bootstrap::sum_by(&by_image, scores.iter().map(|score| score.row.group.as_str()));
    let totals = bootstrap::sum(&by_image);
    let summary = layout.summary(&totals, by_group.len());

    let intervals = |units: &[Vec<f64>]| {
        bootstrap::intervals(units, settings, |totals| layout.summary(totals, 0).numbers())
    };
    let share = |of: fn(&CaseScore) -> (usize, usize)| {
        let (empty, all) = scores.iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        empty as f64 / all as f64
    };
    let bins = layout.bins(&totals);
    let (noise, area_pit) = match settings.details {
        true => noise::floors(&layout, scores, &by_group, &totals, settings),
        false => Default::default(),
    };
    let larger = layout.larger().zip(LARGER_THAN).zip(&bins.larger);
    let larger = larger.map(|((area, quantile), bins)| Larger {
        quantile,
        area,
        bins: calibration::reliability(bins),
    });
    Ok(Report {
        format: report::FORMAT.into(),
        version: report::VERSION,
        convention: CONVENTION.into(),
        split: settings.split.clone(),
        data_hash: settings.data_hash.clone(),
        seed: settings.seed,
        resamples: settings.resamples,
        empty_labels: share(|score| score.empty_labels),
        empty_outputs: share(|score| score.empty_outputs),
        intervals: intervals(&by_image),
        intervals_by_group: (by_group.len() < scores.len()).then(|| intervals(&by_group)),
        std_over_images: standard_deviations(scores, &summary),
        summary,
        mode_probabilities: mode_probabilities(scores),
        reliability: Reliability {
            modes: calibration::reliability(&bins.modes),
            empty: calibration::reliability(&bins.empty),
            pixels: calibration::reliability(&[&[bins.pixels.zero][..], &bins.pixels.bins].concat()),
            larger: larger.collect(),
            area_pit,
        },
        noise,
        measures: settings.details.then(|| Measures {
            unit: settings.unit,
            tolerance: boundary::TOLERANCE,
            lesion_iou: lesion::MATCH_IOU,
            expected_mass: scores.iter().map(|score| score.expected_mass).sum::<f64>() / scores.len() as f64,
            known_in: known_in(scores),
            annotations: scores.iter().map(|score| score.empty_labels.1).fold(None, |range, count| {
                let [fewest, most] = range.unwrap_or([count; 2]);
                Some([fewest.min(count), most.max(count)])
            }),
        }),
        volumes: None,
        images: scores.iter().map(|score| score.row.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_over_groups() {
        let of = |groups: [&'static str; 4]| mean_interval(&[0.0, 0.0, 1.0, 1.0], groups.into_iter());
        assert_eq!(of(["a"; 4]), None);
        assert_eq!(of(["a", "a", "b", "b"]), Some([0.0, 1.0]));
        assert_eq!(of(["a", "b", "a", "b"]), Some([0.5, 0.5]));
    }
}
