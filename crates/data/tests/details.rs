//! The details of a report: floor and parts of the GED, noise floors, sizes, units, and who has too few readers.

mod sets;

use multivalued_data::draw::Draw;
use multivalued_data::evaluate::{Settings, Unit, evaluate};
use multivalued_data::metric::{Comparison, ged, split};
use multivalued_data::report::Report;
use multivalued_data::{Case, Geometry, Image, Mask, Prediction};
use proptest::prelude::*;
use sets::{bits, case, prediction, uniform, weighted_case};

fn disc(radius: usize) -> Mask {
    Mask::from_fn(24, 20, |x, y| x.abs_diff(11).pow(2) + y.abs_diff(9).pow(2) < radius * radius)
}

/// Nothing, and discs of three sizes.
fn sizes() -> Vec<Mask> {
    vec![disc(0), disc(4), disc(6), disc(8)]
}

fn settings() -> Settings {
    Settings { resamples: 50, data_hash: Some("b3:0123".into()), ..Settings::new("test") }
}

/// Probabilities of an image's four masks, and an image of so many readers who draw by them.
fn honest(index: u64, readers: usize) -> (Case, Prediction) {
    let random = &mut Draw::new(3, &["honest"], index);
    let weights: Vec<f64> = (0..4).map(|_| random.uniform(0.05, 1.0)).collect();
    let p: Vec<f64> = weights.iter().map(|weight| weight / weights.iter().sum::<f64>()).collect();
    let drawn: Vec<Mask> = random.weighted(&p, readers).into_iter().map(|at| sizes()[at].clone()).collect();
    let p: Vec<f32> = p.iter().map(|p| *p as f32).collect();
    (case(&format!("case-{index}"), &drawn), prediction(&sizes(), &p))
}

fn report(cases: impl Iterator<Item = (Case, Prediction)>) -> Report {
    let (cases, predictions): (Vec<_>, Vec<_>) = cases.unzip();
    evaluate(&cases, &predictions, &settings()).unwrap()
}

const ERRORS: [&str; 7] = [
    "mode_ece",
    "empty_ece",
    "pixel_ece",
    "pixel_ece_zero_bin",
    "larger_q25_ece",
    "larger_q50_ece",
    "area_pit_error",
];

#[test]
fn the_floor_is_what_the_truth_itself_reaches_on_average() {
    let p = [0.3f32, 0.4, 0.2, 0.1];
    for weights in [vec![1.0f32; 2], vec![1.0; 5], vec![1.0, 3.0, 0.5]] {
        let mut sums = [0.0; 6];
        let times = 4000;
        for index in 0..times {
            let random = &mut Draw::new(5, &["floor"], index);
            let drawn = random.weighted(&p.map(f64::from), weights.len());
            let labels: Vec<Mask> = drawn.into_iter().map(|at| sizes()[at].clone()).collect();
            let (case, truth) = (weighted_case("a", &labels, &weights), prediction(&sizes(), &p));
            let comparison = Comparison::new(&case, &truth).unwrap();
            let (own, floor) = (split::of_limit(&comparison), split::floor(&comparison).unwrap());
            for (sum, part) in sums.iter_mut().zip([
                own.total,
                floor.total,
                own.emptiness,
                floor.emptiness,
                own.shape(),
                floor.shape(),
            ]) {
                *sum += part / times as f64;
            }
        }
        for pair in sums.chunks(2) {
            assert!(
                pair[0] > 0.01 && (pair[0] - pair[1]).abs() < 0.02 * pair[0] + 0.002,
                "{weights:?}: {sums:?}"
            );
        }
    }
}

