//! The codebook and the frame against golden values from PyTorch (`reference/method.py`).

use super::blocks::Init;
use super::codebook::{Codebook, Update, covariance_loss, orthogonality_threshold};
use super::simplex_etf;
use crate::fixture::{assert_close, golden, wave};
use crate::recipe::{Lookup, ModelRecipe};
use multivalued_engine::{Device, Parameters, Tensor, Var};

#[test]
fn covariance_loss_and_gradient() {
    let golden = &golden()["covariance"];
    let codes = Var::constant(Tensor::from_slice(&Device::cpu(), [5, 4], &wave(20, 0.3, 1.0, 0.0)));
    let (covariance, gradient) = covariance_loss(&codes, orthogonality_threshold(4));
    let gradient = gradient.expect("pairs above the threshold").tensor().to_vec();
    assert_eq!(covariance.violating as u64, golden["violating"].as_u64().unwrap());
    assert_close("loss", &[covariance.loss], &serde_json::json!([golden["loss"]]), 1e-5);
    assert_close("gradient", &gradient, &golden["gradient"], 1e-5);
}

/// The form without buffers gives what the paper's two buffers give.
#[test]
fn moving_average_of_the_codes() {
    let golden = &golden()["average"];
    let device = Device::cpu();
    let mut parameters = Parameters::new();
    let recipe = ModelRecipe { code_count: 4, code_dim: 3, lookup: Lookup::Euclidean, ..Default::default() };
    let codebook =
        Codebook::new(&mut Init { device: &device, parameters: &mut parameters, seed: 1 }, &recipe);
    let codes = parameters.find("codebook.codes").unwrap();
    parameters.set(codes, Tensor::from_slice(&device, [4, 3], &wave(12, 0.1, 1.0, 0.0)));
    let assigned: Vec<usize> = serde_json::from_value(golden["assigned"].clone()).unwrap();
    let mut responsibilities = vec![0.0; assigned.len() * 4];
    assigned.iter().enumerate().for_each(|(row, code)| responsibilities[row * 4 + code] = 1.0);
    let embeddings = Tensor::from_slice(&device, [5, 3], &wave(15, 0.9, 1.0, 0.0));
    for _ in 0..3 {
        let rule = Update { decay: Some(0.9), threshold: 1.0, step: 0.0 };
        let updated =
            codebook.update(&parameters, Some(codebook.statistics(&responsibilities, &embeddings)), &rule);
        codebook.set(&mut parameters, updated);
    }
    assert_close("codes", &codebook.codes_of(&parameters), &golden["codes"], 1e-5);
    let usage = parameters.get(parameters.find("codebook.usage").unwrap()).tensor().to_vec();
    assert_close("usage", &usage, &golden["usage"], 1e-5);
}

#[test]
fn gram_matrix_of_the_frame() {
    let frame = simplex_etf(5, 7, 1).unwrap();
    let product = |at: usize| (0..7).map(|k| frame[at / 5 * 7 + k] * frame[at % 5 * 7 + k]).sum();
    assert_close("gram", &(0..25).map(product).collect::<Vec<f32>>(), &golden()["frame"]["gram"], 1e-5);
}
