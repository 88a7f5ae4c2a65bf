//! Folders and files of results: made in one go, refused where they would overwrite something.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::exit::{Failure, Outcome};

/// Makes a new folder, or takes an empty one; one with content is refused.
pub fn make_empty(path: &Path) -> Outcome {
    fs::create_dir_all(path).map_err(|error| Failure::io(path, &error))?;
    let mut entries = fs::read_dir(path).map_err(|error| Failure::io(path, &error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failure::user(path.display(), "is not empty; choose a new folder with --out")),
    }
}

/// Makes a folder unless it is there.
pub fn make(path: &Path) -> Outcome {
    fs::create_dir_all(path).map_err(|error| Failure::io(path, &error))
}

/// Writes a file beside its place and renames it, so that nobody meets half of it.
pub fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written = File::create(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // The rest of a failed write is of no use; the write's own error is the one to tell.
        let _ = fs::remove_file(&beside);
        Failure::io(path, &error)
    })
}

/// Reads a text file.
pub fn read_text(path: &Path) -> Outcome<String> {
    let bytes = fs::read(path).map_err(|error| Failure::io(path, &error))?;
    String::from_utf8(bytes).map_err(|_| Failure::user(path.display(), "is not UTF-8 text; check the path"))
}
