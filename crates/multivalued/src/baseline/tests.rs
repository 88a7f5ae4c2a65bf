//! The baselines under test: who receives which gradient, what prediction may use, and that it repeats.

use super::{Losses, ProbabilisticUnet};
use crate::batch::TrainingSet;
use crate::collective::Ranks;
use crate::fixture::{cases, tiny_recipe};
use crate::network::Network;
use crate::predict::predict_cases;
use crate::recipe::{Recipe, Space};
use crate::train::{StepContext, Term, Trainer};
use crate::{Error, Predictor};
use multivalued_data::{Case, Prediction};
use multivalued_engine::{Device, Tape, Var};
use std::collections::BTreeSet;

const KINDS: [&str; 2] = ["method.kind=probabilistic-unet", "method.kind=unet"];

fn recipe(kind: &str, changes: &[&str]) -> Recipe {
    tiny_recipe(Space::Output, &[&[kind, "method.latent_dim=3", "predict.samples=12"], changes].concat())
}

/// The parts, by the first word of their parameters' names, that get a gradient other than zero.
fn reached(term: impl FnOnce(Losses) -> Var) -> Vec<String> {
    let recipe = recipe(KINDS[0], &[]);
    let device = Device::cpu();
    let network = ProbabilisticUnet::new(&recipe, &device);
    let batch =
        TrainingSet::new(cases(4, [16, 16], 1, 1), &recipe, &device).unwrap().batch(0, &device).unwrap();
    assert!(batch.per_image > 1, "several annotations an image are the harder case");
    let tape = Tape::recording(&network.parameters);
    let alone = Ranks::alone();
    let term = term(network.step_losses(&tape, StepContext::new(&recipe, &batch, 0, 0.0, &alone)));
    assert!(term.item().is_finite() && term.item() != 0.0, "the term is there: {}", term.item());
    let gradients = tape.backward(&term);
    let moved = |id| gradients.get(id).is_some_and(|g| g.to_vec().iter().any(|g| *g != 0.0));
    let name = |id| network.parameters.get(id).name().split('.').next().unwrap().to_string();
    let found: BTreeSet<String> = network.parameters.ids().filter(|&id| moved(id)).map(name).collect();
    found.into_iter().collect()
}

#[test]
fn the_divergence_moves_prior_and_posterior_alone() {
    assert_eq!(reached(|losses| losses.get(Term::Divergence).unwrap().clone()), ["posterior", "prior"]);
}

#[test]
fn the_reconstruction_moves_all_but_the_prior() {
    assert_eq!(
        reached(|losses| losses.get(Term::Reconstruction).unwrap().clone()),
        ["generator", "image_encoder", "posterior"]
    );
}

#[test]
fn their_sum_moves_everything() {
    assert_eq!(reached(|losses| losses.total()), ["generator", "image_encoder", "posterior", "prior"]);
}

/// Sets every parameter whose name begins so to zero.
fn without(network: &mut Network, part: &str) -> usize {
    let parameters = network.parameters_mut();
    let own: Vec<_> = parameters.ids().filter(|&id| parameters.get(id).name().starts_with(part)).collect();
    own.iter().for_each(|&id| parameters.modify(id, |values| values.fill(0.0)));
    own.len()
}

#[test]
fn prediction_knows_nothing_of_the_posterior() {
    let recipe = recipe(KINDS[0], &[]);
    let cases = cases(3, [16, 16], 1, 1);
    let mut network = Network::new(&recipe, &Device::cpu()).unwrap();
    let before = predict_cases(&network, &recipe, &cases).unwrap();
    assert!(without(&mut network, "posterior.") > 0);
    assert_eq!(predict_cases(&network, &recipe, &cases).unwrap(), before);
    assert!(without(&mut network, "prior.") > 0);
    assert_ne!(predict_cases(&network, &recipe, &cases).unwrap(), before, "the prior is what it samples");
}

fn check(prediction: &Prediction, case: &Case, samples: Option<usize>) {
    let p: Vec<f32> = prediction.hypotheses.iter().map(|h| h.probability).collect();
    assert!((p.iter().sum::<f32>() - 1.0).abs() < 1e-5 && p.is_sorted_by(|a, b| a >= b), "{p:?}");
    assert_eq!(prediction.draws, samples);
    let counts = p.iter().map(|p| p * samples.unwrap_or(1) as f32);
    assert!(counts.into_iter().all(|count| (count - count.round()).abs() < 1e-4), "whole draws: {p:?}");
    for (at, one) in prediction.hypotheses.iter().enumerate() {
        assert_eq!([one.mask.width(), one.mask.height()], [case.image.width(), case.image.height()]);
        assert!(
            prediction.hypotheses[..at].iter().all(|other| other.mask != one.mask),
            "equal ones are merged"
        );
    }
}

#[test]
fn any_size_channels_and_classes_train_and_predict() {
    for kind in KINDS {
        let samples = (kind == KINDS[0]).then_some(12);
        for (size, channels, classes) in [([17, 23], 1, 1), ([1, 1], 2, 1), ([16, 3], 3, 3)] {
            for annotations in [0, 1, 2] {
                let changes = [
                    format!("model.input_channels={channels}"),
                    format!("model.classes={classes}"),
                    format!("train.annotations={annotations}"),
                ];
                let recipe = recipe(kind, &changes.each_ref().map(String::as_str));
                let cases = cases(5, size, channels, classes);
                let mut trainer =
                    Trainer::new(&recipe, cases.clone(), cases.clone(), &Device::cpu()).unwrap();
                for _ in 0..2 {
                    let log = trainer.step().unwrap();
                    assert!(log.moved, "{kind} {size:?}: {:?}", log.terms);
                    assert_eq!(log.terms.divergence > 0.0, samples.is_some());
                }
                let epoch = trainer.end_epoch().unwrap();
                assert!(epoch.codes.is_none());
                let predictions = predict_cases(trainer.network(), &recipe, &cases).unwrap();
                predictions.iter().zip(&cases).for_each(|(one, case)| check(one, case, samples));
                if kind == KINDS[1] {
                    assert!(predictions.iter().all(|one| one.len() == 1));
                }
            }
        }
    }
}

/// Samples belong to the image: neither its place nor its company nor the size of a part changes them.
#[test]
fn an_image_gets_the_same_samples_alone_and_in_any_batch() {
    for kind in KINDS {
        let recipe = recipe(kind, &["predict.samples=100"]);
        let predictor = Predictor::new(Network::new(&recipe, &Device::cpu()).unwrap(), &recipe);
        let cases = cases(5, [16, 16], 1, 1);
        let images: Vec<_> = cases.iter().map(|case| &case.image).collect();
        let together = predictor.predict(&images).unwrap();
        for (at, image) in images.iter().enumerate().rev() {
            assert_eq!(predictor.predict(&[image]).unwrap()[0], together[at], "{kind}, image {at}");
        }
    }
}

#[test]
fn a_loss_that_is_not_finite_changes_nothing_and_stops_in_the_end() {
    for kind in KINDS {
        let recipe = recipe(kind, &[]);
        let mut trainer =
            Trainer::new(&recipe, cases(4, [16, 16], 1, 1), Vec::new(), &Device::cpu()).unwrap();
        trainer.poison(&[0, 1, 2, 3]);
        let values = |trainer: &Trainer| trainer.network().parameters().to_safetensors(Default::default());
        let before = values(&trainer);
        assert!(!trainer.step().unwrap().moved && !trainer.step().unwrap().moved);
        assert!(matches!(trainer.step(), Err(Error::Diverged { .. })), "{kind}");
        assert!(values(&trainer) == before, "{kind}");
    }
}
