//! A recorded step as a list: what each operation is, how large its result, what it took, and the step's memory.

use super::Record;
use super::memory::Plan;
use crate::backend::Backend;
use crate::op::Op;
use crate::parameters::{ParameterId, Parameters};
use crate::shape::Shape;
use std::time::{Duration, Instant};

/// A recorded step, with its memory in bytes. What is planned is what the tape asks for: tensors that operations keep,
/// results that are still to be used, and gradients, without parameters.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// In the order of the forward pass.
    pub operations: Vec<Listed>,
    /// The most that is planned to be alive at once in the forward pass.
    pub planned_forward: usize,
    /// The most that is planned to be alive at once in the backward pass.
    pub planned_backward: usize,
    /// What tensors took before the step: parameters, an optimiser's moments, the batch.
    pub before: usize,
    /// The most that tensors took at once in the step, with those that were there before.
    pub held: usize,
}

/// An operation of a recorded step.
#[derive(Debug, Clone)]
pub struct Listed {
    /// What it is: `conv 3x3 + bias + relu`.
    pub name: String,
    /// Those that are there.
    pub operands: Vec<Operand>,
    /// The sizes of its result.
    pub result: Shape,
    /// Values of the parameters that are its operands.
    pub parameters: usize,
    /// Memory of its result.
    pub bytes: usize,
    /// Memory of what it keeps for its backward pass, without parameters and what operations before it keep.
    pub kept: usize,
    /// Memory that is planned to be alive after it in the forward pass.
    pub alive: usize,
    /// Time since the operation before was recorded: its own, and that of what is not recorded in between.
    pub forward: Duration,
    /// Time to compute its operands' gradients.
    pub backward: Duration,
}

/// What an operation was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Operand {
    /// Its sizes.
    pub shape: Shape,
    /// Where it came from.
    pub source: Source,
}

/// Where an operand came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The result of an operation, by its number in [`Listing::operations`].
    Operation(usize),
    /// A parameter.
    Parameter(ParameterId),
    /// A value that no gradient reaches.
    Constant,
}

/// A listing in the making, while the backward pass goes on.
pub(super) struct Lister {
    clock: Clock,
    /// By place; none for parameters.
    operations: Vec<Option<Listed>>,
    listing: Listing,
    /// What operations keep that are not yet behind us.
    kept: usize,
}

impl Lister {
    pub fn new(records: &[Record], clock: Clock) -> Self {
        let plan = Plan::of(records);
        let mut count = 0;
        let numbers: Vec<usize> = records
            .iter()
            .map(|record| {
                let number = count;
                count += usize::from(!record.is_parameter());
                number
            })
            .collect();
        let source = |place: Option<usize>| match place.map(|place| (place, &records[place].op)) {
            None => Source::Constant,
            Some((_, Op::Leaf(leaf))) => Source::Parameter(leaf.0),
            Some((place, _)) => Source::Operation(numbers[place]),
        };
        let listed = |(place, record): (usize, &Record)| {
            let operands: Vec<Operand> = record
                .operands
                .iter()
                .zip(&record.operand_shapes)
                .filter_map(|(&place, &shape)| Some(Operand { shape: shape?, source: source(place) }))
                .collect();
            let parameters = operands
                .iter()
                .filter(|operand| matches!(operand.source, Source::Parameter(_)))
                .map(|operand| operand.shape.volume())
                .sum();
            (!record.is_parameter()).then(|| Listed {
                name: record.op.name(),
                operands,
                parameters,
                result: record.shape,
                bytes: record.bytes,
                kept: plan.kept[place],
                alive: plan.alive[place],
                forward: record.forward,
                backward: Duration::ZERO,
            })
        };
        let operations = records.iter().enumerate().map(listed).collect();
        let planned_forward = plan.alive.iter().copied().max().unwrap_or(0);
        let listing = Listing { planned_forward, before: clock.before, ..Listing::default() };
        Self { clock, operations, listing, kept: plan.kept.iter().sum() }
    }

    /// Before an operation is gone through backwards: the memory of the gradients that have come so far.
    pub fn enter(&mut self, gradients: usize) {
        self.listing.planned_backward = self.listing.planned_backward.max(self.kept + gradients);
        self.clock.last = Instant::now();
    }

    /// After it.
    pub fn leave(&mut self, place: usize, backend: &dyn Backend) {
        if let Some(listed) = &mut self.operations[place] {
            listed.backward = self.clock.lap(backend);
            self.kept -= listed.kept;
        }
    }

    pub fn finish(self, backend: &dyn Backend) -> Listing {
        let operations = self.operations.into_iter().flatten().collect();
        Listing { operations, held: backend.recent_peak_bytes(), ..self.listing }
    }
}

/// Measures the time between two moments at which all work is done.
pub(super) struct Clock {
    last: Instant,
    /// What tensors took when it was started.
    before: usize,
}

impl Clock {
    pub fn start(parameters: &Parameters) -> Self {
        let before = parameters.iter().next().map_or(0, |parameter| {
            let backend = parameter.tensor().backend();
            // Asked twice: the first answer is what was before.
            _ = backend.recent_peak_bytes();
            backend.recent_peak_bytes()
        });
        Self { last: Instant::now(), before }
    }

    /// The time since the last call.
    pub fn lap(&mut self, backend: &dyn Backend) -> Duration {
        backend.synchronise();
        let now = Instant::now();
        now - std::mem::replace(&mut self.last, now)
    }
}
