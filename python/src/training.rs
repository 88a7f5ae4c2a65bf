//! Plans and trainings. A Python function follows a training; it may end it, and so may Ctrl-C.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use multivalued::Recipe;
use multivalued::recipe::{BUILT_IN, DataRecipe};
use multivalued_cli::{Failure, Numbers, Observer, Outcome, Reader, RunFolder, Train, data_of, planned};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::cases::{Cases, HowToRead};
use crate::failure::{LOOK_EVERY, computed, exception, guarded, raised_by_signal};
use crate::model::device;
use crate::ranks;

/// Steps are told no more often than this.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// A Python function as the one who follows a training.
struct Follower {
    follow: Py<PyAny>,
    total: Option<u64>,
    told: Instant,
    looked: Instant,
    /// The function said False.
    ended: bool,
    /// What it raised, or the pressed keys.
    raised: Option<PyErr>,
}

impl Follower {
    fn new(follow: Py<PyAny>) -> Self {
        let now = Instant::now();
        Self { follow, total: None, told: now, looked: now, ended: false, raised: None }
    }

    fn tell(&mut self, kind: &str, step: u64, epoch: u64, progress: f32, numbers: &Numbers) {
        if self.is_over() {
            return;
        }
        self.told = Instant::now();
        let said = Python::attach(|py| {
            let said = self.follow.call1(py, (kind, step, self.total, epoch, progress, numbers.clone()))?;
            Ok(said.bind(py).extract::<bool>().unwrap_or(true))
        });
        match said {
            Ok(goes_on) => self.ended = !goes_on,
            Err(error) => self.raised = Some(error),
        }
    }

    fn is_over(&self) -> bool {
        self.ended || self.raised.is_some()
    }
}

impl Observer for Follower {
    fn begin(&mut self, _: &RunFolder, step: u64, total: Option<u64>, _: u64) -> Outcome {
        self.total = total;
        self.tell("begin", step, 0, 0.0, &Numbers::new());
        Ok(())
    }

    fn is_due(&self) -> bool {
        self.told.elapsed() >= TELL_EVERY
    }

    fn step(&mut self, step: u64, epoch: u64, progress: f32, numbers: &Numbers) {
        self.tell("step", step, epoch, progress, numbers);
    }

    fn epoch(&mut self, step: u64, epoch: u64, progress: f32, numbers: &Numbers) {
        self.tell("epoch", step, epoch, progress, numbers);
    }

    fn asks_to_stop(&mut self) -> bool {
        if !self.is_over() && self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            self.raised = raised_by_signal();
        }
        self.is_over()
    }

    fn end(&mut self) -> bool {
        self.is_over()
    }
}

/// A recipe from its JSON.
fn recipe_of(text: &str) -> Outcome<Recipe> {
    /// TOML knows no null: a key without a value is left away.
    fn without_nulls(value: &mut Value) {
        match value {
            Value::Object(table) => {
                table.retain(|_, value| !value.is_null());
                table.values_mut().for_each(without_nulls);
            }
            Value::Array(list) => list.iter_mut().for_each(without_nulls),
            _ => {}
        }
    }
    let refused = |error: &dyn std::fmt::Display| Failure::user("recipe", error);
    let mut value: Value = serde_json::from_str(text).map_err(|error| refused(&error))?;
    without_nulls(&mut value);
    let text = toml::to_string(&value).map_err(|error| refused(&error))?;
    Ok(Recipe::parse(&text, "of this dictionary")?)
}

/// A recipe by its name, by its file or from its JSON: complete, checked, as JSON.
#[pyfunction]
fn recipe(
    py: Python<'_>,
    name: Option<String>,
    stated: Option<String>,
    sets: Vec<String>,
) -> PyResult<String> {
    guarded(py, || {
        let mut recipe = match (name, stated) {
            (Some(name), _) => Recipe::open(&name)?,
            (None, Some(stated)) => recipe_of(&stated)?,
            (None, None) => Recipe::default(),
        };
        for set in sets {
            recipe.set(&set)?;
        }
        recipe.validate()?;
        Ok(json!(recipe).to_string())
    })
}

