//! `coverage.json`: the conformal levels that a run was calibrated for.

use std::fmt::Display;

use multivalued::Coverage;

use super::RunFolder;
use crate::exit::{Failure, Outcome};
use crate::folder;

/// The levels of a run; none where it was not calibrated.
pub fn read(run: &RunFolder) -> Outcome<Vec<Coverage>> {
    let path = run.coverage();
    if !path.is_file() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&folder::read_text(&path)?)
        .map_err(|error| Failure::user(path.display(), format!("{error}; calibrate again")))
}

/// Adds a level, or replaces it.
pub fn add(run: &RunFolder, coverage: Coverage) -> Outcome {
    let mut levels = read(run)?;
    levels.retain(|other| other.level != coverage.level);
    levels.push(coverage);
    levels.sort_by(|a, b| a.level.total_cmp(&b.level));
    let text = serde_json::to_string_pretty(&levels).map_err(|error| Failure::Io(error.to_string()))?;
    folder::write(&run.coverage(), (text + "\n").as_bytes())
}

/// The level that is asked for.
pub fn at(run: &RunFolder, level: f64) -> Outcome<Coverage> {
    let levels = read(run)?;
    let known = levels.iter().find(|known| known.level == level).copied().ok_or_else(|| {
        let place = run.path().display();
        Failure::user(
            place.to_string(),
            format!("is not calibrated for a coverage of {level}; run `multivalued calibrate {place} --coverage {level}` first"),
        )
    })?;
    known.check().map_err(|error| refused(error, run.coverage().display()))?;
    Ok(known)
}

/// A level that cannot be had, said of the place that the cases or the level come from.
pub fn refused(error: multivalued::Error, place: impl Display) -> Failure {
    match error {
        multivalued::Error::Recipe { reason, .. } => Failure::user(place, reason),
        other => other.into(),
    }
}
