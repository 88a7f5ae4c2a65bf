//! Trainings that must learn: each small recipe finds every mode, with honest probabilities.
//!
//! One seed runs always; `cargo test --release -p multivalued --test learning -- --ignored` runs the
//! others and the other tasks (about four minutes each on two cores).

use multivalued::predict::predict_cases;
use multivalued::train::Trainer;
use multivalued::{Recipe, Splits};
use multivalued_data::dataset::Holding;
use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_engine::Device;

/// What a training must reach on the test cases.
struct Bars {
    /// Exact GED above the floor that the task's randomness leaves.
    above_floor: f64,
    probability_error: f64,
    probability_std: f64,
    recall: f64,
    outputs: std::ops::RangeInclusive<f64>,
}

const FOUR_MODES: Bars = Bars {
    above_floor: 0.02,
    probability_error: 0.02,
    probability_std: 0.05,
    recall: 0.98,
    outputs: 4.0..=6.0,
};
const OTHER_PROBABILITIES: Bars = Bars { probability_error: 0.03, recall: 0.95, ..FOUR_MODES };
const OTHER_COUNTS: Bars = Bars { outputs: 3.5..=6.0, ..OTHER_PROBABILITIES };

fn learns(name: &str, seed: u64, bars: &Bars) {
    let mut recipe = Recipe::named(name).unwrap();
    recipe.train.seed = seed;
    let Splits { train, validation, test, .. } = Splits::load(&recipe.data, &Holding::Memory).unwrap();
    let test = test.to_vec().unwrap();
    let mut trainer = Trainer::new(&recipe, train, validation, &Device::cpu()).unwrap();
    while !trainer.is_finished() {
        if trainer.step().unwrap().ends_epoch {
            let epoch = trainer.end_epoch().unwrap();
            let ged = epoch.validation.map(|validation| validation.ged_exact);
            println!(
                "{name} seed {seed}: step {} {:.0} s, {} codes, GED {ged:?}",
                epoch.step,
                epoch.seconds,
                epoch.codes.map_or(0, |codes| codes.active_codes)
            );
        }
    }
    let seconds = trainer.seconds();
    let predictions = trainer.with_averaged_weights(|model| predict_cases(model, &recipe, &test).unwrap());
    let report = evaluate(&test, &predictions, &Settings::new("test")).unwrap();
    let summary = &report.summary;
    let (scores, known) = (&summary.scores, "a task with known truth");
    let truth = summary.truth.as_ref().expect(known);
    let (floor, std) = (summary.oracle_ged.expect(known), summary.mode_probability_std.expect(known));
    println!(
        "{name} seed {seed}: {seconds:.0} s, GED {:.4} (floor {:.4}), recall {:.4}, probability error {:.4} (std {:.4}), total variation {:.4}, N_x {:.2}",
        scores.ged_exact,
        floor,
        truth.mode_recall,
        truth.mode_probability_mae,
        std,
        truth.total_variation,
        scores.n_x_1pct
    );
    assert!(scores.ged_exact <= floor + bars.above_floor, "GED");
    assert!(truth.mode_probability_mae <= bars.probability_error, "probability error");
    assert!(std <= bars.probability_std, "its std");
    assert!(truth.mode_recall >= bars.recall, "recall");
    assert!(bars.outputs.contains(&scores.n_x_1pct), "outputs");
}

#[test]
fn shapes_tiny_finds_the_four_shapes() {
    learns("shapes-tiny", 1, &FOUR_MODES);
}

#[test]
#[ignore = "four minutes a seed"]
fn shapes_tiny_finds_them_for_every_seed() {
    (2..=5).for_each(|seed| learns("shapes-tiny", seed, &FOUR_MODES));
}

#[test]
#[ignore = "four minutes a seed"]
fn unbalanced_probabilities_are_learned() {
    (1..=3).for_each(|seed| learns("shapes-tiny-unbalanced", seed, &OTHER_PROBABILITIES));
}

#[test]
#[ignore = "four minutes a seed"]
fn the_number_of_outputs_follows_the_input() {
    (1..=3).for_each(|seed| learns("shapes-tiny-varying", seed, &OTHER_COUNTS));
}

#[test]
#[ignore = "four minutes a seed"]
fn the_papers_codebook_does_not_collapse() {
    (1..=3).for_each(|seed| learns("shapes-tiny-256", seed, &FOUR_MODES));
}
