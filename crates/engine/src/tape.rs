//! The tape: records operations as they are computed, and walks them backwards for gradients.
//!
//! ```text
//! let tape = Tape::recording(&parameters);
//! let loss = model(&tape, &Var::constant(batch));
//! let gradients = tape.backward(&loss);
//! optimiser.step(&mut parameters, &gradients, rate);
//! ```
//!
//! Gradients follow the data: an operation is recorded only if one of its operands came from the
//! tape. [`Tape::frozen`] hands out parameters as constants, so nothing is recorded and each
//! intermediate is freed as soon as the caller drops it.

use crate::cpu::elementwise;
use crate::cuda::ops::elementwise as gpu;
use crate::parameters::{ParameterId, Parameters};
use crate::shape::Shape;
use crate::tensor::{Device, Tensor};
use std::cell::RefCell;
use std::rc::Rc;

/// A value in a computation: a tensor, and where it stands on the tape if gradients reach it.
#[derive(Clone)]
pub struct Var {
    tensor: Tensor,
    node: Option<Node>,
    /// Whether its operation ends in a relu, which lets no gradient through where the value is zero.
    relu: bool,
}

#[derive(Clone)]
struct Node {
    tape: Rc<RefCell<Vec<Entry>>>,
    index: usize,
}

/// What an operation does with the gradient of its output.
type Backward = Box<dyn FnOnce(Tensor, &mut Flow)>;

enum Entry {
    Parameter(ParameterId),
    Operation(Option<Backward>),
}

/// A place on the tape that gradients flow to.
#[derive(Clone, Copy)]
pub(crate) struct Target(usize);

/// The gradients on their way back.
pub(crate) struct Flow {
    gradients: Vec<Option<Tensor>>,
    /// Which gradients are already zero where their operation's relu is.
    masked: Vec<bool>,
    /// Whether the gradient now handed to an operation is.
    is_masked: bool,
}

impl Flow {
    /// Adds a gradient to what has already reached `target`; dropped where nothing waits for it.
    pub fn add(&mut self, target: Option<Target>, gradient: impl FnOnce() -> Tensor) {
        let Some(Target(index)) = target else { return };
        let gradient = gradient();
        self.masked[index] = false;
        match &mut self.gradients[index] {
            Some(sum) if sum.on_gpu().is_none() => {
                let isa = sum.isa();
                elementwise::update(isa, sum.values_mut(), gradient.values(), |a, b| a + b);
            }
            slot => {
                *slot = Some(match slot.take() {
                    Some(sum) => gpu::update(sum, &gradient, gpu::Binary::Add),
                    None => gradient,
                });
            }
        }
    }

    /// As [`add`](Self::add), by an operation that can add what has come so far itself, and drop what
    /// the relu behind `target` would drop (`masked`).
    pub fn sum(
        &mut self,
        target: Option<Target>,
        masked: bool,
        gradient: impl FnOnce(Option<Tensor>) -> Tensor,
    ) {
        let Some(Target(index)) = target else { return };
        let sum = gradient(self.gradients[index].take());
        self.gradients[index] = Some(sum);
        self.masked[index] = masked;
    }

    /// Whether the gradient an operation was just given is already zero where its relu is.
    pub fn is_masked(&self) -> bool {
        self.is_masked
    }
}

impl Var {
    /// A value that no gradient reaches.
    pub fn constant(tensor: Tensor) -> Self {
        Self { tensor, node: None, relu: false }
    }

    /// The value.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The value, without its place on the tape.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }

    /// Its sizes.
    pub fn shape(&self) -> Shape {
        self.tensor.shape()
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.tensor.device()
    }

    /// The value of a single-valued tensor.
    pub fn item(&self) -> f32 {
        self.tensor.item()
    }

    /// The value as a constant: gradients stop here.
    pub fn stop_gradient(&self) -> Self {
        Self::constant(self.tensor.clone())
    }

    pub(crate) fn target(&self) -> Option<Target> {
        self.node.as_ref().map(|node| Target(node.index))
    }

    /// Marks the result of an operation that ends in a relu.
    pub(crate) fn ending_in_relu(self, relu: bool) -> Self {
        Self { relu, ..self }
    }

    /// Whether its operation ends in a relu and is told so by [`Flow::is_masked`].
    pub(crate) fn ends_in_relu(&self) -> bool {
        self.relu
    }

