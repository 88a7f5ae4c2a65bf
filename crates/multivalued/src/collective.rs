//! Several processes that train one model together, each on its part of every batch.
//!
//! [`Collective`] is all that is asked of a transport: who am I, how many are we, and the sum of one run of values over
//! all of us. Everything else is made of that sum here ([`Ranks`]): rows gathered from all ranks lie at places of their
//! own, where the others have zeros, and what one rank says is added to the zeros of the others.
//!
//! A transport that fails ends the step before anything has moved ([`Error::Lost`](crate::Error::Lost)), so that a
//! checkpoint can still be saved.

use crate::{Error, Result};
use multivalued_engine::{Exposed, SumOverRanks, Tensor, Var};
use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

/// What connects the ranks of a training.
pub trait Collective: Send {
    /// Which of them this process is, from 0 on. Rank 0 alone writes files.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Puts the sums over all ranks in the values' place, the same bits on every rank. All ranks call it in the same
    /// order, with the same name (`what`) and as many values. An error is a sentence that says what happened.
    fn all_reduce(&mut self, what: &str, values: Exposed<'_>) -> std::result::Result<(), String>;
}

/// The ranks of a training, as one of them sees them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Ranks(Option<Arc<Several>>);

struct Several {
    rank: usize,
    size: usize,
    collective: Mutex<Box<dyn Collective>>,
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.size())
    }
}

/// The name of what a forward pass needs of the whole batch.
pub(crate) const BATCH_STATISTICS: &str = "the batch statistics";
/// The name of what a step adds up before its parameters move.
pub(crate) const GRADIENTS: &str = "the gradients";

/// Bytes that travel as one f32: as many as it holds without rounding.
const BYTES: usize = 3;

impl Ranks {
    /// One process, which needs nobody.
    pub fn alone() -> Self {
        Self(None)
    }

    /// Those that a transport connects.
    pub fn of(collective: impl Collective + 'static) -> Self {
        let (rank, size) = (collective.rank(), collective.size());
        assert!(rank < size, "rank {rank} of {size}");
        Self(Some(Arc::new(Several { rank, size, collective: Mutex::new(Box::new(collective)) })))
    }

    /// Whether there is no transport, so that nothing has to be asked or told.
    pub fn are_alone(&self) -> bool {
        self.0.is_none()
    }

    /// Which of them this process is.
    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |several| several.rank)
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(1, |several| several.size)
    }

    /// Whether this one writes files, validates and decides.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// The part of so many rows that a rank takes; parts differ by at most one.
    pub(crate) fn part_of(&self, rank: usize, count: usize) -> Range<usize> {
        rank * count / self.size()..(rank + 1) * count / self.size()
    }

    /// This rank's part of so many rows.
    pub(crate) fn own_part(&self, count: usize) -> Range<usize> {
        self.part_of(self.rank(), count)
    }

    /// The sums of a tensor's values over all ranks.
    pub(crate) fn add_up(&self, what: &str, tensor: &mut Tensor) -> Result<()> {
        self.reduce(what, tensor.exposed())
    }

    /// The sums of some values over all ranks.
    pub fn sum(&self, what: &str, values: &mut [f32]) -> Result<()> {
        self.reduce(what, Exposed::Host(values))
    }

    fn reduce(&self, what: &str, values: Exposed<'_>) -> Result<()> {
        let Some(several) = &self.0 else { return Ok(()) };
        // A rank that panicked in it is lost in any case.
        let mut collective = several.collective.lock().unwrap_or_else(PoisonError::into_inner);
        collective.all_reduce(what, values).map_err(|reason| Error::Lost {
            rank: several.rank,
            size: several.size,
            what: what.into(),
            reason,
        })
    }

    /// The sum of a value over all ranks, within a step: its gradient is summed up over them, too. A failure unwinds,
    /// since no operation returns one.
    pub(crate) fn summed(&self, what: &'static str, value: &Var) -> Var {
        if self.are_alone() {
            return value.clone();
        }
        value.sum_over_ranks(Arc::new(StepSum { ranks: self.clone(), what }))
    }

    /// One value of each rank, in their order.
    pub fn gather(&self, what: &str, value: f32) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.size()];
        values[self.rank()] = value;
        self.sum(what, &mut values)?;
        Ok(values)
    }

    /// What rank 0 says, on every rank. The others' bytes are not looked at.
    pub fn broadcast(&self, what: &str, bytes: Vec<u8>) -> Result<Vec<u8>> {
        if self.are_alone() {
            return Ok(bytes);
        }
        let own = if self.leads() { bytes } else { Vec::new() };
        // A length of up to 2⁴⁸ as two values that are exact.
        let mut length = [(own.len() >> 24) as f32, (own.len() & 0xff_ffff) as f32];
        self.sum(what, &mut length)?;
        let length = ((length[0] as usize) << 24) + length[1] as usize;
        if length == 0 {
            return Ok(Vec::new());
        }
        let mut values = vec![0.0f32; length.div_ceil(BYTES)];
        for (value, bytes) in values.iter_mut().zip(own.chunks(BYTES)) {
            *value = bytes.iter().rev().fold(0u32, |number, &byte| number << 8 | u32::from(byte)) as f32;
        }
        drop(own);
        self.sum(what, &mut values)?;
        let bytes = values.iter().flat_map(|&value| (value as u32).to_le_bytes().into_iter().take(BYTES));
        Ok(bytes.take(length).collect())
    }

    /// Fails on every rank, unless all have the same bytes.
    pub fn agree(&self, what: &str, bytes: &[u8], otherwise: &str) -> Result<()> {
        if self.are_alone() {
            return Ok(());
        }
        let own = blake3::hash(bytes).as_bytes().to_vec();
        let differs = self.broadcast(what, own.clone())? != own;
        let differing: Vec<String> = (self.gather(what, f32::from(u8::from(differs)))?.iter().enumerate())
            .filter(|(_, differs)| **differs > 0.0)
            .map(|(rank, _)| rank.to_string())
            .collect();
        match differing.is_empty() {
            true => Ok(()),
            false => Err(Error::Ranks {
                reason: format!(
                    "{what}: rank {} of {} differs from rank 0; {otherwise}",
                    differing.join(", "),
                    self.size()
                ),
            }),
        }
    }
}

/// A sum over ranks within a step, with its name.
struct StepSum {
    ranks: Ranks,
    what: &'static str,
}

impl SumOverRanks for StepSum {
    fn sum(&self, mut tensor: Tensor) -> Tensor {
        self.ranks.add_up(self.what, &mut tensor).unwrap_or_else(|error| unwind(error));
        tensor
    }
}

/// An error on its way out of a step, which [`caught`](crate::error::caught) returns. The panic hook is not run.
pub(crate) struct Unwound(pub Error);

/// Ends a step with an error.
pub(crate) fn unwind(error: Error) -> ! {
    resume_unwind(Box::new(Unwound(error)))
}
