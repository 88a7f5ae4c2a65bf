//! Adam, and averages of parameters.

use super::device::Cpu;
use super::elementwise::{Compiled, sum_zip, update};
use super::parallel::{Output, for_each_task};
use crate::backend::{AdamStep, Memory, Training, Update};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Values that a task updates.
const CHUNK: usize = 16 * 1024;

/// A parameter's values, moments and gradient, of which a task moves [`CHUNK`] from `first` on.
struct Chunk<'a> {
    moved: [Output<'a>; 3],
    gradient: &'a [f32],
    first: usize,
    step: f32,
    decay: f32,
}

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
        // The chunks of all parameters are tasks of one loop: most parameters have a few values.
        let chunks: Vec<Chunk> = updates
            .into_iter()
            .flat_map(|Update { value, moments: [m, v], gradient, rate, decay }| {
                let gradient = gradient.values();
                let moved = [value, m, v].map(|tensor| Output::new(tensor.values_mut()));
                let (step, decay) = (rate / correction1, rate * decay);
                let firsts = (0..gradient.len()).step_by(CHUNK);
                firsts.map(move |first| Chunk { moved, gradient, first, step, decay })
            })
            .collect();
        for_each_task(chunks.len(), |task| {
            let Chunk { moved, gradient, first, step, decay } = &chunks[task];
            let g = &gradient[*first..gradient.len().min(first + CHUNK)];
            // SAFETY: no other task has this chunk.
            let [p, m, v] = moved.each_ref().map(|values| unsafe { values.slice(*first, g.len()) });
            self.isa.run(Compiled(
                #[inline(always)]
                || {
                    for (((p, m), v), g) in p.iter_mut().zip(m).zip(v).zip(g) {
                        let g = g * clip;
                        *m = beta1 * *m + (1.0 - beta1) * g;
                        *v = beta2 * *v + (1.0 - beta2) * g * g;
                        *p -= step * *m / (v.sqrt() / correction2 + epsilon) + decay * *p;
                    }
                },
            ));
        });
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
