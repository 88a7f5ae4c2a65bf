//! `generate`: a synthetic task as a folder of files, with its weights and its truth in a manifest.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use image::{ImageBuffer, Luma};
use multivalued_data::export::write_png_mask;
use multivalued_data::synthetic::{Task, TaskName};
use multivalued_data::{Case, Image, Mask};
use serde_json::{Value, json};

use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::terminal::say;

/// Write a synthetic task with known truth to a folder that the other commands read
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  multivalued generate shapes --out shapes\n  multivalued generate \
raters --count train=500,val=50,test=100 --size 128 --seed 7 --out raters")]
pub struct Generate {
    /// Which task (docs/synthetic-tasks.md)
    #[arg(value_parser = PossibleValuesParser::new(TaskName::ALL.map(TaskName::as_str)))]
    task: String,
    /// The new folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Width and height in pixels [default: the task's own]
    #[arg(long, value_name = "PIXELS")]
    size: Option<usize>,
    /// How many cases in each split
    #[arg(long, value_name = "SPLIT=N,…", default_value = "train=200,val=40,test=40", value_delimiter = ',')]
    count: Vec<SplitCount>,
    /// Seed of all cases
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// So many cases of a split, as `train=200`.
#[derive(Debug, Clone)]
struct SplitCount {
    split: String,
    count: usize,
}

impl std::str::FromStr for SplitCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (split, count) = text.split_once('=').ok_or("write it as SPLIT=N, such as train=200")?;
        // The split becomes part of file names.
        if split.is_empty() || !split.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(format!("the split '{split}' may hold letters, digits and '-' only"));
        }
        match count.parse() {
            Ok(count @ 1..=100_000) => Ok(Self { split: split.to_owned(), count }),
            _ => Err(format!("'{count}' cases; choose 1 to 100000")),
        }
    }
}

impl Generate {
    pub fn run(&self) -> Outcome {
        let name: TaskName = self.task.parse()?;
        let task = Task::new(name, self.size.unwrap_or_else(|| name.usual_size()), self.seed)?;
        for (at, one) in self.count.iter().enumerate() {
            if self.count[..at].iter().any(|other| other.split == one.split) {
                return Err(Failure::user("--count", format!("the split '{}' is given twice", one.split)));
            }
        }
        folder::make_empty(&self.out)?;
        for part in ["images", "masks", "truth"] {
            folder::make(&self.out.join(part))?;
        }
        let mut manifest = String::new();
        for SplitCount { split, count } in &self.count {
            for index in 0..*count {
                let row = write_case(&self.out, split, &task.case(split, index))?;
                manifest.push_str(&row.to_string());
                manifest.push('\n');
            }
        }
        // Last, so that a folder with a manifest is complete.
        folder::write(&self.out.join("manifest.jsonl"), manifest.as_bytes())?;
        let total: usize = self.count.iter().map(|one| one.count).sum();
        say(&format!(
            "{total} cases of {name}, {0} x {0} pixels, seed {1}, in {2}",
            task.size(),
            task.seed(),
            self.out.display()
        ))
    }
}

/// Writes a case's files and gives its row of the manifest.
fn write_case(out: &Path, split: &str, case: &Case) -> Outcome<Value> {
    let image = format!("images/{}.png", case.id);
    write_grey(&out.join(&image), &case.image)?;
    let put = |folder: &str, at: usize, mask: &Mask| -> Outcome<String> {
        let name = format!("{folder}/{}-{at}.png", case.id);
        write_png_mask(&out.join(&name), mask)?;
        Ok(name)
    };
    let mut labels = Vec::new();
    for (at, annotation) in case.annotations.iter().enumerate() {
        let mut label = json!({ "path": put("masks", at, &annotation.mask)?, "weight": annotation.weight });
        if let Some(rater) = &annotation.rater {
            label["rater"] = json!(rater);
        }
        labels.push(label);
    }
    let mut truth = Vec::new();
    for (at, mode) in case.truth.iter().flatten().enumerate() {
        truth.push(json!({ "path": put("truth", at, &mode.mask)?, "probability": mode.probability }));
    }
    Ok(json!({
        "id": case.id, "image": image, "labels": labels, "group": case.group, "split": split, "truth": truth
    }))
}

/// Writes a picture of values between 0 and 1 with 16 bits, which any viewer opens.
fn write_grey(path: &Path, image: &Image) -> Outcome {
    let pixels = image.plane(0).iter().map(|value| (value.clamp(0.0, 1.0) * 65_535.0).round() as u16);
    let buffer: Option<ImageBuffer<Luma<u16>, Vec<u16>>> =
        ImageBuffer::from_vec(image.width() as u32, image.height() as u32, pixels.collect());
    let buffer = buffer.expect("a plane has as many pixels as its size says");
    buffer.save(path).map_err(|error| match error {
        image::ImageError::IoError(error) => Failure::io(path, &error),
        other => Failure::user(path.display(), other),
    })
}
