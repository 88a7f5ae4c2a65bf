//! Losses, one value per sample; `.mean()` averages them over the batch.

use crate::cpu::elementwise::{for_each_row, sum_zip, zip};
use crate::cpu::math::{self, sigmoid, softplus};
use crate::cuda::ops as gpu;
use crate::tape::Var;
use crate::tensor::Tensor;

/// Softmax of each row, in f32 with the row's maximum taken out.
fn softmax_rows(logits: &Tensor) -> Tensor {
    let [_, classes] = logits.shape().matrix("softmax");
    let isa = logits.isa();
    logits.filled(logits.shape(), |out| {
        for_each_row(
            isa,
            out,
            classes,
            #[inline(always)]
            |row, out| {
                let logits = &logits.values()[row * classes..][..classes];
                let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                for (out, &logit) in out.iter_mut().zip(logits) {
                    *out = math::exp(logit - largest);
                }
                let total: f32 = out.iter().sum();
                out.iter_mut().for_each(|out| *out /= total);
            },
        );
    })
}

/// ln Σ exp of each row.
fn log_sum_exp(row: &[f32]) -> f32 {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = row.iter().map(|&x| f64::from(x - largest).exp()).sum();
    largest + total.ln() as f32
}

impl Var {
    /// Probabilities from logits.
    ///
    /// ```text
    /// y[i, j] = exp(x[i, j]) / Σ_k exp(x[i, k])
    /// ```
    ///
    /// # Shapes
    /// [rows, classes] → the same
    pub fn softmax(&self) -> Self {
        if self.tensor().on_gpu().is_some() {
            return gpu::loss::softmax(self, self.shape().matrix("softmax"));
        }
        let out = softmax_rows(self.tensor());
        let (to_x, y) = (self.target(), out.clone());
        let classes = self.shape().last();
        Self::record(&[self], out, move |mut dy, flow| {
            // dx = y (dy − Σ y dy)
            for (dy, y) in dy.values_mut().chunks_exact_mut(classes).zip(y.values().chunks_exact(classes)) {
                let along: f32 = dy.iter().zip(y).map(|(dy, y)| dy * y).sum();
                dy.iter_mut().zip(y).for_each(|(dy, y)| *dy = y * (*dy - along));
            }
            flow.add(to_x, || dy);
        })
    }

    /// Softmax cross-entropy against one class per row.
    ///
    /// ```text
    /// loss[i] = ln Σ_k exp(x[i, k]) − x[i, class_i]
    /// ```
    ///
    /// # Shapes
    /// logits [rows, classes], one class index per row → [rows]
    pub fn cross_entropy(&self, classes: &[usize]) -> Self {
        let [rows, count] = self.shape().matrix("cross_entropy");
        assert!(
            classes.len() == rows,
            "cross_entropy: {} classes for logits of shape {}",
            classes.len(),
            self.shape()
        );
        if let Some(wrong) = classes.iter().find(|&&class| class >= count) {
            panic!("cross_entropy: class {wrong} for logits of shape {}", self.shape());
        }
        let mut targets = vec![0.0; rows * count];
        for (row, &class) in classes.iter().enumerate() {
            targets[row * count + class] = 1.0;
        }
        self.cross_entropy_soft(&Tensor::from_slice(&self.device(), [rows, count], &targets))
    }

    /// Softmax cross-entropy against a distribution per row.
    ///
    /// ```text
    /// loss[i] = Σ_k target[i, k] · (ln Σ_l exp(x[i, l]) − x[i, k])
    /// ```
    ///
    /// # Shapes
    /// logits and targets [rows, classes] → [rows]
    pub fn cross_entropy_soft(&self, targets: &Tensor) -> Self {
        let [rows, count] = self.shape().matrix("cross_entropy_soft");
        assert!(
            targets.shape() == self.shape(),
            "cross_entropy_soft: targets of shape {} for logits of shape {}",
            targets.shape(),
            self.shape()
        );
        if self.tensor().on_gpu().is_some() {
            return gpu::loss::cross_entropy_soft(self, targets, [rows, count]);
        }
        let out = self.tensor().filled([rows], |out| {
            let rows = self.values().chunks_exact(count).zip(targets.values().chunks_exact(count));
            for (out, (logits, targets)) in out.iter_mut().zip(rows) {
                let normaliser = log_sum_exp(logits);
                *out = logits
                    .iter()
                    .zip(targets)
                    .map(|(x, t)| if *t == 0.0 { 0.0 } else { t * (normaliser - x) })
                    .sum();
            }
        });
        let (to_x, logits, targets) = (self.target(), self.tensor().clone(), targets.clone());
        Self::record(&[self], out, move |dy, flow| {
            flow.add(to_x, || {
                let mut dx = softmax_rows(&logits);
                let targets = targets.values().chunks_exact(count);
                for ((dx, targets), &dy) in
                    dx.values_mut().chunks_exact_mut(count).zip(targets).zip(dy.values())
                {
                    let mass: f32 = targets.iter().sum();
                    dx.iter_mut().zip(targets).for_each(|(dx, t)| *dx = dy * (*dx * mass - t));
                }
                dx
            });
        })
    }

