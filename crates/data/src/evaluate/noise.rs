//! What a perfectly calibrated model would show: calibration errors are sums of absolute values, so chance alone makes
//! them positive.
//!
//! Two answers:
//!
//! - of **readers**: every image gets as many readers as it has, with their weights, each of whom draws one of the
//!   model's own hypotheses by its stated probability, independently of all others;
//! - of **groups**: readers of one image, and images of one patient, are not independent. What each group adds to the
//!   gap of a bin, freed of the bin's mean gap, gets a random sign (wild bootstrap), so that all dependence inside
//!   groups stays as it is. It is mostly the larger one; the smaller where readers have habits of their own. A group that
//!   has a bin to itself is its mean gap, so that nothing is left to sign: bins must hold several groups.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::pooled::PooledBins;
use super::statistics::Layout;
use super::{CaseScore, Settings};
use crate::draw::Draw;
use crate::metric::{area, percentile};
use crate::report::{AreaPit, NoiseFloor, NoiseFloors};

/// Simulated evaluations.
const SIMULATIONS: usize = 200;
/// Sign changes.
const SIGN_CHANGES: usize = 1000;
/// From so many groups in a bin on, in the mean, their signs say something.
pub(crate) const LEAST_GROUPS: usize = 5;

/// Both floors of every calibration error, and the histogram of the areas with the band of the simulated ones.
pub(super) fn floors(
    layout: &Layout,
    scores: &[CaseScore],
    by_group: &[Vec<f64>],
    totals: &[f64],
    settings: &Settings,
) -> (NoiseFloors, Option<AreaPit>) {
    let found = layout.bins(totals);
    let simulated = of_readers(layout, scores, &found, settings);
    let by_group: Vec<PooledBins> = by_group.iter().map(|sums| layout.bins(sums)).collect();
    let mut groups = summarised(&of_groups(&by_group, &found, settings));
    groups.retain(|key, _| PooledBins::groups_in_a_bin(&by_group, key) >= LEAST_GROUPS as f64);
    let pit = pit(&found, &simulated);
    (NoiseFloors { readers: summarised(&simulated), groups }, pit)
}

fn pit(found: &PooledBins, simulated: &[PooledBins]) -> Option<AreaPit> {
    let share = |bins: &PooledBins, bin: usize| bins.pit[bin] / bins.pit.iter().sum::<f64>();
    let band = |at: f64| -> Vec<f64> {
        let of_bin = |bin: usize| {
            let mut values: Vec<f64> = simulated.iter().map(|bins| share(bins, bin)).collect();
            values.sort_by(f64::total_cmp);
            percentile(&values, at)
        };
        (0..found.pit.len()).map(of_bin).collect()
    };
    (!found.pit.is_empty()).then(|| AreaPit {
        shares: (0..found.pit.len()).map(|bin| share(found, bin)).collect(),
        low: band(0.05),
        high: band(0.95),
    })
}

fn summarised(evaluations: &[PooledBins]) -> BTreeMap<String, NoiseFloor> {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (key, error) in evaluations.iter().flat_map(PooledBins::errors) {
        values.entry(key).or_default().push(error);
    }
    let floor = |mut errors: Vec<f64>| {
        errors.sort_by(f64::total_cmp);
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        NoiseFloor { mean, low: percentile(&errors, 0.05), high: percentile(&errors, 0.95) }
    };
    values.into_iter().map(|(key, errors)| (key.to_owned(), floor(errors))).collect()
}

/// Where a reader who draws an output of a case is counted.
struct Choice {
    /// The probability of this output and of all before it.
    until: f64,
    mode_bin: usize,
    empty: bool,
    pixels: Vec<f64>,
    larger: Vec<bool>,
    pit: Vec<f64>,
}

fn choices(layout: &Layout, score: &CaseScore) -> Vec<Choice> {
    let sizes = &score.sizes;
    let p: Vec<f64> = score.mode_points.iter().map(|point| point.0).collect();
    let mut until = 0.0;
    (0..p.len())
        .map(|output| {
            until += p[output];
            Choice {
                until,
                mode_bin: layout.mode_bin(p[output]),
                empty: sizes.outputs[output] == 0,
                pixels: sizes.pixel_bins[output].iter().map(|&count| f64::from(count)).collect(),
                larger: layout.larger().map(|threshold| sizes.output_area(output) > threshold).collect(),
                pit: area::pit(sizes.outputs[output], &sizes.outputs, &p).to_vec(),
            }
        })
        .collect()
}

fn of_readers(
    layout: &Layout,
    scores: &[CaseScore],
    found: &PooledBins,
    settings: &Settings,
) -> Vec<PooledBins> {
    let cases: Vec<_> =
        scores.par_iter().map(|score| (choices(layout, score), layout.image_bins(score))).collect();
    let simulate = |simulation: usize| {
        let mut random = Draw::new(settings.seed, &["noise of readers"], simulation as u64);
        let mut bins = found.unobserved();
        for (score, (choices, (empty_bin, larger_bins))) in scores.iter().zip(&cases) {
            for &q in &score.sizes.label_weights {
                let uniform = random.unit();
                let drawn = choices.partition_point(|one| one.until <= uniform).min(choices.len() - 1);
                let drawn = &choices[drawn];
                bins.modes[drawn.mode_bin].frequency += q;
                bins.empty[*empty_bin].frequency += if drawn.empty { q } else { 0.0 };
                for (bin, pixels) in bins.pixels.bins.iter_mut().zip(&drawn.pixels) {
                    bin.frequency += q * pixels;
                }
                for ((bins, &bin), &larger) in bins.larger.iter_mut().zip(larger_bins).zip(&drawn.larger) {
                    bins[bin].frequency += if larger { q } else { 0.0 };
                }
                for (sum, mass) in bins.pit.iter_mut().zip(&drawn.pit) {
                    *sum += q * mass;
                }
            }
        }
        bins
    };
    (0..SIMULATIONS).into_par_iter().map(simulate).collect()
}

fn of_groups(groups: &[PooledBins], found: &PooledBins, settings: &Settings) -> Vec<PooledBins> {
    let corrections = PooledBins::corrections(groups, found);
    let change = |round: usize| {
        let mut random = Draw::new(settings.seed, &["noise of groups"], round as u64);
        let mut bins = found.expected();
        for group in groups {
            let sign = if random.chance(0.5) { 1.0 } else { -1.0 };
            bins.add_gaps(group, found, &corrections, sign);
        }
        bins
    };
    (0..SIGN_CHANGES).into_par_iter().map(change).collect()
}