    pub(crate) fn values(&self) -> &[f32] {
        self.tensor.values()
    }

    /// The result of an operation on `operands`; `backward` is kept only if one of them is on a tape.
    pub(crate) fn record(
        operands: &[&Self],
        tensor: Tensor,
        backward: impl FnOnce(Tensor, &mut Flow) + 'static,
    ) -> Self {
        let Some(node) = operands.iter().find_map(|operand| operand.node.as_ref()) else {
            return Self::constant(tensor);
        };
        assert!(
            operands
                .iter()
                .filter_map(|operand| operand.node.as_ref())
                .all(|other| Rc::ptr_eq(&other.tape, &node.tape)),
            "operands of one operation come from different tapes"
        );
        let mut entries = node.tape.borrow_mut();
        entries.push(Entry::Operation(Some(Box::new(backward))));
        let index = entries.len() - 1;
        Self { tensor, node: Some(Node { tape: node.tape.clone(), index }), relu: false }
    }
}

/// Hands out parameters and records what is done with them.
pub struct Tape {
    entries: Rc<RefCell<Vec<Entry>>>,
    leaves: RefCell<Vec<Option<Var>>>,
    parameters: Vec<Tensor>,
    trainable: Vec<bool>,
}

impl Tape {
    /// A tape that records gradients for all trainable parameters.
    pub fn recording(parameters: &Parameters) -> Self {
        Self::new(parameters, true)
    }

    /// A tape that records nothing: for prediction.
    pub fn frozen(parameters: &Parameters) -> Self {
        Self::new(parameters, false)
    }

    fn new(parameters: &Parameters, recording: bool) -> Self {
        Self {
            entries: Rc::default(),
            leaves: RefCell::new(vec![None; parameters.len()]),
            parameters: parameters.iter().map(|parameter| parameter.tensor().clone()).collect(),
            trainable: parameters.iter().map(|parameter| recording && parameter.trainable()).collect(),
        }
    }

    /// A parameter's value.
    pub fn get(&self, id: ParameterId) -> Var {
        let mut leaves = self.leaves.borrow_mut();
        let leaf = leaves[id.0].get_or_insert_with(|| {
            let node = self.trainable[id.0].then(|| {
                let mut entries = self.entries.borrow_mut();
                entries.push(Entry::Parameter(id));
                Node { tape: self.entries.clone(), index: entries.len() - 1 }
            });
            Var { tensor: self.parameters[id.0].clone(), node, relu: false }
        });
        leaf.clone()
    }

    /// The gradients of `loss`, a single value, with respect to the parameters. Spends the tape.
    pub fn backward(self, loss: &Var) -> Gradients {
        assert_eq!(loss.shape().volume(), 1, "the loss is a single value, not of shape {}", loss.shape());
        let mut gradients = Gradients { by_parameter: vec![None; self.parameters.len()] };
        let Some(node) = &loss.node else { return gradients };
        assert!(Rc::ptr_eq(&node.tape, &self.entries), "the loss was computed on another tape");
        let mut entries = std::mem::take(&mut *self.entries.borrow_mut());
        let count = entries.len();
        let mut flow = Flow { gradients: vec![None; count], masked: vec![false; count], is_masked: false };
        flow.gradients[node.index] = Some(Tensor::full(&loss.device(), loss.shape(), 1.0));
        for (index, entry) in entries.iter_mut().enumerate().rev() {
            // Taken in every case: what an operation saved is freed as soon as it is behind us.
            let gradient = flow.gradients[index].take();
            flow.is_masked = flow.masked[index];
            match entry {
                Entry::Parameter(id) => gradients.by_parameter[id.0] = gradient,
                Entry::Operation(backward) => {
                    if let (Some(backward), Some(gradient)) = (backward.take(), gradient) {
                        backward(gradient, &mut flow);
                    }
                }
            }
        }
        gradients
    }
}

/// The gradients of a loss by parameter; none for a parameter the loss does not depend on.
#[derive(Clone)]
pub struct Gradients {
    by_parameter: Vec<Option<Tensor>>,
}

impl Gradients {
    /// The gradient of one parameter.
    pub fn get(&self, id: ParameterId) -> Option<&Tensor> {
        self.by_parameter[id.0].as_ref()
    }
}
