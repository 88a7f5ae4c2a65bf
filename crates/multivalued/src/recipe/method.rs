//! `[method]`: which method a recipe trains, and what the baselines need besides the common keys.

use super::table::{MOST_WEIGHT, recipe_table};
use serde::{Deserialize, Serialize};

recipe_table! {
    /// The method, and the keys of the Probabilistic U-Net.
    method: MethodRecipe {
        /// what is trained: `"multivalued"`, or a baseline, `"probabilistic-unet"` or `"unet"`; a baseline
        /// takes no `assignment` and no code of `model`, the Probabilistic U-Net no `loss`
        kind: MethodKind = MethodKind::Multivalued, paper "all but unet";
        /// dimensions of the Probabilistic U-Net's latent space
        latent_dim: usize = 6, [1, 1024], paper "6 (Kohl et al.)";
        /// β, weight of its divergence of posterior from prior, beside a cross-entropy that is summed over
        /// pixels
        divergence: f32 = 10.0, [0, MOST_WEIGHT], paper "10 (Kohl et al.)";
    }
}

/// The methods that the same commands train, predict with and evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodKind {
    /// The paper's: a codebook, a generator and a classifier.
    Multivalued,
    /// Kohl et al. 2018: a U-Net whose head takes a sample of a Gaussian latent space.
    ProbabilisticUnet,
    /// One output of probability one.
    Unet,
}
