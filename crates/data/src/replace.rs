//! Writing a file so that a reader never meets half of it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Writes beside the target and renames.
pub(crate) fn replace_file(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> std::io::Result<()>,
) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = fs::File::create(&beside)
        .and_then(|mut file| write(&mut file).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|e| {
        // The rest of a failed write is of no use; the write's own error is the one to tell.
        let _ = fs::remove_file(&beside);
        Error::io(path, e)
    })
}
