//! A recorded step as a list: what each operation is, how large its result, and what it took.

use super::Record;
use crate::backend::Backend;
use crate::op::{Op, Operation};
use crate::shape::Shape;
use std::time::{Duration, Instant};

/// An operation of a recorded step.
#[derive(Debug, Clone)]
pub struct Listed {
    /// What it is: `conv 3x3 + bias + relu`.
    pub name: String,
    /// The sizes of its operands.
    pub operands: Vec<Shape>,
    /// The sizes of its result.
    pub result: Shape,
    /// Values of the parameters that are its operands.
    pub parameters: usize,
    /// Memory of its result.
    pub bytes: usize,
    /// Time since the operation before was recorded: its own, and that of what is not recorded in between.
    pub forward: Duration,
    /// Time to compute its operands' gradients.
    pub backward: Duration,
}

/// The operations of a step, as yet without the time of their backward pass; none for parameters.
pub(super) fn of(records: &[Record]) -> Vec<Option<Listed>> {
    let volume = |place: usize| match &records[place] {
        Record { op: Op::Leaf(_), shapes, .. } => shapes[0].volume(),
        _ => 0,
    };
    let listed = |record: &Record| {
        let (result, operands) = record.shapes.split_last().expect("every operation has a result");
        (!matches!(record.op, Op::Leaf(_))).then(|| Listed {
            name: record.op.name(),
            operands: operands.to_vec(),
            result: *result,
            parameters: record.operands.iter().flatten().map(|&place| volume(place)).sum(),
            bytes: record.bytes,
            forward: record.forward,
            backward: Duration::ZERO,
        })
    };
    records.iter().map(listed).collect()
}

/// Measures the time between two moments at which all work is done.
pub(super) struct Clock {
    last: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self { last: Instant::now() }
    }

    /// The time since the last call.
    pub fn lap(&mut self, backend: &dyn Backend) -> Duration {
        backend.synchronise();
        let now = Instant::now();
        now - std::mem::replace(&mut self.last, now)
    }
}
