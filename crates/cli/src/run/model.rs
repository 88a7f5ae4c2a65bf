//! A run's model, ready to predict: images that do not suit it are refused by name.

use std::ops::Range;
use std::path::Path;
use std::sync::mpsc;

use multivalued::train::checkpoint;
use multivalued::{Limit, Mixture, Predictor, Recipe, Splits, mixture, shipped};
use multivalued_data::memory::available;
use multivalued_data::{Case, CaseList, Image, Prediction, Predictions};
use multivalued_engine::Device;
use rayon::prelude::*;

use super::RunFolder;
use super::cases::Cases;
use super::counting::Counting;
use crate::exit::{Failure, Outcome};
use crate::terminal::complain;

/// Images that are predicted before the progress is shown anew: whole batches of the predictor.
const BETWEEN_WORDS: usize = 32;

/// How many groups of images may be predicted before what was said of the first is judged.
const AHEAD: usize = 2;

/// What images are called in errors that come from a data set.
const CASES: &str = "these cases";

/// What a prediction may take unless stated otherwise: half of what is free where it is computed.
pub fn usual_memory(device: &Device) -> Option<u64> {
    Some(device.free_bytes().map_or_else(available, |bytes| bytes as u64) / 2)
}

/// A trained model, or several that predict together.
pub struct RunModel {
    mixture: Mixture,
}

impl RunModel {
    /// Reads a run's `best/`, or the model that was handed on as this folder.
    pub fn of_run(run: &RunFolder, device: &Device) -> Outcome<Self> {
        let usual = Limit { bytes: usual_memory(device), told: None };
        if mixture::exists(run.path()) {
            return Ok(Self { mixture: Mixture::open(run.path(), device)?.within(&usual) });
        }
        if run.is_shipped() {
            if !shipped::has_checksums(run.path()) {
                complain(&format!(
                    "{}: has no {}, as models had none at first: whether its files are whole is not known",
                    run.path().display(),
                    shipped::CHECKSUMS
                ));
            }
            return Ok(Self { mixture: Predictor::open_shipped(run.path(), device)?.within(usual).into() });
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
        let usual = Limit { bytes: usual_memory(device), told: None };
        Ok(Self { mixture: Predictor::open(path, device)?.within(usual).into() })
    }

    /// The same with another number of views of each image; as its recipe says where none is given.
    pub fn with_views(self, views: Option<usize>) -> Outcome<Self> {
        match views {
            Some(views) => Ok(Self { mixture: self.mixture.with_views(views)? }),
            None => Ok(self),
        }
    }

    /// The same within a limit of memory, and with someone who hears of the strips of a large image.
    pub fn within(self, limit: &Limit) -> Self {
        Self { mixture: self.mixture.within(limit) }
    }

    /// The model's recipe.
    pub fn recipe(&self) -> &Recipe {
        self.mixture.recipe()
    }

    /// What predicts.
    pub fn mixture(&self) -> &Mixture {
        &self.mixture
    }

    /// What predicts, alone.
    pub fn into_mixture(self) -> Mixture {
        self.mixture
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
        let refused = |error: multivalued::Error| Failure::at(place, error);
        self.mixture.check(images).map_err(refused)?;
        for some in images.chunks(BETWEEN_WORDS) {
            predictions.extend(self.mixture.predict(some).map_err(refused)?);
            counting.reached(predictions.len());
        }
        Ok(predictions)
    }

    /// The same for cases.
    pub fn predict_cases(&self, cases: &CaseList) -> Outcome<Predictions> {
        let mut told = Told::by(|_, _| Ok(()));
        told.of_each(|images| self.mixture.predict(images), cases, &mut Counting::new(cases.len()))?;
        Ok(told.predictions)
    }

    /// The same for the cases of a part: those of a cross-validation each by the model that did not see it.
    pub fn predict_part(&self, of: &Cases, part: &CaseList) -> Outcome<Predictions> {
        Ok(self.judge_part(of, part, |_, _| Ok(()))?.0)
    }

    /// The same, and what `judge` makes of each case and its prediction, while the next ones are predicted.
    pub fn judge_part<T: Send>(
        &self,
        of: &Cases,
        part: &CaseList,
        judge: impl Fn(&Case, &Prediction) -> Outcome<T> + Sync,
    ) -> Outcome<(Predictions, Vec<T>)> {
        let mut told = Told::by(judge);
        let mut counting = Counting::new(part.len());
        if of.by_fold {
            return self.predict_by_fold(part, told, &mut counting);
        }
        told.of_each(|images| self.mixture.predict(images), part, &mut counting)?;
        Ok((told.predictions, told.judged))
    }

    fn predict_by_fold<T: Send, J: Fn(&Case, &Prediction) -> Outcome<T> + Sync>(
        &self,
        cases: &CaseList,
        mut told: Told<T, J>,
        counting: &mut Counting,
    ) -> Outcome<(Predictions, Vec<T>)> {
        let members = self.mixture.members();
        let data = &self.recipe().data;
        if data.folds != members.len() {
            return Err(Failure::user(
                "data.folds",
                format!("recipe.toml says {} folds, but there are {} models", data.folds, members.len()),
            ));
        }
        let folds = Splits::folds(&cases.roster(), data)?;
        let mut places = Vec::new();
        for member in members {
            let fold = member.recipe().data.fold;
            let own: Vec<usize> = (0..cases.len()).filter(|&at| folds[cases.id(at)] == fold).collect();
            let some = cases.select(own.iter().copied());
            told.of_each(|images| member.predict(images), &some, counting)?;
            places.extend(own);
        }
        let mut judged: Vec<(usize, T)> = places.iter().copied().zip(told.judged).collect();
        judged.sort_by_key(|(place, _)| *place);
        Ok((told.predictions.placed(&places), judged.into_iter().map(|(_, one)| one).collect()))
    }
}

/// What was said of cases so far: by a model, and of the model.
struct Told<T, J> {
    judge: J,
    predictions: Predictions,
    judged: Vec<T>,
}

impl<T: Send, J: Fn(&Case, &Prediction) -> Outcome<T> + Sync> Told<T, J> {
    fn by(judge: J) -> Self {
        Self { judge, predictions: Predictions::default(), judged: Vec::new() }
    }