/// The names of the recipes that come with the program.
#[pyfunction]
fn recipe_names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// A recipe as the text of a .toml file.
#[pyfunction]
fn recipe_toml(py: Python<'_>, stated: String) -> PyResult<String> {
    guarded(py, || Ok(recipe_of(&stated)?.to_toml()))
}

/// Who reads the data: the given cases, or files.
fn reader_of(cases: Option<&Cases>, how: &HowToRead) -> Outcome<Reader> {
    match cases {
        Some(cases) => cases.reader(),
        None => Ok(Reader::new(how.cache.as_deref())),
    }
}

/// The recipe that suits some data, with its reasons, as JSON.
#[pyfunction]
fn plan(
    py: Python<'_>,
    cases: Option<PyRef<'_, Cases>>,
    data: Option<PathBuf>,
    minutes: Option<f64>,
    device_name: String,
    how: HowToRead,
    threads: Option<usize>,
    listener: Py<PyAny>,
) -> PyResult<String> {
    let cases = cases.as_deref();
    computed(py, threads, Some(listener), || {
        let device = device(&device_name)?.open(Recipe::default().train.precision)?;
        let data = match data {
            Some(path) => data_of(&path, &how.loading()?)?,
            None => DataRecipe::default(),
        };
        let plan = planned(&data, &reader_of(cases, &how)?, minutes, None, &device)?;
        let reasons: Vec<_> = plan.choices().iter().map(|one| (one.key, &one.reason)).collect();
        Ok(json!({
            "recipe": plan.recipe,
            "reasons": reasons,
            "warnings": plan.warnings,
            "seconds": plan.seconds(),
            "toml": plan.to_toml(),
        })
        .to_string())
    })
}

/// How a training ended: the run's folder, and whether it came to its end.
type Ended = (PathBuf, bool);

/// Trains; every option has the meaning of the command line's.
#[pyfunction]
fn train(
    py: Python<'_>,
    recipe: Option<String>,
    stated: Option<String>,
    cases: Option<PyRef<'_, Cases>>,
    data: Option<PathBuf>,
    out: Option<PathBuf>,
    minutes: Option<f64>,
    folds: Option<usize>,
    from_model: Option<PathBuf>,
    sets: Vec<String>,
    seed: Option<u64>,
    device_name: String,
    resume: bool,
    save_every: f64,
    how: HowToRead,
    threads: Option<usize>,
    follow: Py<PyAny>,
    listener: Py<PyAny>,
    transport: Option<Py<PyAny>>,
) -> PyResult<Ended> {
    let team = ranks::team(py, transport)?;
    let cases = cases.as_deref();
    let mut follower = Follower::new(follow);
    let (path, ended) = computed(py, threads, Some(listener), || {
        let stated = stated.as_deref().map(recipe_of).transpose()?.map(Box::new);
        let (loading, device) = (how.loading()?, device(&device_name)?);
        let options = Train {
            recipe,
            stated,
            data,
            loading,
            minutes,
            folds,
            from: from_model,
            sets,
            seed,
            device,
            out,
            resume,
            save_every,
            team,
        };
        let reader = reader_of(cases, &how)?;
        if !options.team.ranks().leads() {
            let run = options.follow(&reader, &mut follower)?;
            return Ok((run.map_or_else(PathBuf::new, |run| run.path().to_owned()), Ok(())));
        }
        let (run, ended) = options.scored(&reader, &mut follower)?;
        Ok((run.path().to_owned(), ended.map(|_| ())))
    })?;
    let Follower { raised, ended: was_ended, .. } = follower;
    match (ended, raised) {
        (Ok(()), None) => Ok((path, true)),
        (Err(Failure::Interrupted(_)), None) if was_ended => Ok((path, false)),
        // The sentence says what was saved and how to go on.
        (Err(interrupted @ Failure::Interrupted(_)), Some(raised)) => {
            match raised.is_instance_of::<PyKeyboardInterrupt>(py) {
                true => Err(exception(interrupted)),
                false => Err(raised),
            }
        }
        (Ok(()), Some(raised)) => Err(raised),
        (Err(failure), _) => Err(exception(failure)),
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(recipe, module)?)?;
    module.add_function(wrap_pyfunction!(recipe_names, module)?)?;
    module.add_function(wrap_pyfunction!(recipe_toml, module)?)?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(train, module)?)
}
