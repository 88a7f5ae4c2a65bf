//! Axis-aligned Gaussians over a latent space, and the encoders that give them.

use crate::model::{ImageEncoder, Init, Linear};
use crate::recipe::ModelRecipe;
use multivalued_data::draw::Draw;
use multivalued_engine::{Device, Tape, Tensor, Var};

/// A Gaussian per row, its dimensions independent.
pub(super) struct Gaussian {
    /// μ [rows, latent_dim]
    pub mean: Var,
    /// ln σ [rows, latent_dim]
    pub log_deviation: Var,
}

impl Gaussian {
    /// A reparametrised sample, through which gradients reach mean and deviation.
    ///
    /// ```text
    /// z = μ + σ ε
    /// ```
    ///
    /// # Shapes
    /// noise ε [rows·K, latent_dim] → [rows·K, latent_dim], K samples per row
    pub fn sample(&self, noise: Tensor) -> Var {
        let times = noise.shape()[0] / self.mean.shape()[0];
        let rows: Vec<usize> = (0..noise.shape()[0]).map(|row| row / times).collect();
        let repeated = |of: &Var| if times == 1 { of.clone() } else { of.gather_rows(&rows) };
        repeated(&self.mean).add(&repeated(&self.log_deviation.exp()).mul(&Var::constant(noise)))
    }

    /// How far it diverges from another one, row by row.
    ///
    /// ```text
    /// KL(q ‖ p) = Σ_d ln σ_p − ln σ_q + (σ_q² + (μ_q − μ_p)²) / (2 σ_p²) − ½
    /// ```
    ///
    /// # Shapes
    /// [rows, latent_dim] twice → [rows]
    pub fn divergence_from(&self, other: &Self) -> Var {
        let log_ratio = self.log_deviation.sub(&other.log_deviation); // ln σ_q / σ_p
        let variances = log_ratio.scale(2.0).exp();
        let shift = self.mean.sub(&other.mean).mul(&other.log_deviation.scale(-1.0).exp());
        let quadratic = variances.add(&shift.mul(&shift)).scale(0.5);
        quadratic.sub(&log_ratio).add_scalar(-0.5).sum_rows()
    }
}

/// Standard normal noise, to the precision of `Draw::bell`.
///
/// # Shapes
/// → [rows, latent_dim]
pub(super) fn noise(device: &Device, rows: usize, latent_dim: usize, draw: &mut Draw) -> Tensor {
    let values: Vec<f32> = (0..rows * latent_dim).map(|_| draw.bell() as f32).collect();
    Tensor::from_slice(device, [rows, latent_dim], &values)
}

/// An encoder whose pooled deepest features give a Gaussian.
pub(super) struct GaussianEncoder {
    encoder: ImageEncoder,
    mean: Linear,
    log_deviation: Linear,
}

impl GaussianEncoder {
    pub fn new(init: &mut Init, name: &str, inputs: usize, recipe: &ModelRecipe, latent_dim: usize) -> Self {
        let deepest = recipe.channels[recipe.channels.len() - 1];
        Self {
            encoder: ImageEncoder::new(init, name, inputs, &recipe.channels, recipe.norm_group),
            mean: Linear::new(init, &format!("{name}.mean"), deepest, latent_dim),
            log_deviation: Linear::new(init, &format!("{name}.log_deviation"), deepest, latent_dim),
        }
    }

    /// # Shapes
    /// [rows, height, width, inputs] → one Gaussian per row
    pub fn forward(&self, tape: &Tape, x: &Var) -> Gaussian {
        let levels = self.encoder.forward(tape, x);
        let pooled = levels[levels.len() - 1].global_average_pool();
        Gaussian {
            mean: self.mean.forward(tape, &pooled),
            log_deviation: self.log_deviation.forward(tape, &pooled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_engine::Parameters;

    fn gaussian(rows: usize, mean: &[f32], log_deviation: &[f32]) -> Gaussian {
        let matrix = |values: &[f32]| {
            Var::constant(Tensor::from_slice(&Device::cpu(), [rows, values.len() / rows], values))
        };
        Gaussian { mean: matrix(mean), log_deviation: matrix(log_deviation) }
    }

    #[test]
    fn the_divergence_is_that_of_the_formula() {
        let q = gaussian(2, &[0.5, -1.0, 0.0, 2.0], &[0.1, -0.7, 0.0, 0.3]);
        let p = gaussian(2, &[0.0, 0.5, 0.0, 1.0], &[-0.2, 0.4, 0.0, 0.9]);
        let found = q.divergence_from(&p).tensor().to_vec();
        let one = |m: f64, l: f64, n: f64, k: f64| {
            let (s, t) = (l.exp(), k.exp());
            k - l + (s * s + (m - n) * (m - n)) / (2.0 * t * t) - 0.5
        };
        let expected = [one(0.5, 0.1, 0.0, -0.2) + one(-1.0, -0.7, 0.5, 0.4), one(2.0, 0.3, 1.0, 0.9) + 0.0];
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{found}, {expected}");
        }
        assert_eq!(q.divergence_from(&q).tensor().to_vec(), [0.0, 0.0]);
    }

    #[test]
    fn samples_have_the_mean_and_the_deviation_and_carry_gradients_to_both() {
        let mut draw = Draw::new(1, &["test"], 0);
        let device = Device::cpu();
        let samples =
            gaussian(2, &[3.0, -1.0], &[0.0, 0.5f32.ln()]).sample(noise(&device, 40_000, 1, &mut draw));
        let values = samples.tensor().to_vec();
        for (row, (mean, deviation)) in [(3.0, 1.0), (-1.0, 0.5)].into_iter().enumerate() {
            let own: Vec<f64> = values[row * 20_000..][..20_000].iter().map(|v| f64::from(*v)).collect();
            let found = own.iter().sum::<f64>() / 20_000.0;
            let spread = (own.iter().map(|v| (v - found).powi(2)).sum::<f64>() / 20_000.0).sqrt();
            assert!((found - mean).abs() < 0.03 && (spread - deviation).abs() < 0.02, "{found} {spread}");
        }

        let mut parameters = Parameters::new();
        let mean = parameters.add("mean", Tensor::full(&device, [1, 1], 0.5));
        let log_deviation = parameters.add("log_deviation", Tensor::full(&device, [1, 1], 0.2));
        let tape = Tape::recording(&parameters);
        let q = Gaussian { mean: tape.get(mean), log_deviation: tape.get(log_deviation) };
        let loss = q.sample(Tensor::full(&device, [1, 1], 1.5)).sum();
        let gradients = tape.backward(&loss);
        assert_eq!(gradients.get(mean).unwrap().item(), 1.0);
        let by_deviation = gradients.get(log_deviation).unwrap().item();
        assert!((by_deviation - 1.5 * 0.2f32.exp()).abs() < 1e-5, "{by_deviation}");
    }
}
