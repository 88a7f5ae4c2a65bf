//! `train`: a recipe and data in, a run's folder out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use multivalued::Recipe;
use multivalued::mixture::MOST_MEMBERS;
use multivalued::recipe::{BUILT_IN, DataRecipe, Precision};
use multivalued_engine::Device;

use super::options::Loading;
use super::plan::{data_of, full_path, planned};
use crate::device::DeviceChoice;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::run::RunFolder;
use crate::run::difference::changes;
use crate::run::evaluation::Evaluation;
use crate::run::model::RunModel;
use crate::run::observer::{Observer, Quiet, Terminal};
use crate::run::reader::Reader;
use crate::run::team::{Order, Team};
use crate::run::training::Training;
use crate::terminal::{complain, heard_by, say, say_lines};

/// Train a model, then evaluate it and write its report page
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct Train {
    /// A recipe that comes with the program, or a .toml file; without one it is planned from --data
    #[arg(required_unless_present_any = ["resume", "data"])]
    pub recipe: Option<String>,
    /// A recipe that was not read from a file
    #[arg(skip)]
    pub stated: Option<Box<Recipe>>,
    /// The data set: a folder or a manifest (docs/dataset-format.md)
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// How the data are read
    #[command(flatten)]
    pub loading: Loading,
    /// Minutes that the training (with --folds all of them together) may take: a planned one is scaled to them, a recipe is followed for so long
    #[arg(long, value_parser = super::plan::minutes, conflicts_with = "resume")]
    pub minutes: Option<f64>,
    /// Cross-validation: cut the groups (patients) into K folds and train K models, each without one of them. Every
    /// case is scored by the model that did not see it; all models together are the result
    #[arg(long, value_name = "K", value_parser = folds)]
    pub folds: Option<usize>,
    /// Start from the weights of a run or model, where they fit; a planned recipe takes its network from there
    #[arg(long, value_name = "MODEL")]
    pub from: Option<PathBuf>,
    /// Change a key of the recipe; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Seed of the weights, the order of cases and the draws of annotations
    #[arg(long)]
    pub seed: Option<u64>,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    pub device: DeviceChoice,
    /// The run's folder [default: runs/RECIPE, numbered where it is taken]
    #[arg(long, value_name = "RUN")]
    pub out: Option<PathBuf>,
    /// Go on from the last checkpoint of --out
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Seconds between checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub save_every: f64,
    /// Who train together; told by whoever starts several processes
    #[arg(skip)]
    pub team: Team,
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
    /// Runs the command.
    pub fn run(&self) -> Outcome {
        let reader = self.loading.reader();
        if !self.team.ranks().leads() {
            return heard_by(|_| (), || self.follow(&reader, &mut Quiet::default())).map(|_| ());
        }
        let (run, scored) = self.scored(&reader, &mut Terminal::default())?;
        conclude(&run, scored?)?;
        Ok(())
    }

    /// Trains as the options say. Gives the run's folder, and how the training ended.
    pub fn scored(
        &self,
        reader: &Reader,
        observer: &mut dyn Observer,
    ) -> Outcome<(RunFolder, Outcome<Option<Evaluation>>)> {
        let scored = self.prepared(reader).map(|prepared| {
            let scored = prepared.training(reader).scored(observer);
            (prepared.run, scored)
        });
        // What happened before is what matters.
        match (&scored, self.team.dismiss()) {
            (Ok((_, Ok(_))), Err(failure)) => Err(failure),
            _ => scored,
        }
    }

    /// Trains as rank 0 says, until it says no more. Gives the run's folder, into which rank 0 writes; none where it
    /// has nothing to train.
    pub fn follow(&self, reader: &Reader, observer: &mut dyn Observer) -> Outcome<Option<RunFolder>> {
        let (mut opened, mut last): (Option<(_, Device)>, _) = (None, None);
        while let Some(Order { run, recipe }) = self.team.next()? {
            let precision = recipe.recipe.train.precision;
            let device = match opened.take().filter(|(of, _)| *of == precision) {
                Some((_, device)) => device,
                None => self.open(precision)?,
            };
            let (save_every, team) = (Duration::MAX, &self.team);
            Training { run: &run, recipe: &recipe, device: &device, save_every, reader, team }
                .follow(observer)?;
            (opened, last) = (Some((precision, device)), Some(run));
        }
        Ok(last)
    }

    /// The device that was asked for.
    fn open(&self, precision: Precision) -> Outcome<Device> {
        self.device.of_rank(self.team.local()).open(precision)
    }

    /// Everything that the options ask for, before the first step: a plan where no recipe is named. A reader that
    /// holds cases stands for `--data`.
    pub fn prepared(&self, reader: &Reader) -> Outcome<Prepared> {
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
        let data = self.data(reader)?;
        let given =
            self.recipe.as_deref().map(Recipe::open).transpose()?.or_else(|| self.stated.as_deref().cloned());
        let given = given.map(|recipe| self.resolved(recipe, data.as_ref())).transpose()?;
        if !self.resume {
            run.must_be_new()?;
        }
        let going_on = self.resume && run.recipe().is_file();
        let (recipe, device) = match (going_on, given, data) {
            (true, given, _) => {
                let recipe = same_recipe(&run, given)?;
                if let Some(folds) = self.folds.filter(|folds| *folds != recipe.data.folds) {
                    let reason =
                        format!("was begun with --folds {}, not {folds}; leave it away", recipe.data.folds);
                    return Err(Failure::user(out.display(), reason));
                }
                let device = self.open(recipe.train.precision)?;
                // As it was written, comments included.
                (RecipeText { text: folder::read_text(&run.recipe())?, recipe }, device)
            }
            (false, Some(recipe), _) => {
                let device = self.open(recipe.train.precision)?;
                (RecipeText::from(recipe), device)
            }
            (false, None, Some(data)) => self.planned(data, reader)?,
            (false, None, None) => {
                return Err(RunFolder::open(&out).err().unwrap_or(Failure::OutputClosed));
            }
        };
        Ok(Prepared { run, recipe, device, save_every, team: self.team.clone() })
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

    /// The data that the options name.
    fn data(&self, reader: &Reader) -> Outcome<Option<DataRecipe>> {
        match &self.data {
            Some(path) => data_of(path, &self.loading).map(Some),
            None => Ok(reader.holds_cases().then(DataRecipe::default)),
        }
    }

    /// A recipe from the data, with what the options change, and the device it was planned for.
    fn planned(&self, data: DataRecipe, reader: &Reader) -> Outcome<(RecipeText, Device)> {
        let mut wanted = Recipe { data, ..Recipe::default() };
        for set in
            self.sets.iter().filter(|set| set.starts_with("data.") || set.starts_with("train.precision"))
        {
            wanted.set(set)?;
        }
        wanted.data.folds = self.folds.unwrap_or(wanted.data.folds);
        let device = self.open(wanted.train.precision)?;
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
    fn resolved(&self, mut recipe: Recipe, data: Option<&DataRecipe>) -> Outcome<Recipe> {
        if let Some(data) = data {
            recipe.data.path.clone_from(&data.path);
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

/// A training that can begin, or go on.
#[derive(Debug)]
pub struct Prepared {
    /// Where it happens.
    pub run: RunFolder,
    /// What it follows.
    pub recipe: RecipeText,
    /// What computes.
    pub device: Device,
    save_every: Duration,
    team: Team,
}

impl Prepared {
    /// The training itself, with the reader it was prepared by.
    pub fn training<'a>(&'a self, reader: &'a Reader) -> Training<'a> {
        let Self { run, recipe, device, save_every, team } = self;
        Training { run, recipe, device, save_every: *save_every, reader, team }
    }
}

/// A recipe, and the text that a run keeps of it.
#[derive(Debug, Clone)]
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

/// Prints scores and verdict of a training; a model of no use is a failure, and one that nothing is known of.
pub fn conclude(run: &RunFolder, scored: Option<Evaluation>) -> Outcome<Evaluation> {
    let Some(evaluation) = scored else {
        complain("the data have neither a test nor a validation part: nothing to evaluate");
        say(&format!("trained model: {}", run.best().display()))?;
        return Err(Failure::BelowBound(format!(
            "{}: nothing says how good the model is; give the data more groups",
            run.path().display()
        )));
    };
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
