//! A recipe: everything a training run depends on, as one TOML file that states only what differs from
//! the defaults.
//!
//! Defaults are the best measured values; [`reference()`] lists each with its meaning and the paper's value.

mod bounds;
mod memory;
mod method;
mod reference;
#[cfg(test)]
mod rules;
mod text;
mod validate;

pub use method::{MethodKind, MethodRecipe};
pub use reference::reference;
pub use text::{BUILT_IN, Key, keys, suggestion};

use crate::Result;
use multivalued_data::augment::Augmentation;
use multivalued_data::normalise::Normalisation;
use multivalued_data::{CaseList, Grid};
use serde::{Deserialize, Serialize};

/// A whole recipe.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// Which method it is.
    pub method: MethodRecipe,
    /// Where cases come from.
    pub data: DataRecipe,
    /// What is done to training samples.
    pub augment: Augmentation,
    /// The networks and the codebook.
    pub model: ModelRecipe,
    /// How annotations find their codes.
    pub assignment: AssignmentRecipe,
    /// What is minimised.
    pub loss: LossRecipe,
    /// How it is minimised.
    pub train: TrainRecipe,
    /// What a prediction keeps.
    pub predict: PredictRecipe,
}

/// Where cases come from: a synthetic task, or a data set on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataRecipe {
    /// A synthetic task's name; empty where `path` names a data set.
    pub task: String,
    /// A data set's folder or manifest; empty for a synthetic task.
    pub path: String,
    /// How a data set's files are arranged; empty to find out by content.
    pub layout: String,
    /// What makes stored values a mask (`binary`, `threshold:VALUE`, `labels:COUNT`); empty for what the
    /// data set says, else by the values of its masks.
    pub masks: String,
    /// A regular expression: what its first capture group, else all of it, matches of a case's id is the case's
    /// group. Empty for the data set's own groups.
    pub group_by: String,
    /// Whether images with a file that cannot be used are left out (and named) instead of refused.
    pub skip_bad: bool,
    /// Edge length of a synthetic task's images.
    pub size: usize,
    /// Training cases of a synthetic task.
    pub train_count: usize,
    /// Validation cases of a synthetic task.
    pub validation_count: usize,
    /// Test cases of a synthetic task.
    pub test_count: usize,
    /// Share of a data set's groups kept for validation, where it states no split.
    pub validation_share: f64,
    /// Share of a data set's groups kept for testing, where it states no split.
    pub test_share: f64,
    /// Parts of a cross-validation: the groups of all cases are cut into so many, whatever split is stated; 0 for
    /// none.
    pub folds: usize,
    /// Which of them this training is scored on and does not see, from 1 on; 0 stands for all of them in turn.
    pub fold: usize,
    /// Seed of the synthetic task and of splits.
    pub seed: u64,
    /// How raw values become network input.
    pub normalise: Normalisation,
    /// Width and height that images are brought to before the network sees them; outputs are brought back.
    pub resize: Option<[usize; 2]>,
    /// Distance of columns and rows, in the files' unit, that images are brought to before the network sees them;
    /// outputs are brought back. 0 for none.
    pub spacing: f32,
    /// Neighbouring slices on either side that the network sees as further channels; 0 for none.
    pub context: usize,
}

impl DataRecipe {
    /// What images are brought to, if anything.
    pub fn grid(&self) -> Option<Grid> {
        let spacing = (self.spacing > 0.0).then_some(Grid::Spacing(self.spacing));
        self.resize.map(Grid::Size).or(spacing)
    }

    /// Images that the network sees of each case: itself, and its neighbours.
    pub fn slices_together(&self) -> usize {
        1 + 2 * self.context
    }

    /// Cases as the network sees them.
    pub fn in_context(&self, cases: CaseList) -> Result<CaseList> {
        Ok(if self.context == 0 { cases } else { cases.with_neighbours()? })
    }
}

impl Recipe {
    /// Channels of an image by itself, without its neighbours.
    pub fn image_channels(&self) -> usize {
        self.model.input_channels / self.data.slices_together()
    }
}

impl Default for DataRecipe {
    fn default() -> Self {
        Self {
            task: String::new(),
            path: String::new(),
            layout: String::new(),
            masks: String::new(),
            group_by: String::new(),
            skip_bad: false,
            size: 160,
            train_count: 2000,
            validation_count: 200,
            test_count: 200,
            validation_share: 0.1,
            test_share: 0.2,
            folds: 0,
            fold: 0,
            seed: 1,
            normalise: Normalisation::MinMax,
            resize: None,
            spacing: 0.0,
            context: 0,
        }
    }
}

/// How the classifier's matrix is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassifierKind {
    /// The fixed simplex equiangular tight frame.
    SimplexEtf,
    /// A trained matrix: the paper's ablation.
    Learnable,
}

