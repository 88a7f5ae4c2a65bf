//! `predict`: images in, one mask file per hypothesis out, with their probabilities.

use std::path::{Path, PathBuf};

use clap::Args;
use multivalued_data::dataset::{Slices, is_image_name};
use multivalued_data::draw::Draw;
use multivalued_data::export::write_masks_like;
use multivalued_data::fingerprint::Fingerprint;
use multivalued_data::import::Limits;
use multivalued_data::{Case, CompactMask, Hypothesis, Image, Mask, Prediction, files};
use serde_json::{Value, json};

use super::options::{level, share};
use crate::device::DeviceChoice;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::picture::{Exhibit, png, sheet};
use crate::run::RunFolder;
use crate::run::counting::Counting;
use crate::run::keep::Keep;
use crate::run::levels;
use crate::run::likeness::{self, Warnings};
use crate::run::model::RunModel;
use crate::terminal::{complain, say};

/// Slices that are made f32 and predicted together: whole batches of the predictor.
const SLICES_TOGETHER: usize = 16;

/// Predict images: one mask file per hypothesis in the input's own format and geometry
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued predict models/lidc slice.png\n  multivalued predict runs/lidc \
scan.nii.gz --out predictions\n  multivalued \
predict runs/lidc images/ --top 3 --out predictions\n\nFor each image a folder of its name: hypothesis-1 (the \
most probable), hypothesis-2 and so on, prediction.json with probabilities, codes and areas, and sheet.png. A \
warning tells where an image is unlike the training data. \
The sheet shows at most five hypotheses, which stand for all, unless --list, --merge, --top or --coverage chose others. \
For a volume every slice has its own hypotheses: hypothesis-k holds the k-th most probable mask of each slice."
)]
pub struct Predict {
    /// The run's folder, or a model's
    run: PathBuf,
    /// Image files, or folders of them
    #[arg(required = true, num_args = 1..)]
    images: Vec<PathBuf>,
    /// The folder to write to
    #[arg(long, value_name = "DIR", default_value = "predictions")]
    out: PathBuf,
    /// Keep only the most probable hypotheses
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
    /// Leave out files that cannot be predicted, and name them, instead of stopping at the first
    #[arg(long)]
    skip_bad: bool,
    /// Seed of the samples
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

/// What is predicted with, and what is known of it.
struct Known<'a> {
    model: &'a RunModel,
    /// What is kept of each prediction.
    keep: Keep,
    /// What the training images were like.
    fingerprint: Option<&'a Fingerprint>,
}

impl Predict {
    pub fn run(&self) -> Outcome {
        let device = self.device.open_to_predict()?;
        let model = RunModel::of_path(&self.run, &device)?.with_views(self.views)?;
        let coverage = self.coverage.map(|level| levels::at(&RunFolder::at(&self.run), level)).transpose()?;
        let fingerprint = likeness::fingerprint(&RunFolder::at(&self.run))?;
        let count = |number: Option<u32>| number.map(|number| number as usize);
        let keep = Keep { top: count(self.top), coverage, list: count(self.list), merge: self.merge };
        let known = Known { model: &model, keep, fingerprint: fingerprint.as_ref() };
        let files = image_files(&self.images)?;
        // Before any work is done for nothing.
        for (_, name) in &files {
            files::refuse_link(&self.out.join(name))?;
            folder::must_be_free(&self.out.join(name))?;
        }
        folder::make(&self.out)?;
        let mut skipped = 0;
        let mut losses = Vec::new();
        // One count at a time: that of the files, or that of the only one's slices.
        let alone = files.len() == 1;
        let mut counting = Counting::new(if alone { 0 } else { files.len() });
        for (at, (path, name)) in files.iter().enumerate() {
            counting.reached(at);
            match self.predict(&known, path, &self.out.join(name), alone) {
                Err(failure) if self.skip_bad && failure.is_users() => {
                    complain(&format!("skipped: {}", failure.message().unwrap_or_default()));
                    skipped += 1;
                }
                other => losses.extend(other?),
            }
        }
        drop(counting);
        if skipped == files.len() {
            return Err(Failure::user(
                "--skip-bad",
                format!(
                    "all of {} were skipped, so nothing was predicted; repair them",
                    counted(skipped, "image")
                ),
            ));
        }
        let left_out = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        let done = counted(files.len() - skipped, "image");
        say(&format!("{done} predicted{left_out}, in {}", self.out.display()))?;
        match losses.iter().copied().reduce(f64::max) {
            Some(most) => {
                let mean = losses.iter().sum::<f64>() / losses.len() as f64;
                say(&format!(
                    "GED between the short lists and all hypotheses: {mean:.4} on average, at most {most:.4}"
                ))
            }
            None => Ok(()),
        }
    }

