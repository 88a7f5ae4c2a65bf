//! A run's model, ready to predict: images that do not suit it are refused by name.

use std::path::Path;

use multivalued::train::checkpoint;
use multivalued::{Mixture, Predictor, Recipe, Splits, mixture, shipped};
use multivalued_data::{CaseList, Image, Prediction, Predictions};
use multivalued_engine::Device;

use super::RunFolder;
use super::cases::Cases;
use super::counting::Counting;
use crate::exit::{Failure, Outcome};
use crate::terminal::complain;

/// Images that are predicted before the progress is shown anew: whole batches of the predictor.
const BETWEEN_WORDS: usize = 32;

/// What images are called in errors that come from a data set.
const CASES: &str = "these cases";

/// A trained model, or several that predict together.
pub struct RunModel {
    mixture: Mixture,
}

impl RunModel {
    /// Reads a run's `best/`, or the model that was handed on as this folder.
    pub fn of_run(run: &RunFolder, device: &Device) -> Outcome<Self> {
        if mixture::exists(run.path()) {
            return Ok(Self { mixture: Mixture::open(run.path(), device)? });
        }
        if run.is_shipped() {
            if !shipped::has_checksums(run.path()) {
                complain(&format!(
                    "{}: has no {}, as models had none at first: whether its files are whole is not known",
                    run.path().display(),
                    shipped::CHECKSUMS
                ));
            }
            return Ok(Self { mixture: Predictor::open_shipped(run.path(), device)?.into() });
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
        Ok(Self { mixture: Predictor::open(path, device)?.into() })
    }

    /// The same with another number of views of each image; as its recipe says where none is given.
    pub fn with_views(self, views: Option<usize>) -> Outcome<Self> {
        match views {
            Some(views) => Ok(Self { mixture: self.mixture.with_views(views)? }),
            None => Ok(self),
        }
    }

    /// The model's recipe.
    pub fn recipe(&self) -> &Recipe {
        self.mixture.recipe()
    }

    /// What predicts.
    pub fn mixture(&self) -> &Mixture {
        &self.mixture
    }

    /// The only model there is, or why it is not alone.
    pub fn alone(self) -> Result<Predictor, String> {
        let count = self.mixture.members().len();
        let reason = || format!("is a mixture of {count} models itself; name one of its members");
        self.mixture.alone().ok_or_else(reason)
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
        self.mixture.check(images).map_err(refused)?;
        for some in images.chunks(BETWEEN_WORDS) {
            predictions.extend(self.mixture.predict(some).map_err(refused)?);
            counting.reached(predictions.len());
        }
        Ok(predictions)
    }

    /// The same for the cases of a part: those of a cross-validation each by the model that did not see it.
    pub fn predict_part(&self, of: &Cases, part: &CaseList) -> Outcome<Predictions> {
        match of.by_fold {
            true => self.predict_by_fold(part),
            false => self.predict_cases(part),
        }
    }

    /// The same for cases.
    pub fn predict_cases(&self, cases: &CaseList) -> Outcome<Predictions> {
        let mut predictions = Predictions::default();
        let predict = |images: &[&Image]| self.mixture.predict(images);
        predict_each(predict, cases, &mut predictions, &mut Counting::new(cases.len()))?;
        Ok(predictions)
    }

    fn predict_by_fold(&self, cases: &CaseList) -> Outcome<Predictions> {
        let members = self.mixture.members();
        let data = &self.recipe().data;
        if data.folds != members.len() {
            return Err(Failure::user(
                "data.folds",
                format!("recipe.toml says {} folds, but there are {} models", data.folds, members.len()),
            ));
        }
        let folds = Splits::folds(&cases.roster(), data)?;
        let (mut predictions, mut places) = (Predictions::default(), Vec::new());
        let mut counting = Counting::new(cases.len());
        for (fold, member) in (1..).zip(members) {
            let own: Vec<usize> = (0..cases.len()).filter(|&at| folds[cases.id(at)] == fold).collect();
            let some = cases.select(own.iter().copied());
            predict_each(|images| member.predict(images), &some, &mut predictions, &mut counting)?;
            places.extend(own);
        }
        Ok(predictions.placed(&places))
    }
}

/// Adds what a model says of cases, a few of which are in memory at a time.
fn predict_each(
    predict: impl Fn(&[&Image]) -> multivalued::Result<Vec<Prediction>>,
    cases: &CaseList,
    predictions: &mut Predictions,
    counting: &mut Counting,
) -> Outcome {
    for chunk in cases.chunks() {
        let some = chunk.map(|at| cases.get(at)).collect::<Result<Vec<_>, _>>()?;
        let images: Vec<&Image> = some.iter().map(|case| &case.image).collect();
        predictions.extend(&predict(&images).map_err(|error| Failure::user(CASES, error))?);
        counting.reached(predictions.len());
    }
    Ok(())
}