/// How embeddings are compared with codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lookup {
    /// By angle: embeddings and codes have length one.
    Cosine,
    /// By distance, as the paper writes it.
    Euclidean,
}

/// Where a code enters the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeEntry {
    /// The last 1x1 layers: all hypotheses share one decoder pass.
    Head,
    /// The deepest level: one decoder pass per hypothesis.
    Bottleneck,
}

/// The networks and the codebook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelRecipe {
    /// Channels of the encoder's levels, the finest first.
    pub channels: Vec<usize>,
    /// Channels of the input image, 1 to 4.
    pub input_channels: usize,
    /// Foreground classes; 1 is a binary mask.
    pub classes: usize,
    /// Channels per group of the group normalisation; 0 for none.
    pub norm_group: usize,
    /// N: codes in the codebook.
    pub code_count: usize,
    /// m: dimensions of a code and of h.
    pub code_dim: usize,
    /// Where a code enters the generator.
    pub code_entry: CodeEntry,
    /// Channels of the 1x1 head.
    pub head_width: usize,
    /// Hidden 1x1 layers between the one the code enters and the output.
    pub head_hidden: usize,
    /// Standard deviation of the weights that a code enters by, at the start.
    pub code_scale: f32,
    /// How the classifier's matrix is made.
    pub classifier: ClassifierKind,
    /// Width of the classifier's hidden layer; 0 for none.
    pub classifier_hidden: usize,
    /// How embeddings are compared with codes.
    pub lookup: Lookup,
    /// Whether codes are trained by gradient rather than by the moving average.
    pub train_codes: bool,
    /// Whether a head of its own says how probable the empty mask is; codes are then for other masks.
    pub empty_head: bool,
}

impl Default for ModelRecipe {
    fn default() -> Self {
        Self {
            channels: vec![32, 64, 128, 256],
            input_channels: 1,
            classes: 1,
            norm_group: 8,
            code_count: 16,
            code_dim: 16,
            code_entry: CodeEntry::Head,
            head_width: 32,
            head_hidden: 1,
            code_scale: 0.5,
            classifier: ClassifierKind::SimplexEtf,
            classifier_hidden: 64,
            lookup: Lookup::Cosine,
            train_codes: false,
            empty_head: false,
        }
    }
}

impl ModelRecipe {
    /// One logit for a binary mask, else one per class and one for the background.
    pub fn output_channels(&self) -> usize {
        if self.classes == 1 { 1 } else { self.classes + 1 }
    }
}

/// The space in which an annotation finds its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// Among the outputs of all codes: the paper's E_2.
    Output,
    /// Among the codes themselves, by the pair encoder: the paper's E_3.
    Embedding,
}

/// How annotations find their codes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AssignmentRecipe {
    /// The space in which the nearest code is looked for.
    pub space: Space,
    /// Codes that take part from the start; the others stay in reserve. 0 for all.
    pub active_codes: usize,
    /// Temperature of the soft assignment at the start, in units of the distance.
    pub temperature_start: f32,
    /// Temperature when it turns hard.
    pub temperature_end: f32,
    /// Share of the training after which the assignment is hard.
    pub anneal_until: f32,
    /// Distance that one unit of −ln p(code) weighs in the hard assignment: what makes scattered codes
    /// gather into one.
    pub prior: f32,
    /// Whether different annotations of one image must take different codes (outputs of a
    /// multi-valued mapping are different by definition).
    pub distinct: bool,
    /// Annotations of one image that overlap at least this much (IoU) count as the same output.
    pub same_iou: f32,
    /// Codes that serve a smaller share of the annotations are put into reserve, from when the assignment
    /// turns hard on, every 2,000 images.
    pub min_usage: f32,
}

