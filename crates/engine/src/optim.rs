//! Adam, with parameter groups, clipping of the gradients' norm and optional decoupled weight decay.

use crate::backend::{AdamStep, Update};
use crate::parameters::Parameters;
use crate::tape::Gradients;
use crate::tensor::{Device, Tensor};

/// How a group of parameters is trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// Multiplies the step's learning rate.
    pub rate: f32,
    /// Decoupled weight decay: each step takes `learning rate · decay` of every value away.
    pub weight_decay: f32,
}

impl Default for Group {
    fn default() -> Self {
        Self { rate: 1.0, weight_decay: 0.0 }
    }
}

/// Adam's settings; the defaults are those of its paper.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamOptions {
    /// Decay of the gradients' running mean.
    pub beta1: f32,
    /// Decay of the squared gradients' running mean.
    pub beta2: f32,
    /// Keeps the step finite where gradients vanish.
    pub epsilon: f32,
    /// The max norm: gradients are scaled down, all by one factor, where their norm is larger.
    pub clip_norm: Option<f32>,
    /// Settings by parameter group; missing groups take the default.
    pub groups: Vec<Group>,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, clip_norm: None, groups: Vec::new() }
    }
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stepped {
    /// The parameters moved; the gradients had this norm before clipping.
    Moved {
        /// The norm of all gradients as one vector.
        gradient_norm: f32,
    },
    /// A gradient was NaN or infinite: nothing was changed.
    NotFinite,
}

/// The optimiser: running means of gradients (m) and of their squares (v).
///
/// ```text
/// m ← β₁ m + (1 − β₁) g        v ← β₂ v + (1 − β₂) g²
/// p ← p − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε) − rate · decay · p
/// ```
#[derive(Debug, Clone)]
pub struct Adam {
    options: AdamOptions,
    pub(crate) steps: u64,
    /// First and second moment of each parameter; none for those that are not trained.
    pub(crate) moments: Vec<Option<[Tensor; 2]>>,
}

impl Adam {
    /// An optimiser for these parameters, its moments at zero.
    pub fn new(parameters: &Parameters, options: AdamOptions) -> Self {
        let moments = parameters
            .iter()
            .map(|parameter| {
                let zeros = || Tensor::zeros(&parameter.tensor().device(), parameter.tensor().shape());
                parameter.trainable().then(|| [zeros(), zeros()])
            })
            .collect();
        Self { options, steps: 0, moments }
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Moves the parameters against their gradients. Parameters without a gradient stay. Waits for the device, and is
    /// meant for tests and benchmarks; trainings call [`update`](Self::update).
    pub fn step(&mut self, parameters: &mut Parameters, gradients: &Gradients, rate: f32) -> Stepped {
        let device = parameters.iter().next().map_or_else(Device::cpu, |first| first.tensor().device());
        let updated = self.queue(&device, parameters, gradients, rate, None);
        let norm = updated.norm.item();
        updated.finish(norm)
    }

    /// As [`step`](Self::step), without waiting for the device. A loss that is not finite also keeps the parameters
    /// where they are. Whether they moved is known once the norm is read, together with whatever else is to be read.
    pub fn update(
        &mut self,
        parameters: &mut Parameters,
        gradients: &Gradients,
        rate: f32,
        loss: &Tensor,
    ) -> Updated<'_> {
        self.queue(&loss.device(), parameters, gradients, rate, Some(loss))
    }

    fn queue(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        gradients: &Gradients,
        rate: f32,
        loss: Option<&Tensor>,
    ) -> Updated<'_> {
        let AdamOptions { beta1, beta2, epsilon, clip_norm, .. } = self.options;
        let (corrections, max_norm) = (self.corrections(), clip_norm.unwrap_or(f32::INFINITY));
        let step = AdamStep { max_norm, beta1, beta2, epsilon, corrections };
        let groups = &self.options.groups;
        let updates = parameters
            .with_ids_mut()
            .zip(&mut self.moments)
            .filter_map(|((id, group, value), moments)| {
                let (gradient, moments) = (gradients.get(id)?, moments.as_mut()?);
                let group = groups.get(group).copied().unwrap_or_default();
                let rate = rate * group.rate;
                Some(Update { value, moments, gradient, rate, decay: group.weight_decay })
            })
            .collect();
        let norm = device.backend().adam(updates, &step, loss);
        Updated { steps: &mut self.steps, norm }
    }

    /// What the moments are divided by in the next step t: 1 − β₁ᵗ and √(1 − β₂ᵗ).
    fn corrections(&self) -> [f32; 2] {
        let t = (self.steps + 1).min(i32::MAX as u64) as i32;
        let of = |beta: f32| 1.0 - f64::from(beta).powi(t);
        [of(self.options.beta1) as f32, of(self.options.beta2).sqrt() as f32]
    }
}

/// A step that was given to the device.
#[must_use = "a step counts when it is finished"]
pub struct Updated<'a> {
    steps: &'a mut u64,
    norm: Tensor,
}