#[test]
fn a_calibrated_model_shows_what_chance_does_and_another_shows_more() {
    let honest_report = report((0..1500).map(|index| honest(index, 3)));
    let noise = &honest_report.noise;
    for key in ERRORS {
        let (found, floor) = (honest_report.score(key).unwrap(), noise.readers[key]);
        assert!(floor.low <= floor.mean && floor.mean <= floor.high, "{key}: {floor:?}");
        assert!(found < 1.6 * floor.high && found > 0.4 * floor.low, "{key}: {found}, {floor:?}");
        // Every image is a group of its own, and readers are independent: both answers are the same.
        let of_groups = noise.groups[key];
        assert!((of_groups.mean / floor.mean - 1.0).abs() < 0.25, "{key}: {of_groups:?}, {floor:?}");
    }
    let proud = report((0..1500).map(|index| {
        let (case, mut prediction) = honest(index, 3);
        let squares: f32 = prediction.hypotheses.iter().map(|one| one.probability.powi(3)).sum();
        prediction.hypotheses.iter_mut().for_each(|one| one.probability = one.probability.powi(3) / squares);
        (case, prediction)
    }));
    for key in ["mode_ece", "empty_ece", "larger_q25_ece", "larger_q50_ece"] {
        let (found, floor) = (proud.score(key).unwrap(), proud.noise.readers[key]);
        assert!(found > 2.0 * floor.high, "{key}: {found}, {floor:?}");
    }
}

#[test]
fn readers_and_images_that_answer_alike_raise_the_noise_of_groups_alone() {
    // All four readers of all ten images of a patient answer as one.
    let alike = report((0..600).map(|index| {
        let (one, prediction) = honest(index / 10, 1);
        let labels = vec![one.annotations[0].mask.clone(); 4];
        (
            Case { group: format!("patient-{}", index / 10), ..case(&format!("slice-{index}"), &labels) },
            prediction,
        )
    }));
    let (readers, groups) = (alike.noise.readers["empty_ece"], alike.noise.groups["empty_ece"]);
    assert!(groups.mean > 3.0 * readers.mean, "{groups:?}, {readers:?}");
    let found = alike.score("empty_ece").unwrap();
    assert!(found > readers.high && found < 1.5 * groups.high, "{found}: {groups:?}, {readers:?}");
}

#[test]
fn the_noise_of_groups_is_known_where_bins_hold_enough_of_them_and_then_holds() {
    let of = |first: u64, images: u64| report((first..first + images).map(|index| honest(index, 4)));
    let few = of(0, 20);
    assert!(!few.noise.groups.contains_key("empty_ece"), "twenty images in ten bins");
    assert_eq!(few.noise.chance("empty_ece"), few.noise.readers.get("empty_ece"));
    // All images have a share of every bin of the outputs' own probabilities.
    assert!(few.noise.groups.contains_key("mode_ece"));
    // Of a perfectly calibrated model one error of twenty lies above the range.
    let (times, images) = (40, 60);
    for key in ["mode_ece", "empty_ece", "larger_q50_ece", "area_pit_error"] {
        let above = (0..times).filter(|at| {
            let report = of(at * images, images);
            report.score(key).unwrap() > report.noise.chance(key).unwrap().high
        });
        let above = above.count();
        assert!(above <= 6, "{key}: {above} of {times}");
    }
}

#[test]
fn the_histogram_of_areas_tells_too_small_from_too_large() {
    let of = |reader: usize| {
        report((0..40).map(|index| {
            let labels = [disc(reader), disc(reader)];
            (case(&format!("case-{index}"), &labels), uniform(&[disc(4), disc(6)]))
        }))
    };
    let pit = |reader: usize| of(reader).reliability.area_pit.unwrap().shares;
    assert_eq!(pit(3)[0], 1.0);
    assert_eq!(pit(8)[9], 1.0);
    assert_eq!(pit(5)[5], 1.0, "between both");
    assert!(pit(4)[..5].iter().all(|share| (share - 0.2).abs() < 1e-9), "as the smaller one");
    let larger = &of(6).reliability.larger;
    assert_eq!(larger.iter().map(|one| one.quantile).collect::<Vec<_>>(), [0.25, 0.5, 0.75]);
    assert!(larger.iter().all(|one| one.area == disc(6).area(0) as f64 && one.bins[0].probability == 0.0));
}

