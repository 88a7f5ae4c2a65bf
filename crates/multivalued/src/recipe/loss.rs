//! `[loss]`: what is minimised. `train/terms.rs` has the terms that these are the weights of.

use super::table::{MOST_WEIGHT, recipe_table};
use serde::{Deserialize, Serialize};

recipe_table! {
    /// What is minimised: the weights of the terms, and from when on they count.
    loss: LossRecipe {
        /// distance to an annotation: `"bce"`, `"log-bce"`, `"soft-dice"` or `"soft-jaccard"`
        reconstruction: Reconstruction = Reconstruction::Bce, paper "log-bce in the text, bce in the experiments";
        /// α, weight of the classifier's cross-entropy
        cross_entropy: f32 = 1.0, [0, MOST_WEIGHT], paper "not stated";
        /// share of the training after which the cross-entropy counts
        cross_entropy_from: f32 = 0.0, [0, 1], paper "after 20 epochs";
        /// weight of the cross-entropy of `model.empty_head`
        emptiness: f32 = 1.0, [0, MOST_WEIGHT];
        /// β, weight of the commitment
        commitment: f32 = 0.25, [0, MOST_WEIGHT], paper "0.25";
        /// γ, step of the covariance descent on codes in use; 0 switches it off
        covariance: f32 = 0.01, [0, 1000], paper "0.01; 0 as ablation";
        /// κ, decay of the codebook's moving average; 1 fixes the codebook
        average_decay: f32 = 0.99, [0, 1], paper "not stated";
        /// weight of the soft Jaccard distance of annotations to their codes' outputs, once the assignment is
        /// hard
        overlap: f32 = 4.0, [0, MOST_WEIGHT], paper "0";
        /// weight of the energy score
        energy: f32 = 1.0, [0, MOST_WEIGHT], paper "0";
        /// share of the training after which the energy score counts
        energy_from: f32 = 0.7, [0, 1];
        /// weight of the reconstruction once the energy score counts
        reconstruction_with_energy: f32 = 0.3, [0, MOST_WEIGHT];
        /// share of the gradient of probabilities that reaches the features which masks are drawn from; below
        /// 1 fewer probabilities are memorised
        probability_gradient: f32 = 1.0, [0, 1], paper "1";
    }
}

/// The distance of an output to an annotation that the reconstruction minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reconstruction {
    /// Binary (or softmax) cross-entropy.
    Bce,
    /// Its logarithm, as the paper writes it, with a floor.
    LogBce,
    /// 1 − soft Dice.
    SoftDice,
    /// 1 − soft Jaccard.
    SoftJaccard,
}
