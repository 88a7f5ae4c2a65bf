//! `train`: a recipe and data in, a run's folder out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use multivalued::Recipe;
use multivalued::mixture::MOST_MEMBERS;
use multivalued::recipe::BUILT_IN;
use multivalued_engine::Device;

use super::options::Loading;
use super::plan::{data_of, full_path, planned};
use crate::device::DeviceChoice;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::run::RunFolder;
use crate::run::cases::{Cases, TEST, VALIDATION};
use crate::run::difference::changes;
use crate::run::evaluation::Evaluation;
use crate::run::folds::cross_validated;
use crate::run::model::RunModel;
use crate::run::reader::Reader;
use crate::run::training::Training;
use crate::terminal::{complain, say, say_lines};

/// Train a model, then evaluate it and write its report page
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct Train {
    /// A recipe that comes with the program, or a .toml file; without one it is planned from --data
    #[arg(required_unless_present_any = ["resume", "data"])]
    recipe: Option<String>,
    /// The data set: a folder or a manifest (docs/dataset-format.md)
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    #[command(flatten)]
    loading: Loading,
    /// Minutes that the training (with --folds all of them together) may take: a planned one is scaled to them, a recipe is followed for so long
    #[arg(long, value_parser = super::plan::minutes, conflicts_with = "resume")]
    minutes: Option<f64>,
    /// Cross-validation: cut the groups (patients) into K folds and train K models, each without one of them. Every
    /// case is scored by the model that did not see it; all models together are the result
    #[arg(long, value_name = "K", value_parser = folds)]
    folds: Option<usize>,
    /// Start from the weights of a run or model, where they fit; a planned recipe takes its network from there
    #[arg(long, value_name = "MODEL")]
    from: Option<PathBuf>,
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
        "Examples:\n  multivalued train --data data/ --minutes 10\n  multivalued train --data data/ --folds 5 --out \
         runs/mine\n  multivalued train --data data/ --from models/lidc\n  multivalued train shapes-tiny\n  \
         multivalued train lidc --data data/lidc --out runs/lidc\n  multivalued train my.toml --set train.steps=20000 --seed 2\n  multivalued train --resume --out \
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
        let out = match &self.out {
            Some(out) => out.clone(),
            None => RunFolder::free(&self.name()),
        };
        let run = RunFolder::at(&out);
        if run.is_shipped() {
            return Err(Failure::user(
                out.display(),
                "is a model that was handed on: it can predict, not go on training; choose another --out",
            ));
        }
        let given = self.recipe.as_deref().map(|name| self.resolved(name)).transpose()?;
        if !self.resume {
            run.must_be_new()?;
        }
        let reader = self.loading.reader();
        let going_on = self.resume && run.recipe().is_file();
        let (text, device) = match (going_on, given, &self.data) {
            (true, given, _) => {
                let recipe = same_recipe(&run, given)?;
                if let Some(folds) = self.folds.filter(|folds| *folds != recipe.data.folds) {
                    let reason =
                        format!("was begun with --folds {}, not {folds}; leave it away", recipe.data.folds);
                    return Err(Failure::user(out.display(), reason));
                }
                let device = self.device.open(recipe.train.precision)?;
                // As it was written, comments included.
                (RecipeText { text: folder::read_text(&run.recipe())?, recipe }, device)
            }
            (false, Some(recipe), _) => {
                let device = self.device.open(recipe.train.precision)?;
                (RecipeText::from(recipe), device)
            }
            (false, None, Some(data)) => self.planned(data, &reader)?,
            (false, None, None) => {
                return Err(RunFolder::open(&out).err().unwrap_or(Failure::OutputClosed));
            }
        };
        match text.recipe.data.folds > 0 && text.recipe.data.fold == 0 {
            true => cross_validated(&run, &text, &device, save_every, &reader)?,
            false => trained(&run, &text, &device, save_every, &reader)?,
        };
        Ok(())
    }

    /// What the run is called where no folder is named: after its recipe, or after its data.
    fn name(&self) -> String {
        match (&self.recipe, &self.data) {
            (Some(recipe), _) => stem(recipe),
            (None, Some(data)) => data
                .canonicalize()
                .ok()
                .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
                .unwrap_or_else(|| "run".into()),
            (None, None) => "run".into(),
        }
    }

    /// A recipe from the data, with what the options change, and the device it was planned for.
    fn planned(&self, data: &Path, reader: &Reader) -> Outcome<(RecipeText, Device)> {
        let mut wanted = Recipe { data: data_of(data, &self.loading)?, ..Recipe::default() };
        for set in
            self.sets.iter().filter(|set| set.starts_with("data.") || set.starts_with("train.precision"))
        {
            wanted.set(set)?;
        }
        wanted.data.folds = self.folds.unwrap_or(wanted.data.folds);
        let device = self.device.open(wanted.train.precision)?;
        let from = self.from.as_deref().map(|from| RunModel::of_path(from, &Device::cpu())).transpose()?;
        let from = from.as_ref().map(|model| &model.recipe().model);
        let mut plan = planned(&wanted.data, reader, self.minutes_each(&wanted), from, &device)?;
        self.change(&mut plan.recipe)?;
        for (key, _) in self.sets.iter().filter_map(|set| set.split_once('=')) {
            plan.forget_reason(key.trim());
        }
        Ok((RecipeText { text: plan.to_toml(), recipe: plan.recipe }, device))
    }

    /// The recipe with everything that the options change.
    fn resolved(&self, name: &str) -> Outcome<Recipe> {
        let mut recipe = Recipe::open(name)?;
        if let Some(path) = &self.data {
            recipe.data.path = data_of(path, &self.loading)?.path;
            recipe.data.task.clear();
        }
        self.loading.write_to(&mut recipe);
        for set in self.sets.iter().filter(|set| set.starts_with("data.fold")) {
            recipe.set(set)?;
        }
        recipe.data.folds = self.folds.unwrap_or(recipe.data.folds);
        if let Some(minutes) = self.minutes_each(&recipe) {
            recipe.train.minutes = minutes;
            (recipe.train.steps, recipe.train.epochs) = (0, 0);
        }
        self.change(&mut recipe)?;
        Ok(recipe)
    }

    /// The minutes of one training of those that the recipe asks for.
    fn minutes_each(&self, recipe: &Recipe) -> Option<f64> {
        let trainings = if recipe.data.fold == 0 { recipe.data.folds.max(1) } else { 1 };
        Some(self.minutes? / trainings as f64)
    }

    /// Applies --set, --seed and --from.
    fn change(&self, recipe: &mut Recipe) -> Outcome {
        for set in &self.sets {
            recipe.set(set)?;
        }
        if let Some(seed) = self.seed {
            recipe.train.seed = seed;
        }
        if let Some(from) = &self.from {
            recipe.train.from = full_path(from)?;
        }
        Ok(recipe.validate()?)
    }
}