    /// Predicts one file, and gives what the short list of each slice loses where one is asked for. Its slices
    /// are counted where it is the only one.
    fn predict(&self, known: &Known, path: &Path, out: &Path, alone: bool) -> Outcome<Vec<f64>> {
        let limits = Limits::default();
        let slices = Slices::open(&[path.to_owned()], &limits)?;
        let (predicted, warnings) = self.predict_slices(known, path, &slices, alone)?;
        warnings.tell(path);
        files::refuse_link(out)?;
        folder::make_empty(out)?;
        let most = predicted.iter().map(|slice| slice.kept().len()).max().unwrap_or(0);
        let mut files = Vec::new();
        for rank in 0..most {
            let stem = out.join(format!("hypothesis-{}", rank + 1));
            let masks: Vec<Mask> = predicted.iter().map(|slice| slice.mask_at(rank)).collect();
            files.push(file_name(&write_masks_like(path, &stem, &masks, &limits)?));
        }
        let draws: Vec<Vec<usize>> =
            predicted.iter().enumerate().map(|(at, slice)| self.draws(slice, path, at)).collect();
        for sample in 0..self.samples as usize {
            let stem = out.join(format!("sample-{}", sample + 1));
            let drawn =
                predicted.iter().zip(&draws).map(|(slice, draws)| slice.all[draws[sample]].mask.mask());
            write_masks_like(path, &stem, &drawn.collect::<Vec<Mask>>(), &limits)?;
        }
        // A volume's sheet shows some slices from one end to the other.
        let step = predicted.len().div_ceil(12).max(1);
        let shown = predicted.iter().enumerate().step_by(step).map(|(at, slice)| {
            let case = unannotated(path, at, slices.image(at)?);
            Ok((case, slice.prediction()))
        });
        let shown = shown.collect::<Outcome<Vec<(Case, Prediction)>>>()?;
        // What the user chose is shown as it is.
        let exhibit = if known.keep.is_stated() { Exhibit::of_all } else { Exhibit::new };
        let exhibits: Vec<_> = shown.iter().map(|(case, prediction)| exhibit(case, prediction)).collect();
        folder::write(&out.join("sheet.png"), &png(&sheet(&exhibits)))?;
        let document = json!({
            "format": "multivalued-prediction",
            "version": 1,
            "image": path.display().to_string(),
            "model": self.run.display().to_string(),
            "coverage": known.keep.coverage,
            "list": self.list,
            "merge": self.merge,
            "warnings": warnings.sentences(),
            "slices": predicted.iter().map(|slice| slice.json(&files)).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&document).map_err(|error| Failure::Io(error.to_string()))?;
        folder::write(&out.join("prediction.json"), (text + "\n").as_bytes())?;
        Ok(predicted.iter().filter_map(|slice| slice.loss).collect())
    }

    /// Predicts some slices after the other, so that a volume is in memory as its file stores it.
    fn predict_slices(
        &self,
        known: &Known,
        path: &Path,
        slices: &Slices,
        alone: bool,
    ) -> Outcome<(Vec<Predicted>, Warnings)> {
        let place = path.display().to_string();
        let mut counting = Counting::new(if alone { slices.len() } else { 0 });
        let mut warnings = Warnings::default();
        let mut predicted = Vec::with_capacity(slices.len());
        while predicted.len() < slices.len() {
            let next = predicted.len()..slices.len().min(predicted.len() + SLICES_TOGETHER);
            let images = next.map(|z| slices.image(z)).collect::<Result<Vec<Image>, _>>()?;
            let images: Vec<&Image> = images.iter().collect();
            images.iter().for_each(|image| warnings.add(known.fingerprint, image));
            for prediction in known.model.predict(&place, &images, Counting::new(0))? {
                let (kept, loss) = known.keep.of(&prediction)?;
                predicted.push(Predicted::new(&prediction, &kept, loss));
            }
            counting.reached(predicted.len());
        }
        Ok((predicted, warnings))
    }

    /// Which hypothesis each sample of a slice shows; the same for the same file, slice and seed.
    fn draws(&self, slice: &Predicted, path: &Path, at: usize) -> Vec<usize> {
        let mut draw = Draw::new(self.seed, &["sample", &stem(path)], at as u64);
        let last = slice.all.len() - 1;
        let mut one = || {
            let mut rest = draw.unit();
            let found = slice.all.iter().position(|hypothesis| {
                rest -= f64::from(hypothesis.probability);
                rest < 0.0
            });
            // The probabilities sum to one but for rounding.
            found.unwrap_or(last)
        };
        (0..self.samples).map(|_| one()).collect()
    }
}

/// The files that are named, and all files of the folders that are named, with a folder name for each.
fn image_files(paths: &[PathBuf]) -> Outcome<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|error| Failure::io(path, &error))?;
            let mut inside = Vec::new();
            for entry in entries {
                let file = entry.map_err(|error| Failure::io(path, &error))?.path();
                if file.is_file() && is_image_name(&file_name(&file)) {
                    inside.push(file);
                }
            }
            if inside.is_empty() {
                return Err(Failure::user(
                    path.display(),
                    "holds no images; give images or a folder of them",
                ));
            }
            inside.sort();
            files.extend(inside);
        } else {
            files.push(path.clone());
        }
    }
    let mut named: Vec<(PathBuf, String)> = Vec::new();
    for file in files {
        let name = stem(&file);
        if let Some((other, _)) = named.iter().find(|(_, taken)| *taken == name) {
            return Err(Failure::user(
                file.display(),
                format!("has the name of {}; predict them into different folders", other.display()),
            ));
        }
        named.push((file, name));
    }
    Ok(named)
}

