//! What the method is compared with, in the same harness: a plain U-Net and the Probabilistic U-Net.
//!
//! Both are built from the method's own blocks and trained by the same schedule, so that a comparison is
//! one of methods and not of blocks.

mod gaussian;
mod probabilistic_unet;
#[cfg(test)]
mod tests;
mod unet;

pub(crate) use probabilistic_unet::ProbabilisticUnet;
pub(crate) use unet::Unet;

use crate::batch::Batch;
use crate::train::{LossTerms, StepResult};
use multivalued_engine::{Adam, Parameters, Stepped, Tape, Tensor, Var};

/// A batch's loss, on the tape.
struct Losses {
    total: Var,
    reconstruction: Var,
    /// Of the posterior from the prior, where there are such.
    divergence: Option<Var>,
}

/// Moves the parameters against the loss, unless it is not finite.
fn descend(
    tape: Tape,
    losses: Losses,
    parameters: &mut Parameters,
    adam: &mut Adam,
    rate: f32,
) -> StepResult {
    let gradients = tape.backward(&losses.total);
    let Losses { total, reconstruction, divergence } = losses;
    let total = total.into_tensor();
    let (reconstruction, divergence) = (reconstruction.into_tensor(), divergence.map(Var::into_tensor));
    let updated = adam.update(parameters, &gradients, rate, &total);
    let mut read = vec![updated.norm(), &total, &reconstruction];
    read.extend(&divergence);
    let mut read = Tensor::to_vecs(&read);
    let stepped = updated.finish(read.remove(0)[0]);
    let mut result = StepResult::without_codes(LossTerms {
        total: read[0][0],
        reconstruction: read[1][0],
        divergence: read.get(2).map_or(0.0, |value| value[0]),
        ..LossTerms::default()
    });
    if let Stepped::Moved { gradient_norm } = stepped {
        (result.gradient_norm, result.moved) = (gradient_norm, true);
    }
    result
}

/// Each annotation's share of the batch's loss: its weight, averaged over images.
fn shares(batch: &Batch) -> Var {
    let images = batch.images.shape()[0] as f32;
    let shares: Vec<f32> = batch.weights.iter().map(|weight| weight / images).collect();
    Var::constant(Tensor::from_slice(&batch.images.device(), [shares.len()], &shares))
}
