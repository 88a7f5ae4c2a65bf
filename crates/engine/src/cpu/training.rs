//! Adam, and averages of parameters.

use super::device::Cpu;
use super::elementwise::{sum_zip, update};
use crate::backend::{AdamStep, Memory, Training, Update};
use crate::shape::Shape;
use crate::tensor::Tensor;
use rayon::prelude::*;

/// Values that a task updates.
const CHUNK: usize = 16 * 1024;

impl Training for Cpu {
    fn adam(&self, mut updates: Vec<Update>, step: &AdamStep, loss: Option<&Tensor>) -> Tensor {
        let scalar = |value: f32| self.full(Shape::from([]), value);
        if let Some(loss) = loss.map(Tensor::item).filter(|loss| !loss.is_finite()) {
            return scalar(loss);
        }
        let square =
            |gradient: &Tensor| sum_zip(self.isa, gradient.values(), gradient.values(), |a, b| a * b);
        let norm = updates.iter().map(|update| square(update.gradient)).sum::<f64>().sqrt() as f32;
        // What may need memory comes first: where there is none, nothing has moved.
        let result = scalar(norm);
        if !norm.is_finite() {
            return result;
        }
        for Update { value, moments, .. } in &mut updates {
            value.values_mut();
            moments.iter_mut().for_each(|moment| _ = moment.values_mut());
        }
        let &AdamStep { max_norm, beta1, beta2, epsilon, corrections: [correction1, correction2] } = step;
        let clip = if norm > max_norm { max_norm / norm } else { 1.0 };
        for Update { value, moments: [m, v], gradient, rate, decay } in updates {
            let (step, decay) = (rate / correction1, rate * decay);
            let update = |p: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32]| {
                for i in 0..p.len() {
                    let g = g[i] * clip;
                    m[i] = beta1 * m[i] + (1.0 - beta1) * g;
                    v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
                    p[i] -= step * m[i] / (v[i].sqrt() / correction2 + epsilon) + decay * p[i];
                }
            };
            let values = value.values_mut().par_chunks_mut(CHUNK);
            values
                .zip(m.values_mut().par_chunks_mut(CHUNK))
                .zip(v.values_mut().par_chunks_mut(CHUNK))
                .zip(gradient.values().par_chunks(CHUNK))
                .for_each(|(((p, m), v), g)| update(p, m, v, g));
        }
        result
    }

    fn lerp(&self, mut pairs: Vec<(&mut Tensor, &Tensor)>, share: f32) {
        // What may need memory comes first: where there is none, nothing has moved.
        pairs.iter_mut().for_each(|(a, _)| _ = a.values_mut());
        for (a, b) in pairs {
            update(self.isa, a.values_mut(), b.values(), |a, b| a + share * (b - a));
        }
    }
}
