//! `predict`: images in, one mask file per hypothesis out, with their probabilities.

use std::path::{Path, PathBuf};

use clap::Args;
use multivalued::Coverage;
use multivalued_data::dataset::{is_image_name, read_slices};
use multivalued_data::draw::Draw;
use multivalued_data::export::write_masks_like;
use multivalued_data::import::Limits;
use multivalued_data::{Case, Hypothesis, Image, Mask, Prediction, files};
use serde_json::{Value, json};

use super::options::level;
use crate::device::DeviceChoice;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::picture::{Exhibit, png, sheet};
use crate::run::RunFolder;
use crate::run::counting::Counting;
use crate::run::levels;
use crate::run::model::RunModel;
use crate::terminal::{complain, say};

/// Predict images: one mask file per hypothesis in the input's own format and geometry
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued predict models/lidc slice.png\n  multivalued predict runs/lidc \
scan.nii.gz --out predictions\n  multivalued \
predict runs/lidc images/ --top 3 --out predictions\n\nFor each image a folder of its name: hypothesis-1 (the \
most probable), hypothesis-2 and so on, prediction.json with probabilities, codes and areas, and sheet.png. \
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
    /// Keep the smallest set that holds the hypothesis nearest to a reader's mask with this probability;
    /// `calibrate` the run for it first
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    coverage: Option<f64>,
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

impl Predict {
    pub fn run(&self) -> Outcome {
        let device = self.device.open_to_predict()?;
        let model = RunModel::of_path(&self.run, &device)?.with_views(self.views)?;
        let coverage = self.coverage.map(|level| levels::at(&RunFolder::at(&self.run), level)).transpose()?;
        let files = image_files(&self.images)?;
        // Before any work is done for nothing.
        for (_, name) in &files {
            files::refuse_link(&self.out.join(name))?;
            folder::must_be_free(&self.out.join(name))?;
        }
        folder::make(&self.out)?;
        let mut skipped = 0;
        // One count at a time: that of the files, or that of the only one's slices.
        let alone = files.len() == 1;
        let mut counting = Counting::new(if alone { 0 } else { files.len() });
        for (at, (path, name)) in files.iter().enumerate() {
            counting.reached(at);
            match self.predict(&model, coverage.as_ref(), path, &self.out.join(name), alone) {
                Err(Failure::User(fault)) if self.skip_bad => {
                    complain(&format!("skipped: {fault}"));
                    skipped += 1;
                }
                other => other?,
            }
        }
        drop(counting);
        let left_out = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        let done = counted(files.len() - skipped, "image");
        say(&format!("{done} predicted{left_out}, in {}", self.out.display()))
    }

