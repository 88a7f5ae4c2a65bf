//! The codebook against its formulas, computed code by code, and against differences.

use super::*;
use multivalued_engine::Device;

fn codes_of(values: &[f32], dim: usize) -> Var {
    Var::constant(Tensor::from_slice(&Device::cpu(), [values.len() / dim, dim], values))
}

fn length(code: &[f32]) -> f32 {
    code.iter().map(|c| c * c).sum::<f32>().sqrt().max(1e-12)
}

fn inner(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A codebook's rules, code by code.
struct ByHand {
    n: usize,
    m: usize,
    unit_length: bool,
    codes: Vec<f32>,
    usage: Vec<f32>,
}

impl ByHand {
    fn finish(&mut self, j: usize) {
        let code = &mut self.codes[j * self.m..][..self.m];
        let length = if self.unit_length { length(code) } else { 1.0 };
        code.iter_mut().for_each(|c| *c /= length);
    }

    fn follow(&mut self, responsibilities: &[f32], embeddings: &[f32], decay: f32) {
        let (n, m) = (self.n, self.m);
        for j in 0..n {
            let of_code = || responsibilities.chunks_exact(n).map(|row| row[j]);
            let hits: f32 = of_code().sum();
            self.usage[j] = decay * self.usage[j] + (1.0 - decay) * hits;
            if hits == 0.0 {
                continue;
            }
            let step = (1.0 - decay) / self.usage[j].max(1e-3);
            for k in 0..m {
                let sum: f32 = of_code().zip(embeddings.chunks_exact(m)).map(|(r, z)| r * z[k]).sum();
                self.codes[j * m + k] += step * (sum - hits * self.codes[j * m + k]);
            }
            self.finish(j);
        }
    }

    /// The loss, the pairs that violate, and the gradient.
    fn covariance(&self, threshold: f32) -> (f32, usize, Vec<f32>) {
        let rows: Vec<&[f32]> = self.codes.chunks_exact(self.m).collect();
        let unit: Vec<Vec<f32>> =
            rows.iter().map(|code| code.iter().map(|c| c / length(code)).collect()).collect();
        let mut pull = vec![vec![0.0f32; self.m]; self.n];
        let (mut total, mut violating) = (0.0f32, 0);
        for i in 0..self.n {
            for j in (0..self.n).filter(|&j| j != i) {
                let product = inner(&unit[i], &unit[j]);
                if product.abs() > threshold {
                    total += product * product;
                    violating += 1;
                    pull[i].iter_mut().zip(&unit[j]).for_each(|(pull, u)| *pull += product * u);
                }
            }
        }
        let count = violating.max(1) as f32;
        let gradient = (0..self.n).flat_map(|i| {
            let (along, pull, unit) = (inner(&pull[i], &unit[i]), pull[i].clone(), unit[i].clone());
            let factor = 4.0 / count / length(rows[i]);
            pull.into_iter().zip(unit).map(move |(pull, u)| factor * (pull - along * u))
        });
        (total / count, violating, gradient.collect())
    }

    fn separate(&mut self, rule: &Update) -> (f32, usize) {
        let (loss, violating, gradient) = self.covariance(rule.threshold);
        for j in 0..self.n {
            if rule.step <= 0.0 || violating == 0 || self.usage[j] <= MIN_USAGE {
                continue;
            }
            for k in 0..self.m {
                self.codes[j * self.m + k] -= rule.step * gradient[j * self.m + k];
            }
            self.finish(j);
        }
        (loss, violating)
    }
}

#[test]
fn orthogonal_codes_have_no_covariance_loss() {
    let (covariance, gradient) = covariance_loss(&codes_of(&[1.0, 0.0, 0.0, 2.0], 2), 0.1);
    assert_eq!(covariance, Covariance { loss: 0.0, violating: 0 });
    assert!(gradient.is_none());
}

#[test]
fn lookup_average_and_covariance_step_follow_their_formulas() {
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
        let mut codes = Var::constant(tensor([n, m], -0.5));
        if lookup == Lookup::Cosine {
            codes = codes.l2_normalise();
        }
        let (codes, embeddings) = (codes.into_tensor(), tensor([rows, m], -1.0));
        parameters.set(codebook.codes, codes.clone());
        parameters.set(codebook.usage, Tensor::from_slice(&device, [n], &usage));
        let (codes, z) = (codes.to_vec(), embeddings.to_vec());

        let active: Vec<usize> = (1..n).collect();
        let (distances, _) = codebook.distances(&parameters, &embeddings, &active, &[]);
        assert_eq!(distances.len(), rows * active.len());
        for (row, found) in distances.chunks_exact(active.len()).enumerate() {
            let z = &z[row * m..][..m];
            for (&j, found) in active.iter().zip(found) {
                let code = &codes[j * m..][..m];
                let expected = code.iter().zip(z).map(|(c, z)| (z - c) * (z - c) - z * z).sum::<f32>();
                assert!((expected - found).abs() < 1e-4, "row {row}, code {j}: {expected}, {found}");
            }
        }

        let mut responsibilities = vec![0.0; rows * n];
        (0..rows).for_each(|row| responsibilities[row * n + active[(row * row) % active.len()]] = 0.7);
        for (decay, step) in [(Some(0.9), 0.3), (Some(0.99), 0.0), (None, 0.0)] {
            let rule = Update { decay, threshold: 0.2, step };
            let unit_length = lookup == Lookup::Cosine;
            let mut hand = ByHand { n, m, unit_length, codes: codes.clone(), usage: usage.clone() };
            if let Some(decay) = decay {
                hand.follow(&responsibilities, &z, decay);
            }
            let (loss, violating) = hand.separate(&rule);
            let found = codebook.update(
                &parameters,
                Some(codebook.statistics(&responsibilities, &embeddings)),
                &rule,
            );
            assert!(violating > 0 && violating == found.covariance.violating, "{:?}", found.covariance);
            assert!((loss - found.covariance.loss).abs() < 1e-5, "{loss}, {:?}", found.covariance);
            for (a, b) in [(hand.codes, found.codes), (hand.usage, found.usage)] {
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
    let (_, gradient) = covariance_loss(&codes_of(&codes, 3), threshold);
    let gradient = gradient.expect("pairs above the threshold").tensor().to_vec();
    for i in 0..codes.len() {
        let at = |delta: f32| {
            let mut moved = codes.clone();
            moved[i] += delta;
            f64::from(covariance_loss(&codes_of(&moved, 3), threshold).0.loss)
        };
        let slope = (at(1e-3) - at(-1e-3)) / 2e-3;
        assert!((slope - f64::from(gradient[i])).abs() < 2e-3, "{i}: {slope} against {}", gradient[i]);
    }
}
