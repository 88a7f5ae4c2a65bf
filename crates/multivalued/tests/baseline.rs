//! Baselines that must learn, on triangles small enough for a few seconds.

use multivalued::predict::predict_cases;
use multivalued::train::Trainer;
use multivalued::{Recipe, Splits};
use multivalued_data::dataset::Holding;
use multivalued_data::evaluate::{Scores, Settings, evaluate};
use multivalued_engine::Device;

/// Scores of the test cases before and after a training.
fn learned(kind: &str, changes: &[&str]) -> [Scores; 2] {
    let mut recipe = Recipe::default();
    let own = [
        "data.task=shapes",
        "data.size=16",
        "data.train_count=400",
        "data.validation_count=0",
        "data.test_count=40",
        "model.channels=[8, 16]",
        "model.head_width=12",
        "train.batch=8",
        "train.epochs=0",
        "train.steps=260",
        "train.learning_rate=4e-3",
        "train.warmup_steps=20",
        "train.weight_average=0.98",
        "predict.samples=50",
    ];
    for change in own.iter().chain(changes).chain([&format!("method.kind={kind}").as_str()]) {
        recipe.set(change).unwrap();
    }
    let Splits { train, validation, test, .. } = Splits::load(&recipe.data, &Holding::Memory).unwrap();
    let test = test.to_vec().unwrap();
    let mut trainer = Trainer::new(&recipe, train, validation, &Device::cpu()).unwrap();
    let scores = |trainer: &mut Trainer| {
        let predictions =
            trainer.with_averaged_weights(|network| predict_cases(network, &recipe, &test).unwrap());
        let settings = Settings { resamples: 1, ..Settings::new("test") };
        evaluate(&test, &predictions, &settings).unwrap().summary.scores
    };
    let before = scores(&mut trainer);
    while !trainer.is_finished() {
        trainer.step().unwrap();
    }
    let after = scores(&mut trainer);
    println!(
        "{kind}: {:.0} s, GED limit {:.4} to {:.4}, at 16 {:.4}, diversity {:.4}, recall of readers {:.3}",
        trainer.seconds(),
        before.ged_limit,
        after.ged_limit,
        after.ged_16,
        after.diversity_outputs,
        after.dice_max_labels
    );
    [before, after]
}

#[test]
fn the_probabilistic_unet_learns_several_outputs() {
    let [before, after] = learned("probabilistic-unet", &["train.annotations=1", "method.divergence=1"]);
    assert!(after.ged_limit < 0.5 * before.ged_limit, "{} after {}", after.ged_limit, before.ged_limit);
    assert!(after.diversity_outputs > 0.08, "its samples differ: {}", after.diversity_outputs);
    assert!(after.dice_max_labels > 0.77, "every reader is met: {}", after.dice_max_labels);
    assert!(after.ged_limit < after.ged_exact && after.ged_exact < after.ged_4, "the 1/n law");
}

#[test]
fn the_plain_unet_learns_one_output_and_stays_above() {
    let [before, after] = learned("unet", &[]);
    assert!(after.ged_exact < 0.8 * before.ged_exact, "{} after {}", after.ged_exact, before.ged_exact);
    assert_eq!((after.n_x, after.diversity_outputs), (1.0, 0.0));
    assert_eq!(after.ged_limit, after.ged_exact);
}
