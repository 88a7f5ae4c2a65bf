//! What the results of `predict` depend on, beside the images: the model's files, and the options.

use std::path::{Path, PathBuf};

use multivalued::mixture::{self, Members};
use multivalued::shipped;
use multivalued::train::checkpoint;
use serde_json::{Value, json};

use super::existing::checksum;
use super::{MaskFormat, Predict};
use crate::exit::{Failure, Outcome};
use crate::run::RunFolder;
use crate::run::keep::Keep;
use crate::run::model::RunModel;

/// Files of a model that its predictions depend on, where it has them.
const MODEL_FILES: [&str; 4] = [shipped::WEIGHTS, shipped::RECIPE, "state.json", mixture::MIXTURE];

/// As they are written and compared: numbers are those that a reader finds in the text.
pub fn of(options: &Predict, model: &RunModel, keep: &Keep) -> Outcome<Value> {
    let mut settings = json!({
        "model": options.run.display().to_string(),
        "model_blake3": model_hash(&options.run)?,
        "views": model.recipe().predict.views,
        "top": keep.top,
        "coverage": keep.coverage,
        "list": keep.list,
        "merge": keep.merge,
        "samples": options.samples,
        "seed": options.seed,
        "maps": options.maps,
    });
    // Left out otherwise, so that earlier predictions are gone on with.
    if options.format == MaskFormat::Dicom {
        settings["format"] = json!("dicom");
    }
    let read = |text: String| serde_json::from_str(&text);
    serde_json::to_string(&settings).and_then(read).map_err(|error| Failure::Io(error.to_string()))
}

/// Whether two predictions depend on the same; a model may have moved.
pub fn are_same(one: &Value, other: &Value) -> bool {
    let without_path = |settings: &Value| {
        let mut settings = settings.clone();
        settings.as_object_mut().map(|fields| fields.remove("model"));
        settings
    };
    without_path(one) == without_path(other)
}

/// One hash of all files that make the model.
fn model_hash(run: &Path) -> Outcome<String> {
    let mut hasher = blake3::Hasher::new();
    for folder in model_folders(run)? {
        for path in MODEL_FILES.map(|name| folder.join(name)) {
            if path.is_file() {
                hasher.update(checksum(&path)?.as_bytes());
            }
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The folders of a model's files: its own, that of a run's best model, or those of a mixture's members.
fn model_folders(run: &Path) -> Outcome<Vec<PathBuf>> {
    let own = |folder: &Path| match checkpoint::exists(folder) || shipped::exists(folder) {
        true => folder.to_owned(),
        false => RunFolder::at(folder).best(),
    };
    if checkpoint::exists(run) || !mixture::exists(run) {
        return Ok(vec![own(run)]);
    }
    let members = Members::read(run)?.folders(run);
    Ok([run.to_owned()].into_iter().chain(members.iter().map(|member| own(member))).collect())
}
