//! The codebook by hand, by differences, and by both ways of computing it.

use super::*;

#[test]
fn orthogonal_codes_have_no_covariance_loss() {
    let (covariance, gradient) = covariance_loss(&[1.0, 0.0, 0.0, 2.0], 2, 0.1);
    assert_eq!(covariance, Covariance { loss: 0.0, violating: 0 });
    assert_eq!(gradient, [0.0; 4]);
}

#[test]
fn tensor_operations_do_the_same() {
    let device = Device::cpu();
    for lookup in [Lookup::Cosine, Lookup::Euclidean] {
        let (n, m, rows) = (9, 6, 14);
        let recipe = ModelRecipe { code_count: n, code_dim: m, lookup, ..Default::default() };
        let mut parameters = Parameters::new();
        let codebook =
            Codebook::new(&mut Init { device: &device, parameters: &mut parameters, seed: 1 }, &recipe);
        let mut draw = Draw::new(1, &["test"], 0);
        let mut tensor = |shape: [usize; 2], low: f64| {
            let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| draw.uniform(low, 1.0) as f32).collect();
            Tensor::from_slice(&device, shape, &values)
        };
        // Some codes are out of use, some get no hit.
        let usage = tensor([n, 1], 0.0).reshaped([n]).to_vec();
        let usage: Vec<f32> = usage.iter().enumerate().map(|(j, u)| if j < 2 { 1e-3 } else { *u }).collect();
        let usage = Tensor::from_slice(&device, [n], &usage);
        let mut codes = Var::constant(tensor([n, m], -0.5));
        if lookup == Lookup::Cosine {
            codes = codes.l2_normalise();
        }
        let (codes, embeddings) = (codes.into_tensor(), tensor([rows, m], -1.0));
        let active: Vec<usize> = (1..n).collect();
        parameters.set(codebook.codes, codes.clone());
        let (nearest, _) = codebook.nearest(&parameters, &embeddings, &active, &[]);
        let [lengths, products] = tensors::compared(&codes, &embeddings).map(|tensor| tensor.to_vec());
        for (row, &found) in nearest.iter().enumerate() {
            let distance = |j: usize| lengths[j] - 2.0 * products[row * n + j];
            assert!(active.iter().all(|&j| distance(found) <= distance(j) + 1e-5), "row {row}: {found}");
        }
        let mut responsibilities = vec![0.0; rows * n];
        nearest.iter().enumerate().for_each(|(row, code)| responsibilities[row * n + code] = 0.7);
        for (decay, step) in [(Some(0.9), 0.3), (Some(0.99), 0.0), (None, 0.0)] {
            let rule = Update { decay, threshold: 0.2, step };
            let by = codebook.updated(&codes, &usage, &responsibilities, &embeddings, &rule);
            let tensors =
                codebook.updated_tensors(codes.clone(), usage.clone(), &responsibilities, &embeddings, &rule);
            assert!(
                by.2.violating > 0 && by.2.violating == tensors.2.violating,
                "{:?} {:?}",
                by.2,
                tensors.2
            );
            assert!((by.2.loss - tensors.2.loss).abs() < 1e-5, "{:?} {:?}", by.2, tensors.2);
            for (a, b) in [(by.0, tensors.0), (by.1, tensors.1)] {
                for (a, b) in a.iter().zip(b.to_vec()) {
                    assert!((a - b).abs() < 1e-5, "{lookup:?}, {decay:?}: {a}, not {b}");
                }
            }
        }
    }
}

#[test]
fn the_gradient_is_that_of_the_loss() {
    let mut draw = Draw::new(1, &["test"], 0);
    let codes: Vec<f32> = (0..5 * 3).map(|_| draw.uniform(-1.0, 1.0) as f32).collect();
    let threshold = 0.05;
    let (_, gradient) = covariance_loss(&codes, 3, threshold);
    for i in 0..codes.len() {
        let at = |delta: f32| {
            let mut moved = codes.clone();
            moved[i] += delta;
            f64::from(covariance_loss(&moved, 3, threshold).0.loss)
        };
        let slope = (at(1e-3) - at(-1e-3)) / 2e-3;
        assert!((slope - f64::from(gradient[i])).abs() < 2e-3, "{i}: {slope} against {}", gradient[i]);
    }
}
