//! How probable it is that there is nothing: P(∅ | x), by a head of its own.

use super::blocks::{Conv, Init, Linear};
use super::damped;
use crate::recipe::ModelRecipe;
use multivalued_engine::{Tape, Var};

/// Looks where something might be, and says whether there is anything.
///
/// ```text
/// a(f) = Σ_p softmax_p(w·f_p) f_p          logit P(∅) = v · relu(A a(finest) + B a(deepest) + C mean(deepest))
/// ```
///
/// The classifier of codes sees the mean over the image, in which a lesion of a few pixels is lost; here the
/// network learns which pixels count. Codes are then left to say what is there if anything is.
///
/// Paper: none; its classifier gives the empty mask a code like any other.
pub(crate) struct EmptyHead {
    finest_attention: Conv,
    deepest_attention: Conv,
    finest: Linear,
    deepest: Linear,
    mean: Linear,
    output: Linear,
}

impl EmptyHead {
    /// Width of its hidden layer.
    pub const HIDDEN: usize = 64;

    pub fn new(init: &mut Init, recipe: &ModelRecipe) -> Self {
        let (finest, deepest) = (recipe.channels[0], recipe.channels[recipe.channels.len() - 1]);
        Self {
            finest_attention: Conv::new(init, "empty.finest_attention", 1, finest, 1),
            deepest_attention: Conv::new(init, "empty.deepest_attention", 1, deepest, 1),
            finest: Linear::new(init, "empty.finest", finest, Self::HIDDEN),
            deepest: Linear::new(init, "empty.deepest", deepest, Self::HIDDEN),
            mean: Linear::new(init, "empty.mean", deepest, Self::HIDDEN),
            output: Linear::new(init, "empty.output", Self::HIDDEN, 1),
        }
    }

    /// The logit of "nothing there"; `gradient` is the share of the gradient that goes on to the features.
    ///
    /// # Shapes
    /// the decoder's last features [batch, height, width, channels], the encoder's deepest ones → [batch, 1]
    pub fn forward(&self, tape: &Tape, finest: &Var, deepest: &Var, gradient: f32) -> Var {
        self.of_attended(tape, &attended(tape, &self.finest_attention, finest), deepest, gradient)
    }

    /// How much each pixel matters, as a logit.
    ///
    /// # Shapes
    /// the decoder's last features [batch, height, width, channels] → [batch, height, width, 1]
    pub fn attention(&self, tape: &Tape, finest: &Var) -> Var {
        self.finest_attention.logits(tape, finest)
    }

    /// The same of the finest features' weighted mean.
    ///
    /// # Shapes
    /// [batch, channels], the encoder's deepest features → [batch, 1]
    pub fn of_attended(&self, tape: &Tape, finest: &Var, deepest: &Var, gradient: f32) -> Var {
        let part = |layer: &Linear, pooled: &Var| layer.forward(tape, &damped(pooled, gradient));
        let parts = [
            part(&self.finest, finest),
            part(&self.deepest, &attended(tape, &self.deepest_attention, deepest)),
            part(&self.mean, &deepest.global_average_pool()),
        ];
        let hidden = parts[0].add(&parts[1]).add(&parts[2]).relu();
        self.output.forward(tape, &hidden)
    }
}

/// The mean of an image's features, each pixel weighted by how much it matters.
///
/// # Shapes
/// [batch, height, width, channels] → [batch, channels]
fn attended(tape: &Tape, attention: &Conv, features: &Var) -> Var {
    let [batch, height, width, channels] = *features.shape() else { unreachable!("features are images") };
    let weights = attention.logits(tape, features).reshape([batch, height * width]).softmax();
    weights.batched_matmul(&features.reshape([batch * height * width, channels]), batch)
}
