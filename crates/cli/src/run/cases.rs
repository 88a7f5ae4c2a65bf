//! The cases to be scored: a run's own, or another data set's.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use multivalued::recipe::DataRecipe;
use multivalued::{Recipe, Splits};
use multivalued_data::CaseList;
use multivalued_data::dataset::{Loaded, Options};
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
        // Members of a mixture that has its data are all trained on them.
        if let Some(trained_on) = logged_hashes(run)?.swap_remove(0).filter(|trained_on| *trained_on != hash)
        {
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
        if recipe.data.task.is_empty() {
            let known: Vec<Known> =
                known(run)?.into_iter().filter(|one| one.hash.as_ref() == Some(&hash)).collect();
            let parts = |data: &DataRecipe| Splits::parts(&cases, &roster, stated.clone(), data);
            match &known[..] {
                [] => {}
                [one] => return Ok(Self::of_own(parts(&one.data)?, &one.data, hash, skipped)),
                several => {
                    let divided = several.iter().map(|one| parts(&one.data));
                    let divided = divided.collect::<multivalued::Result<Vec<_>>>()?;
                    let parts = [(TEST.to_owned(), unseen(run, path, &cases, &divided)?)].into();
                    return Ok(Self { parts, whole: false, by_fold: false, hash, skipped });
                }
            }
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

/// The cases that are in the test part of every member of a mixture whose members were trained on different parts of
/// a data set.
fn unseen(
    run: &RunFolder,
    path: &Path,
    cases: &CaseList,
    divided: &[BTreeMap<String, CaseList>],
) -> Outcome<CaseList> {
    let ids =
        |test: &CaseList| -> HashSet<String> { (0..test.len()).map(|at| test.id(at).to_owned()).collect() };
    let tests: Vec<_> = divided.iter().map(|parts| parts.get(TEST).map(ids).unwrap_or_default()).collect();
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
