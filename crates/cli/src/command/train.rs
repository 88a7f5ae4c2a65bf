//! `train`: a recipe and data in, a run's folder out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use multivalued::Recipe;
use multivalued::recipe::BUILT_IN;

use super::options::Loading;
use crate::device::DeviceChoice;
use crate::exit::{Failure, Outcome};
use crate::run::RunFolder;
use crate::run::cases::{Cases, TEST};
use crate::run::difference::changes;
use crate::run::evaluation::Evaluation;
use crate::run::model::RunModel;
use crate::run::training::Training;
use crate::terminal::{complain, say};

/// Train a model, then evaluate it and write its report page
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct Train {
    /// A recipe that comes with the program, or a .toml file; not needed with --resume
    #[arg(required_unless_present = "resume")]
    recipe: Option<String>,
    /// The data set: a folder or a manifest (docs/dataset-format.md)
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    #[command(flatten)]
    loading: Loading,
    /// Change a key of the recipe; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Seed of the weights, the order of cases and the draws of annotations
    #[arg(long)]
    seed: Option<u64>,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// The run's folder [default: runs/RECIPE, numbered where it is taken]
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Go on from the last checkpoint of --out
    #[arg(long, requires = "out")]
    resume: bool,
    /// Seconds between checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    save_every: f64,
}

fn after_help() -> String {
    let recipes: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    format!(
        "Examples:\n  multivalued train shapes-tiny\n  multivalued train lidc --data data/lidc --out runs/lidc\n  \
         multivalued train my.toml --set train.steps=20000 --seed 2\n  multivalued train --resume --out \
         runs/lidc\n\nRecipes that come with the program: {}.\n\ndocs/recipe.md lists every key of a recipe, \
         docs/run-folder.md what a run leaves.",
        recipes.join(", ")
    )
}

impl Train {
    pub fn run(&self) -> Outcome {
        let save_every = Duration::try_from_secs_f64(self.save_every).map_err(|_| {
            Failure::user("--save-every", format!("{} is no time in seconds", self.save_every))
        })?;
        let recipe = self.recipe.as_deref().map(|name| self.resolved(name)).transpose()?;
        let out = match &self.out {
            Some(out) => out.clone(),
            None => RunFolder::free(&stem(self.recipe.as_deref().unwrap_or("run"))),
        };
        let run = RunFolder::at(&out);
        if run.is_shipped() {
            return Err(Failure::user(
                out.display(),
                "is a model that was handed on: it can predict, not go on training; choose another --out",
            ));
        }
        let recipe = match (self.resume && run.recipe().is_file(), recipe) {
            (true, given) => same_recipe(&run, given)?,
            (false, Some(recipe)) => recipe,
            (false, None) => return Err(RunFolder::open(&out).err().unwrap_or(Failure::OutputClosed)),
        };
        if !self.resume {
            run.must_be_new()?;
        }
        let device = self.device.open(recipe.train.precision)?;
        trained(&run, &recipe, &device, save_every).map(|_| ())
    }

    /// The recipe with everything that the options change.
    fn resolved(&self, name: &str) -> Outcome<Recipe> {
        let mut recipe = Recipe::open(name)?;
        if let Some(path) = &self.data {
            // The run is read from anywhere later.
            let full = path.canonicalize().map_err(|error| Failure::io(path, &error))?;
            let Some(text) = full.to_str() else {
                return Err(Failure::user(path.display(), "its name is not UTF-8; rename it"));
            };
            recipe.data.path = text.to_owned();
            recipe.data.task.clear();
        }
        self.loading.write_to(&mut recipe);
        for set in &self.sets {
            recipe.set(set)?;
        }
        if let Some(seed) = self.seed {
            recipe.train.seed = seed;
        }
        recipe.validate()?;
        Ok(recipe)
    }
}

/// Trains, evaluates on the test part and publishes; says where.
pub fn trained(
    run: &RunFolder,
    recipe: &Recipe,
    device: &multivalued_engine::Device,
    save_every: Duration,
) -> Outcome<Option<Evaluation>> {
    let lock = run.lock()?;
    Training { run, recipe, device, save_every }.run(&lock)?;
    let cases = Cases::of_run(run)?;
    if !cases.has(TEST) {
        complain("the data have no test part: nothing to evaluate");
        say(&format!("trained model: {}", run.best().display()))?;
        return Ok(None);
    }
    let evaluation = Evaluation::of(&RunModel::of_run(run, device)?, cases, None)?;
    evaluation.publish(run)?;
    say(&evaluation.table())?;
    say(&format!("\nreport page: {}", run.page().display()))?;
    Ok(Some(evaluation))
}

/// A recipe's name as a folder's name.
fn stem(recipe: &str) -> String {
    Path::new(recipe).file_stem().map_or_else(|| "run".into(), |stem| stem.to_string_lossy().into_owned())
}

/// The run's own recipe; one that is given as well must be the same.
fn same_recipe(run: &RunFolder, given: Option<Recipe>) -> Outcome<Recipe> {
    let own = Recipe::read(&run.recipe())?;
    let Some(given) = given.filter(|given| *given != own) else { return Ok(own) };
    Err(Failure::user(
        run.path().display(),
        format!("was begun with another recipe ({}); give none with --resume", changes(&own, &given)),
    ))
}