impl Default for AssignmentRecipe {
    fn default() -> Self {
        Self {
            space: Space::Output,
            active_codes: 16,
            temperature_start: 0.5,
            temperature_end: 0.03,
            anneal_until: 0.12,
            prior: 0.25,
            distinct: true,
            same_iou: 0.99,
            min_usage: 0.002,
        }
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

/// What is minimised: the weights of the terms, and from when on they count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossRecipe {
    /// The reconstruction's distance.
    pub reconstruction: Reconstruction,
    /// α: weight of the classifier's cross-entropy.
    pub cross_entropy: f32,
    /// Share of the training after which the cross-entropy counts.
    pub cross_entropy_from: f32,
    /// Weight of the cross-entropy of the head for the empty mask (`model.empty_head`).
    pub emptiness: f32,
    /// β: weight of the commitment.
    pub commitment: f32,
    /// γ: step size of the covariance descent on the codes in use; 0 switches it off.
    pub covariance: f32,
    /// κ: decay of the codebook's moving average; 1 fixes the codebook.
    pub average_decay: f32,
    /// Weight of the soft Jaccard distance between an annotation and its code's output, once the
    /// assignment is hard.
    pub overlap: f32,
    /// Weight of the energy score.
    pub energy: f32,
    /// Share of the training after which the energy score counts.
    pub energy_from: f32,
    /// Weight of the reconstruction once the energy score counts.
    pub reconstruction_with_energy: f32,
    /// Share of the probabilities' gradient that reaches the features that masks are drawn from.
    pub probability_gradient: f32,
}

impl Default for LossRecipe {
    fn default() -> Self {
        Self {
            reconstruction: Reconstruction::Bce,
            cross_entropy: 1.0,
            cross_entropy_from: 0.0,
            emptiness: 1.0,
            commitment: 0.25,
            covariance: 0.01,
            average_decay: 0.99,
            overlap: 4.0,
            energy: 1.0,
            energy_from: 0.7,
            reconstruction_with_energy: 0.3,
            probability_gradient: 1.0,
        }
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

/// How it is minimised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainRecipe {
    /// Images in a step.
    pub batch: usize,
    /// Annotations of each image in a step, drawn by weight; 0 takes all of them with their weights.
    pub annotations: usize,
    /// Steps to train; 0 where `epochs` or `minutes` say when to stop.
    pub steps: u64,
    /// Passes over the training images; 0 where `steps` or `minutes` say when to stop.
    pub epochs: u64,
    /// Minutes to train; 0 where `steps` or `epochs` say when to stop. Not reproducible to the bit.
    pub minutes: f64,
    /// The full learning rate.
    pub learning_rate: f32,
    /// How it falls.
    pub schedule: RateSchedule,
    /// Steps over which the rate rises to the full one.
    pub warmup_steps: u64,
    /// Share of the full rate that the cosine ends at.
    pub final_rate: f32,
    /// Adam's decay of squared gradients.
    pub beta2: f32,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Largest norm of a step's gradients; 0 for no limit.
    pub clip_norm: f32,
    /// Decay of the averaged weights that prediction uses; 0 for none.
    pub weight_average: f32,
    /// How a GPU computes; without effect on a processor.
    pub precision: Precision,
    /// Epochs between validations.
    pub validate_every: u64,
    /// Validations without a better one after which the training ends; 0 to go on to the end.
    pub patience: u64,
    /// Seed of the weights, the order of cases and the draws of annotations.
    pub seed: u64,
    /// A run or model whose weights the training starts from, where they fit; empty to start anew.
    pub from: String,
    /// A run or model whose answers are learned beside the annotations; empty for none.
    pub teacher: String,
    /// The share of each case's weight that its answers have.
    pub teacher_share: f32,
}

impl Default for TrainRecipe {
    fn default() -> Self {
        Self {
            batch: 16,
            annotations: 0,
            steps: 0,
            epochs: 100,
            minutes: 0.0,
            learning_rate: 3e-3,
            schedule: RateSchedule::Cosine,
            warmup_steps: 100,
            final_rate: 0.01,
            beta2: 0.99,
            weight_decay: 0.0,
            clip_norm: 0.0,
            weight_average: 0.998,
            precision: Precision::Bf16,
            validate_every: 10,
            patience: 0,
            seed: 1,
            from: String::new(),
            teacher: String::new(),
            teacher_share: 0.5,
        }
    }
}

/// What a prediction keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PredictRecipe {
    /// ε: codes below this probability are dropped.
    pub min_probability: f32,
    /// Outputs that overlap at least this much (IoU) are merged, their probabilities added.
    pub merge_iou: f32,
    /// Samples of the Probabilistic U-Net's prior for each image.
    pub samples: usize,
    /// Views of each image, moved as `augment` says and brought back, whose outputs are averaged.
    pub views: usize,
    /// Whether a training ends with the three temperatures below fitted to the validation cases.
    pub calibrate: bool,
    /// T: the probabilities of masks that are not empty are raised to 1/T.
    pub temperature: f32,
    /// T_∅: the logit of the empty mask's probability is divided by it.
    pub empty_temperature: f32,
    /// b: added to that logit afterwards.
    pub empty_shift: f32,
    /// Logits by which the outline of every mask is moved outwards and inwards, a third of its probability each.
    pub spread: f32,
}

impl PredictRecipe {
    /// Forgets what was fitted to the validation cases of a training.
    pub fn forget_fit(&mut self) {
        let Self { temperature, empty_temperature, empty_shift, spread, .. } = Self::default();
        (self.temperature, self.empty_temperature) = (temperature, empty_temperature);
        (self.empty_shift, self.spread) = (empty_shift, spread);
    }
}

impl Default for PredictRecipe {
    fn default() -> Self {
        Self {
            min_probability: 1e-5,
            merge_iou: 0.99,
            samples: 100,
            views: 1,
            calibrate: true,
            temperature: 1.0,
            empty_temperature: 1.0,
            empty_shift: 0.0,
            spread: 0.0,
        }
    }
}