/// A recipe, and the text that a run keeps of it.
#[derive(Debug)]
pub struct RecipeText {
    /// As it is followed.
    pub recipe: Recipe,
    /// As it is written: a planned one has the reasons for its choices.
    pub text: String,
}

impl RecipeText {
    /// The same for one fold of a cross-validation.
    pub fn of_fold(&self, fold: usize) -> Outcome<Self> {
        let mut recipe = self.recipe.clone();
        recipe.data.fold = fold;
        // The reasons stay where only this line changes.
        let text = self.text.replacen("\nfold = 0\n", &format!("\nfold = {fold}\n"), 1);
        match Recipe::parse(&text, "recipe.toml")? == recipe {
            true => Ok(Self { recipe, text }),
            false => Ok(recipe.into()),
        }
    }
}

/// A number of folds.
fn folds(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(folds) if (2..=MOST_MEMBERS).contains(&folds) => Ok(folds),
        _ => Err(format!("a cross-validation has 2 to {MOST_MEMBERS} folds, such as 5")),
    }
}

impl From<Recipe> for RecipeText {
    fn from(recipe: Recipe) -> Self {
        Self { text: recipe.to_toml(), recipe }
    }
}

/// Trains, evaluates on the test part and publishes; says where.
pub fn trained(
    run: &RunFolder,
    recipe: &RecipeText,
    device: &Device,
    save_every: Duration,
    reader: &Reader,
) -> Outcome<Evaluation> {
    let Some(evaluation) = trained_and_scored(run, recipe, device, save_every, reader)? else {
        complain("the data have neither a test nor a validation part: nothing to evaluate");
        say(&format!("trained model: {}", run.best().display()))?;
        return Err(Failure::BelowBound(format!(
            "{}: nothing says how good the model is; give the data more groups",
            run.path().display()
        )));
    };
    conclude(run, evaluation)
}

/// Trains, evaluates on the test part and publishes; none where there are no cases to evaluate on.
pub fn trained_and_scored(
    run: &RunFolder,
    recipe: &RecipeText,
    device: &Device,
    save_every: Duration,
    reader: &Reader,
) -> Outcome<Option<Evaluation>> {
    let lock = run.lock()?;
    Training { run, recipe, device, save_every, reader }.run(&lock)?;
    let mut cases = Cases::of_run(run, reader)?;
    let Some(part) = [TEST, VALIDATION].into_iter().find(|part| cases.has(part)) else { return Ok(None) };
    if part == VALIDATION {
        complain("the data have no test part: the scores are of the cases that the model was chosen by");
    }
    let (_, training) = cases.take(Some("train"), "train")?;
    let evaluation = Evaluation::of(&RunModel::of_run(run, device)?, cases, Some(part))?;
    let evaluation = evaluation.judged(run, std::slice::from_ref(run), Some(&training))?;
    evaluation.publish(run)?;
    Ok(Some(evaluation))
}

/// Prints scores and verdict; a model of no use is a failure.
pub fn conclude(run: &RunFolder, evaluation: Evaluation) -> Outcome<Evaluation> {
    say_lines(&(evaluation.table() + "\n"))?;
    say(&format!("report page: {}", run.page().display()))?;
    match evaluation.verdict() {
        Some(verdict) if !verdict.useful => Err(Failure::BelowBound(format!(
            "{}: {}",
            run.path().display(),
            verdict.findings.first().map_or("the model is of no use", String::as_str)
        ))),
        _ => Ok(evaluation),
    }
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
