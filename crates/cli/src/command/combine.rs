//! `combine`: several models as one that says what they say together.

use std::path::PathBuf;

use clap::Args;
use multivalued::Mixture;
use multivalued::mixture::MOST_MEMBERS;
use multivalued_engine::Device;

use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::run::RunFolder;
use crate::run::hand_on::HandedOn;
use crate::run::known::hashes;
use crate::run::model::RunModel;
use crate::terminal::{complain, say};

/// Make one model of several runs or models, such as seeds of one recipe: they predict together
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued combine runs/lidc-1 runs/lidc-2 runs/lidc-3 --out models/lidc-mixture\n  \
multivalued evaluate models/lidc-mixture --data data/lidc\n\nEach of K members gives 1/K of the probability; equal \
outputs are merged, their probabilities added. `predict`, `evaluate`, `calibrate`, `inspect` and `export` take the \
folder in place of a run's. A prediction takes as long as those of all members. `train --folds` makes such a model \
by itself."
)]
pub struct Combine {
    /// Two or more folders of runs or models, all for images of the same channels and masks of the same classes
    #[arg(required = true, num_args = 2..)]
    pub runs: Vec<PathBuf>,
    /// The folder to write to
    #[arg(long, value_name = "MODEL")]
    pub out: PathBuf,
}

impl Combine {
    /// Runs the command.
    pub fn run(&self) -> Outcome {
        let megabytes = self.write()? as f64 / 1e6;
        let (count, out) = (self.runs.len(), self.out.display());
        say(&format!(
            "{count} models, {megabytes:.2} MB together, in {out}; a prediction takes as long as those of all of them"
        ))
    }

    /// Writes the folder, and gives the bytes of all weights.
    pub fn write(&self) -> Outcome<usize> {
        if self.runs.len() > MOST_MEMBERS {
            return Err(Failure::user(
                "combine",
                format!("{} models; at most {MOST_MEMBERS} can predict together", self.runs.len()),
            ));
        }
        let mut members = Vec::new();
        let mut known = Vec::new();
        for path in &self.runs {
            let run = RunFolder::open(path)?;
            known.push(hashes(&run)?.swap_remove(0));
            let model = RunModel::of_run(&run, &Device::cpu())?;
            members.push(model.alone().map_err(|reason| Failure::user(path.display(), reason))?);
        }
        let mixture = Mixture::new(members)?;
        if let Some(other) = known.iter().position(|hash| *hash != known[0]) {
            let [one, other] = [&self.runs[0], &self.runs[other]].map(|path| path.display());
            complain(&format!(
                "note: {one} and {other} were not trained on the same data, as far as is known"
            ));
        }
        let handed_on = HandedOn::new(&mixture, known)?;
        // A model that is there twice only counts twice: what it takes gains nothing.
        if let Some(twins) = handed_on.twins() {
            let [one, other] = twins.map(|at| self.runs[at].display());
            let reason = format!("has the same weights as {one}; name each model once");
            return Err(Failure::user(other, reason));
        }
        folder::make_empty(&self.out)?;
        handed_on.write(&self.out)?;
        Ok(handed_on.weights)
    }
}
