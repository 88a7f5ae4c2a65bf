//! A recipe planned from the data: every choice follows from the fingerprint or from the time there is, and
//! carries its reason.
//!
//! ```text
//! cases ── Fingerprint ── Plan::new ── fit (timed steps) ── recipe with reasons
//! ```
//!
//! The rules are in `rules`; the values that they choose from were measured (docs/results.md, "Planned
//! recipes").

mod rules;
mod text;

pub use rules::suits_empty_head;

use crate::recipe::{ModelRecipe, Recipe, TrainRecipe};
use crate::{Result, Trainer};
use multivalued_data::CaseList;
use multivalued_data::fingerprint::Fingerprint;
use multivalued_engine::Device;
use std::time::Instant;

/// Images that a training has to see before its result is worth judging.
const FEWEST_IMAGES: u64 = 48_000;
/// Images after which further ones were not worth their time.
const MOST_IMAGES: u64 = 190_000;
/// Passes over the training images, between these two.
const PASSES: u64 = 20;
/// Steps below which codes and probabilities have not settled, whatever the batch.
pub const FEWEST_STEPS: u64 = 1_000;
/// Steps from which on a lower learning rate was better where masks may be empty.
const STEPS_FOR_A_LOW_RATE: u64 = 6_000;
/// The share of a time budget that is left for validations and checkpoints.
const FOR_VALIDATION: f64 = 0.12;
/// Validations of a training, where they do not cost too much.
const VALIDATIONS: u64 = 24;
/// Steps that are timed, after one that is not.
const TIMED_STEPS: usize = 6;

/// One choice of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The recipe's key, as `table.key`.
    pub key: &'static str,
    /// Why it has its value.
    pub reason: String,
}

/// A recipe and the reasons for it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The recipe, complete and valid but for the data's place.
    pub recipe: Recipe,
    choices: Vec<Choice>,
    /// What the user should know before the training begins.
    pub warnings: Vec<String>,
    training_cases: u64,
    validation_cases: u64,
    /// Whether the network is another model's, and not to be chosen.
    network_is_given: bool,
    /// Seconds of a step, where some were timed.
    pub seconds_per_step: Option<f64>,
}

impl Plan {
    /// A plan from a data set's fingerprint, for so many cases to train on and to validate by.
    pub fn new(fingerprint: &Fingerprint, training_cases: usize, validation_cases: usize, gpu: bool) -> Self {
        let mut plan = Self {
            recipe: Recipe::default(),
            choices: Vec::new(),
            warnings: Vec::new(),
            training_cases: training_cases as u64,
            validation_cases: validation_cases as u64,
            network_is_given: false,
            seconds_per_step: None,
        };
        plan.recipe.train.epochs = 0;
        rules::data(&mut plan, fingerprint);
        rules::augmentation(&mut plan, fingerprint);
        rules::network(&mut plan, fingerprint, gpu);
        rules::codes(&mut plan, fingerprint, gpu);
        let images = (PASSES * plan.training_cases).clamp(FEWEST_IMAGES, MOST_IMAGES);
        let steps = images / plan.recipe.train.batch as u64;
        plan.set_steps(
            steps,
            format!(
                "{images} images in batches of {}: {PASSES} passes over {training_cases} training images, at \
                 least {FEWEST_IMAGES} and at most {MOST_IMAGES} images",
                plan.recipe.train.batch
            ),
        );
        plan
    }

    /// Takes the network of a model whose weights the training is to start from; only what the data decide stays.
    pub fn start_from(&mut self, model: &ModelRecipe) {
        let ModelRecipe { input_channels, classes, .. } = self.recipe.model;
        self.recipe.model = ModelRecipe { input_channels, classes, ..model.clone() };
        let codes = self.recipe.model.code_count;
        self.recipe.assignment.active_codes = self.recipe.assignment.active_codes.min(codes);
        self.network_is_given = true;
        self.choices.retain(|choice| !matches!(choice.key, "model.norm_group" | "model.head_width"));
        self.because("model.channels", "those of the model whose weights it starts from");
    }

    /// Records why a key has its value; a later reason replaces an earlier one.
    fn because(&mut self, key: &'static str, reason: impl Into<String>) {
        self.forget_reason(key);
        self.choices.push(Choice { key, reason: reason.into() });
    }

    /// Drops the reason of a key whose value is no longer the plan's.
    pub fn forget_reason(&mut self, key: &str) {
        self.choices.retain(|choice| choice.key != key);
    }