#[test]
fn one_reader_leaves_the_floor_unknown() {
    let one = report((0..12).map(|index| honest(index, 1)));
    for key in ["ged_floor", "ged_excess", "majority_ged", "staple_all_iou"] {
        assert_eq!(one.score(key), None, "{key}");
    }
    assert!(one.score("ged_emptiness").is_some() && one.score("top_ged").is_some());
    assert!(one.table().contains("No floor is known: every image has one annotation"), "{}", one.table());

    let some = report((0..12).map(|index| honest(index, if index < 5 { 3 } else { 1 })));
    assert_eq!(some.measures.as_ref().unwrap().known_in["ged_floor"], 5);
    let alone = report((0..5).map(|index| honest(index, 3)));
    let of_five = format!(
        "over the 5 of 12 images with several annotations, on which this model has {:.4}",
        alone.score("ged_limit").unwrap()
    );
    for said in [of_five.as_str(), "K varies from 1 to 3"] {
        assert!(some.table().contains(said), "{said}: {}", some.table());
    }
    assert!(!alone.table().contains("K varies"), "{}", alone.table());
    assert_eq!(some.score("ged_floor"), alone.score("ged_floor"), "the mean is over those five");
    // The model and the consensus stand side by side, so they are over the same images.
    assert!(some.table().contains("All rows are over the 5 of 12 images"), "{}", some.table());
    let medoid = |report: &Report| {
        let line = report.table();
        line.lines().find(|line| line.starts_with("hypothesis nearest to all")).unwrap().to_owned()
    };
    assert_eq!(medoid(&some), medoid(&alone));
    assert_ne!(some.score("medoid_ged"), alone.score("medoid_ged"), "the summary is over all images");
    assert!(one.table().contains("no consensus of other readers"), "{}", one.table());
    assert_eq!(some.score("ged_excess"), alone.score("ged_excess"));
}

#[test]
fn a_model_below_the_floor_is_told_that_readers_are_no_independent_draws() {
    // Four readers with habits of their own: each of the four masks once, always.
    let habits = report((0..30).map(|index| (case(&format!("case-{index}"), &sizes()), uniform(&sizes()))));
    assert!(habits.score("ged_excess").unwrap() < -0.1);
    assert!(habits.table().contains("below the floor"), "{}", habits.table());
    let independent = report((0..30).map(|index| honest(index, 4)));
    assert!(!independent.table().contains("below the floor"), "{}", independent.table());
}

#[test]
fn nobody_who_draws_leaves_no_size_to_judge() {
    let empty = disc(0);
    let nothing = report(
        (0..4).map(|index| (case(&format!("{index}"), &[empty.clone(), empty.clone()]), uniform(&[disc(0)]))),
    );
    for key in ["larger_q25_ece", "hd95_top", "lesion_sensitivity_top", "lesion_f1_expected"] {
        assert_eq!(nothing.score(key), None, "{key}");
    }
    assert_eq!(nothing.score("nsd_top"), Some(1.0));
    assert_eq!(nothing.score("lesions_false_expected"), Some(0.0));
    assert!(nothing.table().contains("not known") && !nothing.table().contains("NaN"));
    assert!(!nothing.to_json().contains("null"), "what is not known is left out");
}

#[test]
fn distances_are_in_millimetres_where_every_image_states_its_spacing() {
    let spaced = |spacing: Option<f32>, id: &str| {
        let mut image = Image::new(1, 1, 1, vec![0.0]);
        image.geometry = spacing.map(|step| Geometry { spacing: [step, step, 1.0], affine: None });
        (Case { image, ..case(id, &[disc(4), disc(4)]) }, uniform(&[disc(6)]))
    };
    let pixels = report([spaced(None, "a"), spaced(Some(0.5), "b")].into_iter());
    let half = report([spaced(Some(0.5), "a"), spaced(Some(0.5), "b")].into_iter());
    assert_eq!(pixels.measures.as_ref().unwrap().unit, Unit::Pixels);
    assert_eq!(half.measures.as_ref().unwrap().unit, Unit::Millimetres);
    let ratio = half.score("hd95_top").unwrap() / pixels.score("hd95_top").unwrap();
    assert!((ratio - 0.5).abs() < 1e-12, "{ratio}");
    assert_eq!(half.reliability.larger[1].area, 0.25 * pixels.reliability.larger[1].area);
    assert!(half.table().contains("hd95, mm") && pixels.table().contains("hd95, px"));
    assert!(pixels.table().contains("only 1 of 2 images state their spacing"), "{}", pixels.table());
    let none = report([spaced(None, "a"), spaced(None, "b")].into_iter());
    assert!(!half.table().contains("their spacing") && !none.table().contains("their spacing"));
}

