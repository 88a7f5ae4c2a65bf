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
//!
//! What is recorded is data: an [`Op`] with what it saved, the places of its operands, and the shape of its result.
//! So the recorded step can be looked at before its backward pass ([`peephole`]), and be listed ([`listing`]) with its
//! memory ([`memory`]).

pub(crate) mod flow;
pub mod listing;
mod memory;
mod peephole;

use crate::backend::Backend;
use crate::op::{Leaf, Op};
use crate::parameters::{ParameterId, Parameters};
use crate::shape::Shape;
use crate::tensor::{Device, Tensor};
use flow::Flow;
use listing::{Clock, Lister, Listing};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// A value in a computation: a tensor, and where it stands on the tape if gradients reach it.
#[derive(Clone)]
pub struct Var {
    tensor: Tensor,
    node: Option<Node>,
}

#[derive(Clone)]
struct Node {
    tape: Rc<RefCell<Recording>>,
    place: Place,
}

/// Where an operation stands on its tape.
pub(crate) type Place = usize;

/// The operations recorded so far.
#[derive(Default)]
struct Recording {
    records: Vec<Record>,
    /// Where operations are timed.
    clock: Option<Clock>,
}

/// An operation as it stands on the tape.
pub(crate) struct Record {
    pub op: Op,
    /// None for an operand that no gradient reaches, or that is not there.
    pub operands: Vec<Option<Place>>,
    /// The operands' sizes; none for one that is not there.
    pub operand_shapes: Vec<Option<Shape>>,
    pub shape: Shape,
    /// Memory of the result, and the number of its buffer.
    pub bytes: usize,
    pub buffer: u64,
    pub forward: Duration,
}

impl Record {
    fn is_parameter(&self) -> bool {
        matches!(self.op, Op::Leaf(_))
    }
}

impl Var {
    /// A value that no gradient reaches.
    pub fn constant(tensor: Tensor) -> Self {
        Self { tensor, node: None }
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

    pub(crate) fn backend(&self) -> &dyn Backend {
        self.tensor.backend()
    }

    /// The result of an operation; what it saved is kept only if one of its operands is on a tape.
    pub(crate) fn record(operands: &[&Self], tensor: Tensor, op: impl Into<Op>) -> Self {
        Self::record_optional(&operands.iter().copied().map(Some).collect::<Vec<_>>(), tensor, op)
    }

    /// As [`record`](Self::record), where some operands may not be there. They are numbered all the same.
    pub(crate) fn record_optional(operands: &[Option<&Self>], tensor: Tensor, op: impl Into<Op>) -> Self {
        let nodes = || operands.iter().flatten().filter_map(|operand| operand.node.as_ref());
        let Some(node) = nodes().next() else { return Self::constant(tensor) };
        assert!(
            nodes().all(|other| Rc::ptr_eq(&other.tape, &node.tape)),
            "operands of one operation come from different tapes"
        );
        let places =
            operands.iter().map(|operand| operand.and_then(|operand| Some(operand.node.as_ref()?.place)));
        let shapes = operands.iter().map(|operand| operand.map(Self::shape));
        let node = push(&node.tape, places.collect(), shapes.collect(), &tensor, op.into());
        Self { node: Some(node), tensor }
    }
}

/// Records an operation; what is recorded is shared by all values that came from a tape.
fn push(
    tape: &Rc<RefCell<Recording>>,
    operands: Vec<Option<Place>>,
    operand_shapes: Vec<Option<Shape>>,
    result: &Tensor,
    op: Op,
) -> Node {
    let Recording { records, clock } = &mut *tape.borrow_mut();
    let forward = clock.as_mut().map_or(Duration::ZERO, |clock| clock.lap(result.backend()));
    let (shape, bytes, buffer) = (result.shape(), result.bytes(), result.buffer_number());
    records.push(Record { op, operands, operand_shapes, shape, bytes, buffer, forward });
    Node { tape: tape.clone(), place: records.len() - 1 }
}

/// Hands out parameters and records what is done with them.
pub struct Tape {
    recording: Rc<RefCell<Recording>>,
    leaves: RefCell<Vec<Option<Var>>>,
    parameters: Vec<Tensor>,
    trainable: Vec<bool>,
}

impl Tape {
    /// A tape that records gradients for all trainable parameters.
    pub fn recording(parameters: &Parameters) -> Self {
        Self::new(parameters, true, None)
    }

