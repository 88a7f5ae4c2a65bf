//! The cases to be scored: a run's own, or another data set's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use multivalued::recipe::DataRecipe;
use multivalued::{Recipe, Splits, mixture};
use multivalued_data::CaseList;
use multivalued_data::dataset::{GroupBy, Loaded, Options, Roster, Split};
use multivalued_data::import::MaskRule;

use super::RunFolder;
use super::known::{Known, known, logged_hashes};
use super::reader::Reader;
use crate::command::options::Loading;
use crate::exit::{Failure, Outcome};
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
        let mut logged = logged_hashes(run)?.into_iter().flatten();
        if let Some(trained_on) = logged.find(|trained_on| *trained_on != hash) {
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
        Ok(Self::of_own(parts, &recipe.data, hash, skipped))
    }

    /// Cases that the model knows, by its own parts.
    fn of_own(
        mut parts: BTreeMap<String, CaseList>,
        data: &DataRecipe,
        hash: String,
        skipped: Vec<String>,
    ) -> Self {
        let by_fold = data.folds > 0 && data.fold == 0;
        if by_fold {
            parts = parts.into_values().map(|cases| (FOLDS.to_owned(), cases)).collect();
        }
        Self { parts, whole: false, by_fold, hash, skipped }
    }

    /// The cases of a data set that is named beside a run: by the run's own parts where it is the one that was
    /// trained on, of a mixture by what none of its members has seen; else by the parts it states itself, else all as
    /// one part.
    pub fn of_path(run: &RunFolder, path: &Path, loading: &Loading, reader: &Reader) -> Outcome<Self> {
        let recipe = Recipe::read(&run.recipe())?;
        let mut options = loading.reading.options();
        // These data may lack a class that the model knows, so their values do not tell the number of classes.
        if options.mask.is_none() && recipe.model.classes > 1 {
            options.mask = Some(MaskRule::Labels(recipe.model.classes));
        }
        let asked = options.group_by.take();
        let read = |group_by: Option<GroupBy>| -> Outcome<Grouped> {
            let options = Options { group_by, ..options.clone() };
            let Loaded { dataset, cases, skipped } =
                Loaded::read(path, &options, loading.skip_bad, reader.holding())?;
            let cases = recipe.data.in_context(cases)?;
            let roster = cases.roster();
            let stated = dataset.stated_split(&roster)?;
            Ok(Grouped { cases, roster, stated, skipped, notes: dataset.notes() })
        };
        let known = known(run)?;
        tell_what_is_unknown(run, &known);
        // Each rule for groups that the data are read by, and what came of it.
        let mut readings: BTreeMap<String, Grouped> = BTreeMap::new();
        let mut divided: Vec<(Parts, &Known)> = Vec::new();
        // A task's cases are split by how they were made; files of them state that themselves.
        for one in known.iter().filter(|one| one.data.task.is_empty() && one.hash.is_some()) {
            // The data of a training are known by the groups that they had in it; other data may have other names.
            let by = &one.data.group_by;
            if !readings.contains_key(by) {
                match read(by.parse().ok().filter(|_| !by.is_empty())) {
                    Ok(grouped) => drop(readings.insert(by.clone(), grouped)),
                    Err(_) if !by.is_empty() => continue,
                    Err(failure) => return Err(failure),
                }
            }
            let Grouped { cases, roster, stated, .. } = &readings[by];
            if one.hash.as_deref() == Some(roster.hash()) {
                let parts = Splits::parts(cases, roster, stated.clone(), &one.data)?;
                if divided.iter().all(|(others, _)| ids_of(others) != ids_of(&parts)) {
                    divided.push((parts, one));
                }
            }
        }
        let by = match (divided.first(), &asked) {
            (Some((_, one)), _) => one.data.group_by.clone(),
            (None, Some(asked)) => asked.to_string(),
            (None, None) => recipe.data.group_by.clone(),
        };
        if asked.as_ref().is_some_and(|asked| asked.to_string() != by) {
            complain("note: these are the data of the training; their groups are as they were in it");
        }
        let used = readings.remove(&by);
        // Two data sets need not be in memory at once.
        drop(readings);
        let used = match (used, asked) {
            (Some(used), _) => used,
            (None, Some(asked)) => read(Some(asked))?,
            (None, None) => {
                let as_trained =
                    by.parse().ok().filter(|_| !by.is_empty()).and_then(|by| read(Some(by)).ok());
                as_trained.map_or_else(|| read(None), Ok)?
            }
        };
        tell_notes(&used.notes);
        tell_skipped(&used.skipped);
        let Grouped { cases, roster, stated, skipped, .. } = used;
        let hash = roster.hash().to_owned();
        if divided.len() > 1 {
            let parts = divided.iter().map(|(parts, _)| parts);
            let parts = [(TEST.to_owned(), unseen(run, path, &cases, parts)?)].into();
            return Ok(Self { parts, whole: false, by_fold: false, hash, skipped });
        }
        if let Some((parts, one)) = divided.pop() {
            return Ok(Self::of_own(parts, &one.data, hash, skipped));
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

/// Cases by part.
type Parts = BTreeMap<String, CaseList>;

/// A data set as it is read with a certain rule for its groups.
struct Grouped {
    cases: CaseList,
    roster: Roster,
    stated: Option<Split>,
    skipped: Vec<String>,
    notes: Vec<String>,
}

/// The ids of each part.
fn ids_of(parts: &Parts) -> BTreeMap<&str, BTreeSet<&str>> {
    parts.iter().map(|(part, cases)| (part.as_str(), cases.ids().collect())).collect()
}

/// The cases that are in the test part of every member of a mixture whose members were trained on different parts of
/// a data set.
fn unseen<'a>(
    run: &RunFolder,
    path: &Path,
    cases: &CaseList,
    divided: impl Iterator<Item = &'a Parts>,
) -> Outcome<CaseList> {
    let tests: Vec<BTreeSet<&str>> =
        divided.map(|parts| ids_of(parts).remove(TEST).unwrap_or_default()).collect();
    let in_all = |at: &usize| tests.iter().all(|test| test.contains(cases.id(*at)));
    let unseen = cases.select((0..cases.len()).filter(in_all));
    if unseen.is_empty() {
        return Err(Failure::user(
            run.path().display(),
            format!(
                "its members were trained on different parts of {}, which leave no case that none of them has seen; \
                 give other data",
                path.display()
            ),
        ));
    }
    complain(&format!(
        "note: the members of {} were trained on different parts of these data; the test part is the {} of {} cases \
         that are in the test part of each",
        run.path().display(),
        unseen.len(),
        cases.len()
    ));
    Ok(unseen)
}

/// Names what cannot be told of a mixture's members: such data would be scored as if they were new to all of them.
fn tell_what_is_unknown(folder: &RunFolder, known: &[Known]) {
    let run = folder.path().display();
    if mixture::exists(folder.path()) && known.iter().any(|one| one.hash.is_none()) {
        complain(&format!(
            "note: not all members of {run} say which data they were trained on; scores on these are too good"
        ));
    }
    if known.iter().any(|one| !one.data.task.is_empty() && one.data.folds > 0) {
        complain(&format!(
            "note: {run} is of a cross-validation of a task, whose folds were trained on each other's cases; scores on \
             files of the same cases are too good"
        ));
    }
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
