//! The state of a checkpoint.

use std::fs;
use std::path::PathBuf;

use multivalued::train::checkpoint::recipe_of;
use multivalued::{Recipe, Trainer};
use multivalued_data::Case;
use multivalued_data::synthetic::{Task, TaskName};
use multivalued_engine::Device;

const DATA: &str = "the data's hash";

/// A checkpoint of a training that has not begun, whose state is replaced by others.
pub struct Checkpoint {
    folder: PathBuf,
    recipe: Recipe,
    cases: Vec<Case>,
}

impl Checkpoint {
    /// Trains for some steps and saves as a folder.
    pub fn make(folder: PathBuf, steps: u64) -> Self {
        let mut recipe = Recipe::default();
        for change in [
            "data.task=shapes",
            "data.size=16",
            "model.channels=[2, 4]",
            "model.norm_group=2",
            "model.code_count=4",
            "model.code_dim=4",
            "model.head_width=2",
            "model.classifier_hidden=2",
            "assignment.active_codes=0",
            "train.batch=2",
            "train.epochs=0",
            "train.steps=20",
            "train.warmup_steps=2",
        ] {
            recipe.set(change).unwrap();
        }
        let cases = Task::new(TaskName::Shapes, 16, 1).unwrap().generate("train", 4);
        let mut trainer = Trainer::new(&recipe, cases.clone(), Vec::new(), &Device::cpu()).unwrap();
        for _ in 0..steps {
            trainer.step().unwrap();
        }
        trainer.save(&folder, DATA).unwrap();
        Self { folder, recipe, cases }
    }

    /// A recipe or a refusal that names the checkpoint; a training that goes on, or a refusal.
    pub fn check(&self, state: &[u8]) {
        fs::write(self.folder.join("state.json"), state).unwrap();
        let recipe = match recipe_of(&self.folder) {
            Ok(recipe) => recipe,
            Err(fault) => return assert!(fault.to_string().contains("state.json"), "{fault}"),
        };
        let _ = recipe.validate();
        // Another recipe may ask for another network, whose size is the recipe's matter.
        if recipe != self.recipe {
            return;
        }
        let resumed = Trainer::resume(&self.folder, self.cases.clone(), Vec::new(), DATA, &Device::cpu());
        if let Ok(mut trainer) = resumed {
            if !trainer.is_finished() {
                trainer.step().unwrap();
            }
            trainer.end_epoch().unwrap();
        }
    }
}
