//! The gradients on their backward pass.

use super::{Gradients, Place};
use crate::backend::{Backend, Binary, Channels, Element};
use crate::parameters::ParameterId;
use crate::tensor::{Device, Tensor};
use std::collections::HashMap;

/// A gradient that has come to an operand. Some channels of a concat's gradient stay where they are until somebody
/// needs them by themselves: a kernel that reads them there spares a sweep.
#[derive(Clone)]
pub(crate) struct Gradient {
    tensor: Tensor,
    /// Their first one and their number; all where there are none.
    channels: Option<[usize; 2]>,
}

impl Gradient {
    /// As a tensor of its own.
    pub fn into_tensor(self, backend: &dyn Backend) -> Tensor {
        match self.channels {
            Some([first, count]) => {
                let [batch, height, width, _] = self.tensor.shape().image("the gradient of a concat");
                backend.slice_channels(&self.tensor, first, [batch, height, width, count].into())
            }
            None => self.tensor,
        }
    }

    /// In another type; some channels become a tensor of their own.
    pub fn cast(self, backend: &dyn Backend, to: Element) -> Self {
        if self.tensor.element() == to {
            return self;
        }
        Self { tensor: backend.cast(self.into_tensor(backend), to), channels: None }
    }

    pub fn channels(&self) -> Channels<'_> {
        Channels { first: self.channels.map_or(0, |[first, _]| first), ..Channels::all(&self.tensor) }
    }
}

/// What operations hand their operands' gradients to. Operands are named by their number.
pub(crate) struct Flow {
    device: Device,
    /// By place on the tape: what has come so far.
    gradients: Vec<Option<Gradient>>,
    /// By place: whether what has come is zero already where the operation's relu dropped the value.
    masked: Vec<bool>,
    finished: Gradients,
    /// Of the operation that is now gone through backwards: its operands.
    operands: Vec<Option<Place>>,
    /// Whether its own gradient came masked.
    is_masked: bool,
    /// The result of its first operand's relu, where it masks that operand's gradient.
    mask: Option<Tensor>,
}

impl Flow {
    pub(super) fn new(device: Device, count: usize, finished: Gradients) -> Self {
        let (gradients, masked) = (vec![None; count], vec![false; count]);
        Self { device, gradients, masked, finished, operands: Vec::new(), is_masked: false, mask: None }
    }

    pub(super) fn start(&mut self, place: Place, gradient: Tensor) {
        self.gradients[place] = Some(Gradient { tensor: gradient, channels: None });
    }

    /// Turns to an operation, and gives its gradient, if any has come. `mask`: the result of the relu of its first
    /// operand, where it is this operation that masks the gradient.
    pub(super) fn enter(
        &mut self,
        place: Place,
        operands: Vec<Option<Place>>,
        mask: Option<Tensor>,
    ) -> Option<Tensor> {
        (self.operands, self.is_masked, self.mask) = (operands, self.masked[place], mask);
        let gradient = self.gradients[place].take()?;
        Some(gradient.into_tensor(self.device.backend()))
    }

    /// The memory of all gradients that have come so far; some share a buffer.
    pub(super) fn bytes(&self) -> usize {
        let waiting = self.gradients.iter().flatten().map(|gradient| &gradient.tensor);
        let tensors = waiting.chain(self.finished.iter());
        let sizes: HashMap<u64, usize> =
            tensors.map(|tensor| (tensor.buffer_number(), tensor.bytes())).collect();
        sizes.values().sum()
    }

    pub(super) fn finish(self) -> Gradients {
        self.finished
    }

    /// A parameter's gradient.
    pub fn set_parameter(&mut self, id: ParameterId, gradient: Tensor) {
        self.finished.set(id, gradient);
    }

    /// Whether anybody waits for an operand's gradient.
    pub fn wants(&self, operand: usize) -> bool {
        self.operands[operand].is_some()
    }

    /// Adds a gradient to what has already reached an operand; not computed where nothing waits for it.
    pub fn add(&mut self, operand: usize, gradient: impl FnOnce(&dyn Backend) -> Tensor) {
        self.add_gradient(operand, |backend| Gradient { tensor: gradient(backend), channels: None });
    }

    /// As [`add`](Self::add), of `count` channels of `dy` from `first` on, in the operand's type.
    pub fn add_channels(
        &mut self,
        operand: usize,
        dy: &Tensor,
        first: usize,
        count: usize,
        operand_type: Element,
    ) {
        let gradient = Gradient { tensor: dy.clone(), channels: Some([first, count]) };
        self.add_gradient(operand, |backend| gradient.cast(backend, operand_type));
    }

    fn add_gradient(&mut self, operand: usize, gradient: impl FnOnce(&dyn Backend) -> Gradient) {
        let Some(place) = self.operands[operand] else { return };
        let backend = self.device.backend();
        let gradient = gradient(backend);
        self.masked[place] = false;
        self.gradients[place] = Some(match self.gradients[place].take() {
            Some(sum) => {
                let sum =
                    backend.binary(Binary::Add, sum.into_tensor(backend), &gradient.into_tensor(backend));
                Gradient { tensor: sum, channels: None }
            }
            None => gradient,
        });
    }

    /// As [`add`](Self::add) for the first operand, by an operation that does more while it writes: it adds this gradient
    /// to what has accumulated and, given a mask, zeroes it where the operand's relu was zero.
    pub fn accumulate(
        &mut self,
        gradient: impl FnOnce(&dyn Backend, Option<Gradient>, Option<&Tensor>) -> Tensor,
    ) {
        let Some(place) = self.operands[0] else { return };
        let accumulated = self.gradients[place].take();
        let tensor = gradient(self.device.backend(), accumulated, self.mask.as_ref());
        self.gradients[place] = Some(Gradient { tensor, channels: None });
        self.masked[place] = self.mask.is_some();
    }

    /// What is still to be masked by: the result of an operation that ends in a relu, unless its gradient came
    /// masked.
    pub fn mask<'a>(&self, y: Option<&'a Tensor>) -> Option<&'a Tensor> {
        y.filter(|_| !self.is_masked)
    }

    /// The device of the step. Cheap to clone.
    pub fn device(&self) -> Device {
        self.device.clone()
    }
}
