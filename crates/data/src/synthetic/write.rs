//! A synthetic data set as files: a manifest that carries the truth, so that whatever reads data sets
//! can train on it and score against known modes.
//!
//! ```text
//! manifest.jsonl
//! images/ID.png      16-bit, 0 for black and 65,535 for 1
//! labels/ID-0.png    the annotations, in their order
//! truth/ID-0.png     the modes, in their order
//! ```

use std::io::Write;
use std::path::Path;

use image::{ExtendedColorType, ImageFormat};
use rayon::prelude::*;
use serde::Serialize;

use crate::export::{write_pixels, write_png_mask};
use crate::files;
use crate::{Case, Error, Image, Mask, Result};

/// Writes cases with values in 0 to 1 into a folder, each with the name of its split. The folder is
/// made; one that holds a manifest already is refused, since two data sets would become one.
pub fn write_dataset(folder: &Path, splits: &[(&str, &[Case])]) -> Result<()> {
    let manifest = folder.join("manifest.jsonl");
    if manifest.exists() {
        return Err(Error::dataset(folder, "has a manifest already; give another folder or remove it"));
    }
    for name in ["images", "labels", "truth"] {
        files::make_folder(&folder.join(name))?;
    }
    let cases: Vec<(&str, &Case)> =
        splits.iter().flat_map(|(split, cases)| cases.iter().map(move |case| (*split, case))).collect();
    let lines: Vec<Result<String>> =
        cases.par_iter().map(|(split, case)| write_case(folder, split, case)).collect();
    let mut text = String::new();
    for line in lines {
        text += &line?;
        text.push('\n');
    }
    // Last and at once: a folder with a manifest is complete.
    files::replace(&manifest, |file| file.write_all(text.as_bytes()))
}

/// One line of the manifest.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    image: String,
    labels: Vec<LabelEntry<'a>>,
    truth: Vec<ModeEntry>,
    group: &'a str,
    split: &'a str,
}

#[derive(Serialize)]
struct LabelEntry<'a> {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rater: Option<&'a str>,
    weight: f32,
}

#[derive(Serialize)]
struct ModeEntry {
    path: String,
    probability: f32,
}

/// Writes one case's files and returns its line.
fn write_case(folder: &Path, split: &str, case: &Case) -> Result<String> {
    let id = case.id.as_str();
    if id.is_empty() || id.contains(['/', '\\']) {
        return Err(Error::mismatch(format!("case '{id}'"), "its id cannot name a file; rename it"));
    }
    let image = format!("images/{id}.png");
    write_image(&folder.join(&image), &case.image)?;
    let write_mask = |kind: &str, at: usize, mask: &Mask| {
        let path = format!("{kind}/{id}-{at}.png");
        write_png_mask(&folder.join(&path), mask)?;
        Ok(path)
    };
    let mut labels = Vec::new();
    for (at, annotation) in case.annotations.iter().enumerate() {
        labels.push(LabelEntry {
            path: write_mask("labels", at, &annotation.mask)?,
            rater: annotation.rater.as_deref(),
            weight: annotation.weight,
        });
    }
    let mut truth = Vec::new();
    for (at, mode) in case.truth.iter().flatten().enumerate() {
        truth.push(ModeEntry { path: write_mask("truth", at, &mode.mask)?, probability: mode.probability });
    }
    let row = Row { id, image, labels, truth, group: &case.group, split };
    Ok(serde_json::to_string(&row).expect("a row is plain strings and numbers"))
}

fn write_image(path: &Path, image: &Image) -> Result<()> {
    let colour = match image.channels() {
        1 => ExtendedColorType::L16,
        2 => ExtendedColorType::La16,
        3 => ExtendedColorType::Rgb16,
        _ => ExtendedColorType::Rgba16,
    };
    let size = image.width() * image.height();
    let planes = image.pixels();
    // The format wants the channels of a pixel side by side, and 16 bits in the machine's byte order.
    let samples =
        (0..size).flat_map(|at| (0..image.channels()).map(move |channel| planes[channel * size + at]));
    let bytes: Vec<u8> =
        samples.flat_map(|value| ((value.clamp(0.0, 1.0) * 65_535.0).round() as u16).to_ne_bytes()).collect();
    write_pixels(path, &bytes, [image.width(), image.height()], colour, ImageFormat::Png)
}