impl Updated<'_> {
    /// The norm of all gradients before clipping, a single value; not finite where nothing moved.
    pub fn norm(&self) -> &Tensor {
        &self.norm
    }

    /// Counts the step, given the value of [`norm`](Self::norm).
    pub fn finish(self, norm: f32) -> Stepped {
        if !norm.is_finite() {
            return Stepped::NotFinite;
        }
        *self.steps += 1;
        Stepped::Moved { gradient_norm: norm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tape, Var};

    fn quadratic_step(adam: &mut Adam, parameters: &mut Parameters, target: f32) -> Stepped {
        let id = parameters.find("p").unwrap();
        let tape = Tape::recording(parameters);
        let goal = Var::constant(Tensor::full(&Device::cpu(), [1], target));
        let loss = tape.get(id).squared_error(&goal).sum();
        let gradients = tape.backward(&loss);
        adam.step(parameters, &gradients, 0.1)
    }

    fn one_parameter(value: f32) -> Parameters {
        let mut parameters = Parameters::new();
        parameters.add("p", Tensor::full(&Device::cpu(), [1], value));
        parameters
    }

    #[test]
    fn finds_the_bottom_of_a_parabola() {
        let mut parameters = one_parameter(0.0);
        let mut adam = Adam::new(&parameters, AdamOptions::default());
        for _ in 0..300 {
            quadratic_step(&mut adam, &mut parameters, 3.0);
        }
        assert!((parameters.iter().next().unwrap().tensor().item() - 3.0).abs() < 0.01);
    }

    #[test]
    fn the_first_step_has_the_length_of_the_rate_whatever_the_gradient() {
        for target in [1e-3, 1.0, 1e3] {
            let mut parameters = one_parameter(0.0);
            let mut adam = Adam::new(&parameters, AdamOptions::default());
            quadratic_step(&mut adam, &mut parameters, target);
            assert!((parameters.iter().next().unwrap().tensor().item() - 0.1).abs() < 1e-3);
        }
    }

    #[test]
    fn a_gradient_that_is_not_finite_changes_nothing() {
        let mut parameters = one_parameter(1.0);
        let mut adam = Adam::new(&parameters, AdamOptions::default());
        assert_eq!(quadratic_step(&mut adam, &mut parameters, f32::NAN), Stepped::NotFinite);
        assert_eq!(parameters.iter().next().unwrap().tensor().item(), 1.0);
        assert_eq!(adam.steps(), 0);
    }

    #[test]
    fn a_loss_that_is_not_finite_changes_nothing_and_values_are_read() {
        let mut parameters = one_parameter(1.0);
        let mut adam = Adam::new(&parameters, AdamOptions::default());
        for (loss, moves) in [(f32::INFINITY, false), (2.0, true)] {
            let tape = Tape::recording(&parameters);
            let sum = tape.get(parameters.find("p").unwrap()).sum();
            let gradients = tape.backward(&sum);
            let [loss, other] = [loss, 5.0].map(|value| Tensor::full(&Device::cpu(), [1], value));
            let updated = adam.update(&mut parameters, &gradients, 0.1, &loss);
            let mut read = Tensor::to_vecs(&[updated.norm(), &loss, &other]);
            let stepped = updated.finish(read.remove(0)[0]);
            assert_eq!(matches!(stepped, Stepped::Moved { .. }), moves);
            assert_eq!(read, [loss.to_vec(), vec![5.0]]);
            assert_eq!(parameters.iter().next().unwrap().tensor().item() != 1.0, moves);
        }
    }

    #[test]
    fn clipping_reports_the_norm_and_scales_the_moments() {
        let mut parameters = one_parameter(0.0);
        let mut adam = Adam::new(&parameters, AdamOptions { clip_norm: Some(0.5), ..AdamOptions::default() });
        let stepped = quadratic_step(&mut adam, &mut parameters, 10.0);
        assert_eq!(stepped, Stepped::Moved { gradient_norm: 20.0 });
        assert!((adam.moments[0].as_ref().unwrap()[0].item() + 0.05).abs() < 1e-7);
    }

    #[test]
    fn groups_have_their_own_rate_and_decay() {
        let device = Device::cpu();
        let mut parameters = Parameters::new();
        let frozen = parameters.add_to_group("frozen", Tensor::full(&device, [1], 1.0), 1);
        let decayed = parameters.add_to_group("decayed", Tensor::full(&device, [1], 1.0), 2);
        let groups = vec![
            Group::default(),
            Group { rate: 0.0, weight_decay: 0.0 },
            Group { rate: 1.0, weight_decay: 0.5 },
        ];
        let mut adam = Adam::new(&parameters, AdamOptions { groups, ..AdamOptions::default() });
        let tape = Tape::recording(&parameters);
        let loss = tape.get(frozen).add(&tape.get(decayed)).scale(0.0).sum();
        let gradients = tape.backward(&loss);
        adam.step(&mut parameters, &gradients, 0.1);
        assert_eq!(parameters.get(frozen).tensor().item(), 1.0);
        assert!((parameters.get(decayed).tensor().item() - 0.95).abs() < 1e-6);
    }
}
