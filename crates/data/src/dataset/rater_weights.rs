//! `raters.csv` beside the data: how much each rater's annotations count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Source;
use crate::{Error, Result};

const FILE: &str = "raters.csv";

/// Weighs annotations by their raters. A case's weights keep their sum, so that no case counts more than
/// before; a rater that the file does not name has the weight 1.
pub(super) fn apply(
    folder: &Path,
    sources: &mut [Source],
    problems: &mut Vec<Error>,
    notes: &mut Vec<String>,
) -> Result<()> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(());
    }
    let weights = read(&path, problems)?;
    let named: BTreeSet<String> =
        sources.iter().flat_map(|source| &source.labels).filter_map(|label| label.rater.clone()).collect();
    let list =
        |names: Vec<&String>| names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let unknown: Vec<_> = weights.keys().filter(|name| !named.contains(*name)).collect();
    if !unknown.is_empty() {
        let known = if named.is_empty() {
            "names no raters".into()
        } else {
            format!("has {}", list(named.iter().collect()))
        };
        notes.push(format!(
            "{}: no annotation is by {}; the data set {known}",
            path.display(),
            list(unknown)
        ));
    }
    let unweighted: Vec<_> = named.iter().filter(|name| !weights.contains_key(*name)).collect();
    if !unweighted.is_empty() {
        notes.push(format!("{}: {} not there; the weight is 1", path.display(), list(unweighted)));
    }
    for source in sources {
        let before: f32 = source.labels.iter().map(|label| label.weight).sum();
        for label in &mut source.labels {
            label.weight *= label.rater.as_ref().and_then(|name| weights.get(name)).copied().unwrap_or(1.0);
        }
        let after: f32 = source.labels.iter().map(|label| label.weight).sum();
        source.labels.iter_mut().for_each(|label| label.weight *= before / after);
    }
    Ok(())
}

fn read(path: &Path, problems: &mut Vec<Error>) -> Result<BTreeMap<String, f32>> {
    let text = fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    let text = text.trim_start_matches('\u{feff}');
    let broken = |e: csv::Error| Error::file(path, format!("is not valid CSV: {e}"));
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(broken)?;
    if !header.iter().eq(["rater", "weight"]) {
        let found: Vec<_> = header.iter().collect();
        return Err(Error::file(
            path,
            format!("has the columns '{}'; they are 'rater,weight'", found.join(",")),
        ));
    }
    let mut weights = BTreeMap::new();
    for row in reader.records() {
        let row = row.map_err(broken)?;
        let line = row.position().map_or(0, csv::Position::line);
        let mut fault = |reason: String| problems.push(Error::file(path, format!("line {line}: {reason}")));
        match row[1].parse::<f32>() {
            Ok(weight) if weight.is_finite() && weight > 0.0 => {
                if weights.insert(row[0].to_owned(), weight).is_some() {
                    fault(format!("the rater '{}' is given twice", &row[0]));
                }
            }
            _ => fault(format!(
                "the weight '{}' of the rater '{}'; weights are positive numbers (to leave a rater out, remove the masks)",
                &row[1], &row[0]
            )),
        }
    }
    Ok(weights)
}
