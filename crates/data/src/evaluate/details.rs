//! What a case tells beyond its overlaps: the parts of its GED, how a consensus of its readers would do, boundaries
//! and lesions.

use super::scores::Details;
use super::{Settings, Unit};
use crate::metric::{
    Comparison, Overlaps, Side, boundary, calibration, consensus, count, diversity, lesion, split,
};
use crate::{Case, Error, Mask, Result};

/// Expectations over hypotheses are over the most probable ones that hold this much probability, at most so many.
const MASS: f64 = 0.99;
const MOST_HYPOTHESES: usize = 64;

/// A case's details, and the probability of the hypotheses behind its expectations.
pub(super) fn of(case: &Case, comparison: &Comparison, settings: &Settings) -> Result<(Details, f64)> {
    let mut details = Details::default();
    parts(comparison, &mut details);
    single_answers(comparison, &mut details);
    let mass = shapes(comparison, spacing(case, settings.unit)?, &mut details);
    Ok((details, mass))
}

fn parts(comparison: &Comparison, details: &mut Details) {
    let ged = split::of_limit(comparison);
    details.ged_emptiness = ged.emptiness;
    details.ged_shape = ged.shape();
    if let Some(floor) = split::floor(comparison) {
        details.ged_floor = floor.total;
        details.ged_floor_emptiness = floor.emptiness;
        details.ged_floor_shape = floor.shape();
        details.ged_excess = ged.total - floor.total;
        details.ged_excess_emptiness = ged.emptiness - floor.emptiness;
        details.ged_excess_shape = ged.shape() - floor.shape();
    }
}

/// How one mask would do as the answer: the most probable hypothesis, and what the readers make of themselves.
fn single_answers(comparison: &Comparison, details: &mut Details) {
    let spread = diversity::of_labels(comparison);
    // GED of one mask whose mean IoU with the readers is this.
    let ged = |iou: f64| 2.0 * (1.0 - iou) - spread;
    let q = comparison.labels().weights();
    let iou = |output: usize| q.iter().enumerate().map(|(label, q)| q * comparison.iou(label, output)).sum();
    details.top_iou = iou(0);
    details.top_ged = ged(details.top_iou);
    let (labels, outputs) = (comparison.label_side(), comparison.output_side());
    details.medoid_iou = iou(medoid(comparison.overlaps(), outputs));
    details.medoid_ged = ged(details.medoid_iou);
    details.expected_iou = 1.0 - diversity::between(comparison.overlaps(), labels, outputs);
    if let Some([majority, staple]) = consensus::nearness(comparison.labels()) {
        details.majority_iou = majority.of_others;
        details.majority_ged = ged(majority.of_others);
        details.majority_all_iou = majority.of_all;
        details.majority_all_ged = ged(majority.of_all);
        details.staple_iou = staple.of_others;
        details.staple_ged = ged(staple.of_others);
        details.staple_all_iou = staple.of_all;
        details.staple_all_ged = ged(staple.of_all);
    }
}

/// The output whose expected IoU with the outputs is largest, the more probable one of equals.
fn medoid(overlaps: &Overlaps, outputs: Side) -> usize {
    let nearness = |output: usize| -> f64 {
        let weights = outputs.weights.iter().enumerate();
        weights.map(|(other, p)| p * overlaps.iou(outputs.first + output, outputs.first + other)).sum()
    };
    let nearness: Vec<f64> = (0..outputs.weights.len()).map(nearness).collect();
    calibration::nearest(nearness.len(), |output| nearness[output])
}

fn shapes(comparison: &Comparison, spacing: [f64; 2], details: &mut Details) -> f64 {
    let (labels, outputs) = (comparison.labels(), comparison.outputs());
    let kept = count::for_mass(outputs.weights(), MASS).min(MOST_HYPOTHESES);
    let p = &outputs.weights()[..kept];
    let masks: &[&Mask] = &outputs.masks()[..kept];
    let mass: f64 = p.iter().sum();

    let boundaries = boundary::between(labels, masks, spacing, boundary::TOLERANCE);
    let lesions = lesion::between(labels, masks);
    // The mean over readers and the given hypotheses of what is known.
    let mean = |p: &[f64], value: &dyn Fn(usize, usize) -> Option<f64>| {
        let (mut sum, mut weight) = (0.0, 0.0);
        for (i, q) in labels.weights().iter().enumerate() {
            for (j, p) in p.iter().enumerate() {
                if let Some(value) = value(i, j) {
                    sum += q * p * value;
                    weight += q * p;
                }
            }
        }
        if weight > 0.0 { sum / weight } else { f64::NAN }
    };
    let hd95 = |i: usize, j: usize| boundaries[i][j].hd95;
    let nsd = |i: usize, j: usize| Some(boundaries[i][j].nsd);
    let found = |i: usize, j: usize| Some(lesions[i][j].found as f64);
    let invented = |i: usize, j: usize| Some(lesions[i][j].invented as f64);
    let top = &[1.0];
    (details.hd95_top, details.hd95_expected) = (mean(top, &hd95), mean(p, &hd95));
    (details.nsd_top, details.nsd_expected) = (mean(top, &nsd), mean(p, &nsd));
    details.lesions = mean(top, &|i, j| Some(lesions[i][j].lesions as f64));
    (details.lesions_found_top, details.lesions_found_expected) = (mean(top, &found), mean(p, &found));
    (details.lesions_false_top, details.lesions_false_expected) = (mean(top, &invented), mean(p, &invented));
    mass
}

/// The distance of two columns and of two rows.
pub(super) fn spacing(case: &Case, unit: Unit) -> Result<[f64; 2]> {
    match (unit, Unit::stated(case)) {
        (Unit::Pixels, _) => Ok([1.0; 2]),
        (Unit::Millimetres, Some(spacing)) => Ok(spacing),
        (Unit::Millimetres, None) => Err(Error::mismatch(
            format!("case {}", case.id),
            "its image states no spacing, but distances are to be in millimetres; evaluate in pixels",
        )),
    }
}
