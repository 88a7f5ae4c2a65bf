//! A run's model, ready to predict: images that do not suit it are refused by name.

use std::path::Path;

use multivalued::train::checkpoint;
use multivalued::{Predictor, Recipe, shipped};
use multivalued_data::{Case, Image, Prediction};
use multivalued_engine::Device;

use super::RunFolder;
use super::counting::Counting;
use crate::exit::{Failure, Outcome};
use crate::terminal::complain;

/// Images that are predicted before the progress is shown anew: whole batches of the predictor.
const BETWEEN_WORDS: usize = 32;

/// A trained model.
pub struct RunModel {
    predictor: Predictor,
}

impl RunModel {
    /// Reads a run's `best/`, or the model that was handed on as this folder.
    pub fn of_run(run: &RunFolder, device: &Device) -> Outcome<Self> {
        if run.is_shipped() {
            if !shipped::has_checksums(run.path()) {
                complain(&format!(
                    "{}: has no {}, as models had none at first: whether its files are whole is not known",
                    run.path().display(),
                    shipped::CHECKSUMS
                ));
            }
            return Ok(Self { predictor: Predictor::open_shipped(run.path(), device)? });
        }
        if !checkpoint::exists(&run.best()) {
            return Err(Failure::user(
                run.path().display(),
                "has no best/ yet; let its training reach a validation, or go on with --resume",
            ));
        }
        Self::of_checkpoint(&run.best(), device)
    }

    /// Reads the model of a run, or the one that a folder holds itself.
    pub fn of_path(path: &Path, device: &Device) -> Outcome<Self> {
        match checkpoint::exists(path) {
            true => Self::of_checkpoint(path, device),
            false => Self::of_run(&RunFolder::open(path)?, device),
        }
    }

    fn of_checkpoint(path: &Path, device: &Device) -> Outcome<Self> {
        Ok(Self { predictor: Predictor::open(path, device)? })
    }

    /// The same with another number of views of each image; as its recipe says where none is given.
    pub fn with_views(self, views: Option<usize>) -> Outcome<Self> {
        match views {
            Some(views) => Ok(Self { predictor: self.predictor.with_views(views)? }),
            None => Ok(self),
        }
    }

    /// The model's recipe.
    pub fn recipe(&self) -> &Recipe {
        self.predictor.recipe()
    }

    /// What predicts.
    pub fn predictor(&self) -> &Predictor {
        &self.predictor
    }

    /// The weighted set of each image; `place` names them in errors, `counting` says how far it is.
    pub fn predict(
        &self,
        place: &str,
        images: &[&Image],
        mut counting: Counting,
    ) -> Outcome<Vec<Prediction>> {
        let mut predictions = Vec::with_capacity(images.len());
        let refused = |error| Failure::user(place, error);
        self.predictor.check(images).map_err(refused)?;
        for some in images.chunks(BETWEEN_WORDS) {
            predictions.extend(self.predictor.predict(some).map_err(refused)?);
            counting.reached(predictions.len());
        }
        Ok(predictions)
    }

    /// The same for cases.
    pub fn predict_cases(&self, cases: &[Case]) -> Outcome<Vec<Prediction>> {
        let images: Vec<&Image> = cases.iter().map(|case| &case.image).collect();
        self.predict("these cases", &images, Counting::new(images.len()))
    }
}
