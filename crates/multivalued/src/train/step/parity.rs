//! Losses, assignment and whole steps against golden values from PyTorch (`reference/method.py`).

use super::{StepContext, forward};
use crate::assignment::{Rule, responsibilities};
use crate::batch::{Batch, TrainingSet};
use crate::collective::Ranks;
use crate::fixture::{assert_close, cases, golden, golden_masks, tiny_recipe, wave};
use crate::loss::{Compared, cross_entropy_distances};
use crate::model::Model;
use crate::recipe::Space;
use crate::train::Term;
use multivalued_engine::{Device, Parameters, Tape, Tensor, Var};
use serde_json::json;

#[test]
fn energy_score_and_its_gradients() {
    let golden = &golden()["energy"];
    let device = Device::cpu();
    let mut parameters = Parameters::new();
    let outputs = parameters.add("outputs", Tensor::from_slice(&device, [6, 6], &wave(36, 0.2, 0.4, 0.5)));
    let p = parameters.add("p", Tensor::from_slice(&device, [2, 3], &wave(6, 1.1, 0.2, 0.4)));
    let annotations = Var::constant(Tensor::from_slice(&device, [4, 6], &golden_masks(4, 6)));
    let tape = Tape::recording(&parameters);
    let masks: Vec<f32> =
        tape.get(outputs).tensor().to_vec().iter().map(|&share| f32::from(share > 0.5)).collect();
    let masks = Var::constant(Tensor::from_slice(&device, [6, 6], &masks));
    let compared = Compared::new(tape.get(outputs), masks, annotations, 2);
    let scores = compared.energy_score(&tape.get(p), None, &[0.25, 0.75, 1.0, 0.0]);
    assert_close("scores", &scores.tensor().to_vec(), &golden["scores"], 1e-5);
    let gradients = tape.backward(&scores.sum());
    assert_close("outputs", &gradients.get(outputs).unwrap().to_vec(), &golden["outputs"], 1e-5);
    assert_close("probabilities", &gradients.get(p).unwrap().to_vec(), &golden["probabilities"], 1e-5);
}

/// A probability of the empty mask beside the outputs is the same as one more output that is empty.
#[test]
fn the_energy_score_with_a_head_for_nothing() {
    let device = Device::cpu();
    let constant =
        |shape: [usize; 2], values: &[f32]| Var::constant(Tensor::from_slice(&device, shape, values));
    let outputs = wave(36, 0.2, 0.4, 0.5);
    let p: Vec<f32> = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]].concat();
    let empty = [0.25, 0.6];
    let mut annotations = golden_masks(4, 6);
    annotations[6..12].fill(0.0);
    let weights = [0.25, 0.75, 1.0, 0.0];
    let masks = |outputs: &[f32]| -> Vec<f32> { outputs.iter().map(|&o| f32::from(o > 0.5)).collect() };
    let compared = |outputs: &[f32]| {
        let shape = [outputs.len() / 6, 6];
        let masks = constant(shape, &masks(outputs));
        Compared::new(constant(shape, outputs), masks, constant([4, 6], &annotations), 2)
    };
    let with_head = compared(&outputs)
        .energy_score(&constant([2, 3], &p), Some(&constant([2, 1], &empty)), &weights)
        .tensor()
        .to_vec();
    let nothing = [0.0; 6];
    let with_output = [&outputs[..18], &nothing, &outputs[18..], &nothing].concat();
    let all = |image: usize| [0, 1, 2].map(|j| p[3 * image + j] * (1.0 - empty[image]));
    let all = [&all(0)[..], &empty[..1], &all(1), &empty[1..]].concat();
    let expected =
        compared(&with_output).energy_score(&constant([2, 4], &all), None, &weights).tensor().to_vec();
    assert_close("scores", &with_head, &json!(expected), 1e-5);
}

#[test]
fn soft_responsibilities() {
    let rule = Rule::Soft { temperature: 0.2 };
    let found = responsibilities(rule, &wave(12, 0.4, 0.5, 1.0), &[-1.0; 4], &[1.0; 3]);
    assert_close("soft", &found, &golden()["responsibilities"]["soft"], 1e-5);
}

/// The golden step's batch: two images of 9 by 7, the second with one annotation and one row of padding.
fn golden_batch(device: &Device) -> Batch {
    let size = 63;
    let mut annotations = golden_masks(4, size);
    annotations[3 * size..].fill(0.0);
    let weights = vec![0.25, 0.75, 1.0, 0.0];
    let area = |row: usize| weights[row] * annotations[row * size..][..size].iter().sum::<f32>();
    Batch {
        images: Tensor::from_slice(device, [2, 9, 7, 1], &wave(2 * size, 0.5, 1.0, 0.0)),
        areas: Tensor::from_slice(device, [2], &[area(0) + area(1), area(2) + area(3)]),
        annotations: Tensor::from_slice(device, [4, size], &annotations),
        weights,
        per_image: 2,
        cases: vec![0, 1],
        own: 0..2,
    }
}

