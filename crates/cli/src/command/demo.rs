//! `demo`: one command from nothing to a trained model and a page of pictures.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use multivalued::Recipe;

use super::train::conclude;
use crate::device::DeviceChoice;
use crate::exit::Outcome;
use crate::run::RunFolder;
use crate::run::observer::Terminal;
use crate::run::reader::Reader;
use crate::run::team::Team;
use crate::run::training::Training;
use crate::terminal::{complain, say_lines};

/// Train a small model in a few minutes and see a triangle become four shapes
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  multivalued demo")]
pub struct Demo {
    /// The run's folder [default: runs/demo, numbered where it is taken]
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

impl Demo {
    pub fn run(&self) -> Outcome {
        let run = RunFolder::at(&self.out.clone().unwrap_or_else(|| RunFolder::free("demo")));
        run.must_be_new()?;
        complain(
            "Each image shows a triangle. Four readers answered it with four shapes, each in a quarter of \
             the cases; the model is to find all four and their probabilities.",
        );
        let recipe = Recipe::named("shapes-tiny")?;
        let device = self.device.open(recipe.train.precision)?;
        let (recipe, reader) = (recipe.into(), Reader::new(None));
        let save_every = Duration::from_secs(30);
        let (device, reader, team) = (&device, &reader, &Team::default());
        let training = Training { run: &run, recipe: &recipe, device, save_every, reader, team };
        let evaluation = conclude(&run, training.scored(&mut Terminal::default())?)?;
        let Some(truth) = evaluation.report.summary.truth else { return Ok(()) };
        say_lines(&format!(
            "\n{:.1} % of the true shapes were found, their probabilities are off by {:.3} on average.\n\
             Open the page in a browser, then train on your own data: multivalued train --help",
            100.0 * truth.mode_recall,
            truth.mode_probability_mae
        ))
    }
}
