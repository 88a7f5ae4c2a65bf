//! The edge cases on which published implementations differ, each with its documented value.

mod sets;

use multivalued_data::draw::Draw;
use multivalued_data::metric::{Comparison, calibration, count, diversity, ged, matching, soft, truth};
use multivalued_data::{Case, Mask, Prediction};
use sets::{bits, case, prediction, uniform, weighted_case, with_truth};

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
}

fn compare<'a>(case: &'a Case, prediction: &'a Prediction) -> Comparison<'a> {
    Comparison::new(case, prediction).unwrap()
}

fn refusal(case: &Case, prediction: &Prediction) -> String {
    Comparison::new(case, prediction).unwrap_err().to_string()
}

#[test]
fn empty_masks_agree_with_each_other_and_with_nothing_else() {
    let (empty, full) = (bits("0000"), bits("1111"));
    let nothing = case("nothing", &vec![empty.clone(); 4]);
    let silent = uniform(std::slice::from_ref(&empty));
    let agreed = compare(&nothing, &silent);
    close(ged::exact(&agreed), 0.0);
    close(matching::hm_iou(&agreed), 1.0);
    close(matching::dice_match(&agreed), 1.0);
    close(soft::soft_dice(&agreed), 1.0);
    close(diversity::of_labels(&agreed), 0.0);

    let loud = uniform(std::slice::from_ref(&full));
    let opposed = compare(&nothing, &loud);
    close(ged::exact(&opposed), 2.0);
    close(matching::hm_iou(&opposed), 0.0);
    close(soft::soft_dice(&opposed), 0.0);

    // Two of four labels empty, two equal masks, every output empty: 0.5 here, 0.25 where two empty
    // masks score 0, and no value at all where they are undefined.
    let split = case("split", &[empty.clone(), empty.clone(), full.clone(), full.clone()]);
    close(ged::exact(&compare(&split, &silent)), 0.5);
    close(diversity::of_labels(&compare(&split, &silent)), 0.5);
}

#[test]
fn identical_sets_in_another_order() {
    let masks = ["1100", "0110", "0000", "1111"].map(bits);
    let other = [2, 0, 3, 1].map(|k: usize| masks[k].clone());
    let (case, prediction) = (case("same", &masks), uniform(&other));
    let same = compare(&case, &prediction);
    close(ged::exact(&same), 0.0);
    close(matching::hm_iou(&same), 1.0);
    close(matching::hm_iou_by_assignment(&same), 1.0);
    close(matching::dice_match(&same), 1.0);
    close(matching::dice_max_of_labels(&same), 1.0);
    close(matching::iou_max_of_labels(&same), 1.0);
    close(matching::dice_max_of_outputs(&same), 1.0);
    close(soft::soft_dice(&same), 1.0);
    // Where all readers and the output agree there is nothing left to differ.
    let one = [bits("0110"), bits("0110"), bits("0110")];
    let (case, prediction) = (sets::case("agreed", &one), uniform(&one[..1]));
    close(ged::exact(&compare(&case, &prediction)), 0.0);
    close(calibration::mode_brier(&compare(&case, &prediction)), 0.0);
    close(calibration::mode_nll(&compare(&case, &prediction)), 0.0);
}

#[test]
fn a_duplicated_output_with_split_probability_changes_nothing() {
    let labels = case("split", &["1100", "0111"].map(bits));
    let whole = prediction(&["1110", "0001"].map(bits), &[0.75, 0.25]);
    let split = prediction(&["1110", "0001", "1110"].map(bits), &[0.5, 0.25, 0.25]);
    let (whole, split) = (compare(&labels, &whole), compare(&labels, &split));
    for metric in
        [ged::exact, matching::hm_iou, calibration::mode_brier, calibration::mode_nll, soft::soft_dice]
    {
        close(metric(&split), metric(&whole));
    }
    assert_eq!(split.outputs().masks().len(), 2);
    assert_eq!(split.outputs().listed().len(), 3);
}

