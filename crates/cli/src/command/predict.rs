//! `predict`: images in, one mask file per hypothesis out, with their probabilities.

mod existing;
mod inputs;
mod maps;
mod output;
mod queue;
mod segmentation;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::{Args, ValueEnum};
use existing::Policy;
use inputs::Inputs;
use multivalued::Limit;
use multivalued::answer::Keep;
use multivalued_data::dataset::Layout;
use output::{Output, Written, refuse_links};
use queue::{Event, Queue, Task};

use super::options::{bytes, level, share};
use crate::device::DeviceChoice;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::run::RunFolder;
use crate::run::counting::Counting;
use crate::run::levels;
use crate::run::likeness;
use crate::run::model::{RunModel, usual_memory};
use crate::terminal::{complain, say};

/// Slices of one size that are predicted together: whole batches of the predictor.
const BATCH_OF_PROCESSOR: usize = 32;
/// The same on a GPU, which is not busy with fewer.
const BATCH_OF_GPU: usize = 128;

/// Predict images: one mask file per hypothesis in the input's own format and geometry
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued predict models/lidc slice.png\n  multivalued predict runs/lidc \
scan.nii.gz --out predictions\n  multivalued \
predict runs/lidc images/ --top 3 --out predictions\n  multivalued predict runs/lidc CT/ --format dicom\n  multivalued predict runs/lidc data/lidc --resume \
--out predictions\n\nFor each image a folder of its name, or of its case's id: hypothesis-1 (the \
most probable), hypothesis-2 and so on, prediction.json with probabilities, codes, areas and the distribution of sizes, and sheet.png. A \
warning tells where an image is unlike the training data. \
The sheet shows at most five hypotheses, which stand for all, unless --list, --merge, --top or --coverage chose others. \
For a volume hypothesis-k is the k-th most probable whole volume; its neighbouring slices go together as the \
largest overlap demands (docs/predictions.md)."
)]
pub struct Predict {
    /// The run's folder, or a model's
    run: PathBuf,
    /// Image files, folders of them, DICOM files or series, data sets in any layout that `train` reads, or manifests
    #[arg(required = true, num_args = 1..)]
    images: Vec<PathBuf>,
    /// The folder to write to
    #[arg(long, value_name = "DIR", default_value = "predictions")]
    out: PathBuf,
    /// Keep only the most probable hypotheses; of a volume 10 unless stated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Keep the set that holds the hypothesis nearest to a reader's mask with this probability;
    /// `calibrate` the run for it first
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    coverage: Option<f64>,
    /// Write at most so many hypotheses that stand for all: what is left out gives its probability to one that
    /// is kept. The GED that this loses is stated
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["top", "coverage", "merge"])]
    list: Option<u32>,
    /// Merge hypotheses whose IoU is at least this, probabilities summed. The GED that this loses is stated
    #[arg(long, value_name = "IOU", value_parser = share, conflicts_with_all = ["top", "coverage"])]
    merge: Option<f64>,
    /// Also draw masks at random, each hypothesis by its probability
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000))]
    samples: u32,
    /// Views of each image to average [default: the recipe's predict.views]
    #[arg(long, value_name = "N")]
    views: Option<usize>,
    /// Memory that computing an image may take, as 2GiB; larger images are computed in strips, with the same result
    /// [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,
    /// Also write maps in the input's format: the mean probability of each class, its contours, and the pixels' entropy
    #[arg(long)]
    maps: bool,
    /// What hypotheses are written as
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = MaskFormat::Input)]
    format: MaskFormat,
    /// The layout of the data sets, where it is not to be found by content
    #[arg(long, value_name = "NAME")]
    layout: Option<Layout>,
    /// Go on where an earlier call was stopped: what is complete by its checksums is skipped
    #[arg(long, conflicts_with = "overwrite")]
    resume: bool,
    /// Replace the predictions that are there
    #[arg(long)]
    overwrite: bool,
    /// End with 0 although some images cannot be predicted; they are named in any case
    #[arg(long)]
    skip_bad: bool,
    /// Seed of the samples
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

/// What hypotheses are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MaskFormat {
    /// A file each, in the input's format; for DICOM in NIfTI, without a word on the patient
    Input,
    /// For DICOM: one DICOM segmentation with a segment each. It has the source's patient and study attributes
    Dicom,
}

