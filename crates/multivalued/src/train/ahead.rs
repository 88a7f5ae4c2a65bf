//! Prepares the next batch on this machine's processor while a GPU computes the present one.

use crate::Result;
use crate::batch::{Batch, HostBatch, TrainingSet};
use multivalued_engine::Device;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The batches of a training set, one after the other.
pub(super) struct Batches {
    set: Arc<TrainingSet>,
    /// The step whose batch is being prepared.
    ahead: Option<(u64, JoinHandle<Result<HostBatch>>)>,
}

impl Batches {
    pub fn new(set: TrainingSet) -> Self {
        Self { set: Arc::new(set), ahead: None }
    }

    pub fn set(&self) -> &TrainingSet {
        &self.set
    }

    /// The batch of a step. Only where the processor has nothing else to do is the next one begun.
    pub fn take(&mut self, step: u64, device: &Device) -> Result<Batch> {
        if self.set.is_resident() || matches!(device, Device::Cpu(_)) {
            return self.set.batch(step, device);
        }
        let batch = match self.ahead.take() {
            Some((prepared, job)) if prepared == step => {
                job.join().unwrap_or_else(|panic| resume_unwind(panic))?
            }
            _ => self.set.host_batch(step)?,
        };
        let (set, next) = (self.set.clone(), step + 1);
        self.ahead = Some((next, std::thread::spawn(move || set.host_batch(next))));
        Ok(batch.on(device))
    }
}
