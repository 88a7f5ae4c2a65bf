//! E_φ: the cluster mapping z(x, y) of an image and one of its annotations.

use super::blocks::{Init, Linear};
use super::image_encoder::ImageEncoder;
use crate::collective::{BATCH_STATISTICS, Ranks};
use crate::recipe::ModelRecipe;
use multivalued_engine::{Tape, Var};

/// An encoder over image and annotation side by side, its deepest features pooled and mapped to the
/// codes' dimension.
///
/// Paper: §3.2 and §4.1, "1x1 convolution and global average pool" (pooling first is the same and
/// cheaper, since both are linear). Differs: the embedding is batch-normalised without scale and
/// shift, without which all pairs start on one code.
pub(crate) struct PairEncoder {
    encoder: ImageEncoder,
    projection: Linear,
}

const EPSILON: f32 = 1e-5;

impl PairEncoder {
    pub fn new(init: &mut Init, recipe: &ModelRecipe) -> Self {
        let inputs = recipe.input_channels + recipe.output_channels();
        let deepest = recipe.channels[recipe.channels.len() - 1];
        Self {
            encoder: ImageEncoder::new(init, "pair_encoder", inputs, &recipe.channels, recipe.norm_group),
            projection: Linear::new(init, "pair_encoder.projection", deepest, recipe.code_dim),
        }
    }

    /// Embeddings, normalised by their own batch, those of other ranks included. Only training needs them, so there
    /// are no running statistics.
    ///
    /// # Shapes
    /// [batch, h, w, input channels], [batch, h, w, output channels] → [batch, code_dim]; `rows` are the pairs of all
    /// ranks
    pub fn forward(&self, tape: &Tape, image: &Var, annotation: &Var, rows: usize, ranks: &Ranks) -> Var {
        let levels = self.encoder.forward(tape, &Var::concat_channels(&[image, annotation]));
        let pooled = levels[levels.len() - 1].global_average_pool();
        let embedding = self.projection.forward(tape, &pooled);
        match ranks.are_alone() {
            true => embedding.batch_norm(EPSILON).0,
            false => normalised(&embedding, rows, ranks),
        }
    }
}

/// Batch normalisation by the statistics of all ranks' rows. The sums over ranks pass gradients on, so that each rank's
/// rows get those of the others' losses, too.
///
/// # Shapes
/// [own rows, features] → the same
fn normalised(x: &Var, rows: usize, ranks: &Ranks) -> Var {
    let columns = x.transpose(); // [features, own rows]
    let mean_of =
        |columns: &Var| ranks.summed(BATCH_STATISTICS, &columns.sum_rows()).scale(1.0 / rows as f32);
    let broadcast = |by_feature: &Var| by_feature.broadcast_rows(columns.shape());
    let centred = columns.sub(&broadcast(&mean_of(&columns)));
    let variance = mean_of(&centred.mul(&centred));
    // 1 / √(variance + ε)
    let scale = variance.add_scalar(EPSILON).ln().scale(-0.5).exp();
    centred.mul(&broadcast(&scale)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::wave;
    use multivalued_engine::{Device, Parameters, Tensor};

    /// The formula for several ranks is that of the engine's operation.
    #[test]
    fn all_rows_of_all_ranks_are_normalised_as_one_batch() {
        const SHAPE: [usize; 2] = [7, 3];
        let tensor = |phase| Tensor::from_slice(&Device::cpu(), SHAPE, &wave(21, phase, 2.0, 0.5));
        let mut parameters = Parameters::new();
        let id = parameters.add("x", tensor(0.3));
        let weights = Var::constant(tensor(1.1));
        let [of_ranks, of_engine] = [true, false].map(|of_ranks| {
            let tape = Tape::recording(&parameters);
            let x = tape.get(id);
            let y =
                if of_ranks { normalised(&x, SHAPE[0], &Ranks::alone()) } else { x.batch_norm(EPSILON).0 };
            let gradients = tape.backward(&y.mul(&weights).sum());
            [y.tensor().to_vec(), gradients.get(id).expect("the loss depends on it").to_vec()].concat()
        });
        for (a, b) in of_ranks.iter().zip(&of_engine) {
            assert!((a - b).abs() < 1e-5, "{of_ranks:?} {of_engine:?}");
        }
    }
}
