//! Which method a recipe trains, and what the baselines need besides the common keys.

use serde::{Deserialize, Serialize};

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

/// The method, and the keys of the Probabilistic U-Net.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MethodRecipe {
    /// What is trained.
    pub kind: MethodKind,
    /// Dimensions of the latent space.
    pub latent_dim: usize,
    /// β: weight of the divergence of the posterior from the prior.
    pub divergence: f32,
}

impl Default for MethodRecipe {
    fn default() -> Self {
        Self { kind: MethodKind::Multivalued, latent_dim: 6, divergence: 10.0 }
    }
}
