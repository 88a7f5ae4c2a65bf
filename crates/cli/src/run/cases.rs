//! The cases to be scored: a run's own, or another data set's.

use std::collections::BTreeMap;
use std::path::Path;

use multivalued::{Recipe, Splits};
use multivalued_data::Case;
use multivalued_data::dataset::{Dataset, Roster};

use super::RunFolder;
use crate::command::options::Loading;
use crate::exit::{Failure, Outcome};
use crate::log::{self, Record};
use crate::terminal::complain;

/// The part that a report is about unless another is named.
pub const TEST: &str = "test";
/// The part that models are chosen and calibrated by.
pub const VALIDATION: &str = "validation";

/// Cases by part, and the hash of the data behind them.
#[derive(Debug)]
pub struct Cases {
    parts: BTreeMap<String, Vec<Case>>,
    /// BLAKE3 over ids and content.
    pub hash: String,
    /// What was left out for a bad file, by file and reason.
    pub skipped: Vec<String>,
}

impl Cases {
    /// A run's own cases. Data that changed since the training are refused.
    pub fn of_run(run: &RunFolder) -> Outcome<Self> {
        let recipe = Recipe::read(&run.recipe())?;
        if recipe.data.path.is_empty() && recipe.data.task.is_empty() {
            return Err(Failure::user(
                run.path().display(),
                "carries no data with it; give some with --data",
            ));
        }
        let Splits { train, validation, test, hash, skipped } = Splits::load(&recipe.data)?;
        let log = if run.log().is_file() { log::read(&run.log())? } else { Vec::new() };
        let trained_on = log.iter().find_map(|record| match record {
            Record::Start { data_hash, .. } => Some(data_hash),
            _ => None,
        });
        if let Some(trained_on) = trained_on.filter(|trained_on| **trained_on != hash) {
            return Err(Failure::user(
                if recipe.data.path.is_empty() { &recipe.data.task } else { &recipe.data.path },
                format!(
                    "has changed since the training (its hash was {trained_on:.12}…, now {hash:.12}…); restore it, or \
                     score it as other data with --data"
                ),
            ));
        }
        let parts = [("train", train), (VALIDATION, validation), (TEST, test)];
        let parts = parts.into_iter().filter(|(_, cases)| !cases.is_empty());
        Ok(Self { parts: parts.map(|(part, cases)| (part.to_owned(), cases)).collect(), hash, skipped })
    }

    /// Another data set's cases: by the parts it states itself, else all as one part.
    pub fn of_path(path: &Path, loading: &Loading) -> Outcome<Self> {
        let options = loading.reading.options();
        let (dataset, mut cases, skipped) = if loading.skip_bad {
            Dataset::load_sound(path, &options)?
        } else {
            let dataset = Dataset::open(path, &options)?;
            let cases = dataset.load()?;
            (dataset, cases, Vec::new())
        };
        tell_skipped(&skipped);
        let roster = Roster::of(&cases);
        let hash = roster.hash().to_owned();
        let Some(split) = dataset.stated_split(&roster)? else {
            return Ok(Self { parts: [("all".to_owned(), cases)].into(), hash, skipped });
        };
        let mut parts = BTreeMap::new();
        for (part, ids) in split.parts() {
            let (chosen, rest) = cases.into_iter().partition(|case| ids.binary_search(&case.id).is_ok());
            parts.insert(if part == "val" { VALIDATION.to_owned() } else { part.clone() }, chosen);
            cases = rest;
        }
        Ok(Self { parts, hash, skipped })
    }

    /// Whether a part has cases.
    pub fn has(&self, part: &str) -> bool {
        self.parts.contains_key(part)
    }

    /// Takes out the part that is named; where a data set states no parts, all of it.
    pub fn take(&mut self, part: &str) -> Outcome<(String, Vec<Case>)> {
        let name = if self.has("all") { "all" } else { part };
        let names: Vec<_> = self.parts.keys().cloned().collect();
        match self.parts.remove(name) {
            Some(cases) => Ok((name.to_owned(), cases)),
            None => {
                let names = names.join(", ");
                Err(Failure::user("--split", format!("there is no part '{part}'; there are {names}")))
            }
        }
    }
}

/// Names what was left out of a data set.
pub fn tell_skipped(skipped: &[String]) {
    for fault in skipped {
        complain(&format!("skipped: {fault}"));
    }
    match skipped.len() {
        0 => {}
        1 => complain("1 image was skipped for a bad file"),
        count => complain(&format!("{count} images were skipped for bad files")),
    }
}
