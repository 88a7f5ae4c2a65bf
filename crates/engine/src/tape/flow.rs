//! The gradients on their way back.

use super::{Gradients, Place};
use crate::backend::{Backend, Binary};
use crate::parameters::ParameterId;
use crate::tensor::{Device, Tensor};

/// What operations hand their operands' gradients to. Operands are named by their number.
pub(crate) struct Flow {
    device: Device,
    /// By place on the tape: what has come so far.
    gradients: Vec<Option<Tensor>>,
    /// By place: whether what has come is zero already where the operation's relu dropped the value.
    masked: Vec<bool>,
    finished: Gradients,
    /// Of the operation that is now walked back: its operands, whether its own gradient is masked, and whether it
    /// masks the one of its first operand.
    operands: Vec<Option<Place>>,
    is_masked: bool,
    masks: bool,
}

impl Flow {
    pub(super) fn new(device: Device, count: usize, finished: Gradients) -> Self {
        let (gradients, masked) = (vec![None; count], vec![false; count]);
        Self { device, gradients, masked, finished, operands: Vec::new(), is_masked: false, masks: false }
    }

    pub(super) fn start(&mut self, place: Place, gradient: Tensor) {
        self.gradients[place] = Some(gradient);
    }

    /// Turns to an operation, and gives its gradient, if any has come.
    pub(super) fn enter(
        &mut self,
        place: Place,
        operands: Vec<Option<Place>>,
        masks: bool,
    ) -> Option<Tensor> {
        (self.operands, self.is_masked, self.masks) = (operands, self.masked[place], masks);
        self.gradients[place].take()
    }

    pub(super) fn finish(self) -> Gradients {
        self.finished
    }

    /// A parameter's gradient.
    pub fn reach(&mut self, id: ParameterId, gradient: Tensor) {
        self.finished.set(id, gradient);
    }

    /// Whether anybody waits for an operand's gradient.
    pub fn wants(&self, operand: usize) -> bool {
        self.operands[operand].is_some()
    }

    /// Adds a gradient to what has already reached an operand; not computed where nothing waits for it.
    pub fn add(&mut self, operand: usize, gradient: impl FnOnce(&dyn Backend) -> Tensor) {
        let Some(place) = self.operands[operand] else { return };
        let backend = self.device.backend();
        let gradient = gradient(backend);
        self.masked[place] = false;
        self.gradients[place] = Some(match self.gradients[place].take() {
            Some(sum) => backend.binary(Binary::Add, sum, &gradient),
            None => gradient,
        });
    }

    /// As [`add`](Self::add) for the first operand, by an operation that adds what has come so far itself, and where
    /// it is told to drops what the operand's relu has dropped.
    pub fn accumulate(&mut self, gradient: impl FnOnce(&dyn Backend, Option<&Tensor>, bool) -> Tensor) {
        let Some(place) = self.operands[0] else { return };
        let so_far = self.gradients[place].take();
        self.gradients[place] = Some(gradient(self.device.backend(), so_far.as_ref(), self.masks));
        self.masked[place] = self.masks;
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
