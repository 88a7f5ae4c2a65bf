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
use crate::train::{Losses, Part, StepContext, StepResult, update_and_read};
use multivalued_engine::{Adam, Parameters, Tape, Tensor, Var};

/// Moves the parameters against the loss, unless it is not finite.
fn descend(
    tape: Tape,
    losses: Losses,
    parameters: &mut Parameters,
    adam: &mut Adam,
    context: StepContext,
) -> StepResult {
    let total = losses.total();
    let gradients = context.gradients(tape, &total);
    let total = total.into_tensor();
    let part = Part { gradients, total, losses, statistics: None, h: None, targets: Vec::new() };
    let (whole, rate) = (context.whole(part), context.learning_rate());
    StepResult::without_codes(&update_and_read(adam, parameters, whole, rate))
}

/// Each annotation's share of the batch's loss: its weight, averaged over images.
fn shares(batch: &Batch) -> Var {
    let images = batch.images.shape()[0] as f32;
    let shares: Vec<f32> = batch.weights.iter().map(|weight| weight / images).collect();
    Var::constant(Tensor::from_slice(&batch.images.device(), [shares.len()], &shares))
}
