//! NumPy's NPZ: a zip archive that must hold exactly one array.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::{Limits, Samples, npy};
use crate::{Error, Result};

pub(super) fn read(path: &Path, limits: &Limits) -> Result<Samples> {
    let broken = |e: &dyn std::fmt::Display| {
        Error::file(path, format!("is not a readable NPZ archive: {e}; save it again"))
    };
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(|e| broken(&e))?;
    if archive.len() != 1 {
        let names: Vec<_> = archive.file_names().take(8).flatten().collect();
        let reason = format!(
            "holds {} arrays ({}); save one array per file, or one NPY file per annotation",
            archive.len(),
            names.join(", ")
        );
        return Err(Error::file(path, reason));
    }
    let entry = archive.by_index(0).map_err(|e| broken(&e))?;
    let name = entry.name().map_err(|e| broken(&e))?;
    if !name.ends_with(".npy") {
        return Err(Error::file(
            path,
            format!("holds '{name}', which is no NPY array; save it with numpy.savez"),
        ));
    }
    let stored = entry.compressed_size();
    npy::read_from(path, entry, stored, limits)
}
