//! `prediction.json`, and the hashes in it.

use super::{Coherent, Keep, Predicted, Unit, Warnings, sizes};
use crate::mixture::{self, Members};
use crate::train::checkpoint;
use crate::{Result, shipped};
use multivalued_data::{Error, Geometry, Image, disk, files};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file that describes the others.
pub const DOCUMENT: &str = "prediction.json";
/// What it says it is.
pub const FORMAT: &str = "multivalued-prediction";
/// Grows when a reader of the old kind could not read the new one.
pub const VERSION: u32 = 3;

/// Files of a model that its predictions depend on, where it has them.
const MODEL_FILES: [&str; 4] = [shipped::WEIGHTS, shipped::RECIPE, "state.json", mixture::MIXTURE];

/// What is told of an image.
pub struct Document<'a> {
    /// Its name among the results.
    pub id: &'a str,
    /// Its files.
    pub images: Vec<String>,
    /// BLAKE3 of its values.
    pub pixels: &'a str,
    /// What the results depend on beside the images.
    pub settings: &'a Value,
    /// Where it is unlike the training data.
    pub warnings: &'a Warnings,
    /// Where its pixels lie.
    pub geometry: Option<&'a Geometry>,
    /// What the model says of its slices.
    pub predicted: &'a [Predicted],
    /// What it says of the volume.
    pub coherent: Option<&'a Coherent>,
    /// The files of the hypotheses, by name.
    pub hypotheses: &'a [String],
    /// Those of the samples.
    pub samples: &'a [String],
    /// What is told of maps; null where there are none.
    pub maps: Value,
    /// BLAKE3 of all files.
    pub files: &'a BTreeMap<String, String>,
}

impl Document<'_> {
    /// The file's content, and the sizes in words.
    pub fn text(&self) -> (String, String) {
        let unit = Unit::of(self.geometry, self.predicted.len());
        let sizes = sizes::of(self.predicted, self.coherent.map(|all| &all.volume));
        // The files of a volume hold no single slice's hypotheses.
        let of_slices = self.coherent.is_none().then_some(self.hypotheses);
        let document = json!({
            "format": FORMAT,
            "version": VERSION,
            "id": self.id,
            "images": self.images,
            "pixels_blake3": self.pixels,
            "settings": self.settings,
            "warnings": self.warnings.sentences(),
            "spacing": self.geometry.map(|geometry| geometry.spacing),
            "sizes": sizes::json(&sizes, unit),
            "volume": self.coherent.map(|all| all.json(self.hypotheses, unit)),
            "slices": self.predicted.iter().map(|slice| slice.json(of_slices)).collect::<Vec<_>>(),
            "samples": self.samples,
            "maps": self.maps,
            "files": self.files,
        });
        let text = serde_json::to_string_pretty(&document).expect("names and numbers are plain text");
        (text + "\n", sizes::in_words(&sizes, unit))
    }
}

/// A hash of an image's values, slice by slice.
#[derive(Default)]
pub struct Pixels(blake3::Hasher);

impl Pixels {
    /// Adds a slice: its size and values.
    pub fn add(&mut self, image: &Image) {
        for number in [image.width(), image.height(), image.channels()] {
            self.0.update(&(number as u64).to_le_bytes());
        }
        for values in image.pixels().chunks(1 << 12) {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            self.0.update(&bytes);
        }
    }

    /// The hash of all slices.
    pub fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// BLAKE3 of a regular file.
pub fn checksum(path: &Path) -> Result<String> {
    files::refuse_link(path)?;
    files::must_be_regular(path)?;
    let mut hasher = blake3::Hasher::new();
    let read = disk::File::open(path).and_then(|file| hasher.update_reader(file).map(drop));
    read.map_err(|error| Error::io(path, error))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// One hash of all files that make a model.
pub fn model_hash(model: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for folder in model_folders(model)? {
        for path in MODEL_FILES.map(|name| folder.join(name)) {
            if disk::is_file(&path) {
                hasher.update(checksum(&path)?.as_bytes());
            }
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The folders of a model's files: its own, that of a run's best model, or those of a mixture's members.
fn model_folders(model: &Path) -> Result<Vec<PathBuf>> {
    let own = |folder: &Path| match checkpoint::exists(folder) || shipped::exists(folder) {
        true => folder.to_owned(),
        false => folder.join("best"),
    };
    if checkpoint::exists(model) || !mixture::exists(model) {
        return Ok(vec![own(model)]);
    }
    let members = Members::read(model)?.folders(model);
    Ok([model.to_owned()].into_iter().chain(members.iter().map(|member| own(member))).collect())
}

/// What results depend on beside the image: the model's name and hash, the views of each image, what is kept, the
/// samples that are drawn, and whether maps are made.
pub fn settings(
    [model, hash]: [&str; 2],
    views: usize,
    keep: &Keep,
    samples: u32,
    seed: u64,
    maps: bool,
) -> Value {
    json!({
        "model": model,
        "model_blake3": hash,
        "views": views,
        "top": keep.top,
        "coverage": keep.coverage,
        "list": keep.list,
        "merge": keep.merge,
        "samples": samples,
        "seed": seed,
        "maps": maps,
    })
}

/// A file's name without its ending, `.nii.gz` as a whole: what its results are called.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "image".into(), |name| name.to_string_lossy());
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rfind('.') {
        Some(at) if at > 0 => name[..at].to_owned(),
        _ => name.to_owned(),
    }
}
