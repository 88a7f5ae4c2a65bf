//! Eq. loss_gradient: which parts each term of the loss reaches, and which it does not.

use super::{StepContext, forward};
use crate::batch::TrainingSet;
use crate::collective::Ranks;
use crate::fixture::{cases, tiny_recipe};
use crate::model::Model;
use crate::recipe::{Recipe, Space};
use crate::train::{Losses, Term};
use multivalued_engine::{Device, Tape, Var};
use std::collections::BTreeSet;

/// The parts, by the first word of their parameters' names, that get a gradient other than zero.
fn reached(space: Space, progress: f32, term: impl FnOnce(&Losses) -> Var) -> BTreeSet<String> {
    reached_by(&tiny_recipe(space, &[]), progress, term)
}

fn reached_by(recipe: &Recipe, progress: f32, term: impl FnOnce(&Losses) -> Var) -> BTreeSet<String> {
    let device = Device::cpu();
    let model = Model::new(recipe, &device).unwrap();
    let batch =
        TrainingSet::new(cases(4, [16, 16], 1, 1), recipe, &device).unwrap().batch(0, &device).unwrap();
    let tape = Tape::recording(&model.parameters);
    let alone = Ranks::alone();
    let context = StepContext::new(recipe, &batch, 0, progress, &alone);
    let term = term(&forward(&model, &tape, context).losses);
    assert!(term.item().is_finite() && term.item() != 0.0, "the term is there: {}", term.item());
    let gradients = tape.backward(&term);
    let ids = model.parameters.ids();
    ids.filter(|&id| gradients.get(id).is_some_and(|gradient| gradient.to_vec().iter().any(|g| *g != 0.0)))
        .map(|id| model.parameters.get(id).name().split('.').next().unwrap().to_string())
        .collect()
}

fn named(losses: &Losses, term: Term) -> Var {
    losses.get(term).expect("a term that counts").clone()
}

fn assert_reached(found: &BTreeSet<String>, expected: &[&str]) {
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

/// Before and after the assignment turns hard; the second also has the energy score.
const SOFT: f32 = 0.1;
const HARD: f32 = 0.9;

#[test]
fn reconstruction_by_embedding_passes_straight_through_the_code() {
    let found = reached(Space::Embedding, HARD, |losses| named(losses, Term::Reconstruction));
    assert_reached(&found, &["generator", "image_encoder", "pair_encoder"]);
}

#[test]
fn commitment_moves_the_pair_encoder_alone() {
    let found = reached(Space::Embedding, HARD, |losses| named(losses, Term::Commitment));
    assert_reached(&found, &["pair_encoder"]);
}

#[test]
fn emptiness_moves_its_head_and_the_features_it_looks_at() {
    let recipe = tiny_recipe(Space::Output, &["model.empty_head=true"]);
    let found = reached_by(&recipe, HARD, |losses| named(losses, Term::Emptiness));
    assert_reached(&found, &["empty", "generator", "image_encoder"]);
}

#[test]
fn cross_entropy_moves_the_classifier_and_the_shared_encoder() {
    for (space, progress) in [(Space::Embedding, HARD), (Space::Output, SOFT), (Space::Output, HARD)] {
        let found = reached(space, progress, |losses| named(losses, Term::CrossEntropy));
        assert_reached(&found, &["classifier", "image_encoder"]);
    }
}

#[test]
fn reconstruction_by_output_moves_the_generator_and_the_encoder() {
    for progress in [SOFT, HARD] {
        let found = reached(Space::Output, progress, |losses| named(losses, Term::Reconstruction));
        assert_reached(&found, &["generator", "image_encoder"]);
    }
}

#[test]
fn overlap_reaches_what_the_reconstruction_reaches() {
    let found = reached(Space::Output, HARD, |losses| named(losses, Term::Overlap));
    assert_reached(&found, &["generator", "image_encoder"]);
    let found = reached(Space::Embedding, HARD, |losses| named(losses, Term::Overlap));
    assert_reached(&found, &["generator", "image_encoder", "pair_encoder"]);
}

#[test]
fn the_energy_score_moves_outputs_and_shared_codes_probabilities() {
    let energy = |losses: &Losses| named(losses, Term::Energy);
    let shared = tiny_recipe(Space::Output, &["assignment.distinct=false"]);
    for recipe in [&shared, &tiny_recipe(Space::Embedding, &[])] {
        assert_reached(&reached_by(recipe, HARD, energy), &["classifier", "generator", "image_encoder"]);
    }
    assert_reached(&reached(Space::Output, HARD, energy), &["generator", "image_encoder"]);
}

#[test]
fn codes_get_a_gradient_only_where_the_recipe_trains_them() {
    let device = Device::cpu();
    for trained in [false, true] {
        let recipe = tiny_recipe(Space::Output, &[&format!("model.train_codes={trained}")]);
        let model = Model::new(&recipe, &device).unwrap();
        let batch =
            TrainingSet::new(cases(4, [16, 16], 1, 1), &recipe, &device).unwrap().batch(0, &device).unwrap();
        let tape = Tape::recording(&model.parameters);
        let alone = Ranks::alone();
        let context = StepContext::new(&recipe, &batch, 0, HARD, &alone);
        let all = forward(&model, &tape, context).losses;
        let gradients = tape.backward(&all.total());
        let codes = model.parameters.find("codebook.codes").unwrap();
        let moved = gradients.get(codes).is_some_and(|g| g.to_vec().iter().any(|g| *g != 0.0));
        assert_eq!((moved, model.parameters.get(codes).trainable()), (trained, trained));
    }
}

#[test]
fn codes_in_reserve_are_assigned_nothing() {
    for space in [Space::Output, Space::Embedding] {
        let recipe = tiny_recipe(space, &["assignment.active_codes=3"]);
        let device = Device::cpu();
        let model = Model::new(&recipe, &device).unwrap();
        let batch =
            TrainingSet::new(cases(4, [16, 16], 1, 1), &recipe, &device).unwrap().batch(0, &device).unwrap();
        for progress in [SOFT, HARD] {
            let tape = Tape::recording(&model.parameters);
            let alone = Ranks::alone();
            let context = StepContext::new(&recipe, &batch, 0, progress, &alone);
            let targets = forward(&model, &tape, context).targets;
            for image in targets.chunks_exact(8) {
                assert!((image[..3].iter().sum::<f32>() - 1.0).abs() < 1e-5, "{space:?}: {image:?}");
                assert_eq!(image[3..], [0.0; 5], "{space:?}");
            }
        }
    }
}
