//! The cases a recipe names: a synthetic task's, or a data set's by its splits.

use crate::recipe::DataRecipe;
use crate::{Error, Result};
use multivalued_data::Case;
use multivalued_data::dataset::{Dataset, Options, Roster, Split};
use multivalued_data::memory::claim;
use multivalued_data::synthetic::Task;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// The part to learn from.
const TRAIN: &str = "train";
/// The part to choose by.
const VALIDATION: &str = "validation";
/// The part to report on.
const TEST: &str = "test";

/// Cases by what they are for, and the hash of all of them.
pub struct Splits {
    /// To learn from.
    pub train: Vec<Case>,
    /// To choose by.
    pub validation: Vec<Case>,
    /// To report on.
    pub test: Vec<Case>,
    /// BLAKE3 over ids and content of all three.
    pub hash: String,
    /// What was left out because a file of it could not be used, by file and reason; only where the
    /// recipe allows that.
    pub skipped: Vec<String>,
    /// What should be known of the way in which the data set was read.
    pub notes: Vec<String>,
}

impl Splits {
    /// Loads what the recipe names; [`Splits::parts`] says how a data set is split.
    pub fn load(recipe: &DataRecipe) -> Result<Self> {
        if recipe.path.is_empty() && recipe.task.is_empty() {
            return Err(Error::recipe(
                "data.path",
                "names no data: give a data set's folder, or a synthetic task as data.task",
            ));
        }
        if !recipe.path.is_empty() {
            return Self::from_folder(Path::new(&recipe.path), recipe);
        }
        let name = recipe
            .task
            .parse()
            .map_err(|error: multivalued_data::Error| Error::recipe("data.task", error.to_string()))?;
        let task = Task::new(name, recipe.size, recipe.seed)?;
        // Each count is bounded, and their images are all of one size.
        let count = recipe.train_count + recipe.validation_count + recipe.test_count;
        let what = format!(
            "data.train_count ({count} cases of {0}x{0} with data.validation_count and data.test_count)",
            recipe.size
        );
        drop(claim(Path::new(&what), task.case(TRAIN, 0).bytes().saturating_mul(count as u64))?);
        let mut cases = task.generate(TRAIN, recipe.train_count);
        cases.extend(task.generate(VALIDATION, recipe.validation_count));
        cases.extend(task.generate(TEST, recipe.test_count));
        let hash = Roster::of(&cases).hash().to_string();
        let test = cases.split_off(recipe.train_count + recipe.validation_count);
        let validation = cases.split_off(recipe.train_count);
        Ok(Self { train: cases, validation, test, hash, skipped: Vec::new(), notes: Vec::new() })
    }

    fn from_folder(path: &Path, recipe: &DataRecipe) -> Result<Self> {
        let options = options(recipe)?;
        let (dataset, cases, skipped) = match recipe.skip_bad {
            true => Dataset::load_sound(path, &options)?,
            false => {
                let dataset = Dataset::open(path, &options)?;
                let cases = dataset.load()?;
                (dataset, cases, Vec::new())
            }
        };
        let roster = Roster::of(&cases);
        let stated = dataset.stated_split(&roster)?;
        let mut parts = Self::parts(cases, &roster, stated, recipe)?;
        if !parts.contains_key(TRAIN) {
            let parts: Vec<_> = parts.into_keys().collect();
            return Err(multivalued_data::Error::dataset(
                path,
                format!("states the parts {}, none of them 'train'; name one so", parts.join(", ")),
            )
            .into());
        }
        let mut take = |part: &str| parts.remove(part).unwrap_or_default();
        let (train, validation, test) = (take(TRAIN), take(VALIDATION), take(TEST));
        let hash = roster.hash().to_string();
        Ok(Self { train, validation, test, hash, skipped, notes: dataset.notes() })
    }

    /// A data set's cases by part, as a training by this recipe takes them; no part is empty. Its own split is
    /// kept where it states one (`val` is `validation`), else its groups are split by the recipe's shares and
    /// seed. A stated split without validation cases gives up the recipe's share of its training groups.
    pub fn parts(
        cases: Vec<Case>,
        roster: &Roster,
        stated: Option<Split>,
        recipe: &DataRecipe,
    ) -> Result<BTreeMap<String, Vec<Case>>> {
        let split = match stated {
            Some(split) => split,
            None => {
                let rest = 1.0 - recipe.validation_share - recipe.test_share;
                let shares =
                    [(TRAIN, rest), (VALIDATION, recipe.validation_share), (TEST, recipe.test_share)];
                let shares: Vec<(&str, f64)> = shares.into_iter().filter(|(_, share)| *share > 0.0).collect();
                Split::by_group(roster, &shares, recipe.seed)?
            }
        };
        let mut by_id: HashMap<String, Case> =
            cases.into_iter().map(|case| (case.id.clone(), case)).collect();
        let mut parts = BTreeMap::new();
        for (part, ids) in split.parts() {
            let part = if part == "val" { VALIDATION } else { part };
            let cases: Vec<Case> = ids.iter().filter_map(|id| by_id.remove(id)).collect();
            if !cases.is_empty() {
                parts.insert(part.to_owned(), cases);
            }
        }
        if !parts.contains_key(VALIDATION)
            && recipe.validation_share > 0.0
            && let Some(train) = parts.remove(TRAIN)
        {
            let shares = [(TRAIN, 1.0 - recipe.validation_share), (VALIDATION, recipe.validation_share)];
            let divided = Split::by_group(&Roster::of(&train), &shares, recipe.seed)?;
            let held_out: HashSet<&String> = divided.part(VALIDATION)?.iter().collect();
            let (validation, train) = train.into_iter().partition(|case| held_out.contains(&case.id));
            parts.insert(VALIDATION.to_owned(), validation);
            parts.insert(TRAIN.to_owned(), train);
        }
        Ok(parts)
    }
}

/// How the recipe says the files are to be read.
fn options(recipe: &DataRecipe) -> Result<Options> {
    let stated = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let wrong =
        |key: &'static str| move |error: multivalued_data::Error| Error::recipe(key, error.to_string());
    Ok(Options {
        layout: stated(&recipe.layout).map(|text| text.parse()).transpose().map_err(wrong("data.layout"))?,
        group_by: stated(&recipe.group_by)
            .map(|text| text.parse())
            .transpose()
            .map_err(wrong("data.group_by"))?,
        mask: stated(&recipe.masks).map(|text| text.parse()).transpose().map_err(wrong("data.masks"))?,
        ..Options::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_of_all_parts() {
        let recipe = DataRecipe {
            task: "shapes".into(),
            size: 16,
            train_count: 3,
            validation_count: 2,
            test_count: 1,
            ..DataRecipe::default()
        };
        let load = |recipe: &DataRecipe| Splits::load(recipe).unwrap();
        let all = load(&recipe);
        assert_eq!((all.train.len(), all.validation.len(), all.test.len()), (3, 2, 1));
        assert!(all.validation[0].id.contains("validation") && all.test[0].id.contains("test"));
        assert_eq!(load(&recipe).hash, all.hash);
        for other in [
            DataRecipe { train_count: 4, ..recipe.clone() },
            DataRecipe { validation_count: 3, ..recipe.clone() },
            DataRecipe { test_count: 2, ..recipe.clone() },
        ] {
            assert_ne!(load(&other).hash, all.hash);
        }
    }
}
