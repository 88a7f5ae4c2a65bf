//! Models and images that the page opens at once: their files as scripts.

use std::path::{Path, PathBuf};

use multivalued::answer::FINGERPRINT;
use multivalued::train::checkpoint;
use multivalued::{mixture, shipped};
use multivalued_data::files;
use multivalued_web::viewer::{self, File, SHIPPED};

use crate::exit::{Failure, Outcome};

/// Bytes that a page is given at once; more is dropped into it.
const MOST_BYTES: u64 = 256 << 20;
/// Files of one folder, and folders inside of folders.
const MOST_FILES: usize = 4096;
const MOST_DEPTH: usize = 4;
/// Files of a model that predictions need.
const MODEL_FILES: [&str; 7] = [
    shipped::WEIGHTS,
    shipped::RECIPE,
    shipped::CHECKSUMS,
    FINGERPRINT,
    mixture::MIXTURE,
    "average.safetensors",
    "state.json",
];

/// A script of the page and its path.
pub struct Bundle {
    pub path: String,
    pub file: File,
}

/// The shipped model that a path names; none where there is a file or folder of that name.
pub fn named(path: &Path) -> Option<String> {
    let name = path.to_str().filter(|_| !path.exists())?;
    SHIPPED.iter().any(|model| model.name == name).then(|| name.to_owned())
}

/// Whether a folder holds a model, or a run.
pub fn is_model(path: &Path) -> bool {
    let is = |folder: &Path| mixture::exists(folder) || shipped::exists(folder) || checkpoint::exists(folder);
    is(path) || is(&path.join("best"))
}

/// What a path is called.
pub fn name(path: &Path) -> String {
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    full.file_name().map_or_else(|| "image".into(), |name| name.to_string_lossy().into_owned())
}

impl Bundle {
    /// The files of a model that predictions need.
    pub fn of_model(script: &str, folder: &Path) -> Outcome<Self> {
        let wanted = |file: &Path| {
            let name = file.file_name().unwrap_or_default();
            let of_training = file.components().any(|part| part.as_os_str() == "last");
            MODEL_FILES.iter().any(|one| name == *one) && !of_training
        };
        Self::of(script, folder, "", wanted)
    }

    /// An image, or all files of a folder.
    pub fn of_images(script: &str, path: &Path) -> Outcome<Self> {
        match path.is_dir() {
            true => Self::of(script, path, &format!("{}/", name(path)), |_| true),
            false => {
                let bytes = files::read(path, MOST_BYTES)?;
                Ok(Self::new(script, &[(name(path), bytes)]))
            }
        }
    }

    /// Some files of a folder, each named by its place in it after `before`.
    fn of(script: &str, folder: &Path, before: &str, wanted: impl Fn(&Path) -> bool) -> Outcome<Self> {
        let mut found = Vec::new();
        list(folder, 0, &mut found)?;
        found.retain(|file| wanted(file));
        let mut left = MOST_BYTES;
        let mut read = Vec::with_capacity(found.len());
        for file in &found {
            let bytes = files::read(file, left)?;
            left -= bytes.len() as u64;
            let inner = file.strip_prefix(folder).unwrap_or(file).components();
            let inner: Vec<_> = inner.map(|part| part.as_os_str().to_string_lossy()).collect();
            read.push((format!("{before}{}", inner.join("/")), bytes));
        }
        Ok(Self::new(script, &read))
    }

    fn new(script: &str, read: &[(String, Vec<u8>)]) -> Self {
        let listed: Vec<(&str, &[u8])> =
            read.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
        Self { path: format!("{script}.js"), file: viewer::files_script(script, &listed) }
    }
}

/// The regular files of a folder and those below it, by name; hidden ones are left out.
fn list(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Outcome {
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries: Vec<PathBuf> =
        entries.map_err(|error| Failure::io(folder, &error))?.iter().map(std::fs::DirEntry::path).collect();
    entries.sort();
    for path in entries {
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        if path.is_dir() && depth < MOST_DEPTH {
            list(&path, depth + 1, found)?;
        } else if path.is_file() {
            found.push(path);
        }
        if found.len() > MOST_FILES {
            let reason =
                format!("holds more than {MOST_FILES} files; drop those into the page that you want to see");
            return Err(Failure::user(folder.display(), reason));
        }
    }
    Ok(())
}