#[test]
fn probabilities_are_refused_or_normalised_but_never_just_taken() {
    let labels = case("scan-3", &[bits("1100")]);
    let masks = ["1100", "0011"].map(bits);
    for (probabilities, said) in [
        ([0.5, 0.4], "sum to 0.9"),
        ([1.0, 1.0], "sum to 2"),
        ([-0.5, 1.5], "probability -0.5"),
        ([f32::NAN, 1.0], "probability NaN"),
        ([0.0, 0.0], "none has a positive probability"),
    ] {
        let error = refusal(&labels, &prediction(&masks, &probabilities));
        assert!(error.contains("scan-3") && error.contains(said), "{error}");
    }
    // f32 weights that sum to 1 - 1e-7 are meant to sum to one.
    let almost = prediction(&masks, &[0.6, 0.399_999_9]);
    let comparison = compare(&labels, &almost);
    close(comparison.outputs().weights().iter().sum(), 1.0);
    assert!((ged::exact(&comparison) - 2.0 * 0.4 + 2.0 * 0.6 * 0.4).abs() < 1e-6);
}

#[test]
fn annotation_weights_are_relative() {
    let masks = ["1100", "0011"].map(bits);
    let prediction = uniform(&masks);
    let (small, large) = (weighted_case("a", &masks, &[0.1, 0.3]), weighted_case("a", &masks, &[10.0, 30.0]));
    assert!(
        (ged::exact(&compare(&small, &prediction)) - ged::exact(&compare(&large, &prediction))).abs() < 1e-7
    );
    let error = refusal(&weighted_case("scan-4", &masks, &[1.0, f32::NAN]), &prediction);
    assert!(error.contains("scan-4") && error.contains("annotation 1 has weight NaN"), "{error}");
    let error = refusal(&weighted_case("scan-5", &masks, &[0.0, 0.0]), &prediction);
    assert!(error.contains("none has a positive weight"), "{error}");
    assert!(refusal(&case("scan-6", &[]), &prediction).contains("scan-6"));
}

#[test]
fn an_output_of_probability_zero_is_no_output() {
    let labels = case("zero", &[bits("1100")]);
    let masks = ["1100", "1000", "0011"].map(bits);
    let prediction = prediction(&masks, &[0.0, 0.5, 0.5]);
    let comparison = compare(&labels, &prediction);
    // The exact match has probability zero: it may neither be the best Dice nor the assigned output.
    close(matching::dice_max_of_labels(&comparison), 2.0 / 3.0);
    close(matching::iou_max_of_labels(&comparison), 0.5);
    close(calibration::mode_nll(&comparison), std::f64::consts::LN_2);
    assert_eq!(count::at_least(comparison.outputs().weights(), 0.0), 2);
}

#[test]
fn one_output_and_four_labels() {
    let labels = case("one", &["1100", "1000", "0000", "1111"].map(bits));
    let prediction = uniform(&[bits("1100")]);
    let comparison = compare(&labels, &prediction);
    let mean_iou = (1.0 + 0.5 + 0.0 + 0.5) / 4.0;
    close(matching::hm_iou(&comparison), mean_iou);
    close(matching::hm_iou_by_assignment(&comparison), mean_iou);
    close(matching::dice_match(&comparison), 1.0);
    close(ged::exact(&comparison), 2.0 * (1.0 - mean_iou) - diversity::of_labels(&comparison));
}

#[test]
fn outputs_that_are_no_multiple_of_the_labels() {
    let labels = case("odd", &["11000", "01100", "00110", "00011"].map(bits));
    let prediction = uniform(&["10000", "11100", "01110", "00111", "00000", "00011", "11000"].map(bits));
    let comparison = compare(&labels, &prediction);
    let by_assignment = matching::hm_iou_by_assignment(&comparison);
    assert!(by_assignment > 0.3 && by_assignment < 1.0, "{by_assignment}");
    assert!((matching::hm_iou(&comparison) - by_assignment).abs() < 1e-9);
}

/// Four modes whose mutual IoU is not all the same, and labels that are exactly them.
fn four_modes() -> (Case, Prediction, [Mask; 4]) {
    let modes = ["11110000", "01111000", "00001111", "11111111"].map(bits);
    (case("modes", &modes), uniform(&modes), modes)
}

#[test]
fn a_perfect_sampler_is_off_by_its_diversity_over_n() {
    let (labels, prediction, _) = four_modes();
    let comparison = compare(&labels, &prediction);
    close(ged::exact(&comparison), 0.0);
    let diversity = diversity::of_outputs(&comparison);
    for n in [2, 4, 16, 100] {
        let seeds = 20_000;
        let sum: f64 = (0..seeds).map(|s| ged::sampled(&comparison, n, &mut Draw::new(s, &["x"], 0))).sum();
        let times_n = sum / seeds as f64 * n as f64;
        assert!((times_n - diversity).abs() < 0.03 * diversity, "n {n}: {times_n} against {diversity}");
    }
}