/// A file's name without its ending, `.nii.gz` as a whole.
fn stem(path: &Path) -> String {
    let name = file_name(path);
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rfind('.') {
        Some(at) if at > 0 => name[..at].to_owned(),
        _ => name.to_owned(),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "image".into(), |name| name.to_string_lossy().into_owned())
}

fn unannotated(path: &Path, slice: usize, image: Image) -> Case {
    let id = format!("{}/slice-{slice:03}", path.display());
    Case { group: id.clone(), id, image, annotations: Vec::new(), truth: None }
}

/// A slice's hypotheses in few bytes.
struct Predicted {
    /// All of them, the most probable first.
    all: Vec<PackedHypothesis>,
    /// How many of them, from the first on, are written where no short list stands for all.
    kept: usize,
    /// The short list, where one was asked for.
    short: Option<Vec<PackedHypothesis>>,
    /// GED between all hypotheses and the short list.
    loss: Option<f64>,
    /// How many draws the probabilities were counted from; none where the model states them.
    draws: Option<usize>,
}

struct PackedHypothesis {
    mask: CompactMask,
    probability: f32,
    code: usize,
}

impl Predicted {
    fn new(all: &Prediction, kept: &Prediction, loss: Option<f64>) -> Self {
        let pack = |one: &Hypothesis| PackedHypothesis {
            mask: CompactMask::new(&one.mask),
            probability: one.probability,
            code: one.code,
        };
        Self {
            all: all.hypotheses.iter().map(pack).collect(),
            kept: kept.len(),
            short: loss.map(|_| kept.hypotheses.iter().map(pack).collect()),
            loss,
            draws: all.draws,
        }
    }

    /// What is written.
    fn kept(&self) -> &[PackedHypothesis] {
        self.short.as_deref().unwrap_or(&self.all[..self.kept])
    }

    /// What is kept, unpacked.
    fn prediction(&self) -> Prediction {
        let unpack = |one: &PackedHypothesis| Hypothesis {
            mask: one.mask.mask(),
            probability: one.probability,
            code: one.code,
        };
        Prediction { hypotheses: self.kept().iter().map(unpack).collect(), draws: self.draws }
    }

    /// The mask of a rank; empty where the slice has fewer hypotheses.
    fn mask_at(&self, rank: usize) -> Mask {
        match self.kept().get(rank) {
            Some(one) => one.mask.mask(),
            None => {
                let [width, height, classes] = self.all[0].mask.size();
                Mask::empty(width, height, classes)
            }
        }
    }

    /// What `prediction.json` says of the slice.
    fn json(&self, files: &[String]) -> Value {
        let row = |(one, file): (&PackedHypothesis, &String)| {
            let mask = one.mask.mask();
            let areas: Vec<usize> = (0..mask.classes()).map(|class| mask.area(class)).collect();
            json!({ "file": file, "probability": one.probability, "code": one.code, "areas": areas })
        };
        // A short list drops nothing: its probabilities are sums over all.
        let dropped = if self.short.is_some() { &[] } else { &self.all[self.kept..] };
        json!({
            "draws": self.draws,
            "hypotheses": self.kept().iter().zip(files).map(row).collect::<Vec<_>>(),
            // A sum over nothing is -0, which looks odd.
            "dropped_probability": 0.0 + dropped.iter().map(|one| f64::from(one.probability)).sum::<f64>(),
            // GED between all hypotheses and those listed here; null where none stands for others.
            "list_loss": self.loss,
        })
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_their_endings() {
        for (file, name) in
            [("a/scan.nii.gz", "scan"), ("b.1.png", "b.1"), (".hidden", ".hidden"), ("plain", "plain")]
        {
            assert_eq!(stem(Path::new(file)), name);
        }
    }
}
