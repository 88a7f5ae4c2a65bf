//! E_φ: the cluster mapping z(x, y) of an image and one of its annotations.

use super::blocks::{Init, Linear};
use super::image_encoder::ImageEncoder;
use crate::recipe::ModelRecipe;
use multivalued_engine::{BatchStatistics, ParameterId, Parameters, Tape, Tensor, Var};

/// An encoder over image and annotation side by side, its deepest features pooled and mapped to the
/// codes' dimension.
///
/// Paper: §3.2 and §4.1, "1x1 convolution and global average pool" (pooling first is the same and
/// cheaper, since both are linear). Differs: the embedding is batch-normalised without scale and
/// shift, without which all pairs start on one code.
pub(crate) struct PairEncoder {
    encoder: ImageEncoder,
    projection: Linear,
    running_mean: ParameterId,
    running_variance: ParameterId,
}

const EPSILON: f32 = 1e-5;
/// How much of a batch's statistics goes into the running ones.
const MOMENTUM: f32 = 0.1;

impl PairEncoder {
    pub fn new(init: &mut Init, recipe: &ModelRecipe) -> Self {
        let inputs = recipe.input_channels + recipe.output_channels();
        let m = recipe.code_dim;
        let deepest = recipe.channels[recipe.channels.len() - 1];
        Self {
            encoder: ImageEncoder::new(init, "pair_encoder", inputs, &recipe.channels, recipe.norm_group),
            projection: Linear::new(init, "pair_encoder.projection", deepest, m),
            running_mean: init.state("pair_encoder.running_mean", &[m], &vec![0.0; m]),
            running_variance: init.state("pair_encoder.running_variance", &[m], &vec![1.0; m]),
        }
    }

    fn project(&self, tape: &Tape, image: &Var, annotation: &Var) -> Var {
        let levels = self.encoder.forward(tape, &Var::concat_channels(&[image, annotation]));
        self.projection.forward(tape, &levels[levels.len() - 1].global_average_pool())
    }

    /// Embeddings normalised by this batch, and the batch's statistics.
    ///
    /// # Shapes
    /// [batch, h, w, input channels], [batch, h, w, output channels] → [batch, code_dim]
    pub fn forward(&self, tape: &Tape, image: &Var, annotation: &Var) -> (Var, BatchStatistics) {
        self.project(tape, image, annotation).batch_norm(EPSILON)
    }

    /// Embeddings normalised by the running statistics: what evaluation uses.
    pub fn forward_frozen(&self, tape: &Tape, image: &Var, annotation: &Var) -> Var {
        let statistics = BatchStatistics {
            mean: tape.get(self.running_mean).into_tensor(),
            variance: tape.get(self.running_variance).into_tensor(),
        };
        self.project(tape, image, annotation).batch_norm_by(&statistics, EPSILON)
    }

    /// Moves the running statistics towards a batch's.
    pub fn follow(&self, parameters: &mut Parameters, statistics: &BatchStatistics) {
        let targets = [(self.running_mean, &statistics.mean), (self.running_variance, &statistics.variance)];
        for (id, batch) in targets {
            let batch = Tensor::to_vec(batch);
            parameters.modify(id, |running| {
                for (running, batch) in running.iter_mut().zip(batch) {
                    *running += MOMENTUM * (batch - *running);
                }
            });
        }
    }
}
