//! What lies in the folder of results already: it is refused, gone on with, or replaced.

use std::fs;
use std::path::Path;

use multivalued::answer::{DOCUMENT, FORMAT, VERSION, checksum};
use serde_json::Value;

use super::inputs::file_name;
use super::{segmentation, settings};
use crate::exit::{Failure, Outcome};

/// What to do with an image's folder that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Refuse,
    /// Complete predictions stay, the others are made again.
    Resume,
    Overwrite,
}

/// What is known of an image's folder before anything is predicted.
#[derive(Debug)]
pub enum State {
    /// It holds nothing.
    Free,
    /// What it holds is to be replaced.
    Replaced,
    /// It holds a prediction with the same settings: this is its document.
    Begun(Value),
}

/// Looks into an image's folder. An error where there is something that must not be replaced: something that
/// `predict` did not write, or, to be gone on with, the prediction of another model or with other options.
pub fn look(folder: &Path, policy: Policy, settings: &Value) -> Outcome<State> {
    let names = content(folder)?;
    if names.is_empty() {
        return Ok(State::Free);
    }
    let refused = |reason: String| Err(Failure::user(folder.display(), reason));
    if policy == Policy::Refuse {
        return refused(
            "is not empty; choose a new folder with --out, go on with --resume or replace it with --overwrite".into(),
        );
    }
    if let Some(other) = names.iter().find(|name| !is_ours(name)) {
        return refused(format!("holds '{other}', which is no prediction; choose a new folder with --out"));
    }
    let document = fs::read(folder.join(DOCUMENT)).ok();
    let document = document.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    match document.filter(|_| policy == Policy::Resume) {
        None => Ok(State::Replaced),
        Some(found) if found["format"] != FORMAT || found["version"] != VERSION => refused(
            "holds a prediction of another version of this program; choose a new folder or --overwrite it".into(),
        ),
        Some(found) if !settings::are_same(&found["settings"], settings) => refused(
            "holds a prediction of another model or with other options; choose a new folder or --overwrite it".into(),
        ),
        Some(found) => Ok(State::Begun(found)),
    }
}

/// Whether a prediction is of these pixels and all its files are as they were written.
pub fn is_complete(folder: &Path, document: &Value, pixels: &str) -> bool {
    let Some(listed) = document["files"].as_object() else { return false };
    let is_whole = |(name, hash): (&String, &Value)| {
        is_ours(name) && checksum(&folder.join(name)).is_ok_and(|found| *hash == found)
    };
    document["pixels_blake3"] == pixels && !listed.is_empty() && listed.iter().all(is_whole)
}

/// Removes what `predict` wrote into a folder; the document first, so that no half is taken for a whole.
pub fn clear(folder: &Path) -> Outcome {
    let remove = |name: &str| match fs::remove_file(folder.join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::io(&folder.join(name), &error))
        }
        _ => Ok(()),
    };
    remove(DOCUMENT)?;
    content(folder)?.iter().filter(|name| is_ours(name)).try_for_each(|name| remove(name))
}

/// The names in a folder, sorted; none where there is no folder.
fn content(folder: &Path) -> Outcome<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::io(folder, &error)),
    };
    let names =
        entries.map(|entry| Ok(file_name(&entry.map_err(|error| Failure::io(folder, &error))?.path())));
    let mut names = names.collect::<Outcome<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

/// Whether `predict` writes files of this name, or left one where it was stopped.
fn is_ours(name: &str) -> bool {
    let begins = ["hypothesis-", "sample-", "mean-", "contours-", "entropy."];
    let whole = ["sheet.png", segmentation::FILE, DOCUMENT];
    let part = name.starts_with('.') && name.ends_with(".part");
    let plain = !name.contains(['/', '\\']);
    plain && (whole.contains(&name) || part || begins.iter().any(|begin| name.starts_with(begin)))
}
