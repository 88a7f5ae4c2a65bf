//! The folder of a checkpoint: written whole, put in place by renaming, and read back with every file checked.

use super::{AVERAGE, MODEL, OPTIMISER, TrainingState};
use crate::network::Network;
use crate::recipe::Recipe;
use crate::{Error, Result};
use multivalued_data::{disk, files};
use multivalued_engine::Parameters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const STATE: &str = "state.json";
/// The most bytes that a state makes sense with: ten for each of 25 million annotations.
const MOST_STATE: u64 = 1 << 28;
const FORMAT: &str = "multivalued-checkpoint";
/// Grows when a reader of the old kind could not read the new one.
const VERSION: u32 = 1;

/// What `state.json` holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    format: String,
    version: u32,
    /// BLAKE3 of each of the checkpoint's files.
    files: BTreeMap<String, String>,
    pub(super) recipe: Recipe,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) training: Option<TrainingState>,
}

/// Writes a checkpoint's files and puts them in place.
pub(super) fn write(
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
pub(super) struct Opened {
    pub(super) folder: PathBuf,
    pub(super) state: State,
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
    pub(super) fn read(folder: &Path) -> Result<Self> {
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

    pub(super) fn has(&self, name: &str) -> bool {
        self.state.files.contains_key(name)
    }

    /// A file's content, checked against its size and its hash.
    pub(super) fn file(&self, name: &str, parameters: &Parameters) -> Result<Vec<u8>> {
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

    pub(super) fn load(&self, name: &str, network: &mut Network) -> Result<()> {
        let bytes = self.file(name, network.parameters())?;
        network.load(&bytes).map_err(|reason| Error::checkpoint(self.folder.join(name), reason))
    }
}