#[test]
fn every_row_of_the_table_fits_eighty_columns() {
    for table in [
        report((0..40).map(|index| honest(index, 3))).table(),
        report((0..3).map(|index| honest(index, 1))).table(),
    ] {
        // Sentences end with a full stop, and the program breaks them.
        let rows: Vec<&str> = table.lines().filter(|line| !line.ends_with('.')).collect();
        assert!(rows.len() > 40 && rows.iter().all(|row| row.chars().count() <= 80), "{table}");
    }
}

#[test]
fn without_details_a_report_has_none() {
    let (cases, predictions): (Vec<_>, Vec<_>) = (0..12).map(|index| honest(index, 3)).unzip();
    let plain = evaluate(&cases, &predictions, &Settings { details: false, ..settings() }).unwrap();
    let full = evaluate(&cases, &predictions, &settings()).unwrap();
    assert_eq!(plain.summary.scores, full.summary.scores);
    assert_eq!(plain.summary.pooled, full.summary.pooled);
    let json = plain.to_json();
    for key in ["ged_floor", "hd95", "noise", "measures", "area_pit", "null"] {
        assert!(!json.contains(key), "{key}");
    }
    assert!(!plain.table().contains("floor"));
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), plain);
}

#[test]
fn a_long_tail_is_left_out_of_expectations_and_told_of() {
    // A hundred equally probable masks: sixty-four of them are looked at.
    let outputs: Vec<Mask> = (0..100).map(|k| Mask::from_fn(20, 20, |x, y| x * 20 + y <= k)).collect();
    let many =
        report([(case("a", &[outputs[3].clone(), outputs[5].clone()]), uniform(&outputs))].into_iter());
    let mass = many.measures.as_ref().unwrap().expected_mass;
    assert!((mass - 0.64).abs() < 1e-6, "{mass}");
    assert!(many.table().contains("64 % of the probability"));
}

/// Any one-row mask of nine pixels, often empty.
fn mask() -> impl Strategy<Value = Mask> {
    prop_oneof![1 => Just(0u16), 3 => 0u16..512].prop_map(|bits_of| bits(&format!("{bits_of:09b}")))
}

fn set(most: usize) -> impl Strategy<Value = Vec<(Mask, f32)>> {
    proptest::collection::vec((mask(), 0.05f32..1.0), 1..most).prop_map(|mut members| {
        let sum: f32 = members.iter().map(|(_, weight)| weight).sum();
        members.iter_mut().for_each(|(_, weight)| *weight /= sum);
        members
    })
}

proptest! {
    /// Emptiness and shape are the whole GED, shape being what the pairs of masks that are not empty give.
    #[test]
    fn the_parts_are_the_whole(labels in set(6), outputs in set(8)) {
        let unzip = |members: &[(Mask, f32)]| -> (Vec<Mask>, Vec<f32>) { members.iter().cloned().unzip() };
        let ((masks, q), (hypotheses, p)) = (unzip(&labels), unzip(&outputs));
        let (case, prediction) = (weighted_case("any", &masks, &q), prediction(&hypotheses, &p));
        let comparison = Comparison::new(&case, &prediction).unwrap();
        let parts = split::of_limit(&comparison);
        prop_assert!((parts.total - ged::exact(&comparison)).abs() < 1e-12);
        let pairs = |a: &[(Mask, f32)], b: &[(Mask, f32)]| {
            let drawn = |members: &[(Mask, f32)]| -> Vec<(Mask, f64)> {
                let sum: f64 = members.iter().map(|(_, weight)| f64::from(*weight)).sum();
                let drawn = members.iter().filter(|(mask, _)| !mask.is_empty());
                drawn.map(|(mask, weight)| (mask.clone(), f64::from(*weight) / sum)).collect()
            };
            let mut sum = 0.0;
            for (a, v) in drawn(a) {
                for (b, w) in drawn(b) {
                    sum += v * w * (1.0 - multivalued_data::metric::iou(&a, &b).unwrap());
                }
            }
            sum
        };
        let shape = 2.0 * pairs(&labels, &outputs) - pairs(&labels, &labels) - pairs(&outputs, &outputs);
        prop_assert!((parts.shape() - shape).abs() < 1e-9, "{} {shape}", parts.shape());
        let gap = (parts.emptiness / 2.0).sqrt();
        prop_assert!(parts.shape() >= -gap * gap - 1e-9, "shape {} with emptiness {}", parts.shape(), parts.emptiness);
    }
}
