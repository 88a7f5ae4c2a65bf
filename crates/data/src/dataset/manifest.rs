//! A manifest names every image and annotation itself: JSON lines or CSV, one row per case or one per
//! annotation; rows of the same id are joined.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Label, Source, TrueMode};
use crate::metric::weighted::SUM_TOLERANCE;
use crate::{Error, Result};

/// One row, whatever it was written in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    image: OneOrMore<String>,
    #[serde(default)]
    labels: OneOrMore<LabelEntry>,
    #[serde(default)]
    rater: OneOrMore<String>,
    #[serde(default)]
    weight: OneOrMore<f32>,
    #[serde(default)]
    truth: Vec<ModeEntry>,
    group: Option<String>,
    split: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

impl<T> OneOrMore<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(value) => vec![value],
            Self::More(values) => values,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum LabelEntry {
    Path(String),
    Full(FullLabel),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FullLabel {
    path: String,
    rater: Option<String>,
    weight: Option<f32>,
}

/// A true mode.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeEntry {
    path: String,
    probability: f32,
}

/// Reads a manifest; rows that cannot be used are listed in `problems` by their line.
pub(super) fn sources(path: &Path, problems: &mut Vec<Error>) -> Result<Vec<Source>> {
    let text = fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    // Some editors begin a file with a byte-order mark, which is no part of its first row.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    let rows = if is_csv { csv_rows(path, text)? } else { json_rows(text) };
    if rows.is_empty() {
        return Err(Error::dataset(path, "has no rows; add one per case"));
    }
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut sources: Vec<Source> = Vec::new();
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    for (line, row) in rows {
        let (found, mut faults) = row.map_or_else(|fault| (None, vec![fault]), |row| source(&base, row));
        let joined = found.map_or(Ok(()), |source| {
            let position = positions.entry(source.id.clone()).or_insert(sources.len());
            match sources.get_mut(*position) {
                None => sources.push(source),
                Some(known) => join(known, source)?,
            }
            Ok(())
        });
        faults.extend(joined.err());
        problems
            .extend(faults.into_iter().map(|reason| Error::dataset(path, format!("line {line}: {reason}"))));
    }
    Ok(sources)
}

type ParsedRow = (u64, std::result::Result<Row, String>);

fn json_rows(text: &str) -> Vec<ParsedRow> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    lines.map(|(line, number)| (number, serde_json::from_str(line).map_err(|e| e.to_string()))).collect()
}

/// CSV cells hold lists separated by `;`.
fn csv_rows(path: &Path, text: &str) -> Result<Vec<ParsedRow>> {
    const COLUMNS: [&str; 9] =
        ["id", "image", "labels", "rater", "weight", "truth", "probability", "group", "split"];
    let broken = |e: csv::Error| Error::dataset(path, format!("is not valid CSV: {e}"));
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(broken)?.clone();
    if let Some(unknown) = header.iter().find(|name| !COLUMNS.contains(name)) {
        return Err(Error::dataset(
            path,
            format!("has the unknown column '{unknown}'; use {}", COLUMNS.join(", ")),
        ));
    }
    for needed in ["id", "image"] {
        if !header.iter().any(|name| name == needed) {
            return Err(Error::dataset(path, format!("lacks the column '{needed}'")));
        }
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |name: &str| {
            let at = header.iter().position(|column| column == name)?;
            record.get(at).filter(|cell| !cell.is_empty())
        };
        let list = |name: &str| -> Vec<String> {
            cell(name)
                .map_or_else(Vec::new, |cell| cell.split(';').map(|part| part.trim().to_owned()).collect())
        };
        let numbers = |name: &str| -> std::result::Result<Vec<f32>, String> {
            let number =
                |text: &String| text.parse().map_err(|_| format!("the {name} '{text}' is no number"));
            list(name).iter().map(number).collect()
        };
        let row = || {
            let (truth, probabilities) = (list("truth"), numbers("probability")?);
            if truth.len() != probabilities.len() {
                let counts = (truth.len(), probabilities.len());
                return Err(format!(
                    "{} true modes but {} probabilities; give one for each",
                    counts.0, counts.1
                ));
            }
            let mode = |(path, probability)| ModeEntry { path, probability };
            Ok(Row {
                id: cell("id").ok_or("the id is missing")?.to_owned(),
                image: OneOrMore::More(list("image")),
                labels: OneOrMore::More(list("labels").into_iter().map(LabelEntry::Path).collect()),
                rater: OneOrMore::More(list("rater")),
                weight: OneOrMore::More(numbers("weight")?),
                truth: truth.into_iter().zip(probabilities).map(mode).collect(),
                group: cell("group").map(str::to_owned),
                split: cell("split").map(str::to_owned),
            })
        };
        rows.push((line, row()));
    }
    Ok(rows)
}

