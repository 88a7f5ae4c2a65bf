//! `[train]`: how the loss is minimised.

use super::table::{BELOW_ONE, MOST_SEED, recipe_table};
use serde::{Deserialize, Serialize};

recipe_table! {
    /// How it is minimised.
    train: TrainRecipe {
        /// images in a step
        batch: usize = 16, [1, 65_536], paper "32";
        /// annotations of each image in a step, drawn by weight; 0 takes all
        annotations: usize = 0, [0, 1024], paper "not stated";
        /// budget in steps; exactly one of steps, epochs and minutes is above 0
        steps: u64 = 0, [0, 1_000_000_000];
        /// budget in passes over the training images
        epochs: u64 = 100, [0, 1_000_000], paper "not stated; the rate's last step is at 1200";
        /// budget in minutes; not reproducible to the bit
        minutes: f64 = 0.0, [0, 1_000_000];
        /// the full learning rate
        learning_rate: f32 = 3e-3, [1e-12, 10], paper "1e-4";
        /// how it falls: `"cosine"`, `"paper"` or `"constant"`
        schedule: RateSchedule = RateSchedule::Cosine, paper "paper";
        /// steps over which the rate rises
        warmup_steps: u64 = 100, [0, 1_000_000_000], paper "0";
        /// share of the full rate that the cosine ends at
        final_rate: f32 = 0.01, [0, 1];
        /// Adam's decay of squared gradients
        beta2: f32 = 0.99, [0, BELOW_ONE], paper "0.999 (Adam's default)";
        /// decoupled weight decay
        weight_decay: f32 = 0.0, [0, 100], paper "0";
        /// largest norm of a step's gradients; 0 for no limit
        clip_norm: f32 = 0.0, [0, 1e9], paper "not stated";
        /// decay of the averaged weights that prediction uses; 0 for none
        weight_average: f32 = 0.998, [0, BELOW_ONE], paper "0";
        /// how a GPU computes: `"f32"`, `"tf32"` or `"bf16"` (parameters, losses and sums stay f32); without
        /// effect on a processor
        precision: Precision = Precision::Bf16;
        /// epochs between validations
        validate_every: u64 = 10, [1, 1_000_000];
        /// validations without a lower GED after which the training ends; 0 to go on to the end
        patience: u64 = 0, [0, 1_000_000];
        /// seed of weights, order of cases and draws of annotations
        seed: u64 = 1, [0, MOST_SEED];
        /// folder of a run or model whose weights the training starts from, tensor by tensor where name and
        /// shape fit (`--from`); empty to start anew
        from: String = String::new();
        /// folder of a run, model or mixture whose answers are learned beside the annotations (`distil`);
        /// empty for none
        teacher: String = String::new();
        /// share of each case's weight that the teacher's answers have
        teacher_share: f32 = 0.5, [0, BELOW_ONE];
    }
}

/// How the learning rate falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateSchedule {
    /// Half a cosine from the full rate to `final_rate` of it.
    Cosine,
    /// The paper's steps: 1, 1/2, 1/10, 1/20 at 0, 1/5, 3/5 and 4/5 of the training.
    Paper,
    /// No change.
    Constant,
}

/// How a GPU computes convolutions and stores activations; processors always compute in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// f32 throughout.
    F32,
    /// f32 values, their products rounded to ten bits of mantissa.
    Tf32,
    /// Activations and their gradients in bf16, sums in f32.
    Bf16,
}

impl From<Precision> for multivalued_engine::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::F32 => Self::F32,
            Precision::Tf32 => Self::Tf32,
            Precision::Bf16 => Self::Bf16,
        }
    }
}