    /// Binary cross-entropy of logits, averaged within each sample; with K samples of logits for each
    /// target, that target is used K times.
    ///
    /// ```text
    /// loss[i] = mean_p softplus(x[i, p]) − t[i / K, p] · x[i, p]
    /// ```
    ///
    /// # Shapes
    /// logits [batch·K, …], targets [batch, …] → [batch·K]
    pub fn bce_with_logits(&self, targets: &Tensor) -> Self {
        let (shape, target_shape) = (self.shape(), targets.shape());
        assert!(
            shape.len() == target_shape.len()
                && !shape.is_empty()
                && shape[1..] == target_shape[1..]
                && target_shape[0] > 0
                && shape[0] % target_shape[0] == 0,
            "bce_with_logits: targets of shape {target_shape} for logits of shape {shape}"
        );
        let (samples, repeats) = (shape[0], shape[0] / target_shape[0]);
        if self.tensor().on_gpu().is_some() {
            return gpu::loss::bce_with_logits(self, targets, samples, repeats);
        }
        let size = shape.volume() / samples;
        let isa = self.tensor().isa();
        let sample = move |i: usize| i * size..(i + 1) * size;
        let out = self.tensor().filled([samples], |out| {
            for (i, out) in out.iter_mut().enumerate() {
                let (x, t) = (&self.values()[sample(i)], &targets.values()[sample(i / repeats)]);
                *out = (sum_zip(isa, x, t, |x, t| softplus(x) - t * x) / size as f64) as f32;
            }
        });
        let (to_x, logits, targets) = (self.target(), self.tensor().clone(), targets.clone());
        Self::record(&[self], out, move |dy, flow| {
            flow.add(to_x, || {
                logits.filled(shape, |dx| {
                    for (i, dx) in dx.chunks_exact_mut(size).enumerate() {
                        let (x, t) = (&logits.values()[sample(i)], &targets.values()[sample(i / repeats)]);
                        let factor = dy.values()[i] / size as f32;
                        zip(isa, x, t, dx, |x, t| factor * (sigmoid(x) - t));
                    }
                })
            });
        })
    }

    /// Squared error, averaged within each sample.
    ///
    /// ```text
    /// loss[i] = mean_p (x[i, p] − y[i, p])²
    /// ```
    ///
    /// # Shapes
    /// two tensors [batch, …] → [batch]
    pub fn squared_error(&self, other: &Self) -> Self {
        let shape = self.shape();
        assert!(
            shape == other.shape(),
            "squared_error takes two tensors of one shape, not {shape} and {}",
            other.shape()
        );
        let samples = *shape.first().unwrap_or_else(|| panic!("squared_error takes samples, not {shape}"));
        if self.tensor().on_gpu().is_some() {
            return gpu::loss::squared_error(self, other, samples);
        }
        let size = shape.volume() / samples.max(1);
        let isa = self.tensor().isa();
        let out = self.tensor().filled([samples], |out| {
            let pairs = self.values().chunks_exact(size).zip(other.values().chunks_exact(size));
            for (out, (x, y)) in out.iter_mut().zip(pairs) {
                *out = (sum_zip(isa, x, y, |x, y| (x - y) * (x - y)) / size as f64) as f32;
            }
        });
        let (x, y) = (self.tensor().clone(), other.tensor().clone());
        let (to_x, to_y) = (self.target(), other.target());
        Self::record(&[self, other], out, move |d, flow| {
            let gradient = |sign: f32| {
                x.filled(shape, |dx| {
                    let pairs = x.values().chunks_exact(size).zip(y.values().chunks_exact(size));
                    for ((dx, (x, y)), &d) in dx.chunks_exact_mut(size).zip(pairs).zip(d.values()) {
                        let factor = sign * 2.0 * d / size as f32;
                        zip(isa, x, y, dx, |x, y| factor * (x - y));
                    }
                })
            };
            flow.add(to_x, || gradient(1.0));
            flow.add(to_y, || gradient(-1.0));
        })
    }
}
