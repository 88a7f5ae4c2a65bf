//! P_ϕ: how probable each code is for an image.

use super::blocks::{Init, Linear};
use super::damped;
use super::simplex_etf::simplex_etf;
use crate::Result;
use crate::recipe::{ClassifierKind, ModelRecipe};
use multivalued_engine::{ParameterId, Tape, Var};

/// Pooled features of the deepest level, a hidden layer, h ∈ R^m, and logits A h.
///
/// ```text
/// p(c_j | x) = exp(m_jᵀ h) / Σ_k exp(m_kᵀ h)
/// ```
///
/// Paper: §3.2 "Probability prediction". Differs: the sum runs over the N codes (the text says m); h is
/// not normalised, since unit-length h cannot give a probability above 0.0106 for N = 256; a hidden
/// layer makes h a non-linear feature, without which a fixed A would be no restriction at all.
pub(crate) struct Classifier {
    hidden: Option<Linear>,
    projection: Linear,
    /// The frame A [code_count, code_dim]; trained in the ablation "learnable classifier".
    frame: ParameterId,
}

impl Classifier {
    pub fn new(init: &mut Init, recipe: &ModelRecipe, features: usize) -> Result<Self> {
        let (n, m) = (recipe.code_count, recipe.code_dim);
        let hidden = (recipe.classifier_hidden > 0)
            .then(|| Linear::new(init, "classifier.hidden", features, recipe.classifier_hidden));
        let inputs = if hidden.is_some() { recipe.classifier_hidden } else { features };
        let projection = Linear::new(init, "classifier.projection", inputs, m);
        let frame = match recipe.classifier {
            ClassifierKind::SimplexEtf => {
                let frame = simplex_etf(n, m, init.seed)?;
                init.state("classifier.frame", &[n, m], &frame)
            }
            ClassifierKind::Learnable => init.uniform("classifier.frame", &[n, m], 1.0 / (m as f64).sqrt()),
        };
        Ok(Self { hidden, projection, frame })
    }

    /// The feature h and the logits; `gradient` is the share of the gradient that goes on to the deepest features.
    ///
    /// # Shapes
    /// deepest features [batch, h, w, channels] → [batch, code_dim], [batch, code_count]
    pub fn forward(&self, tape: &Tape, deepest: &Var, gradient: f32) -> (Var, Var) {
        let mut features = damped(&deepest.global_average_pool(), gradient);
        if let Some(hidden) = &self.hidden {
            features = hidden.forward(tape, &features).relu();
        }
        let h = self.projection.forward(tape, &features);
        let logits = h.matmul(&tape.get(self.frame).transpose());
        (h, logits)
    }
}
