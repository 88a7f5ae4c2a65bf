//! What a model knows: the data that it, or each member of a mixture, was trained on.

use multivalued::Recipe;
use multivalued::mixture::{self, Members};
use multivalued::recipe::DataRecipe;
use multivalued_data::report::Report;

use super::RunFolder;
use super::cases::ALL;
use crate::exit::Outcome;
use crate::log;

/// Data that a model was trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// How they were divided.
    pub data: DataRecipe,
    /// BLAKE3 over all cases; none where that is not known any more.
    pub hash: Option<String>,
}

/// What a model knows: one answer where the members of a mixture know the same parts of the same data, or are all
/// folds of it; else one for each of them.
pub fn known(run: &RunFolder) -> Outcome<Vec<Known>> {
    let hashes = hashes(run)?;
    let of = |run: &RunFolder, hash: &Option<String>| -> Outcome<Known> {
        let data = Recipe::read(&run.recipe())?.without_place().data;
        Ok(Known { data, hash: hash.clone() })
    };
    let whole = of(run, &hashes[0])?;
    let is_cross_validation = whole.data.folds > 0 && whole.data.fold == 0;
    let same_data = hashes.iter().all(|hash| *hash == hashes[0]);
    if !mixture::exists(run.path()) || is_cross_validation && same_data {
        return Ok(vec![whole]);
    }
    let members = Members::read(run.path())?.folders(run.path());
    let members = members.iter().zip(&hashes).map(|(member, hash)| of(&RunFolder::at(member), hash));
    let members = members.collect::<Outcome<Vec<Known>>>()?;
    Ok(if members.iter().all(|one| *one == members[0]) { vec![whole] } else { members })
}

/// The hash of the data that a run's log, or the list of a mixture's members, says it was trained on.
pub fn logged_hashes(run: &RunFolder) -> Outcome<Vec<Option<String>>> {
    if mixture::exists(run.path()) {
        return Ok(Members::read(run.path())?.data_hashes());
    }
    let log = if run.log().is_file() { log::read(&run.log())? } else { Vec::new() };
    Ok(vec![log::data_hash(&log).map(str::to_owned)])
}

/// The same, also of a model that was handed on: it has no log, but mostly the report on its own data.
pub fn hashes(run: &RunFolder) -> Outcome<Vec<Option<String>>> {
    let reported = || {
        // A report that cannot be read says nothing, and must not keep a model from other data.
        let report = Report::read(&run.report()).ok()?;
        // Its own data have parts: a report on all of a data set is about another one.
        report.data_hash.filter(|_| report.split != ALL)
    };
    let mut hashes = logged_hashes(run)?;
    if let [hash @ None] = &mut hashes[..] {
        *hash = reported();
    }
    Ok(hashes)
}
