//! Folders and files of results: made in one go, refused where they would overwrite something.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use multivalued_data::files;

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

/// Makes a folder that the user named, unless it is there. It may be a link; what is made inside of it may not
/// (`files::make_folder`).
pub fn make(path: &Path) -> Outcome {
    fs::create_dir_all(path).map_err(|error| Failure::io(path, &error))
}

/// Writes a file inside of a folder of results: whole or not at all, and through no link. A file that the user
/// named is a `Document`.
pub fn write(path: &Path, bytes: &[u8]) -> Outcome {
    Ok(files::replace(path, |file| file.write_all(bytes))?)
}

/// Reads a text file of a folder of results.
pub fn read_text(path: &Path) -> Outcome<String> {
    files::must_be_regular(path)?;
    let bytes = fs::read(path).map_err(|error| Failure::io(path, &error))?;
    String::from_utf8(bytes).map_err(|_| Failure::user(path.display(), "is not UTF-8 text; check the path"))
}