    /// Predicts one file. Its slices are counted where it is the only one.
    fn predict(
        &self,
        model: &RunModel,
        coverage: Option<&Coverage>,
        path: &Path,
        out: &Path,
        alone: bool,
    ) -> Outcome {
        let limits = Limits::default();
        let slices = read_slices(&[path.to_owned()], &limits)?;
        let images: Vec<&Image> = slices.iter().collect();
        let counting = Counting::new(if alone { images.len() } else { 0 });
        let all = model.predict(&path.display().to_string(), &images, counting)?;
        let kept: Vec<Prediction> = all.iter().map(|prediction| self.kept(coverage, prediction)).collect();
        files::refuse_link(out)?;
        folder::make_empty(out)?;
        let most = kept.iter().map(Prediction::len).max().unwrap_or(0);
        let mut files = Vec::new();
        for rank in 0..most {
            let stem = out.join(format!("hypothesis-{}", rank + 1));
            let masks: Vec<Mask> =
                kept.iter().zip(&slices).map(|(one, slice)| mask_at(one, rank, slice)).collect();
            files.push(file_name(&write_masks_like(path, &stem, &masks, &limits)?));
        }
        let draws: Vec<Vec<usize>> =
            all.iter().enumerate().map(|(at, one)| self.draws(one, path, at)).collect();
        for sample in 0..self.samples as usize {
            let stem = out.join(format!("sample-{}", sample + 1));
            let drawn = all.iter().zip(&draws).map(|(one, draws)| one.hypotheses[draws[sample]].mask.clone());
            write_masks_like(path, &stem, &drawn.collect::<Vec<Mask>>(), &limits)?;
        }
        let cases: Vec<Case> =
            slices.into_iter().enumerate().map(|(at, image)| unannotated(path, at, image)).collect();
        // A volume's sheet shows some slices from one end to the other.
        let step = cases.len().div_ceil(12).max(1);
        let exhibits: Vec<_> = cases
            .iter()
            .zip(&kept)
            .step_by(step)
            .map(|(case, prediction)| Exhibit::new(case, prediction))
            .collect();
        folder::write(&out.join("sheet.png"), &png(&sheet(&exhibits)))?;
        let document = json!({
            "format": "multivalued-prediction",
            "version": 1,
            "image": path.display().to_string(),
            "model": self.run.display().to_string(),
            "coverage": coverage,
            "slices": kept.iter().zip(&all).map(|(kept, all)| slice_json(kept, all, &files)).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&document).map_err(|error| Failure::Io(error.to_string()))?;
        folder::write(&out.join("prediction.json"), (text + "\n").as_bytes())
    }

    /// Which hypothesis each sample of a slice shows; the same for the same file, slice and seed.
    fn draws(&self, prediction: &Prediction, path: &Path, slice: usize) -> Vec<usize> {
        let mut draw = Draw::new(self.seed, &["sample", &stem(path)], slice as u64);
        let last = prediction.len() - 1;
        let mut one = || {
            let mut rest = draw.unit();
            let found = prediction.hypotheses.iter().position(|hypothesis| {
                rest -= f64::from(hypothesis.probability);
                rest < 0.0
            });
            // The probabilities sum to one but for rounding.
            found.unwrap_or(last)
        };
        (0..self.samples).map(|_| one()).collect()
    }

    /// What `--coverage` and `--top` leave; probabilities stay as they were.
    fn kept(&self, coverage: Option<&Coverage>, prediction: &Prediction) -> Prediction {
        let mut kept = coverage.map_or_else(|| prediction.clone(), |coverage| coverage.set(prediction));
        kept.hypotheses.truncate(self.top.map_or(usize::MAX, |top| top as usize));
        kept
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

/// The mask of a rank; a slice that has fewer hypotheses is empty there.
fn mask_at(prediction: &Prediction, rank: usize, image: &Image) -> Mask {
    let classes = prediction.hypotheses.first().map_or(1, |one| one.mask.classes());
    prediction
        .hypotheses
        .get(rank)
        .map_or_else(|| Mask::empty(image.width(), image.height(), classes), |one| one.mask.clone())
}

fn unannotated(path: &Path, slice: usize, image: Image) -> Case {
    let id = format!("{}/slice-{slice:03}", path.display());
    Case { group: id.clone(), id, image, annotations: Vec::new(), truth: None }
}

/// What `prediction.json` says of one slice.
fn slice_json(kept: &Prediction, all: &Prediction, files: &[String]) -> Value {
    let area =
        |one: &Hypothesis| (0..one.mask.classes()).map(|class| one.mask.area(class)).collect::<Vec<_>>();
    let row = |(one, file): (&Hypothesis, &String)| json!({ "file": file, "probability": one.probability, "code": one.code, "areas": area(one) });
    json!({
        // How many draws the probabilities were counted from; null where the model states them.
        "draws": all.draws,
        "hypotheses": kept.hypotheses.iter().zip(files).map(row).collect::<Vec<_>>(),
        // A sum over nothing is -0, which looks odd.
        "dropped_probability": 0.0 + all.hypotheses.iter().skip(kept.len()).map(|one| f64::from(one.probability)).sum::<f64>(),
    })
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