/// Sets all parameters by the golden step's rule.
fn set_parameters(model: &mut Model, device: &Device) {
    let mut ids: Vec<_> = model.parameters.ids().collect();
    let name = |model: &Model, id| model.parameters.get(id).name().to_string();
    ids.retain(|&id| !["codebook.usage", "codebook.active"].contains(&name(model, id).as_str()));
    ids.sort_by_key(|&id| name(model, id));
    for (phase, id) in ids.into_iter().enumerate() {
        let shape = model.parameters.get(id).tensor().shape();
        let (scale, shift) = match shape.len() {
            1 if name(model, id).ends_with(".scale") => (0.2, 1.0),
            1 => (0.1, 0.0),
            _ => (1.5 / ((shape.volume() / shape.last()) as f64).sqrt(), 0.0),
        };
        let values = wave(shape.volume(), phase as f64, scale, shift);
        model.parameters.set(id, Tensor::from_slice(device, shape, &values));
    }
}

#[test]
fn whole_steps() {
    let device = Device::cpu();
    let sizes = [
        "model.norm_group=4",
        "model.code_count=4",
        "model.code_dim=4",
        "model.head_width=4",
        "model.classifier_hidden=4",
        // The schedule that `reference/method.py` computes with, whatever the defaults are.
        "assignment.temperature_start=0.5",
        "assignment.temperature_end=0.03",
        "assignment.anneal_until=0.45",
        "assignment.prior=0.1",
        "loss.overlap=0.5",
        "loss.energy_from=0.7",
        "loss.reconstruction_with_energy=1.0",
    ];
    let golden = golden();
    let steps = golden["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 4);
    for step in steps {
        let space = if step["space"] == "output" { Space::Output } else { Space::Embedding };
        let progress = step["progress"].as_f64().unwrap() as f32;
        let recipe = tiny_recipe(space, &sizes);
        let mut model = Model::new(&recipe, &device).unwrap();
        set_parameters(&mut model, &device);
        let tape = Tape::recording(&model.parameters);
        let (batch, alone) = (golden_batch(&device), Ranks::alone());
        let found = forward(&model, &tape, StepContext::new(&recipe, &batch, 0, progress, &alone));
        let total = found.losses.total();
        let of = |name: &str| format!("{space:?} at {progress}: {name}");
        let terms = [
            ("reconstruction", Term::Reconstruction),
            ("cross_entropy", Term::CrossEntropy),
            ("commitment", Term::Commitment),
            ("overlap", Term::Overlap),
            ("energy", Term::Energy),
        ];
        let terms = terms.map(|(name, term)| (name, vec![found.losses.get(term).map_or(0.0, Var::item)]));
        let others = [("targets", found.targets.clone()), ("total", vec![total.item()])];
        for (name, found) in terms.into_iter().chain(others) {
            let golden = if step[name].is_array() { step[name].clone() } else { json!([step[name]]) };
            assert_close(&of(name), &found, &golden, 1e-4);
        }
        let gradients = tape.backward(&total);
        let golden = step["gradients"].as_object().unwrap();
        let trained: Vec<_> =
            model.parameters.ids().filter(|&id| model.parameters.get(id).trainable()).collect();
        assert_eq!(trained.len(), golden.len());
        for id in trained {
            let name = model.parameters.get(id).name();
            let values = gradients.get(id).unwrap().to_vec();
            let numbers = |i: usize| golden[name][i].as_f64().unwrap();
            let norm = values.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            let along: f64 =
                values.iter().enumerate().map(|(i, g)| f64::from(*g) * (1.0 + i as f64).sin()).sum();
            let tolerance = 1e-3 * numbers(0) + 1e-6;
            assert!((norm - numbers(0)).abs() < tolerance, "{}: {norm}, {}", of(name), numbers(0));
            assert!((along - numbers(1)).abs() < tolerance, "{}: {along}, {}", of(name), numbers(1));
        }
    }
}

#[test]
fn output_space_distances_are_those_of_brute_force() {
    let device = Device::cpu();
    for (classes, channels) in [(1, 1), (3, 4)] {
        let recipe = tiny_recipe(Space::Output, &[&format!("model.classes={classes}")]);
        let set = TrainingSet::new(cases(4, [7, 5], 1, classes), &recipe, &device).unwrap();
        let batch = set.batch(0, &device).unwrap();
        let (pixels, j, k) = (35, 3, batch.per_image);
        let logits = wave(4 * j * pixels * channels, 0.6, 3.0, 0.2);
        let tensor = Tensor::from_slice(&device, [4 * j, 5, 7, channels], &logits);
        let (found, _) = cross_entropy_distances(&Var::constant(tensor), &batch.annotations, 4, &[]);
        let targets = batch.annotations.to_vec();
        let size = pixels * channels;
        for (at, found) in found.iter().enumerate() {
            let (image, annotation, code) = (at / (j * k), at / j % k, at % j);
            let o = &logits[(image * j + code) * size..][..size];
            let y = &targets[(image * k + annotation) * size..][..size];
            let pixel = |(o, y): (&[f32], &[f32])| -> f64 {
                let o: Vec<f64> = o.iter().map(|o| f64::from(*o)).collect();
                let fit: f64 = o.iter().zip(y).map(|(o, y)| o * f64::from(*y)).sum();
                let other = if channels == 1 { 1.0 } else { 0.0 };
                (other + o.iter().map(|o| o.exp()).sum::<f64>()).ln() - fit
            };
            let expected: f64 = o.chunks_exact(channels).zip(y.chunks_exact(channels)).map(pixel).sum();
            assert!(
                (f64::from(*found) - expected).abs() < 1e-4 * expected.abs().max(1.0),
                "{found}, {expected}"
            );
        }
    }
}
