//! A recipe: everything a training run depends on, as one TOML file that states only what differs from
//! the defaults. Each of its tables is a file, with one row for each key.
//!
//! Defaults are the best measured values; [`reference()`] lists each with its meaning and the paper's value.

mod assignment;
mod augment;
mod bounds;
mod data;
mod loss;
mod memory;
mod method;
mod model;
mod predict;
mod reference;
#[cfg(test)]
mod rules;
mod table;
mod text;
mod train;
mod validate;

pub use assignment::{AssignmentRecipe, Space};
pub use data::DataRecipe;
pub use loss::{LossRecipe, Reconstruction};
pub use method::{MethodKind, MethodRecipe};
pub use model::{ClassifierKind, CodeEntry, Lookup, ModelRecipe};
pub use predict::PredictRecipe;
pub use reference::reference;
pub use text::{BUILT_IN, Key, keys, suggestion};
pub use train::{Precision, RateSchedule, TrainRecipe};

use multivalued_data::augment::Augmentation;
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

impl Recipe {
    /// Channels of an image by itself, without its neighbours.
    pub fn image_channels(&self) -> usize {
        self.model.input_channels / self.data.slices_per_input()
    }
}
