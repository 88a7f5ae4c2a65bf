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

use super::{Census, EpochSums, MOST_FAILURES, Trainer};
use crate::error::caught;
use crate::network::Network;
use crate::recipe::Recipe;
use crate::{Error, Predictor, Result};
use multivalued_data::{CaseList, disk, files};
use multivalued_engine::{Device, Parameters};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

const MODEL: &str = "model.safetensors";
const AVERAGE: &str = "average.safetensors";
const OPTIMISER: &str = "optimiser.safetensors";
const STATE: &str = "state.json";
/// The most bytes that a state makes sense with: ten for each of 25 million annotations.
const MOST_STATE: u64 = 1 << 28;

const FORMAT: &str = "multivalued-checkpoint";
/// Validation cases that temperatures are fitted to: enough for three numbers, and a bounded part of a training.
const MOST_CALIBRATION_CASES: usize = 400;
/// Grows when a reader of the old kind could not read the new one.
const VERSION: u32 = 1;
/// More than any training takes, and so few that nothing that is computed from them overflows.
const MOST_STEPS: u64 = 1 << 40;

/// What `state.json` holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    format: String,
    version: u32,
    /// BLAKE3 of each of the checkpoint's files.
    files: BTreeMap<String, String>,
    recipe: Recipe,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    training: Option<TrainingState>,
}

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

/// Writes a checkpoint's files and puts them in place.
fn write(
    folder: &Path,
    files: &[(&str, Vec<u8>)],
    recipe: &Recipe,
    training: Option<TrainingState>,
) -> Result<()> {
    let (fresh, old) = (beside(folder, ".new"), beside(folder, ".old"));
    refuse_links(folder)?;
    let hashes = files
        .iter()
        .map(|(name, bytes)| (name.to_string(), blake3::hash(bytes).to_hex().to_string()))
        .collect();
    let state =
        State { format: FORMAT.into(), version: VERSION, files: hashes, recipe: recipe.clone(), training };
    let state = serde_json::to_vec_pretty(&state).expect("a state is plain values");
    let needed: usize = files.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() + state.len();
    let written = (|| {
        remove(&fresh)?;
        // Made anew, so that nothing in it was there before.
        if let Some(parent) = fresh.parent() {
            fs::create_dir_all(parent).map_err(|source| Error::io(parent, source))?;
        }
        fs::create_dir(&fresh).map_err(|source| Error::io(&fresh, source))?;
        for (name, bytes) in files.iter().map(|(name, bytes)| (*name, bytes)).chain([(STATE, &state)]) {
            let path = fresh.join(name);
            let write = |path: &Path| -> std::io::Result<()> {
                let mut file = File::create_new(path)?;
                file.write_all(bytes)?;
                file.sync_all()
            };
            write(&path).map_err(|source| {
                let reason = format!("a checkpoint of {needed} bytes could not be written: {source}");
                Error::io(&path, std::io::Error::new(source.kind(), reason))
            })?;
        }
        sync_folder(&fresh)?;
        // Where there is none, a crash may have left `.old` as the only one there is.
        if folder.exists() {
            remove(&old)?;
            fs::rename(folder, &old).map_err(|source| Error::io(folder, source))?;
        }
        fs::rename(&fresh, folder).map_err(|source| Error::io(folder, source))?;
        sync_folder(parent_of(folder))?;
        remove(&old)
    })();
    if written.is_err() {
        // What could not be finished only takes space; the error that matters is the first.
        let _ = remove(&fresh);
    }
    written
}

/// Refuses a checkpoint's place where one of the names that are written is a link.
pub fn refuse_links(folder: &Path) -> Result<()> {
    for path in [folder.to_owned(), beside(folder, ".new"), beside(folder, ".old")] {
        files::refuse_link(&path)?;
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(folder, error)),
        _ => Ok(()),
    }
}

/// Makes renames and new names durable, where the system lets folders be synced.
fn sync_folder(folder: &Path) -> Result<()> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| Error::io(folder, source))?;
    }
    Ok(())
}

/// The folder that holds another; a bare name lies in the present one.
fn parent_of(folder: &Path) -> &Path {
    folder.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// A folder beside another, its name with an ending.
fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_os_string();
    name.push(ending);
    folder.with_file_name(name)
}

/// Where the checkpoint is: at its place, or beside it where a crash came between the two renames.
/// Readers change nothing: another process may be at work on it.
fn place_of(folder: &Path) -> PathBuf {
    let old = beside(folder, ".old");
    if !disk::exists(folder) && disk::exists(&old) { old } else { folder.to_owned() }
}

/// Whether a complete checkpoint lies there (or lies beside it after a crash).
pub fn exists(folder: &Path) -> bool {
    disk::is_file(&place_of(folder).join(STATE))
}

/// A checkpoint whose state was read; its other files are read for networks that they are to fit.
struct Opened {
    folder: PathBuf,
    state: State,
}

/// Reads a file of a checkpoint; one that is missing, no regular file or too large is named.
fn read_file(path: &Path, most: u64) -> Result<Vec<u8>> {
    files::read(path, most).map_err(|error| match error {
        multivalued_data::Error::Io { source, .. } => Error::checkpoint(path, source.to_string()),
        multivalued_data::Error::File { reason, .. } => Error::checkpoint(path, reason),
        other => other.into(),
    })
}

impl Opened {
    fn read(folder: &Path) -> Result<Self> {
        let folder = &place_of(folder);
        let path = folder.join(STATE);
        if !disk::is_there(&path) {
            return Err(Error::checkpoint(folder, "no checkpoint here (state.json is missing)"));
        }
        let text = read_file(&path, MOST_STATE)?;
        let value: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|error| Error::checkpoint(&path, format!("not a checkpoint's state: {error}")))?;
        if value["format"] != FORMAT {
            return Err(Error::checkpoint(&path, "not a checkpoint of this program"));
        }
        match value["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                let reason = format!(
                    "format version {version}; this program reads version {VERSION}. Use the program that wrote it"
                );
                return Err(Error::checkpoint(&path, reason));
            }
            None => return Err(Error::checkpoint(&path, "the format's version is missing")),
        }
        let state: State = serde_json::from_value(value)
            .map_err(|error| Error::checkpoint(&path, format!("damaged state: {error}")))?;
        if let Some(name) =
            state.files.keys().find(|name| ![MODEL, AVERAGE, OPTIMISER].contains(&name.as_str()))
        {
            let reason = format!("names '{name}', which is no file of a checkpoint: the state is damaged");
            return Err(Error::checkpoint(&path, reason));
        }
        Ok(Self { folder: folder.into(), state })
    }

    fn has(&self, name: &str) -> bool {
        self.state.files.contains_key(name)
    }

    /// A file's content, checked against its size and its hash.
    fn file(&self, name: &str, parameters: &Parameters) -> Result<Vec<u8>> {
        let path = self.folder.join(name);
        let Some(hash) = self.state.files.get(name) else {
            return Err(Error::checkpoint(path, "missing from the checkpoint"));
        };
        // The optimiser keeps two moments for each value.
        let tensors = if name == OPTIMISER { 2 } else { 1 };
        let bytes = read_file(&path, tensors * parameters.most_file_bytes())?;
        match blake3::hash(&bytes).to_hex().as_str() == hash {
            true => Ok(bytes),
            false => Err(Error::checkpoint(&path, "damaged: its content does not match the recorded hash")),
        }
    }

    fn load(&self, name: &str, network: &mut Network) -> Result<()> {
        let bytes = self.file(name, network.parameters())?;
        network.load(&bytes).map_err(|reason| Error::checkpoint(self.folder.join(name), reason))
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
