//! A training that takes a second.

use crate::workplace::{Answer, Workplace};

/// A recipe of few and small images, without augmentation.
pub const RECIPE: &str = "\
[data]
task = \"shapes\"
size = 16
train_count = 32
validation_count = 4
test_count = 4

[model]
channels = [4, 8]
head_width = 4
code_count = 4
code_dim = 4
classifier_hidden = 8

[assignment]
active_codes = 0

[train]
batch = 8
epochs = 0
steps = 40
learning_rate = 0.02
warmup_steps = 5
validate_every = 2
";

impl Workplace {
    /// A workplace with `tiny.toml`.
    pub fn with_recipe() -> Self {
        let place = Self::new();
        place.write("tiny.toml", RECIPE);
        place
    }

    /// Trains the tiny recipe into `run`, with more arguments.
    pub fn train(&self, run: &str, more: &[&str]) -> Answer {
        self.run(&[&["train", "tiny.toml", "--out", run], more].concat())
    }
}
