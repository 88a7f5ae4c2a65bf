//! How C moves with a step: the moving average of the embeddings, then the covariance step.
//!
//! Its sums over the batch go to the other ranks with the gradients. What needs memory comes before the parameters
//! move, so that a step that runs out of it has changed nothing; the codes move after them, and only if they did.

use super::assign::Followed;
use crate::model::{Model, Update, Updated, orthogonality_threshold};
use crate::recipe::Recipe;
use multivalued_engine::Tensor;

/// The rule that codes move by; none where they follow no embeddings.
pub(super) struct CodebookStep(Option<Update>);

/// Codes that are computed, and not yet the model's.
pub(super) struct PreparedCodebook(Option<Updated>);

impl CodebookStep {
    /// The step, and this rank's sums for the moving average where there is one. Codes that are trained by gradient do
    /// not follow.
    pub fn new(model: &Model, recipe: &Recipe, followed: Option<Followed>) -> (Self, Option<[Tensor; 2]>) {
        let Some(followed) = followed.filter(|_| !model.recipe.train_codes) else {
            return (Self(None), None);
        };
        let fixed = recipe.loss.average_decay >= 1.0;
        let rule = Update {
            decay: (!fixed).then_some(recipe.loss.average_decay),
            threshold: orthogonality_threshold(model.recipe.code_dim),
            step: if fixed { 0.0 } else { recipe.loss.covariance },
        };
        let Followed { responsibilities, embeddings } = followed;
        let sums = (!fixed).then(|| model.codebook.statistics(&responsibilities, &embeddings));
        (Self(Some(rule)), sums)
    }

    /// Computes the codes by the sums of all ranks, before the parameters move.
    pub fn prepared(self, model: &Model, statistics: Option<[Tensor; 2]>) -> PreparedCodebook {
        PreparedCodebook(self.0.map(|rule| model.codebook.update(&model.parameters, statistics, &rule)))
    }
}

impl PreparedCodebook {
    /// Gives the codes to the model, after the parameters have moved; the covariance loss, 0 where nothing follows.
    pub fn applied(self, model: &mut Model) -> f32 {
        self.0.map_or(0.0, |updated| model.codebook.set(&mut model.parameters, updated).loss)
    }
}