    /// Adds what a model says of cases, a few of which are in memory at a time. The next ones are predicted while
    /// what is said of the last ones is judged and packed.
    fn of_each(
        &mut self,
        predict: impl Fn(&[&Image]) -> multivalued::Result<Vec<Prediction>> + Sync,
        cases: &CaseList,
        counting: &mut Counting,
    ) -> Outcome {
        let predict_some = |chunk: Range<usize>| -> Outcome<_> {
            let some = cases.get_all(chunk)?;
            let images: Vec<&Image> = some.iter().map(|case| &case.image).collect();
            let said = predict(&images).map_err(|error| Failure::at(CASES, error))?;
            Ok((some, said))
        };
        std::thread::scope(|scope| {
            let (send, receive) = mpsc::sync_channel(AHEAD);
            // It ends by itself where nobody listens any more.
            scope.spawn(move || {
                for chunk in cases.chunks() {
                    let said = predict_some(chunk);
                    let failed = said.is_err();
                    if send.send(said).is_err() || failed {
                        break;
                    }
                }
            });
            for said in receive {
                let (some, said) = said?;
                // Collected before the first fault is taken, so that the message does not depend on threads.
                let judged: Vec<Outcome<T>> =
                    some.par_iter().zip(&said).map(|(case, said)| (self.judge)(case, said)).collect();
                self.judged.extend(judged.into_iter().collect::<Outcome<Vec<T>>>()?);
                self.predictions.extend(&said);
                counting.reached(self.predictions.len());
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use multivalued_data::{Hypothesis, Mask};

    use super::*;

    /// Three groups of cases, each image as bright as its number.
    fn cases() -> CaseList {
        let case = |at: usize| Case {
            id: format!("{at}"),
            group: String::new(),
            image: Image::new(1, 1, 1, vec![at as f32]),
            annotations: Vec::new(),
            truth: None,
        };
        (0..70).map(case).collect::<Vec<_>>().into()
    }

    /// Says an image's number; refuses one of them.
    fn say(refused: f32) -> impl Fn(&[&Image]) -> multivalued::Result<Vec<Prediction>> {
        move |images| {
            let say = |image: &&Image| match image.pixels()[0] {
                value if value == refused => Err(multivalued_data::Error::mismatch("image", "no").into()),
                value => {
                    let mask = Mask::empty(1, 1, 1);
                    Ok(Prediction::stated(vec![Hypothesis { mask, probability: 1.0, code: value as usize }]))
                }
            };
            images.iter().map(say).collect()
        }
    }

    #[test]
    fn cases_are_predicted_and_judged_in_order_and_a_fault_of_either_ends_it() {
        let (cases, mut counting) = (cases(), Counting::new(0));
        let judge = |case: &Case, said: &Prediction| {
            let code = said.hypotheses[0].code;
            assert_eq!(case.id, format!("{code}"), "a case and its own prediction");
            Ok(code)
        };
        let mut told = Told::by(judge);
        told.of_each(say(-1.0), &cases, &mut counting).unwrap();
        assert_eq!(told.judged, (0..70).collect::<Vec<_>>());
        assert_eq!(
            (0..70).map(|at| told.predictions.get(at).hypotheses[0].code).collect::<Vec<_>>(),
            told.judged
        );

        let fault = Told::by(judge).of_each(say(40.0), &cases, &mut counting).unwrap_err();
        assert!(matches!(&fault, Failure::User(text) if text.contains(CASES)), "{fault:?}");
        let strict = |case: &Case, _: &Prediction| match case.id.as_str() {
            "33" | "35" => Err(Failure::user(&case.id, "unfit")),
            _ => Ok(()),
        };
        let fault = Told::by(strict).of_each(say(-1.0), &cases, &mut counting).unwrap_err();
        assert!(matches!(&fault, Failure::User(text) if text.starts_with("33")), "the first: {fault:?}");
    }
}
