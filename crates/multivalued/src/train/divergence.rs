//! Losses that are not finite: the step changes nothing, is counted, and three in a row stop.

use super::Trainer;
use crate::Error;
use crate::fixture::{cases, tiny_recipe};
use crate::recipe::{Recipe, Space};
use multivalued_data::{Case, Image};
use multivalued_engine::Device;

fn values(trainer: &Trainer) -> Vec<u8> {
    let mut bytes = trainer.network.parameters().to_safetensors(Default::default());
    bytes.extend(trainer.adam.to_safetensors(trainer.network.parameters()));
    bytes
}

/// A training some of whose cases have no finite loss.
fn poisoned(recipe: &Recipe, cases: Vec<Case>, bad: &[usize]) -> Trainer {
    let mut trainer = Trainer::new(recipe, cases, Vec::new(), &Device::cpu()).unwrap();
    trainer.poison(bad);
    trainer
}

#[test]
fn cases_whose_pixels_are_no_numbers_are_refused_by_name() {
    let recipe = tiny_recipe(Space::Output, &[]);
    let start = |train, validation| Trainer::new(&recipe, train, validation, &Device::cpu()).err();
    let sound = || cases(8, [16, 16], 1, 1);
    assert!(start(sound(), sound()).is_none());
    for (value, place) in [(f32::NAN, 3), (f32::INFINITY, 5)] {
        let mut bad = sound();
        bad[place].image.pixels_mut()[7] = value;
        let id = bad[place].id.clone();
        for error in [start(bad.clone(), Vec::new()), start(sound(), bad.clone())] {
            let message = error.expect("refused").to_string();
            assert!(message.starts_with(&id) && message.contains("1 of 256 values"), "{message}");
        }
    }
    let mut empty = sound();
    empty[2].image = Image::new(0, 16, 1, Vec::new());
    assert!(start(empty.clone(), Vec::new()).expect("refused").to_string().contains("0x16 pixels"));
    assert!(start(sound(), empty).expect("refused").to_string().contains("0x16 pixels"));
}

#[test]
fn a_step_that_is_not_finite_is_skipped_and_counted() {
    for space in [Space::Output, Space::Embedding] {
        // One of six cases is bad, two cases a step.
        let recipe = tiny_recipe(space, &["train.batch=2", "train.steps=12"]);
        let mut trainer = poisoned(&recipe, cases(6, [16, 16], 1, 1), &[4]);
        let mut skipped = 0;
        for _ in 0..12 {
            let before = (values(&trainer), trainer.assigned.clone());
            let log = trainer.step().unwrap();
            let after = (values(&trainer), trainer.assigned.clone());
            assert_eq!(before == after, !log.moved, "{space:?}: a skipped step changes nothing, others do");
            assert_eq!(log.terms.total.is_finite(), log.moved);
            skipped += u64::from(!log.moved);
            if log.ends_epoch {
                assert_eq!(trainer.end_epoch().unwrap().skipped_steps, skipped);
            }
        }
        assert_eq!(skipped, 4, "{space:?}: once per epoch");
        assert!(
            trainer.network.parameters().iter().all(|p| p.tensor().to_vec().iter().all(|v| v.is_finite()))
        );
    }
}

#[test]
fn three_in_a_row_stop_with_the_last_good_state() {
    for space in [Space::Output, Space::Embedding] {
        let recipe = tiny_recipe(space, &[]);
        let mut trainer = poisoned(&recipe, cases(8, [16, 16], 1, 1), &[0, 1, 2, 3, 4, 5, 6, 7]);
        let start = values(&trainer);
        assert!(!trainer.step().unwrap().moved);
        assert!(!trainer.step().unwrap().moved);
        match trainer.step() {
            Err(error @ Error::Diverged { step: 3, in_a_row: 3 }) => {
                assert!(error.to_string().contains("train.learning_rate"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert!(values(&trainer) == start);
    }
}

#[test]
fn an_absurd_learning_rate_ends_in_the_same_error() {
    for space in [Space::Output, Space::Embedding] {
        let recipe = tiny_recipe(space, &["train.learning_rate=10", "train.weight_decay=100"]);
        let train = cases(8, [16, 16], 1, 1);
        let mut trainer = Trainer::new(&recipe, train, Vec::new(), &Device::cpu()).unwrap();
        let stopped = (0..20).find_map(|_| trainer.step().err());
        assert!(matches!(stopped, Some(Error::Diverged { .. })), "{space:?}: {stopped:?}");
    }
}
