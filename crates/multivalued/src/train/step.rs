//! One step of training: Algorithm 1 of the paper, line by line.
//!
//! ```text
//! for a batch of (x, {y_k}):
//!     l, p ← E_θ(x), P_ϕ(E_θ(x))                              encode
//!     s_k ← nearest output, or nearest code of E_φ(x, y_k)    assign
//!     L   ← L_recon(G_θ(x, c_s), y) + α L_CE + β L_commit + L_overlap + λ L_energy
//!     ∂L and all sums over the batch, of all ranks             exchange
//!     θ, φ, ϕ ← Adam
//!     C   ← moving average of the embeddings, then a covariance step
//! ```
//!
//! Differs: Algorithm 1 adds lr·∂L where it must subtract; the average comes after the optimiser, since a
//! code that moves before the lookup's gradient is used would no longer be the one that was looked up.

#[cfg(test)]
mod parity;
#[cfg(test)]
mod routing;

use super::assign::{Assigned, Followed, assign, compared};
use super::codebook_step::CodebookStep;
use super::exchange::{Part, RankSignal};
use super::reading::{StepResult, likeliest_codes, update_and_read};
use super::schedule::learning_rate;
use super::terms::{Losses, Term};
use crate::batch::Batch;
use crate::collective::Ranks;
use crate::model::{Encoded, Model};
use crate::recipe::Recipe;
use multivalued_engine::{Adam, Tape, Tensor, Var};

/// What a step is given.
#[derive(Clone, Copy)]
pub(crate) struct StepContext<'a> {
    pub recipe: &'a Recipe,
    pub batch: &'a Batch,
    /// How many steps came before.
    pub number: u64,
    /// How far the training is, 0 to 1.
    pub progress: f32,
    pub ranks: &'a Ranks,
    /// What this rank wants all to know.
    pub signal: RankSignal,
}

impl<'a> StepContext<'a> {
    /// Of a rank that wants nothing to be known.
    pub fn new(recipe: &'a Recipe, batch: &'a Batch, number: u64, progress: f32, ranks: &'a Ranks) -> Self {
        Self { recipe, batch, number, progress, ranks, signal: RankSignal::default() }
    }

    pub fn learning_rate(&self) -> f32 {
        learning_rate(&self.recipe.train, self.number, self.progress)
    }
}

pub(crate) fn step(model: &mut Model, adam: &mut Adam, context: StepContext) -> StepResult {
    let tape = Tape::recording(&model.parameters);
    let Forward { losses, h, targets, followed } = forward(model, &tape, context);
    let (total, h_width) = (losses.total(), h.shape().last());
    let gradients = context.gradients(tape, &total);
    let total = total.into_tensor();
    let (codebook, statistics) = CodebookStep::new(model, context.recipe, followed);
    let mut whole = context.whole(Part { gradients, total, losses, statistics, h: Some(h), targets });
    let codebook = codebook.prepared(model, whole.statistics.take());
    let mut read = update_and_read(adam, &mut model.parameters, whole, context.learning_rate());
    if read.moved {
        read.terms.covariance = codebook.applied(model);
    }
    StepResult::with_codes(read, h_width, model.recipe.code_count)
}

/// A batch's way through the networks, as far as the backward pass and the codebook need it.
pub(crate) struct Forward {
    pub losses: Losses,
    /// What the classifier sees.
    h: Tensor,
    /// [images, code_count]: what the classifier should say.
    targets: Vec<f32>,
    /// What the codebook's average follows.
    followed: Option<Followed>,
}

/// Encodes, assigns, and computes every term.
pub(crate) fn forward(model: &Model, tape: &Tape, context: StepContext) -> Forward {
    let mut losses = Losses::new(context.recipe, context.progress);
    let encoded = model.encode(tape, &Var::constant(context.batch.images.clone()));
    let assigned = assign(model, tape, &encoded, &losses, context);
    let shape = [encoded.batch, model.recipe.code_count];
    let targets = Tensor::from_slice(model.device(), shape, &assigned.targets);

    losses.add(Term::Reconstruction, assigned.reconstruction.clone());
    losses.add(Term::CrossEntropy, encoded.logits.cross_entropy_soft(&targets).mean());
    if let Some(empty) = &encoded.empty {
        let targets = Tensor::from_slice(model.device(), [encoded.batch, 1], &assigned.empty_targets);
        losses.add(Term::Emptiness, empty.bce_with_logits(&targets).mean());
    }
    if let Some(commitment) = &assigned.commitment {
        losses.add(Term::Commitment, commitment.clone());
    }
    if let Some(overlap) = &assigned.overlap {
        losses.add(Term::Overlap, overlap.clone());
    }
    if losses.counts(Term::Energy) {
        losses.add(Term::Energy, energy(model, tape, &encoded, &assigned, context));
    }
    let Assigned { targets, followed, .. } = assigned;
    Forward { losses, h: encoded.h.into_tensor(), targets, followed }
}

/// The energy score of the most probable codes' outputs.
///
/// It moves the probabilities only where annotations may share a code. Where each takes its own, the
/// cross-entropy knows how often a code is meant, and the score would trade that against what cannot be seen: a
/// mode whose masks scatter costs more than one whose masks do not, and was given 0.242 instead of 0.25.
fn energy(
    model: &Model,
    tape: &Tape,
    encoded: &Encoded,
    assigned: &Assigned,
    StepContext { recipe, batch, ranks, .. }: StepContext,
) -> Var {
    let generated;
    let (compared, codes) = match &assigned.outputs {
        Some((compared, codes)) => (compared, codes.clone()),
        None => {
            let codes = likeliest_codes(model, encoded, ranks);
            let logits = model.generate_all(tape, encoded, &codes);
            generated = compared(model, &logits, batch, encoded.batch);
            (&generated, codes)
        }
    };
    let mut probabilities = model.probabilities(encoded, &codes);
    let mut empty = encoded.empty.as_ref().map(Var::sigmoid);
    if recipe.assignment.distinct {
        probabilities = probabilities.stop_gradient();
        empty = empty.map(|empty| empty.stop_gradient());
    }
    compared.energy_score(&probabilities, empty.as_ref(), &batch.weights).mean()
}