impl Predict {
    pub fn run(&self) -> Outcome {
        let device = self.device.open_to_predict()?;
        let model = RunModel::of_path(&self.run, &device)?.with_views(self.views)?;
        let limit = Limit { bytes: self.memory.or_else(|| usual_memory(&device)), told: Some(strips_told()) };
        let model = model.within(&limit);
        let coverage = self.coverage.map(|level| levels::at(&RunFolder::at(&self.run), level)).transpose()?;
        let fingerprint = likeness::fingerprint(&RunFolder::at(&self.run))?;
        let Inputs { all: inputs, faults } =
            Inputs::find(&self.images, self.layout, model.recipe().image_channels())?;
        if self.format == MaskFormat::Dicom {
            segmentation::refuse_others(&inputs)?;
        }
        let count = |number: Option<u32>| number.map(|number| number as usize);
        let keep = Keep { top: count(self.top), coverage, list: count(self.list), merge: self.merge };
        let output = Output {
            out: &self.out,
            settings: settings::of(self, &model, &keep)?,
            samples: self.samples as usize,
            seed: self.seed,
            maps: self.maps,
            keep: &keep,
            format: self.format,
        };
        // Before any work is done for nothing.
        let mut found = Vec::with_capacity(inputs.len());
        for input in &inputs {
            refuse_links(&self.out, &input.name)?;
            let folder = self.out.join(&input.name);
            let state = existing::look(&folder, self.policy(), &output.settings)?;
            found.push((folder, state));
        }
        folder::make(&self.out)?;
        let tasks = inputs.iter().zip(&found);
        let tasks: Vec<Task> = tasks.map(|(input, (folder, state))| Task { input, folder, state }).collect();
        let queue = Queue {
            tasks: &tasks,
            model: &model,
            fingerprint: fingerprint.as_ref(),
            batch: if device.is_asynchronous() { BATCH_OF_GPU } else { BATCH_OF_PROCESSOR },
            keep: &keep,
            write: &|finished| output.write(finished),
        };
        let mut tally = Tally::new(tasks.len() + faults.len(), self.skip_bad);
        faults.into_iter().try_for_each(|fault| tally.add(Event::Failed(Failure::User(fault))))?;
        queue.run(|event| tally.add(event))?;
        tally.finish(&self.out)
    }

    fn policy(&self) -> Policy {
        match (self.resume, self.overwrite) {
            (true, _) => Policy::Resume,
            (_, true) => Policy::Overwrite,
            _ => Policy::Refuse,
        }
    }
}

/// What became of the images so far.
struct Tally {
    total: usize,
    skip_bad: bool,
    began: Instant,
    counting: Counting,
    written: usize,
    complete: usize,
    failed: usize,
    losses: Vec<f64>,
    /// Of the volume that was written last.
    sizes: Option<String>,
}

impl Tally {
    fn new(total: usize, skip_bad: bool) -> Self {
        // The slices of an only image are counted where they are predicted.
        let counting = Counting::new(if total == 1 { 0 } else { total });
        let began = Instant::now();
        Self {
            total,
            skip_bad,
            began,
            counting,
            written: 0,
            complete: 0,
            failed: 0,
            losses: Vec::new(),
            sizes: None,
        }
    }

    /// Counts an image. That of an only one ends the command; others are told of.
    fn add(&mut self, event: Event) -> Outcome {
        match event {
            Event::Complete => self.complete += 1,
            Event::Written(Written { losses, sizes }) => {
                self.written += 1;
                self.losses.extend(losses);
                self.sizes = sizes;
            }
            Event::Failed(failure) if self.total == 1 && !self.skip_bad => return Err(failure),
            Event::Failed(failure) => {
                let word = if self.skip_bad { "skipped" } else { "failed" };
                complain(&format!("{word}: {}", failure.message().unwrap_or_default()));
                self.failed += 1;
            }
            Event::Fatal(failure) => return Err(failure),
        }
        self.counting.reached(self.written + self.complete + self.failed);
        Ok(())
    }

    /// Says what was done.
    fn finish(self, out: &Path) -> Outcome {
        let Self { total, skip_bad, began, written, complete, failed, losses, sizes, counting } = self;
        drop(counting);
        if failed == total {
            let all = counted(total, "image");
            return Err(match skip_bad {
                true => Failure::user(
                    "--skip-bad",
                    format!("all of {all} were skipped, so nothing was predicted; repair them"),
                ),
                false => {
                    Failure::user(out.display(), format!("none of {all} could be predicted; repair them"))
                }
            });
        }
        let mut line = format!("{} predicted", counted(written, "image"));
        if complete > 0 {
            line += &format!(", {complete} complete before");
        }
        if failed > 0 {
            line += &format!(", {failed} {}", if skip_bad { "skipped" } else { "failed" });
        }
        line += &format!(", in {}", out.display());
        let seconds = began.elapsed().as_secs_f64();
        if written > 1 {
            line += &format!(" ({:.1} a second)", written as f64 / seconds);
        }
        say(&line)?;
        if let Some(sizes) = sizes.filter(|_| total == 1) {
            say(&format!("volume: {sizes}"))?;
        }
        if let Some(most) = losses.iter().copied().reduce(f64::max) {
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            say(&format!(
                "GED between the short lists and all hypotheses: {mean:.4} on average, at most {most:.4}"
            ))?;
        }
        match failed {
            0 => Ok(()),
            _ if skip_bad => Ok(()),
            _ => Err(Failure::BelowBound(format!(
                "{}: {failed} of {} could not be predicted, as told above; repair them and go on with --resume",
                out.display(),
                counted(total, "image")
            ))),
        }
    }
}

/// Shows how far the strips of a large image are.
fn strips_told() -> Arc<dyn Fn(usize, usize) + Send + Sync> {
    let counting: Mutex<Option<Counting>> = Mutex::new(None);
    Arc::new(move |done, total| {
        let mut counting = counting.lock().unwrap_or_else(PoisonError::into_inner);
        counting.get_or_insert_with(Counting::of_strips).reached_of(done, total);
        if done == total {
            *counting = None;
        }
    })
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
