//! `bench`: how fast this machine is at what the program does.

mod listing;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use multivalued::Recipe;
use multivalued::predict::predict_cases;
use multivalued::train::Trainer;
use serde_json::json;

use crate::columns::two_columns;
use crate::device::{DeviceChoice, description};
use crate::document::Document;
use crate::exit::Outcome;
use crate::run::reader::Reader;
use crate::terminal::say_lines;

/// Measure this machine: the device's peak, a training step and a prediction of a recipe's model
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued bench\n  multivalued bench shapes --steps 5\n  multivalued bench lidc --ops\n  \
multivalued bench lidc --json step.json"
)]
pub struct Bench {
    /// A recipe that comes with the program, or a .toml file
    #[arg(default_value = "shapes-tiny")]
    recipe: String,
    /// Change a key of the recipe; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Steps to measure
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,
    /// List the operations of a training step: shapes, parameters, memory and time of each, and the step's memory
    #[arg(long)]
    ops: bool,
    /// Write the figures, and the training step with its operations, as JSON into a file (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

impl Bench {
    pub fn run(&self) -> Outcome {
        let document = self.json.as_deref().map(Document::named).transpose()?;
        let mut recipe = Recipe::open(&self.recipe)?;
        // Enough to fill some batches; a data set is read as a whole.
        recipe.data.train_count = recipe.data.train_count.min(4 * recipe.train.batch);
        (recipe.data.validation_count, recipe.data.test_count) = (0, 0);
        for set in &self.sets {
            recipe.set(set)?;
        }
        recipe.validate()?;
        let device = self.device.open(recipe.train.precision)?;
        let train = Reader::new(None).splits(&recipe.data)?.train;
        let batch = recipe.train.batch.min(train.len());
        let shown = train.select(0..train.len().min(64)).to_vec()?;
        let mut trainer = Trainer::new(&recipe, train, Vec::new(), &device)?;
        // The first steps fill caches and buffers.
        for _ in 0..3 {
            trainer.step()?;
        }
        let mut step_times = Vec::new();
        for _ in 0..self.steps {
            let start = Instant::now();
            trainer.step()?;
            step_times.push(start.elapsed().as_secs_f64());
        }
        let step = median(step_times);
        let mut predict_times = Vec::new();
        for _ in 0..5 {
            let start = Instant::now();
            let predicted = trainer.with_averaged_weights(|model| predict_cases(model, &recipe, &shown));
            std::hint::black_box(predicted?);
            predict_times.push(start.elapsed().as_secs_f64() / shown.len() as f64);
        }
        let predict = median(predict_times);
        let size = shown.first().map_or(0, |case| case.image.width());
        let peak = match device.peak_gflops() {
            Some(peak) => format!("{peak:.0} GFLOP/s of f32 multiply-adds"),
            None => {
                format!("{:.2} GiB of GPU memory at most", device.peak_bytes() as f64 / (1u64 << 30) as f64)
            }
        };
        let rows = [
            ("device", description(&device)),
            ("peak", peak),
            ("recipe", format!("{}, {batch} images of {size} x {size} in a step", self.recipe)),
            ("training step", format!("{:.1} ms ({:.1} images/s)", 1e3 * step, batch as f64 / step)),
            ("prediction", format!("{:.2} ms an image, all hypotheses", 1e3 * predict)),
        ];
        let listing = (self.ops || document.is_some()).then(|| trainer.operations()).transpose()?;
        if document != Some(Document::StandardOutput) {
            say_lines(&two_columns(&rows.map(|(name, value)| (name.to_owned(), value))))?;
            if let Some(listing) = listing.as_ref().filter(|_| self.ops) {
                say_lines(&format!("\n{}\n\n{}", listing::table(listing), listing::memory(listing)))?;
            }
        }
        if let (Some(document), Some(listing)) = (document, &listing) {
            let found = json!({
                "device": description(&device),
                "recipe": self.recipe,
                "batch": batch,
                "size": size,
                "step_seconds": step,
                "prediction_seconds_per_image": predict,
                "step": listing::json(listing, trainer.network().parameters()),
            });
            document.write(format!("{found:#}\n").as_bytes())?;
        }
        Ok(())
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
