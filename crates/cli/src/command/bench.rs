//! `bench`: how fast this machine is at what the program does.

use std::time::{Duration, Instant};

use clap::Args;
use multivalued::Recipe;
use multivalued::predict::predict_cases;
use multivalued::train::Trainer;
use multivalued_engine::{Listed, Listing};

use crate::columns::two_columns;
use crate::device::{DeviceChoice, description};
use crate::exit::Outcome;
use crate::run::reader::Reader;
use crate::terminal::say_lines;

/// Measure this machine: the device's peak, a training step and a prediction of a recipe's model
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued bench\n  multivalued bench shapes --steps 5\n  multivalued bench lidc --ops"
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
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

impl Bench {
    pub fn run(&self) -> Outcome {
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
        say_lines(&two_columns(&rows.map(|(name, value)| (name.to_owned(), value))))?;
        if self.ops {
            say_lines("")?;
            let listing = trainer.operations()?;
            say_lines(&table(&listing.operations))?;
            say_lines("")?;
            say_lines(&memory(&listing))?;
        }
        Ok(())
    }
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.2}", bytes as f64 / (1u64 << 20) as f64)
}

/// The operations of a step as a table, with a line of sums. Memory is in MiB: that of the result, what is kept for the
/// backward pass, and what is alive after the operation.
fn table(operations: &[Listed]) -> String {
    let milliseconds = |time: Duration| format!("{:.3}", 1e3 * time.as_secs_f64());
    let head =
        ["operation", "shapes", "parameters", "MiB", "kept MiB", "alive MiB", "forward ms", "backward ms"];
    let of = |op: &Listed| {
        let operands: Vec<String> = op.operands.iter().map(ToString::to_string).collect();
        let shapes = format!("{} -> {}", operands.join(" "), op.result);
        let [bytes, kept, alive] = [op.bytes, op.kept, op.alive].map(mebibytes);
        let [forward, backward] = [op.forward, op.backward].map(milliseconds);
        [op.name.clone(), shapes, op.parameters.to_string(), bytes, kept, alive, forward, backward]
    };
    let bytes = [|op: &Listed| op.bytes, |op: &Listed| op.kept];
    let [bytes, kept] = bytes.map(|bytes| mebibytes(operations.iter().map(bytes).sum()));
    let times = [|op: &Listed| op.forward, |op: &Listed| op.backward];
    let [forward, backward] = times.map(|time| milliseconds(operations.iter().map(time).sum()));
    let (count, parameters) = (operations.len(), operations.iter().map(|op| op.parameters).sum::<usize>());
    let name = format!("{count} operations");
    let sums = [name, String::new(), parameters.to_string(), bytes, kept, String::new(), forward, backward];
    let rows: Vec<[String; 8]> =
        [head.map(str::to_owned)].into_iter().chain(operations.iter().map(of)).chain([sums]).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The memory that a step needs by its operations, and what the device held.
fn memory(listing: &Listing) -> String {
    let [forward, backward, held, before] =
        [listing.planned_forward, listing.planned_backward, listing.held, listing.before].map(mebibytes);
    let rows = [
        (
            "memory by the plan",
            format!("at most {forward} MiB in the forward pass, {backward} MiB in the backward pass"),
        ),
        ("memory held", format!("at most {held} MiB, of which {before} MiB were there before the step")),
    ];
    two_columns(&rows.map(|(name, value)| (name.to_owned(), value)))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