#[test]
fn ten_thousand_draws_reach_the_exact_value() {
    let labels = case("many", &["11110000", "00000000", "00111100"].map(bits));
    let prediction = prediction(&["11100000", "00000000", "11111111"].map(bits), &[0.5, 0.3, 0.2]);
    let comparison = compare(&labels, &prediction);
    let sampled = ged::sampled(&comparison, 10_000, &mut Draw::new(1, &["many"], 0));
    assert!((sampled - ged::exact(&comparison)).abs() < 0.01, "{sampled}");
    assert_eq!(sampled, ged::sampled(&comparison, 10_000, &mut Draw::new(1, &["many"], 0)));
    assert_ne!(sampled, ged::sampled(&comparison, 10_000, &mut Draw::new(2, &["many"], 0)));
}

#[test]
fn a_class_absent_on_both_sides_agrees() {
    let mut label = Mask::empty(4, 1, 2);
    label.set(0, 0, 0, true);
    let (labels, outputs) = (case("absent", &[label.clone()]), uniform(&[Mask::empty(4, 1, 2)]));
    let comparison = compare(&labels, &outputs);
    close(comparison.iou(0, 0), 0.5);
    close(ged::exact(&comparison), 1.0);
    close(soft::soft_dice(&comparison), 0.5);
}

#[test]
fn masks_of_another_size_are_refused_by_name() {
    let wide = uniform(&[bits("11000")]);
    let error = refusal(&case("scan-9", &[bits("1100")]), &wide);
    assert!(error.contains("case scan-9") && error.contains("4x1") && error.contains("5x1"), "{error}");
    let mixed = with_truth(case("scan-10", &[bits("1100")]), &[bits("110")], &[1.0]);
    assert!(refusal(&mixed, &uniform(&[bits("1100")])).contains("scan-10"));
}

#[test]
fn ties_go_to_the_more_probable_output() {
    let labels = case("tie", &[bits("0110")]);
    let prediction = prediction(&["0010", "0100"].map(bits), &[0.25, 0.75]);
    let comparison = compare(&labels, &prediction);
    assert_eq!(calibration::assigned(&comparison), [0]);
    close(calibration::mode_nll(&comparison), -(0.75f64.ln()));
    close(calibration::mode_brier(&comparison), 2.0 * 0.25 * 0.25);
}

#[test]
fn the_log_likelihood_has_a_floor() {
    let labels = case("floor", &[bits("0011")]);
    let prediction = prediction(&["1100", "0011"].map(bits), &[0.999_999_9, 1e-7]);
    close(calibration::mode_nll(&compare(&labels, &prediction)), -(1e-5f64.ln()));
}

#[test]
fn the_best_iou_of_weighted_labels_by_hand() {
    let labels = weighted_case("best", &["1100", "0000", "0111"].map(bits), &[2.0, 1.0, 1.0]);
    let prediction = prediction(&["1000", "0011", "1110"].map(bits), &[0.8, 0.1, 0.1]);
    // The best of 1/2, 0 and 2/3; of nothing but 0; of 0, 2/3 and 2/4. Probabilities are not read.
    let found = matching::iou_max_of_labels(&compare(&labels, &prediction));
    close(found, 0.5 * 2.0 / 3.0 + 0.25 * 0.0 + 0.25 * 2.0 / 3.0);
}

#[test]
fn truth_by_hand() {
    let (labels, _, modes) = four_modes();
    let labels = with_truth(labels, &modes, &[0.1, 0.4, 0.1, 0.4]);
    // Mode 0 exact but rare, mode 1 exact, mode 2 absent, and an output nearest to mode 3 at IoU 7/8.
    let outputs = [modes[1].clone(), bits("11111110"), modes[0].clone()];
    let prediction = prediction(&outputs, &[0.6, 0.36, 0.04]);
    let comparison = compare(&labels, &prediction);
    close(truth::recall(&comparison).unwrap(), 0.25);
    assert!((truth::precision(&comparison).unwrap() - 0.64).abs() < 1e-6);
    let errors = truth::probability_errors(&comparison).unwrap();
    for (found, expected) in errors.iter().zip([-0.06, 0.2, -0.1, -0.04]) {
        assert!((found - expected).abs() < 1e-6, "{errors:?}");
    }
    assert!((truth::probability_mae(&errors) - 0.1).abs() < 1e-6);
    assert!((truth::total_variation(&errors) - 0.2).abs() < 1e-6);
    let unknown = case("unknown", &modes);
    assert!(truth::recall(&compare(&unknown, &prediction)).is_none());
}
