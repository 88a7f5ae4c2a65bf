//! What the results of `predict` depend on, beside the images: the model's files, and the options.

use multivalued::answer::{self, Keep, model_hash};
use serde_json::{Value, json};

use super::{MaskFormat, Predict};
use crate::exit::{Failure, Outcome};
use crate::run::model::RunModel;

/// As they are written and compared: numbers are those that a reader finds in the text.
pub fn of(options: &Predict, model: &RunModel, keep: &Keep) -> Outcome<Value> {
    let names = [options.run.display().to_string(), model_hash(&options.run)?];
    let (names, views) = (names.each_ref().map(String::as_str), model.recipe().predict.views);
    let mut settings = answer::settings(names, views, keep, options.samples, options.seed, options.maps);
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
