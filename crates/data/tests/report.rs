//! The report: its keys, its intervals, and that neither threads nor order change it.

mod sets;

use std::path::Path;

use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_data::report::{FORMAT, Intervals, Report, VERSION};
use multivalued_data::synthetic::{oracle_ged, oracle_prediction};
use multivalued_data::{Case, Mask, Prediction};
use sets::{case, prediction, with_truth};

fn disc(x0: usize, y0: usize, radius: usize) -> Mask {
    Mask::from_fn(24, 20, |x, y| x.abs_diff(x0).pow(2) + y.abs_diff(y0).pow(2) < radius * radius)
}

/// Forty cases of ten groups with two true modes; in every fifth the readers see nothing.
fn study() -> (Vec<Case>, Vec<Prediction>) {
    let one = |k: usize| {
        let (small, large) = (disc(8 + k % 5, 9, 4), disc(8 + k % 5, 9, 6 + k % 3));
        let labels = if k.is_multiple_of(5) {
            vec![Mask::empty(24, 20, 1); 3]
        } else {
            vec![small.clone(), large.clone(), large.clone()]
        };
        let mut case =
            with_truth(case(&format!("case-{k}"), &labels), &[small.clone(), large.clone()], &[0.5, 0.5]);
        case.group = format!("patient-{}", k / 4);
        let p = 0.3 + 0.01 * k as f32;
        let outputs = [small, large, Mask::empty(24, 20, 1)];
        (case, prediction(&outputs, &[p, 0.9 - p, 0.1]))
    };
    (0..40).map(one).unzip()
}

fn settings() -> Settings {
    Settings { data_hash: Some("b3:0123".into()), seed: 5, resamples: 200, ..Settings::new("test") }
}

