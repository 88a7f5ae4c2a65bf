//! `distil`: one model that has learned what several say together.

use std::path::PathBuf;

use clap::Args;
use multivalued_engine::Device;

use super::options::Loading;
use super::plan::full_path;
use super::train::Train;
use crate::device::DeviceChoice;
use crate::exit::Outcome;
use crate::run::model::RunModel;
use crate::run::team::Team;

/// Train one model, the student, from the answers of another, such as a mixture, and from annotations
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued combine runs/lidc-1 runs/lidc-2 runs/lidc-3 --out models/lidc-mixture\n  \
multivalued distil models/lidc-mixture --data data/lidc --out runs/student\n\nThe teacher predicts every training \
image once. Its answers, as a list of eight masks, and the annotations share the weight of a case; validation and test \
cases keep their annotations alone. The student follows the recipe of the teacher (of a mixture's first member), with \
what --set changes, and takes as long to predict as one model. `train --resume --out RUN` goes on with one that was \
interrupted."
)]
pub struct Distil {
    /// The teacher: the folder of a mixture, a run or a model
    model: PathBuf,
    /// The data set to train on: a folder or a manifest (docs/dataset-format.md)
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    #[command(flatten)]
    loading: Loading,
    /// The share of each case's weight that the teacher's answers have, from 0 to below 1
    #[arg(long, default_value_t = 0.5)]
    share: f32,
    /// Minutes that the training may take
    #[arg(long, value_parser = super::plan::minutes)]
    minutes: Option<f64>,
    /// Change a key of the recipe; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Seed of the weights, the order of cases and the draws of annotations
    #[arg(long)]
    seed: Option<u64>,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// The run's folder
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
}

impl Distil {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let mut recipe = RunModel::of_path(&self.model, &Device::cpu())?.recipe().without_place();
        (recipe.data.folds, recipe.data.fold) = (0, 0);
        // Fitted to the teacher, not to the student.
        recipe.predict.forget_fit();
        recipe.train.teacher = full_path(&self.model)?;
        recipe.train.teacher_share = self.share;
        Train {
            recipe: None,
            stated: Some(Box::new(recipe)),
            data: Some(self.data),
            loading: self.loading,
            minutes: self.minutes,
            folds: None,
            from: None,
            sets: self.sets,
            seed: self.seed,
            device: self.device,
            out: Some(self.out),
            resume: false,
            save_every: 30.0,
            team: Team::default(),
        }
        .run()
    }
}