/// What a row names, as far as it is there, and all that is wrong with it.
fn source(base: &Path, row: Row) -> (Option<Source>, Vec<String>) {
    let Row { id, image, labels, rater, weight, truth, group, split } = row;
    let mut faults = Vec::new();
    if id.is_empty() {
        return (None, vec!["the id is empty".into()]);
    }
    let existing = |name: &str, faults: &mut Vec<String>| -> Option<PathBuf> {
        let path = base.join(name);
        if path.is_file() {
            return Some(path);
        }
        faults.push(format!("there is no file {} (paths are relative to the manifest)", path.display()));
        None
    };
    let names = image.into_vec();
    if names.is_empty() {
        faults.push(format!("case '{id}' has no image"));
    }
    let images: Vec<_> = names.iter().filter_map(|name| existing(name, &mut faults)).collect();
    let whole = images.len() == names.len();
    let (labels, raters, weights) = (labels.into_vec(), rater.into_vec(), weight.into_vec());
    for (what, count) in [("raters", raters.len()), ("weights", weights.len())] {
        if count != 0 && count != labels.len() {
            faults.push(format!("{} labels but {count} {what}; give one for each", labels.len()));
        }
    }
    let without_labels = labels.is_empty();
    let mut found = Vec::new();
    for (at, entry) in labels.into_iter().enumerate() {
        let (path, rater, weight) = match entry {
            LabelEntry::Path(path) => (path, None, None),
            LabelEntry::Full(full) => (full.path, full.rater, full.weight),
        };
        let weight = weight.or_else(|| weights.get(at).copied()).unwrap_or(1.0);
        if !(weight.is_finite() && weight > 0.0) {
            faults.push(format!("the weight {weight} of {path}; weights are positive"));
        }
        let rater = rater.or_else(|| raters.get(at).cloned()).filter(|name| !name.is_empty());
        found.extend(existing(&path, &mut faults).map(|path| Label { path, rater, weight }));
    }
    faults.extend(improper(&truth));
    let mode =
        |ModeEntry { path, probability }| Some(TrueMode { path: existing(&path, &mut faults)?, probability });
    let truth = truth.into_iter().filter_map(mode).collect();
    // What is left of a row is examined too; where its image is not whole or every mask is missing, that was said.
    if !whole || images.is_empty() || (found.is_empty() && !without_labels) {
        return (None, faults);
    }
    let group = group.unwrap_or_else(|| id.clone());
    (Some(Source { group, truth, split, ..Source::new(id, images, found) }), faults)
}

/// Why the probabilities of true modes are no distribution.
fn improper(truth: &[ModeEntry]) -> Option<String> {
    let sum: f64 = truth.iter().map(|mode| f64::from(mode.probability)).sum();
    let proper = truth.iter().all(|mode| mode.probability > 0.0) && (sum - 1.0).abs() <= SUM_TOLERANCE;
    let given: Vec<f32> = truth.iter().map(|mode| mode.probability).collect();
    (!truth.is_empty() && !proper)
        .then(|| format!("the true modes have the probabilities {given:?}; they are positive and sum to 1"))
}

/// Adds the annotations of a further row of the same case.
fn join(known: &mut Source, more: Source) -> std::result::Result<(), String> {
    let id = &known.id;
    if (&known.images, &known.group, &known.split) != (&more.images, &more.group, &more.split) {
        return Err(format!(
            "the id '{id}' was given before with another image, group or split; ids are unique"
        ));
    }
    if more.labels.is_empty() {
        return Err(format!("the id '{id}' is given twice; ids are unique"));
    }
    if let Some(label) =
        more.labels.iter().find(|label| known.labels.iter().any(|old| old.path == label.path))
    {
        return Err(format!(
            "the id '{id}' is given twice with the same annotation {}",
            label.path.display()
        ));
    }
    known.labels.extend(more.labels);
    match (known.truth.is_empty(), more.truth.is_empty()) {
        (_, true) => {}
        (true, false) => known.truth = more.truth,
        (false, false) if known.truth == more.truth => {}
        (false, false) => return Err(format!("the id '{id}' was given before with another truth")),
    }
    Ok(())
}
