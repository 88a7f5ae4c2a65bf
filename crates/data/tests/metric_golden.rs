//! Every metric against an independent reading in Python (`reference/metrics.py`).

use std::collections::BTreeMap;

use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_data::metric::{Comparison, ged, matching};
use multivalued_data::{Annotation, Case, Hypothesis, Image, Mask, Mode, Prediction};
use serde::Deserialize;

const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Golden {
    draws: Vec<usize>,
    cases: Vec<GoldenCase>,
    summary: BTreeMap<String, f64>,
    std_over_images: BTreeMap<String, f64>,
    mode_probabilities: GoldenModes,
}

/// The modes' probabilities over the cases that have equally many.
#[derive(Deserialize)]
struct GoldenModes {
    cases: Vec<String>,
    modes: Vec<BTreeMap<String, f64>>,
}

#[derive(Deserialize)]
struct GoldenCase {
    id: String,
    group: String,
    width: usize,
    height: usize,
    annotations: Vec<Member>,
    outputs: Vec<Member>,
    truth: Option<Vec<Member>>,
    expected: BTreeMap<String, f64>,
}

/// A mask as one string of zeros and ones per class, with its weight or probability.
#[derive(Deserialize)]
struct Member {
    mask: Vec<String>,
    #[serde(alias = "probability")]
    weight: f32,
}

impl GoldenCase {
    fn mask(&self, member: &Member) -> Mask {
        let mut mask = Mask::empty(self.width, self.height, member.mask.len());
        for (class, plane) in member.mask.iter().enumerate() {
            for (at, _) in plane.bytes().enumerate().filter(|(_, byte)| *byte == b'1') {
                mask.set(class, at % self.width, at / self.width, true);
            }
        }
        mask
    }

    fn case(&self) -> Case {
        let annotation =
            |member: &Member| Annotation { mask: self.mask(member), rater: None, weight: member.weight };
        let mode = |member: &Member| Mode { mask: self.mask(member), probability: member.weight };
        Case {
            id: self.id.clone(),
            group: self.group.clone(),
            image: Image::new(self.width, self.height, 1, vec![0.0; self.width * self.height]),
            annotations: self.annotations.iter().map(annotation).collect(),
            truth: self.truth.as_ref().map(|modes| modes.iter().map(mode).collect()),
        }
    }

    fn prediction(&self) -> Prediction {
        let hypothesis = |(code, member): (usize, &Member)| Hypothesis {
            mask: self.mask(member),
            probability: member.weight,
            code,
        };
        Prediction::stated(self.outputs.iter().enumerate().map(hypothesis).collect())
    }
}

#[test]
fn every_metric_agrees_with_the_reference() {
    let text = include_str!("../../../reference/golden/metrics.json");
    let golden: Golden = serde_json::from_str(text).unwrap();
    assert!(golden.cases.len() >= 19);
    let cases: Vec<Case> = golden.cases.iter().map(GoldenCase::case).collect();
    let predictions: Vec<Prediction> = golden.cases.iter().map(GoldenCase::prediction).collect();
    let report = evaluate(&cases, &predictions, &Settings::new("golden")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();

    let mut compared = 0;
    let mut check = |place: &str, key: &str, found: Option<f64>, expected: f64| {
        let found = found.unwrap_or_else(|| panic!("{place}: no {key}"));
        assert!((found - expected).abs() <= TOLERANCE, "{place}: {key} is {found}, expected {expected}");
        compared += 1;
    };
    for (index, case) in golden.cases.iter().enumerate() {
        let comparison = Comparison::new(&cases[index], &predictions[index]).unwrap();
        let outputs = comparison.outputs().masks().len();
        let draws: Vec<usize> = golden.draws.iter().map(|draw| draw % outputs).collect();
        for (key, &expected) in &case.expected {
            let found = match key.as_str() {
                "ged_draws" => Some(ged::of_draws(&comparison, &draws)),
                "hm_iou_assignment" => Some(matching::hm_iou_by_assignment(&comparison)),
                _ => report["images"][index][key].as_f64(),
            };
            check(&case.id, key, found, expected);
        }
    }
    for (key, &expected) in &golden.summary {
        check("summary", key, report["summary"][key].as_f64(), expected);
    }
    for (key, &expected) in &golden.std_over_images {
        check("std over images", key, report["std_over_images"][key].as_f64(), expected);
    }
    let chosen = |index: &usize| golden.mode_probabilities.cases.contains(&golden.cases[*index].id);
    let chosen: Vec<usize> = (0..cases.len()).filter(chosen).collect();
    let cases: Vec<Case> = chosen.iter().map(|&index| cases[index].clone()).collect();
    let predictions: Vec<Prediction> = chosen.iter().map(|&index| predictions[index].clone()).collect();
    let report = evaluate(&cases, &predictions, &Settings::new("golden")).unwrap();
    assert_eq!(report.mode_probabilities.len(), golden.mode_probabilities.modes.len());
    for (mode, golden) in report.mode_probabilities.iter().zip(&golden.mode_probabilities.modes) {
        for (key, found) in [("mean", mode.mean), ("std", mode.std), ("truth", mode.truth)] {
            check("mode probabilities", key, Some(found), golden[key]);
        }
    }
    assert!(compared > 510, "only {compared} numbers compared");
}
