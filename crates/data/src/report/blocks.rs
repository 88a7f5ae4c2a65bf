//! The details as small tables below the scores: the GED beside its floor, single masks as answers, boundaries and
//! lesions, calibration errors beside what chance alone would show.

use super::table::{aligned, interval, number};
use super::{ImageRow, Measures, NoiseFloor, Report};
use crate::evaluate::volumes::VolumeReport;
use crate::evaluate::{LEAST_GROUPS, Unit};

pub(super) fn render(report: &Report) -> String {
    let of_volumes = report.volumes.as_ref().map(|volumes| format!("\n{}", self::volumes(volumes)));
    of_details(report) + &of_volumes.unwrap_or_default()
}

/// Scores of whole volumes.
fn volumes(found: &VolumeReport) -> String {
    let mut rows = vec![["whole volumes", "mean", "95 % over groups"].map(String::from).to_vec()];
    for (key, value) in found.numbers() {
        rows.push(vec![key.to_owned(), number(value), interval(Some(&found.intervals), key)]);
    }
    format!("{}{}\n", aligned(&rows), about_volumes(found))
}

/// What was scored as volumes, in a sentence.
pub fn about_volumes(found: &VolumeReport) -> String {
    let without = match found.without_readers {
        0 => String::new(),
        some => {
            format!(" {some} more have slices with other readers than their neighbours and are not scored.")
        }
    };
    format!(
        "{} volumes of coupled slices, {} draws each; volume_ged_uncoupled is the same with every slice drawn by \
         itself, volume_coverage the share of readers' volumes within the predicted 90 %.{without}",
        found.count, found.draws
    )
}

fn of_details(report: &Report) -> String {
    let Some(measures) = &report.measures else { return String::new() };
    let blocks = [ged(report), one_mask(report), shapes(report, measures), calibration(report, measures)];
    blocks.iter().map(|block| format!("\n{block}")).collect()
}

/// What the floor is, in a sentence, with the number of images behind it.
pub fn about_the_floor(report: &Report) -> String {
    let all = report.summary.cases;
    let known_in = report.measures.as_ref().map(|measures| &measures.known_in);
    match known_in.and_then(|known| known.get("ged_floor")).copied().unwrap_or(all) {
        0 => "No floor is known: every image has one annotation, which tells nothing of what other readers would \
              have drawn."
            .into(),
        known => {
            let which = if known == all {
                String::new()
            } else {
                let of_known = report.images.iter().filter(|row| !row.details.ged_floor.is_nan());
                let mean = of_known.map(|row| row.scores.ged_limit).sum::<f64>() / known as f64;
                format!(
                    " Floor and excess are over the {known} of {all} images with several annotations, on which this \
                     model has {mean:.4}."
                )
            };
            let varies = match report.measures.as_ref().and_then(|measures| measures.annotations) {
                Some([fewest, most]) if fewest < most => format!(
                    " K varies from {fewest} to {most}: each image has a floor of its own, which is higher where fewer \
                     readers drew, and the floor is their mean."
                ),
                _ => String::new(),
            };
            let below = if lies_below(report) {
                " This model lies below the floor, so readers are no such draws: readers with habits of their own \
                 cover their differences more evenly than chance would."
            } else {
                ""
            };
            let oracle = report.summary.oracle_ged;
            let truth = oracle.map_or(String::new(), |oracle| format!(" The truth itself reaches {oracle:.4}."));
            format!(
                "The floor is the expected GED of a model that knew how readers answer each image: D/K, with K \
                 readers and D the mean distance of two of them, if readers are independent draws of one \
                 distribution per image.{varies}{which}{below}{truth}"
            )
        }
    }
}

/// Whether the excess is negative by more than chance.
fn lies_below(report: &Report) -> bool {
    let (intervals, _) = report.first_intervals();
    intervals.get("ged_excess").copied().flatten().is_some_and(|[_, high]| high < 0.0)
}

/// How boundaries and lesions are measured, in a sentence.
pub fn about_shapes(report: &Report, measures: &Measures) -> String {
    let all = report.summary.cases;
    let known = |key: &str| measures.known_in.get(key).copied().unwrap_or(all);
    let mass = if measures.expected_mass < 0.98 {
        format!(
            " Expectations are over hypotheses of {:.0} % of the probability.",
            100.0 * measures.expected_mass
        )
    } else {
        String::new()
    };
    let spacing = measures.known_in.get("spacing").map_or(String::new(), |spaced| {
        format!(" Distances are in pixels, since only {spaced} of {all} images state their spacing.")
    });
    format!(
        "hd95 is over pairs of which both mark something: {} images for the most probable hypothesis, {} in \
         expectation. A lesion is a connected component; it is found by one of IoU {} and more.{mass}{spacing}",
        known("hd95_top"),
        known("hd95_expected"),
        measures.lesion_iou
    )
}

/// Name, GED key and IoU key of all hypotheses and of the answers that are one mask.
const ANSWERS: [(&str, &str, &str); 7] = [
    ("all hypotheses", "ged_limit", "expected_iou"),
    ("most probable hypothesis", "top_ged", "top_iou"),
    ("hypothesis nearest to all", "medoid_ged", "medoid_iou"),
    ("majority of the other readers", "majority_ged", "majority_iou"),
    ("STAPLE of the other readers", "staple_ged", "staple_iou"),
    ("majority of all readers", "majority_all_ged", "majority_all_iou"),
    ("STAPLE of all readers", "staple_all_ged", "staple_all_iou"),
];

