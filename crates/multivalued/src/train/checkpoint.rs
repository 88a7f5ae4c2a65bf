//! Checkpoints: folders that hold a whole state, appear at once or not at all, and say what they are.
//!
//! ```text
//! last/  model.safetensors      parameters and states as they are
//!        average.safetensors    the averaged weights that prediction uses
//!        optimiser.safetensors  Adam's moments
//!        state.json             format, version, step, recipe, and the hash of each file
//! best/  model.safetensors      the averaged weights of the best validation, and states
//!        state.json
//! ```
//!
//! A checkpoint is written beside its place, synced to disk, and put there by renaming folders; what it
//! replaces is kept until the new one is complete. Everything random is drawn from (seed, step), so the
//! step's number is all the random state there is.

mod folder;

pub use folder::{exists, refuse_links};

use super::{Census, EpochSums, MOST_FAILURES, Trainer};
use crate::error::caught;
use crate::network::Network;
use crate::recipe::Recipe;
use crate::{Error, Predictor, Result};
use folder::{Opened, write};
use multivalued_data::CaseList;
use multivalued_engine::Device;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

const MODEL: &str = "model.safetensors";
const AVERAGE: &str = "average.safetensors";
const OPTIMISER: &str = "optimiser.safetensors";
/// Validation cases that temperatures are fitted to: enough for three numbers, and a bounded part of a training.
const MOST_CALIBRATION_CASES: usize = 400;
/// More than any training takes, and so few that nothing that is computed from them overflows.
const MOST_STEPS: u64 = 1 << 40;

/// What a training needs to go on, besides tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainingState {
    step: u64,
    seconds: f64,
    failures_in_a_row: u64,
    best_ged: Option<f64>,
    #[serde(default)]
    validations_since_best: u64,
    assigned: Vec<Option<usize>>,
    sums: EpochSums,
    census: Census,
    data: String,
}

#[cfg(test)]
impl TrainingState {
    /// Makes states comparable that took different times.
    pub(super) fn forget_time(&mut self) {
        self.seconds = 0.0;
    }
}

impl Trainer {
    /// Saves the whole state as `folder`. `data` is the hash of the training data.
    pub fn save(&mut self, folder: &Path, data: &str) -> Result<()> {
        caught(|| self.save_state(folder, data))
    }

    fn save_state(&mut self, folder: &Path, data: &str) -> Result<()> {
        let (files, training) = self.whole_state(data);
        write(folder, &files, &self.recipe, Some(training))
    }

