//! What must hold for any sets of masks.

mod sets;

use multivalued_data::draw::Draw;
use multivalued_data::metric::{
    Comparison, assignment, calibration, diversity, ged, matching, soft, transport,
};
use multivalued_data::{Case, Mask, Prediction};
use proptest::prelude::*;
use sets::{case, prediction, uniform, weighted_case};

const WIDTH: usize = 9;
const HEIGHT: usize = 8;

/// Any mask: empty, sparse, dense or full, of one or two classes.
fn mask(classes: usize) -> impl Strategy<Value = Mask> {
    let word = prop_oneof![
        Just(0u128),
        Just(u128::MAX),
        any::<u128>(),
        (any::<u128>(), any::<u128>()).prop_map(|(a, b)| a & b)
    ];
    proptest::collection::vec(word, classes).prop_map(move |planes| {
        let mut mask = Mask::empty(WIDTH, HEIGHT, classes);
        for (class, plane) in planes.into_iter().enumerate() {
            for at in (0..WIDTH * HEIGHT).filter(|at| plane >> at & 1 == 1) {
                mask.set(class, at % WIDTH, at / WIDTH, true);
            }
        }
        mask
    })
}

fn masks(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Mask>> {
    proptest::collection::vec(mask(1), count)
}

/// Masks with weights that sum to one.
fn weighted(count: std::ops::Range<usize>, classes: usize) -> impl Strategy<Value = (Vec<Mask>, Vec<f32>)> {
    proptest::collection::vec((mask(classes), 0.01f32..1.0), count).prop_map(|members| {
        let sum: f32 = members.iter().map(|(_, weight)| weight).sum();
        members.into_iter().map(|(mask, weight)| (mask, weight / sum)).unzip()
    })
}

fn sides() -> impl Strategy<Value = (Case, Prediction)> {
    (1..3usize).prop_flat_map(|classes| {
        (weighted(1..6, classes), weighted(1..9, classes)).prop_map(|((labels, q), (outputs, p))| {
            (weighted_case("any", &labels, &q), prediction(&outputs, &p))
        })
    })
}

fn reversed(case: &Case, prediction: &Prediction) -> (Case, Prediction) {
    let (mut case, mut prediction) = (case.clone(), prediction.clone());
    case.annotations.reverse();
    prediction.hypotheses.reverse();
    (case, prediction)
}

/// Draws from a known distribution, equal ones merged as a predictor merges them.
fn drawn(masks: &[Mask], p: &[f64], count: usize, random: &mut Draw) -> Prediction {
    let mut shares = vec![0.0f32; masks.len()];
    random.weighted(p, count).into_iter().for_each(|at| shares[at] += 1.0 / count as f32);
    Prediction { draws: Some(count), ..prediction(masks, &shares) }
}

/// The 1/n law: n draws inflate the GED by D/n, and the limit takes that away whatever n is.
#[test]
fn the_limit_of_few_draws_is_the_exact_ged_on_average() {
    let masks: Vec<Mask> = [2, 5, 9, 0].map(|n| Mask::from_fn(WIDTH, HEIGHT, |x, _| x < n)).to_vec();
    let p = [0.4, 0.3, 0.2, 0.1];
    let case = weighted_case("known", &masks[..3], &[1.0, 1.0, 2.0]);
    let stated = prediction(&masks, &p.map(|p| p as f32));
    let comparison = Comparison::new(&case, &stated).unwrap();
    let (exact, diversity) = (ged::exact(&comparison), diversity::of_outputs(&comparison));
    assert_eq!(ged::limit(&comparison), exact, "stated probabilities are their own limit");
    for count in [2, 4, 16] {
        let mut random = Draw::new(3, &["limit"], count as u64);
        let (mut limits, mut plain) = (0.0, 0.0);
        let times = 20_000;
        for _ in 0..times {
            let sampled = drawn(&masks, &p, count, &mut random);
            let comparison = Comparison::new(&case, &sampled).unwrap();
            limits += ged::limit(&comparison) / f64::from(times);
            plain += ged::exact(&comparison) / f64::from(times);
        }
        assert!((limits - exact).abs() < 0.005, "{count} draws: {limits}, exact {exact}");
        let law = exact + diversity / count as f64;
        assert!((plain - law).abs() < 0.005, "{count} draws: {plain}, the law says {law}");
    }
}

#[test]
fn all_draws_together_are_the_sampled_ged_of_their_number() {
    let masks: Vec<Mask> = [2, 5, 9].map(|n| Mask::from_fn(WIDTH, HEIGHT, |x, _| x < n)).to_vec();
    let case = case("known", &masks[1..]);
    let sampled = drawn(&masks, &[0.5, 0.25, 0.25], 16, &mut Draw::new(5, &["draws"], 0));
    let comparison = Comparison::new(&case, &sampled).unwrap();
    let all = ged::sampled(&comparison, 16, &mut Draw::new(1, &["any"], 0));
    assert!((all - ged::exact(&comparison)).abs() < 1e-12);
    // With n draws the unbiased estimate divides by the pairs of draws, not of distinct masks.
    let gap = ged::unbiased(&comparison) - ged::limit(&comparison);
    assert!((gap + diversity::of_labels(&comparison)).abs() < 1e-6, "two labels: half of all pairs differ");
}

proptest! {
    #[test]
    fn scores_stay_in_their_ranges((case, prediction) in sides()) {
        let comparison = Comparison::new(&case, &prediction).unwrap();
        let exact = ged::exact(&comparison);
        prop_assert!((-1e-12..=2.0).contains(&exact), "GED {exact}");
        let shares: [fn(&Comparison) -> f64; 9] = [
            matching::hm_iou, matching::dice_match, matching::dice_mean, matching::dice_max_of_labels,
            matching::iou_max_of_labels, matching::dice_max_of_outputs, soft::soft_dice, diversity::of_labels, diversity::of_outputs,
        ];
        for share in shares {
            prop_assert!((-1e-12..=1.0 + 1e-12).contains(&share(&comparison)));
        }
        // Each label's best IoU is at least what a transport plan gives it, and at most its best Dice.
        let best = matching::iou_max_of_labels(&comparison);
        prop_assert!(matching::hm_iou(&comparison) <= best + 1e-9);
        prop_assert!(best <= matching::dice_max_of_labels(&comparison) + 1e-12);
        prop_assert!((0.0..=2.0).contains(&calibration::mode_brier(&comparison)));
        prop_assert!(calibration::mode_nll(&comparison) >= 0.0);
    }

    #[test]
    fn order_does_not_matter((case, prediction) in sides()) {
        let (other_case, other_prediction) = reversed(&case, &prediction);
        let a = Comparison::new(&case, &prediction).unwrap();
        let b = Comparison::new(&other_case, &other_prediction).unwrap();
        for metric in [ged::exact, ged::unbiased, matching::hm_iou, matching::dice_match, soft::soft_dice] {
            prop_assert!((metric(&a) - metric(&b)).abs() < 1e-9);
        }
    }

    #[test]
    fn equal_sets_are_at_distance_zero((labels, q) in weighted(1..7, 2)) {
        let (case, prediction) = (weighted_case("same", &labels, &q), prediction(&labels, &q));
        let comparison = Comparison::new(&case, &prediction).unwrap();
        prop_assert!(ged::exact(&comparison).abs() < 1e-12);
        prop_assert!((matching::hm_iou(&comparison) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn splitting_a_hypothesis_changes_nothing((case, whole) in sides(), share in 0.1f32..0.9) {
        let mut split = whole.clone();
        let mut part = split.hypotheses[0].clone();
        part.probability *= share;
        split.hypotheses[0].probability -= part.probability;
        split.hypotheses.push(part);
        let a = Comparison::new(&case, &whole).unwrap();
        let b = Comparison::new(&case, &split).unwrap();
        for metric in [ged::exact, matching::hm_iou, calibration::mode_brier] {
            prop_assert!((metric(&a) - metric(&b)).abs() < 1e-6, "f32 splits are inexact");
        }
        // Soft Dice jumps where a pixel's probability crosses a threshold, which a split's rounding may do.
        let near = |p: &f64| soft::THRESHOLDS.iter().any(|t| (p - t).abs() < 2e-6);
        if !soft::marginal(a.outputs(), 0).iter().any(near) {
            prop_assert!((soft::soft_dice(&a) - soft::soft_dice(&b)).abs() < 1e-12);
        }
    }

    #[test]
    fn transport_is_assignment_for_uniform_weights(labels in masks(1..6), outputs in masks(1..8)) {
        let (case, prediction) = (case("uniform", &labels), uniform(&outputs));
        let comparison = Comparison::new(&case, &prediction).unwrap();
        let (by_transport, by_assignment) =
            (matching::hm_iou(&comparison), matching::hm_iou_by_assignment(&comparison));
        // 1/3 as f32 is not a third: the weights, not the solvers, differ by that much.
        prop_assert!((by_transport - by_assignment).abs() < 1e-7, "{by_transport} {by_assignment}");
    }

    #[test]
    fn the_solvers_agree_exactly(gains in proptest::collection::vec(0.0f64..1.0, 64)) {
        let weights = [0.125; 8];
        let gain = |i: usize, j: usize| gains[i * 8 + j];
        let pairs = assignment::cheapest(8, 8, |i, j| 1.0 - gain(i, j));
        let assigned = pairs.iter().enumerate().map(|(i, &j)| gain(i, j)).sum::<f64>() / 8.0;
        prop_assert!((transport::largest_gain(&weights, &weights, gain) - assigned).abs() < 1e-12);
    }

    /// Weak duality bounds the plan from above, and any plan bounds it from below.
    #[test]
    fn transport_beats_the_independent_plan((case, prediction) in sides()) {
        let comparison = Comparison::new(&case, &prediction).unwrap();
        let (q, p) = (comparison.labels().weights(), comparison.outputs().weights());
        let mut independent = 0.0;
        let mut best_each = 0.0;
        for (i, q) in q.iter().enumerate() {
            independent += q * p.iter().enumerate().map(|(j, p)| p * comparison.iou(i, j)).sum::<f64>();
            best_each += q * (0..p.len()).map(|j| comparison.iou(i, j)).fold(0.0, f64::max);
        }
        let found = matching::hm_iou(&comparison);
        prop_assert!(found >= independent - 1e-12 && found <= best_each + 1e-12);
    }

    #[test]
    fn sampled_ged_exceeds_the_exact_by_diversity_over_n((case, prediction) in sides(), n in 2..8usize) {
        let comparison = Comparison::new(&case, &prediction).unwrap();
        // The mean's standard error times n stays below 0.02.
        let seeds = 20_000;
        let sum: f64 = (0..seeds).map(|seed| ged::sampled(&comparison, n, &mut Draw::new(seed, &["p"], 0))).sum();
        let excess = (sum / seeds as f64 - ged::exact(&comparison)) * n as f64;
        let diversity = diversity::of_outputs(&comparison);
        prop_assert!((excess - diversity).abs() < 0.12, "n {n}: {excess} against {diversity}");
    }
}
