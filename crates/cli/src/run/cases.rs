//! The cases to be scored: a run's own, or another data set's.

use std::collections::BTreeMap;
use std::path::Path;

use multivalued::mixture::Members;
use multivalued::{Recipe, Splits};
use multivalued_data::CaseList;
use multivalued_data::dataset::{Loaded, Options};
use multivalued_data::import::MaskRule;
use multivalued_data::report::Report;

use super::RunFolder;
use super::reader::Reader;
use crate::command::options::Loading;
use crate::exit::{Failure, Outcome};
use crate::log;
use crate::terminal::complain;

/// The part that a report is about unless another is named.
pub const TEST: &str = "test";
/// The part that models are chosen and calibrated by.
pub const VALIDATION: &str = "validation";
/// All cases of a cross-validation, each to be predicted by the model that did not see it.
pub const FOLDS: &str = "folds";
/// The one part of another data set that states none.
pub const ALL: &str = "all";

/// Cases by part, and the hash of the data behind them.
#[derive(Debug)]
pub struct Cases {
    parts: BTreeMap<String, CaseList>,
    /// Another data set that states no parts: it has one, [`ALL`].
    whole: bool,
    /// Whether they are all cases of a cross-validation: they have one part, [`FOLDS`].
    pub by_fold: bool,
    /// BLAKE3 over ids and content.
    pub hash: String,
    /// What was left out for a bad file, by file and reason.
    pub skipped: Vec<String>,
}

impl Cases {
    /// A run's own cases. Data that changed since the training are refused.
    pub fn of_run(run: &RunFolder, reader: &Reader) -> Outcome<Self> {
        let recipe = Recipe::read(&run.recipe())?;
        if recipe.data.path.is_empty() && recipe.data.task.is_empty() && !reader.holds_cases() {
            return Err(Failure::user(
                run.path().display(),
                "carries no data with it; give some with --data",
            ));
        }
        let Splits { train, validation, test, hash, skipped, .. } = reader.splits(&recipe.data)?;
        if let Some(trained_on) = logged_hash(run)?.filter(|trained_on| *trained_on != hash) {
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
        let parts = parts.map(|(part, cases)| (part.to_owned(), cases)).collect();
        Ok(Self::of_own(parts, &recipe, hash, skipped))
    }

    /// Cases that the model knows, by its own parts.
    fn of_own(
        mut parts: BTreeMap<String, CaseList>,
        recipe: &Recipe,
        hash: String,
        skipped: Vec<String>,
    ) -> Self {
        let by_fold = recipe.data.folds > 0 && recipe.data.fold == 0;
        if by_fold {
            parts = parts.into_values().map(|cases| (FOLDS.to_owned(), cases)).collect();
        }
        Self { parts, whole: false, by_fold, hash, skipped }
    }

    /// The cases of a data set that is named beside a run: by the run's own parts where it is the one that was
    /// trained on, else by the parts it states itself, else all as one part.
    pub fn of_path(run: &RunFolder, path: &Path, loading: &Loading, reader: &Reader) -> Outcome<Self> {
        let recipe = Recipe::read(&run.recipe())?;
        let mut options = loading.reading.options();
        // These data may lack a class that the model knows, so their values do not tell the number of classes.
        if options.mask.is_none() && recipe.model.classes > 1 {
            options.mask = Some(MaskRule::Labels(recipe.model.classes));
        }
        let load = |options: &Options| Loaded::read(path, options, loading.skip_bad, reader.holding());
        // The run's own data are known by their groups, too; other data may have other names.
        let run_groups = recipe.data.group_by.parse().ok().filter(|_| !recipe.data.group_by.is_empty());
        let as_trained = match (&options.group_by, run_groups) {
            (None, Some(by)) => load(&Options { group_by: Some(by), ..options.clone() }).ok(),
            _ => None,
        };
        let Loaded { dataset, cases, skipped } = as_trained.map_or_else(|| load(&options), Ok)?;
        tell_notes(&dataset.notes());
        tell_skipped(&skipped);
        let cases = recipe.data.in_context(cases)?;
        let roster = cases.roster();
        let hash = roster.hash().to_owned();
        let stated = dataset.stated_split(&roster)?;
        // A task's cases are split by how they were made; files of them state that themselves.
        if recipe.data.task.is_empty() && hash_trained_on(run)?.is_some_and(|trained_on| trained_on == hash) {
            let parts = Splits::parts(&cases, &roster, stated, &recipe.data)?;
            return Ok(Self::of_own(parts, &recipe, hash, skipped));
        }
        let Some(split) = stated else {
            return Ok(Self::whole(cases, hash, skipped));
        };
        let mut parts = BTreeMap::new();
        for (part, ids) in split.parts() {
            let own = |at: &usize| ids.binary_search_by(|id| id.as_str().cmp(cases.id(*at))).is_ok();
            let chosen = cases.select((0..cases.len()).filter(own));
            parts.insert(if part == "val" { VALIDATION.to_owned() } else { part.clone() }, chosen);
        }
        Ok(Self { parts, whole: false, by_fold: false, hash, skipped })
    }

    /// Cases that are in memory, as another data set that states no parts.
    pub fn of_list(cases: CaseList) -> Self {
        let hash = cases.roster().hash().to_owned();
        Self::whole(cases, hash, Vec::new())
    }

    fn whole(cases: CaseList, hash: String, skipped: Vec<String>) -> Self {
        let parts = [(ALL.to_owned(), cases)].into();
        Self { parts, whole: true, by_fold: false, hash, skipped }
    }

    /// Whether a part has cases.
    pub fn has(&self, part: &str) -> bool {
        self.parts.contains_key(part)
    }

    /// Takes out the part that was asked for, else the usual one or, where a data set states no parts, all of
    /// it.
    pub fn take(&mut self, asked: Option<&str>, usual: &str) -> Outcome<(String, CaseList)> {
        let part = match asked {
            None if self.whole => ALL,
            None if self.by_fold => FOLDS,
            Some("val") => VALIDATION,
            part => part.unwrap_or(usual),
        };
        if let Some(cases) = self.parts.remove(part) {
            return Ok((part.to_owned(), cases));
        }
        let reason = match self.whole {
            true => format!(
                "there is no part '{part}': this data set states no parts and is not the one that the run was \
                 trained on; leave --split away to take all of it"
            ),
            false => {
                let names: Vec<_> = self.parts.keys().map(String::as_str).collect();
                format!("there is no part '{part}'; there are {}", names.join(", "))
            }
        };
        Err(Failure::user("--split", reason))
    }
}

/// The hash of the data that a run's log, or a mixture's list of members, says it was trained on.
fn logged_hash(run: &RunFolder) -> Outcome<Option<String>> {
    if multivalued::mixture::exists(run.path()) {
        return Ok(Members::read(run.path())?.data_hash().map(str::to_owned));
    }
    let log = if run.log().is_file() { log::read(&run.log())? } else { Vec::new() };
    Ok(log::data_hash(&log).map(str::to_owned))
}

/// The same, also of a model that was handed on: it has no log, but mostly the report on its own data.
pub fn hash_trained_on(run: &RunFolder) -> Outcome<Option<String>> {
    let reported = || {
        // A report that cannot be read says nothing, and must not keep a model from other data.
        let report = Report::read(&run.report()).ok()?;
        // Its own data have parts: a report on all of a data set is about another one.
        report.data_hash.filter(|_| report.split != ALL)
    };
    Ok(logged_hash(run)?.or_else(reported))
}

/// Tells how a data set was read, where that is not plain.
pub fn tell_notes(notes: &[String]) {
    for note in notes {
        complain(&format!("note: {note}"));
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