    /// Everything that later steps depend on.
    pub(super) fn whole_state(&mut self, data: &str) -> ([(&'static str, Vec<u8>); 3], TrainingState) {
        let training = TrainingState {
            step: self.step,
            seconds: self.seconds(),
            failures_in_a_row: self.failures_in_a_row,
            best_ged: self.best_ged,
            validations_since_best: self.validations_since_best,
            assigned: self.assigned.clone(),
            sums: self.sums.clone(),
            census: self.census.clone(),
            data: data.into(),
        };
        let model = self.network.parameters().to_safetensors(HashMap::new());
        let average =
            self.with_averaged_weights(|network| network.parameters().to_safetensors(HashMap::new()));
        let optimiser = self.adam.to_safetensors(self.network.parameters());
        ([(MODEL, model), (AVERAGE, average), (OPTIMISER, optimiser)], training)
    }

    /// Gives rank 0's state to all ranks.
    pub(super) fn share_state(&mut self) -> Result<()> {
        if self.ranks.are_alone() {
            return Ok(());
        }
        const WHAT: &str = "the state of the training";
        let ranks = self.ranks.clone();
        let (files, training) = self.whole_state("");
        let training = serde_json::to_vec(&training).expect("a state is plain values");
        let training = ranks.broadcast(WHAT, training)?;
        let files = files.into_iter().map(|(name, bytes)| Ok((name, ranks.broadcast(WHAT, bytes)?)));
        let files = files.collect::<Result<Vec<_>>>()?;
        if ranks.leads() {
            return Ok(());
        }
        let unusable = |reason: String| Error::Ranks {
            reason: format!(
                "rank 0's state is of no use here ({reason}); run one version of this program everywhere"
            ),
        };
        let training = serde_json::from_slice(&training).map_err(|error| unusable(error.to_string()))?;
        let file =
            |name: &str| Ok(files.iter().find(|(other, _)| *other == name).expect("sent above").1.clone());
        self.take_state(training, file, |_, reason| unusable(reason))
    }

    /// Takes a state whose files `file` gives; `unusable` says of which file they are no good, and why.
    fn take_state(
        &mut self,
        training: TrainingState,
        file: impl Fn(&str) -> Result<Vec<u8>>,
        unusable: impl Fn(&str, String) -> Error,
    ) -> Result<()> {
        let load = |network: &mut Network, name: &str| {
            network.load(&file(name)?).map_err(|reason| unusable(name, reason))
        };
        load(&mut self.network, AVERAGE)?;
        for (average, parameter) in self.average.iter_mut().zip(self.network.parameters().iter()) {
            if let Some(average) = average {
                *average = parameter.tensor().clone();
            }
        }
        load(&mut self.network, MODEL)?;
        let optimiser = file(OPTIMISER)?;
        self.adam
            .load_safetensors(self.network.parameters(), &optimiser)
            .map_err(|error| unusable(OPTIMISER, error.to_string()))?;
        let TrainingState {
            step,
            seconds,
            failures_in_a_row,
            best_ged,
            validations_since_best,
            assigned,
            sums,
            census,
            data: _,
        } = training;
        self.step = step;
        self.seconds_before = seconds;
        self.started = Instant::now();
        self.failures_in_a_row = failures_in_a_row;
        self.best_ged = best_ged;
        self.validations_since_best = validations_since_best;
        self.assigned = assigned;
        self.sums = sums;
        self.census = census;
        Ok(())
    }

    /// Saves what prediction needs as `folder`: the averaged weights.
    pub fn save_for_prediction(&mut self, folder: &Path) -> Result<()> {
        let model = caught(|| {
            Ok(self.with_averaged_weights(|network| network.parameters().to_safetensors(HashMap::new())))
        })?;
        write(folder, &[(MODEL, model)], &self.recipe, None)
    }

    /// Brings the probabilities of the model that was saved as `folder` in line with the validation cases, where
    /// the recipe wants it and there are any. Gives the model's recipe where it did.
    pub fn calibrate_saved(&self, folder: &Path) -> Result<Option<Recipe>> {
        if !self.recipe.predict.calibrate || self.validation.is_empty() {
            return Ok(None);
        }
        let step = self.validation.len().div_ceil(MOST_CALIBRATION_CASES).max(1);
        let cases = self.validation.select((0..self.validation.len()).step_by(step));
        let predictor = Predictor::open(folder, self.network.device())?.calibrated(&cases)?;
        let model = caught(|| Ok(predictor.network().parameters().to_safetensors(HashMap::new())))?;
        write(folder, &[(MODEL, model)], predictor.recipe(), None)?;
        Ok(Some(predictor.recipe().clone()))
    }

    /// Goes on from a checkpoint, exactly where it was saved. The cases must be those it was trained on.
    pub fn resume(
        folder: &Path,
        train: impl Into<CaseList>,
        validation: impl Into<CaseList>,
        data: &str,
        device: &Device,
    ) -> Result<Self> {
        let (train, validation) = (train.into(), validation.into());
        caught(|| Self::resume_from(folder, train, validation, data, device))
    }

    fn resume_from(
        folder: &Path,
        train: CaseList,
        validation: CaseList,
        data: &str,
        device: &Device,
    ) -> Result<Self> {
        let opened = Opened::read(folder)?;
        let Some(training) = opened.state.training.clone() else {
            return Err(Error::checkpoint(
                folder,
                "holds weights only: it can predict, not go on training. Resume from `last`",
            ));
        };
        if training.data != data {
            return Err(Error::checkpoint(
                folder,
                format!("trained on other data: hash {}, this data's is {data}", training.data),
            ));
        }
        let mut trainer = Self::new(&opened.state.recipe, train, validation, device)?;
        if let Some(fault) = trainer.fault_of(&training) {
            let reason =
                format!("does not fit its own recipe and data: {fault}; resume from another checkpoint");
            return Err(Error::checkpoint(opened.folder.join("state.json"), reason));
        }
        // Each file is read for the networks that it is to fit, which all have one shape.
        let shape = trainer.network.parameters().clone();
        let file = |name: &str| opened.file(name, &shape);
        trainer
            .take_state(training, file, |name, reason| Error::checkpoint(opened.folder.join(name), reason))?;
        Ok(trainer)
    }
}

impl Trainer {
    /// What of a state this training cannot go on from, by field.
    fn fault_of(&self, state: &TrainingState) -> Option<String> {
        let codes = self.census.codes();
        let TrainingState { step, seconds, failures_in_a_row, assigned, sums, census, .. } = state;
        let most = self.total_steps().unwrap_or(MOST_STEPS);
        if *step > most {
            return Some(format!("`step` is {step}, at most {most}"));
        }
        if !(0.0..1e12).contains(seconds) {
            return Some(format!("`seconds` is {seconds}"));
        }
        if *failures_in_a_row > MOST_FAILURES {
            return Some(format!("`failures_in_a_row` is {failures_in_a_row}, at most {MOST_FAILURES}"));
        }
        if assigned.len() != self.assigned.len() {
            let (has, cases) = (assigned.len(), self.assigned.len());
            return Some(format!("`assigned` has {has} entries for {cases} training cases"));
        }
        if let Some(code) = assigned.iter().flatten().find(|code| **code >= codes) {
            return Some(format!("`assigned` names code {code} of {codes}"));
        }
        let sums = sums.fault(codes, *step).map(|fault| format!("`sums.{fault}"));
        sums.or_else(|| census.fault(codes).map(|fault| format!("`census.{fault}")))
    }
}

impl Predictor {
    /// A predictor from a checkpoint folder, `best` or `last`; [`Predictor::open_shipped`] reads a model that
    /// was handed on.
    pub fn open(folder: &Path, device: &Device) -> Result<Self> {
        caught(|| Self::open_checkpoint(folder, device))
    }

    fn open_checkpoint(folder: &Path, device: &Device) -> Result<Self> {
        let opened = Opened::read(folder)?;
        let recipe = &opened.state.recipe;
        recipe.validate()?;
        let mut network = Network::new(recipe, device)?;
        let name = if opened.has(AVERAGE) { AVERAGE } else { MODEL };
        opened.load(name, &mut network)?;
        Ok(Self::new(network, recipe))
    }
}

/// The recipe a checkpoint was made by.
pub fn recipe_of(folder: &Path) -> Result<Recipe> {
    Ok(Opened::read(folder)?.state.recipe)
}