#[test]
fn the_report_has_every_promised_key() {
    let (cases, predictions) = study();
    let report = evaluate(&cases, &predictions, &settings()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["format"], FORMAT);
    assert_eq!(json["version"], VERSION);
    assert_eq!(json["split"], "test");
    assert_eq!(json["data_hash"], "b3:0123");
    assert!(json["convention"].as_str().unwrap().contains("two empty masks are 1"));
    assert_eq!(json["summary"]["cases"], 40);
    assert_eq!(json["summary"]["groups"], 10);
    assert_eq!(json["empty_labels"], 0.2);
    assert!((json["empty_outputs"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(json["images"].as_array().unwrap().len(), 40);
    for key in [
        "ged_exact",
        "ged_limit",
        "ged_4",
        "ged_16",
        "ged_32",
        "ged_50",
        "ged_100",
        "hm_iou",
        "soft_dice",
        "iou_max_labels",
        "diversity_outputs",
        "diversity_labels",
        "mode_brier",
        "mode_nll",
        "mode_ece",
        "empty_ece",
        "n_x",
        "n_x_1pct",
        "oracle_ged",
        "mode_recall",
        "mode_precision",
        "mode_probability_mae",
        "mode_probability_std",
        "total_variation",
    ] {
        let mean = json["summary"][key].as_f64().unwrap_or_else(|| panic!("summary.{key}"));
        for intervals in ["intervals", "intervals_by_group"] {
            let [low, high] = [0, 1].map(|end| json[intervals][key][end].as_f64().unwrap());
            // ECE and standard deviations are not means: a resample's lies around, not about, them.
            let pooled = key.ends_with("_ece") || key.ends_with("_std");
            assert!(low <= high && (pooled || (low - 1e-9..=high + 1e-9).contains(&mean)), "{key}: {mean}");
        }
    }
    // The per-image keys are the summary's.
    assert!(json["images"][7]["ged_exact"].is_f64() && json["images"][7]["mode_recall"].is_f64());
}

#[test]
fn pooled_scores_by_hand() {
    let (cases, predictions) = study();
    let report = evaluate(&cases, &predictions, &settings()).unwrap();
    // Every image says 0.1; one in five is empty.
    assert!((report.summary.pooled.empty_ece - 0.1).abs() < 1e-6);
    assert_eq!(report.reliability.empty.len(), 1);
    assert!((report.reliability.empty[0].frequency - 0.2).abs() < 1e-12);
    // The outputs are exactly the true modes, and the empty one belongs to neither.
    let truth = report.summary.truth.unwrap();
    // In the last four images the larger mode has less than half of its probability.
    assert!((truth.mode_recall - 0.95).abs() < 1e-12);
    assert!((truth.mode_precision - 0.9).abs() < 1e-6);
    // The empty output is as far from both and counts for the first: its p is 0.4 + 0.01 k, so the
    // error's standard deviation is that of 0 .. 39 hundredths.
    let expected = 0.01 * ((40.0f64.powi(2) - 1.0) / 12.0).sqrt();
    assert!((report.summary.mode_probability_std.unwrap() - expected).abs() < 1e-6);
    // The first mode's mean is that of 0.4 + 0.01 k, the second one has the rest.
    let modes = &report.mode_probabilities;
    assert_eq!(modes.len(), 2);
    for (mode, mean) in modes.iter().zip([0.595, 0.405]) {
        assert!((mode.mean - mean).abs() < 1e-6 && (mode.std - expected).abs() < 1e-6, "{modes:?}");
        assert!((mode.truth - 0.5).abs() < 1e-12, "{modes:?}");
    }
    // The probabilities of one group are alike, so resampling groups leaves the wider interval.
    let width = |intervals: &Intervals| {
        let [low, high] = intervals["mode_probability_mae"].unwrap();
        high - low
    };
    assert!(width(report.intervals_by_group.as_ref().unwrap()) > 1.2 * width(&report.intervals));
}

#[test]
fn threads_do_not_change_the_report() {
    let (cases, predictions) = study();
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| evaluate(&cases, &predictions, &settings()).unwrap().to_json())
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn a_case_scores_the_same_alone() {
    let (cases, predictions) = study();
    let all = evaluate(&cases, &predictions, &settings()).unwrap();
    let alone = evaluate(&cases[7..8], &predictions[7..8], &settings()).unwrap();
    assert_eq!(all.images[7], alone.images[0]);
    assert!(alone.intervals_by_group.is_none());
    assert_eq!(alone.std_over_images["ged_exact"], 0.0);
}

#[test]
fn intervals_from_one_image_or_one_group_are_not_known() {
    let (mut cases, predictions) = study();
    cases.truncate(3);
    cases.iter_mut().for_each(|case| case.group = "the only patient".into());
    let report = evaluate(&cases, &predictions[..3], &settings()).unwrap();
    assert!(report.intervals["ged_exact"].is_some());
    assert_eq!(report.intervals_by_group.as_ref().unwrap()["ged_exact"], None);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert!(json["intervals_by_group"]["ged_exact"].is_null());
    assert_eq!(serde_json::from_str::<Report>(&report.to_json()).unwrap(), report);
    assert!(report.table().lines().any(|line| line.starts_with("ged_exact") && line.contains("not known")));

    let alone = evaluate(&cases[..1], &predictions[..1], &settings()).unwrap();
    assert!(alone.intervals.contains_key("ged_exact") && alone.intervals.values().all(Option::is_none));
}

#[test]
fn the_oracle_comes_from_the_truth_alone() {
    let (cases, predictions) = study();
    let report = evaluate(&cases, &predictions, &settings()).unwrap();
    let expected: Vec<f64> = cases.iter().map(|case| oracle_ged(case).unwrap()).collect();
    for (row, expected) in report.images.iter().zip(&expected) {
        assert!((row.oracle_ged.unwrap() - expected).abs() < 1e-12, "{}", row.id);
    }
    let mean = expected.iter().sum::<f64>() / 40.0;
    assert!(mean > 0.01 && (report.summary.oracle_ged.unwrap() - mean).abs() < 1e-12);
    // The oracle's own prediction scores exactly that.
    let oracle: Vec<Prediction> = cases.iter().map(|case| oracle_prediction(case).unwrap()).collect();
    let of_oracle = evaluate(&cases, &oracle, &settings()).unwrap().summary;
    assert!((of_oracle.scores.ged_exact - mean).abs() < 1e-12);
}

#[test]
fn unequal_lists_and_empty_ones_are_refused() {
    let (cases, predictions) = study();
    let unequal = evaluate(&cases, &predictions[1..], &settings()).unwrap_err().to_string();
    assert!(unequal.contains("39 predictions for 40 cases"), "{unequal}");
    let none = evaluate(&[], &[], &settings()).unwrap_err().to_string();
    assert!(none.contains("no case"), "{none}");
}

#[test]
fn without_truth_its_keys_are_absent() {
    let (mut cases, predictions) = study();
    cases.iter_mut().for_each(|case| case.truth = None);
    let report = evaluate(&cases, &predictions, &settings()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    for key in ["oracle_ged", "mode_recall", "mode_probability_std", "total_variation"] {
        assert!(json["summary"].get(key).is_none() && json["images"][0].get(key).is_none(), "{key}");
    }
    assert!(!report.table().contains("mode_recall"));
}

#[test]
fn written_and_read_back() {
    let (cases, predictions) = study();
    let report = evaluate(&cases, &predictions, &settings()).unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.json");
    report.write(&path).unwrap();
    let back = Report::read(&path).unwrap();
    assert_eq!(back.summary.cases, 40);
    assert!((back.summary.scores.ged_exact - report.summary.scores.ged_exact).abs() < 1e-12);
    assert!(back.summary.truth.is_some());
    std::fs::write(&path, report.to_json().replace("\"version\": 1", "\"version\": 99")).unwrap();
    let error = Report::read(&path).unwrap_err().to_string();
    assert!(error.contains("version 99") && error.contains("report.json"), "{error}");
}

#[test]
fn modes_have_places_only_where_all_images_have_as_many() {
    let (mut cases, predictions) = study();
    let modes = cases[3].truth.as_mut().unwrap();
    modes[0].probability = 1.0;
    modes.truncate(1);
    let other_number = evaluate(&cases, &predictions, &settings()).unwrap();
    cases[3].truth = None;
    let unknown = evaluate(&cases, &predictions, &settings()).unwrap();
    for report in [other_number, unknown] {
        assert!(report.summary.truth.is_some() && report.mode_probabilities.is_empty());
        assert!(!report.to_json().contains("mode_probabilities") && !report.table().contains("mode 1"));
    }
}

#[test]
fn a_report_of_before_a_score_is_read_and_written_without_it() {
    let (cases, predictions) = study();
    let report = evaluate(&cases, &predictions, &settings()).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let mut forget = |pointer: &str, key: &str| {
        let object = json.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        assert!(object.remove(key).is_some(), "{pointer} had no {key}");
    };
    forget("", "mode_probabilities");
    for place in ["/summary", "/intervals", "/intervals_by_group", "/std_over_images"] {
        forget(place, "iou_max_labels");
    }
    (0..40).for_each(|image| forget(&format!("/images/{image}"), "iou_max_labels"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("older-report.json");
    std::fs::write(&path, json.to_string()).unwrap();
    let older = Report::read(&path).unwrap();
    assert_eq!(older.summary.numbers().len() + 1, report.summary.numbers().len());
    assert!(!older.table().contains("iou_max_labels") && !older.table().contains("NaN"));
    older.write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("iou_max_labels") && !text.contains("null"), "{text}");
    assert!(Report::read(&path).unwrap().mode_probabilities.is_empty());
}

#[test]
fn the_table_is_aligned_and_labelled() {
    let (cases, predictions) = study();
    let table = evaluate(&cases, &predictions, &settings()).unwrap().table();
    for said in [
        "split test: 40 cases of 10 groups",
        "20.0 % of the labels",
        "std",
        "ged_exact",
        "b3:0123",
        "floor D/K",
        "The truth itself reaches 0.",
        "majority of the other readers",
        "nsd within 2 px",
        "chance, readers",
        "\nmode 1, true 0.5000",
        "\nmode 2, true 0.5000",
    ] {
        assert!(table.contains(said), "{said} is missing in\n{table}");
    }
    let ends: Vec<usize> = table
        .lines()
        .filter(|line| line.starts_with("ged_") || line.starts_with("hm_iou") || line.starts_with("mode "))
        .map(str::len)
        .collect();
    assert!(ends.len() >= 10 && ends.iter().all(|&end| end == ends[0]), "{table}");
    let rows = table.lines().skip_while(|line| !line.starts_with("score"));
    let rows = rows.take_while(|line| !line.ends_with('.'));
    assert!(rows.map(|row| row.chars().count()).max().is_some_and(|width| width <= 80), "{table}");
    println!("{table}");
}