    /// The choices, in the order in which they were made.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// Sets the length of the training and all that follows from it.
    fn set_steps(&mut self, steps: u64, reason: String) {
        let train = &mut self.recipe.train;
        train.steps = steps.max(train.warmup_steps);
        let per_epoch = (self.training_cases / train.batch as u64).max(1);
        // Predicting an image takes about a third of what training with it takes.
        let affordable = FOR_VALIDATION * 3.0 * (train.steps * train.batch as u64) as f64
            / self.validation_cases.max(1) as f64;
        let validations = (affordable as u64).clamp(3, VALIDATIONS);
        train.validate_every = (train.steps / per_epoch / validations).max(1);
        // Where there are steps enough for a low rate, the probability of nothing is not memorised as soon.
        let low = self.recipe.model.empty_head && train.steps >= STEPS_FOR_A_LOW_RATE;
        train.learning_rate = if low { 1e-3 } else { TrainRecipe::default().learning_rate };
        // A tenth of the training, so that the average is of weights that belong together.
        let (part, most) = if low { (5.0, 2000.0) } else { (10.0, 1000.0) };
        let remembered = (train.steps as f32 / part).clamp(50.0, most);
        train.weight_average = 1.0 - 1.0 / remembered;
        let average = train.weight_average;
        self.forget_reason("train.learning_rate");
        if low {
            self.because(
                "train.learning_rate",
                "lower than usual: with so many steps it is enough, and whether anything is there is not learned by \
                 heart as soon",
            );
        }
        self.because("train.steps", reason);
        self.because(
            "train.validate_every",
            format!("about {validations} validations, at most an eighth of the time"),
        );
        self.because("train.weight_average", format!("the last {remembered:.0} steps of {steps}: {average}"));
    }

    /// Scales the plan to a time in minutes: network and batch are the largest with which the training can see
    /// enough images in that time, by steps that are timed on the device.
    pub fn fit(&mut self, minutes: f64, cases: &CaseList, device: &Device) -> Result<()> {
        let seconds = 60.0 * minutes * (1.0 - FOR_VALIDATION);
        let wanted = (PASSES * self.training_cases).clamp(FEWEST_IMAGES, MOST_IMAGES) as f64;
        let sizes = match self.network_is_given {
            false => rules::smaller(&self.recipe),
            true => [16, 8, 4].map(|batch| (self.recipe.model.channels.clone(), batch)).into(),
        };
        for (at, (channels, batch)) in sizes.iter().enumerate() {
            if !self.network_is_given {
                self.recipe.model.channels.clone_from(channels);
                self.recipe.model.norm_group = rules::norm_group(channels[0]);
                self.recipe.model.head_width = rules::head_width(channels[0]);
            }
            self.recipe.train.batch = *batch;
            let per_step = self.time(cases, device)?;
            let steps = seconds / per_step;
            let enough = steps * *batch as f64 >= 0.75 * wanted && steps >= 2.0 * FEWEST_STEPS as f64;
            if !enough && at + 1 < sizes.len() {
                continue;
            }
            let images = steps * *batch as f64;
            // Beyond a few times the usual length the time is better spent on another seed.
            let steps = steps.min(4.0 * wanted / *batch as f64) as u64;
            if !self.network_is_given {
                self.because(
                    "model.channels",
                    format!(
                        "the widest network that sees enough images in {minutes} minutes: a step takes {:.0} ms",
                        1e3 * per_step
                    ),
                );
            }
            self.because(
                "train.batch",
                format!("with {} channels a step takes {:.0} ms", channels[0], 1e3 * per_step),
            );
            self.set_steps(
                steps,
                format!(
                    "{minutes} minutes at {:.0} ms a step, an eighth of them for validations",
                    1e3 * per_step
                ),
            );
            self.seconds_per_step = Some(per_step);
            if steps < FEWEST_STEPS || images < 0.2 * FEWEST_IMAGES as f64 {
                let needed = (FEWEST_STEPS as f64).max(0.3 * wanted / *batch as f64) * per_step
                    / 60.0
                    / (1.0 - FOR_VALIDATION);
                self.warnings.push(format!(
                    "{minutes} minutes are {steps} steps here, too few to learn from these data; give it at least \
                     {} minutes, or a GPU",
                    needed.ceil()
                ));
            }
            break;
        }
        Ok(())
    }

    /// Times a few steps, so that the plan can say how long it takes.
    pub fn measure(&mut self, cases: &CaseList, device: &Device) -> Result<()> {
        self.seconds_per_step = Some(self.time(cases, device)?);
        Ok(())
    }

    /// Seconds of one step of the recipe on a device: the median of a few.
    fn time(&self, cases: &CaseList, device: &Device) -> Result<f64> {
        let mut recipe = self.recipe.clone();
        recipe.train.steps = 1_000_000;
        // The dearest part of a training: the energy score counts.
        recipe.loss.energy_from = 0.0;
        recipe.assignment.anneal_until = 0.0;
        // After one pass over so few cases most codes would rest, and steps would take half as long as they will.
        recipe.assignment.min_usage = 0.0;
        let some = cases.select(0..cases.len().min(recipe.train.batch.max(8))).to_vec()?;
        recipe.train.batch = recipe.train.batch.min(some.len());
        let scale = self.recipe.train.batch as f64 / recipe.train.batch as f64;
        let mut trainer = Trainer::new(&recipe, some, Vec::new(), device)?;
        trainer.step()?;
        let mut times = Vec::new();
        for _ in 0..TIMED_STEPS {
            let began = Instant::now();
            trainer.step()?;
            times.push(began.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2] * scale)
    }

    /// How long the training takes, in seconds, where steps were timed.
    pub fn seconds(&self) -> Option<f64> {
        Some(self.seconds_per_step? * self.recipe.train.steps as f64 / (1.0 - FOR_VALIDATION))
    }
}
