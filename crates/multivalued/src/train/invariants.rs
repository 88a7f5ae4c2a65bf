//! What holds for every training and prediction: sizes, sums, order, and repetition to the bit.

use super::Trainer;
use crate::Predictor;
use crate::fixture::{cases, tiny_recipe};
use crate::network::Network;
use crate::predict::predict_cases;
use crate::recipe::{Recipe, Space};
use multivalued_data::Prediction;
use multivalued_engine::Device;
use proptest::prelude::*;

fn check(prediction: &Prediction, size: [usize; 2], classes: usize) {
    let p: Vec<f32> = prediction.hypotheses.iter().map(|h| h.probability).collect();
    assert!(!p.is_empty() && p.iter().all(|p| *p > 0.0), "{p:?}");
    assert!((p.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{p:?}");
    assert!(p.is_sorted_by(|a, b| a >= b), "{p:?}");
    for h in &prediction.hypotheses {
        assert_eq!(([h.mask.width(), h.mask.height()], h.mask.classes()), (size, classes));
    }
}

#[test]
fn any_size_channels_and_classes_train_and_predict() {
    for space in [Space::Output, Space::Embedding] {
        for (size, channels, classes) in
            [([17, 23], 1, 1), ([1, 1], 2, 1), ([45, 45], 4, 3), ([16, 3], 3, 3), ([1, 1], 1, 3)]
        {
            for entry in ["head", "bottleneck"] {
                let recipe = tiny_recipe(
                    space,
                    &[
                        &format!("model.input_channels={channels}"),
                        &format!("model.classes={classes}"),
                        &format!("model.code_entry={entry}"),
                        "model.channels=[4, 8, 8]",
                        // From the first step on: the hard assignment and the energy score.
                        "assignment.anneal_until=0",
                        "loss.energy_from=0",
                    ],
                );
                let cases = cases(4, size, channels, classes);
                let mut trainer = Trainer::new(&recipe, cases.clone(), Vec::new(), &Device::cpu()).unwrap();
                let log = trainer.step().unwrap();
                assert!(log.moved, "{space:?} {size:?} {entry}: {:?}", log.terms);
                for prediction in predict_cases(trainer.network(), &recipe, &cases).unwrap() {
                    check(&prediction, size, classes);
                }
            }
        }
    }
}

#[test]
fn a_validation_scores_training_cases_as_it_scores_its_own() {
    let recipe = tiny_recipe(Space::Output, &["train.steps=2"]);
    let (own, others) = (cases(4, [16, 16], 1, 1), cases(9, [16, 16], 1, 1));
    let validated = |train, validation| {
        let mut trainer = Trainer::new(&recipe, train, validation, &Device::cpu()).unwrap();
        while !trainer.is_finished() {
            trainer.step().unwrap();
        }
        trainer.end_epoch().unwrap().validation.unwrap()
    };
    let same = validated(own.clone(), own.clone());
    assert_eq!(same.training_ged, Some(same.ged_limit));
    // Of more training cases as many as there are validation cases; of fewer all.
    let fewer = validated(others[..2].to_vec(), own);
    assert!(fewer.training_ged.is_some_and(|ged| ged.is_finite() && ged != fewer.ged_limit), "{fewer:?}");
}

#[test]
fn where_nothing_reaches_the_threshold_one_output_stays() {
    let recipe = tiny_recipe(Space::Output, &["predict.min_probability=0.999"]);
    let model = Network::new(&recipe, &Device::cpu()).unwrap();
    let cases = cases(5, [16, 16], 1, 1);
    for prediction in predict_cases(&model, &recipe, &cases).unwrap() {
        assert_eq!(prediction.len(), 1);
        check(&prediction, [16, 16], 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn predictions_are_distributions(
        width in 1..24usize, height in 1..24usize, seed in 0..1000u64, threshold in 0.0..0.9f32, merge in 0.0..=1.0f32,
    ) {
        let changes = [
            format!("train.seed={seed}"),
            format!("predict.min_probability={threshold}"),
            format!("predict.merge_iou={merge}"),
        ];
        let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
        let recipe = tiny_recipe(Space::Output, &changes);
        let predictor = Predictor::new(Network::new(&recipe, &Device::cpu()).unwrap(), &recipe);
        let cases = cases(3, [width, height], 1, 1);
        let together = predictor.predict(&cases.iter().map(|case| &case.image).collect::<Vec<_>>()).unwrap();
        for (case, prediction) in cases.iter().zip(&together) {
            check(prediction, [width, height], 1);
            prop_assert_eq!(&predictor.predict(&[&case.image]).unwrap()[0], prediction, "alone and in a batch");
        }
    }
}

/// Twenty steps' end state and loss.
fn trained(recipe: &Recipe, threads: usize) -> (Vec<u8>, Vec<f32>) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let cases = cases(16, [48, 40], 1, 1);
        let mut trainer = Trainer::new(recipe, cases, Vec::new(), &Device::cpu()).unwrap();
        let losses = (0..20).map(|_| trainer.step().unwrap().terms.total).collect();
        (trainer.network.parameters().to_safetensors(Default::default()), losses)
    })
}

#[test]
fn training_repeats_to_the_bit_whatever_the_threads() {
    for space in [Space::Output, Space::Embedding] {
        let recipe = tiny_recipe(space, &["augment.rotation=10", "train.steps=40", "model.channels=[8, 16]"]);
        let once = trained(&recipe, 2);
        assert!(once == trained(&recipe, 2), "{space:?}: the same seed");
        assert!(once == trained(&recipe, 1), "{space:?}: one thread");
        let other = tiny_recipe(
            space,
            &["augment.rotation=10", "train.steps=40", "model.channels=[8, 16]", "train.seed=2"],
        );
        assert!(once.1 != trained(&other, 2).1, "{space:?}: another seed is another training");
    }
}
