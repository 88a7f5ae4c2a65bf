//! Prepares the next batch while the present one is computed with: for a GPU the processor prepares and copies it,
//! for the processor a thread reads its cases where they are on disk.

use crate::Result;
use crate::batch::{Batch, Sent, TrainingSet};
use crate::collective::Ranks;
use multivalued_data::Case;
use multivalued_engine::{Device, Stage};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A step, and what a thread does for it.
type Ahead<T> = (u64, JoinHandle<Result<T>>);

/// The batches of a training set, one after the other.
pub(super) struct Batches {
    set: Arc<TrainingSet>,
    /// The step whose batch is being prepared and sent.
    ahead: Option<Ahead<Sent>>,
    /// The step whose cases are being read.
    reading: Option<Ahead<Vec<Arc<Case>>>>,
    /// The stage that brought the present batch; the other one is ahead.
    free: Option<Stage>,
}

impl Batches {
    pub fn new(set: TrainingSet) -> Self {
        Self { set: Arc::new(set), ahead: None, reading: None, free: None }
    }

    pub fn set(&self) -> &TrainingSet {
        &self.set
    }

    /// From now on a batch is this rank's part of it.
    pub fn share_among(&mut self, ranks: &Ranks) -> Result<()> {
        Arc::get_mut(&mut self.set).expect("no batch is prepared before the first step").share_among(ranks)
    }

    /// The batch of a step. Only where the processor has nothing else to do, or would wait for the disk, is the
    /// next one begun.
    pub fn take(&mut self, step: u64, device: &Device) -> Result<Batch> {
        if self.set.is_resident() {
            return self.set.batch(step, device);
        }
        if !device.is_asynchronous() {
            return match self.set.is_on_disk() {
                true => self.take_read(step, device),
                false => self.set.batch(step, device),
            };
        }
        // What was prepared for another step, before an error, is of no use; but its copy must be at its end.
        let ahead = self.ahead.take().map(|(prepared, job)| (prepared, job.join()));
        let sent = match ahead {
            Some((prepared, sent)) if prepared == step => {
                sent.unwrap_or_else(|panic| resume_unwind(panic))?
            }
            _ => self.set.host_batch(step)?.send(Stage::new(device)),
        };
        let other = self.free.take().unwrap_or_else(|| Stage::new(device));
        let (set, next) = (self.set.clone(), step + 1);
        self.ahead = Some((next, std::thread::spawn(move || Ok(set.host_batch(next)?.send(other)))));
        let (batch, stage) = sent.received();
        self.free = Some(stage);
        Ok(batch)
    }

    /// The batch of a step whose cases are on disk, and begins to read those of the next one.
    fn take_read(&mut self, step: u64, device: &Device) -> Result<Batch> {
        let cases = match self.reading.take() {
            Some((read, job)) if read == step => job.join().unwrap_or_else(|panic| resume_unwind(panic))?,
            _ => self.set.read(step)?,
        };
        let (set, next) = (self.set.clone(), step + 1);
        self.reading = Some((next, std::thread::spawn(move || set.read(next))));
        Ok(self.set.host_batch_of(step, &cases)?.on(device))
    }
}

#[cfg(test)]
impl super::Trainer {
    /// Makes training cases such that no loss of theirs is finite.
    pub(crate) fn poison(&mut self, cases: &[usize]) {
        Arc::get_mut(&mut self.batches.set).expect("nothing is prepared ahead").poison(cases);
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        // The program must not end in the middle of a copy. What the thread failed of no longer matters.
        if let Some((_, job)) = self.ahead.take() {
            _ = job.join();
        }
    }
}
