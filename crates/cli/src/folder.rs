//! Folders and files of results: made in one go, refused where they would overwrite something.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::exit::{Failure, Outcome};

/// Makes a new folder, or takes an empty one; one with content is refused.
pub fn make_empty(path: &Path) -> Outcome {
    must_be_free(path)?;
    make(path)
}

/// Refuses a folder with content, or a file.
pub fn must_be_free(path: &Path) -> Outcome {
    let mut entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::io(path, &error)),
    };
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failure::user(path.display(), "is not empty; choose a new folder with --out")),
    }
}

/// Refuses a file's path whose folder is not there, before the work whose result it shall hold.
pub fn can_hold(path: &Path) -> Outcome {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (path.is_dir(), folder.is_dir()) {
        (true, _) => Err(Failure::user(path.display(), "is a folder, where a file is wanted")),
        (_, false) => Err(Failure::user(folder.display(), "there is no such folder; make it first")),
        _ => Ok(()),
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