    /// A tape that records nothing: for prediction.
    pub fn frozen(parameters: &Parameters) -> Self {
        Self::new(parameters, false, None)
    }

    /// A tape that records gradients and times every operation, waiting for its device: for [`listed`](Self::listed).
    pub fn timed(parameters: &Parameters) -> Self {
        Self::new(parameters, true, Some(Clock::start(parameters)))
    }

    fn new(parameters: &Parameters, recording: bool, clock: Option<Clock>) -> Self {
        Self {
            recording: Rc::new(RefCell::new(Recording { records: Vec::new(), clock })),
            leaves: RefCell::new(vec![None; parameters.len()]),
            parameters: parameters.iter().map(|parameter| parameter.tensor().clone()).collect(),
            trainable: parameters.iter().map(|parameter| recording && parameter.trainable()).collect(),
        }
    }

    /// A parameter's value.
    pub fn get(&self, id: ParameterId) -> Var {
        let mut leaves = self.leaves.borrow_mut();
        let leaf = leaves[id.0].get_or_insert_with(|| {
            let tensor = self.parameters[id.0].clone();
            let node = self.trainable[id.0]
                .then(|| push(&self.recording, Vec::new(), Vec::new(), &tensor, Leaf(id).into()));
            Var { tensor, node }
        });
        leaf.clone()
    }

    /// The gradients of `loss`, a single value, with respect to the parameters. Spends the tape.
    pub fn backward(self, loss: &Var) -> Gradients {
        self.walk_back(loss).0
    }

    /// The gradients, and the operations that were recorded, with what each took; empty unless the tape is
    /// [`timed`](Self::timed).
    pub fn listed(self, loss: &Var) -> (Gradients, Listing) {
        self.walk_back(loss)
    }

    fn walk_back(self, loss: &Var) -> (Gradients, Listing) {
        assert_eq!(loss.shape().volume(), 1, "the loss is a single value, not of shape {}", loss.shape());
        let none = Gradients { by_parameter: vec![None; self.parameters.len()] };
        let Some(node) = &loss.node else { return (none, Listing::default()) };
        assert!(Rc::ptr_eq(&node.tape, &self.recording), "the loss was computed on another tape");
        let Recording { mut records, clock } = self.recording.take();
        let mut lister = clock.map(|clock| Lister::new(&records, clock));
        let masks = peephole::masks(&records);
        let mut flow = Flow::new(loss.device(), records.len(), none);
        flow.start(node.place, Tensor::full(&loss.device(), loss.shape(), 1.0));
        // Taken in every case: what an operation saved is freed as soon as it is behind us.
        while let Some(Record { op, operands, .. }) = records.pop() {
            let place = records.len();
            if let Some(lister) = &mut lister {
                lister.enter(flow.bytes());
            }
            let first = || records[operands.first().copied().flatten()?].op.relu_result().cloned();
            let mask = if masks[place] { first() } else { None };
            if let Some(gradient) = flow.enter(place, operands, mask) {
                op.backward(gradient, &mut flow);
            }
            if let Some(lister) = &mut lister {
                lister.leave(place, loss.backend());
            }
        }
        let listing = lister.map_or_else(Listing::default, |lister| lister.finish(loss.backend()));
        (flow.finish(), listing)
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

    pub(crate) fn set(&mut self, id: ParameterId, gradient: Tensor) {
        self.by_parameter[id.0] = Some(gradient);
    }

    /// Those that are there, in the parameters' order.
    pub fn iter(&self) -> impl Iterator<Item = &Tensor> {
        self.by_parameter.iter().flatten()
    }

    /// Those that are there, in the same order, to be replaced.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        self.by_parameter.iter_mut().flatten()
    }
}