/// An answer to an image: its name, and its mean GED and IoU with a reader.
pub type Answer = (&'static str, f64, Option<f64>);

/// The answers side by side, and which images they are over. A consensus of other readers needs two of them, so where
/// some images have only one, no row is over these.
pub fn answers(report: &Report) -> (Vec<Answer>, String) {
    let all = report.summary.cases;
    let shared: Vec<&ImageRow> =
        report.images.iter().filter(|row| !row.details.majority_ged.is_nan()).collect();
    let known_in = report.measures.as_ref().and_then(|measures| measures.known_in.get("majority_ged"));
    let (over_shared, about) = match known_in.copied().unwrap_or(all) {
        0 => (false, "There is no consensus of other readers: every image has one annotation.".into()),
        some if some == all => (false, String::new()),
        some if some == shared.len() => {
            (true, format!("All rows are over the {some} of {all} images with several annotations."))
        }
        // The report has lost its images.
        some => (false, format!("A consensus is over the {some} of {all} images with several annotations.")),
    };
    let mean = |key: &str| match over_shared {
        true => {
            shared.iter().map(|row| row.score(key)).sum::<Option<f64>>().map(|sum| sum / shared.len() as f64)
        }
        false => report.score(key),
    };
    let row = |(name, ged, iou)| Some((name, mean(ged)?, mean(iou)));
    (ANSWERS.into_iter().filter_map(row).collect(), about)
}

/// Name and keys of the GED in parts: the whole, emptiness, shape.
pub const PARTS: [(&str, [&str; 3]); 3] = [
    ("this model", ["ged_limit", "ged_emptiness", "ged_shape"]),
    ("floor D/K", ["ged_floor", "ged_floor_emptiness", "ged_floor_shape"]),
    ("excess", ["ged_excess", "ged_excess_emptiness", "ged_excess_shape"]),
];

/// Keys of boundaries and lesions, of the most probable hypothesis and in expectation, with their names.
pub fn shape_rows(measures: &Measures) -> [(String, [&'static str; 2]); 5] {
    let unit = measures.unit.sign();
    [
        (format!("hd95, {unit}"), ["hd95_top", "hd95_expected"]),
        (format!("nsd within {} {unit}", measures.tolerance), ["nsd_top", "nsd_expected"]),
        ("lesions found".into(), ["lesion_sensitivity_top", "lesion_sensitivity_expected"]),
        ("false lesions per image".into(), ["lesions_false_top", "lesions_false_expected"]),
        ("F1 of lesions".into(), ["lesion_f1_top", "lesion_f1_expected"]),
    ]
}

/// An area with its unit.
pub fn area_text(area: f64, unit: Unit) -> String {
    match unit {
        Unit::Pixels => format!("{area:.0} px"),
        Unit::Millimetres => format!("{area:.1} mm²"),
    }
}

fn ged(report: &Report) -> String {
    let (intervals, over) = report.first_intervals();
    let over = format!("95 % over {over}");
    let mut rows = vec![["GED", "whole", &over, "emptiness", "shape"].map(String::from).to_vec()];
    for (name, keys) in PARTS {
        let [whole, emptiness, shape] = keys.map(|key| report.score(key));
        if whole.is_some() {
            let between = interval(Some(intervals), keys[0]);
            rows.push(vec![name.into(), cell(whole), between, cell(emptiness), cell(shape)]);
        }
    }
    format!("{}{}\n", aligned(&rows), about_the_floor(report))
}

fn one_mask(report: &Report) -> String {
    let mut rows = vec![["one mask as the answer", "GED", "IoU with a reader"].map(String::from).to_vec()];
    let (answers, about) = answers(report);
    rows.extend(answers.into_iter().map(|(name, ged, iou)| vec![name.into(), number(ged), cell(iou)]));
    let about = if about.is_empty() { about } else { about + "\n" };
    aligned(&rows) + &about
}

fn shapes(report: &Report, measures: &Measures) -> String {
    let mut rows = vec![["boundaries and lesions", "most probable", "expected"].map(String::from).to_vec()];
    for (name, keys) in shape_rows(measures) {
        let [top, expected] = keys.map(|key| report.score(key));
        if top.or(expected).is_some() {
            rows.push(vec![name, cell(top), cell(expected)]);
        }
    }
    format!("{}{}\n", aligned(&rows), about_shapes(report, measures))
}

fn calibration(report: &Report, measures: &Measures) -> String {
    let noise = &report.noise;
    let heads = ["calibration error", "found", "chance, readers", "chance, groups"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    let chance = |floor: Option<&NoiseFloor>| {
        floor.map_or("not known".into(), |floor| {
            format!("{:.4} ({:.4}, {:.4})", floor.mean, floor.low, floor.high)
        })
    };
    for (key, found) in report.summary.numbers() {
        let Some(readers) = noise.readers.get(key) else { continue };
        let more =
            report.reliability.larger.iter().zip(["larger_q25_ece", "larger_q50_ece", "larger_q75_ece"]);
        let area = more.filter(|(_, of)| *of == key).map(|(larger, _)| larger.area).next();
        let name = area.map_or(key.to_owned(), |area| format!("> {}", area_text(area, measures.unit)));
        rows.push(vec![name, number(found), chance(Some(readers)), chance(noise.groups.get(key))]);
    }
    format!(
        "{}Chance: what a perfectly calibrated model would show, its mean (5 %, 95 %). Readers: each draws from the \
         stated probabilities, independently. Groups: dependence inside groups stays as it is; not known where a bin \
         holds fewer than {LEAST_GROUPS} of them in the mean.\n",
        aligned(&rows)
    )
}

fn cell(value: Option<f64>) -> String {
    value.map_or("not known".into(), number)
}
