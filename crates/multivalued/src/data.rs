//! The cases a recipe names: a synthetic task's, or a data set's by its splits.

use crate::recipe::DataRecipe;
use crate::{Error, Result};
use multivalued_data::CaseList;
use multivalued_data::dataset::{Holding, Loaded, Options, Roster, Split};
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

/// All cases that a recipe names, read once. Its splits, and those of all folds, are made from it as often as they
/// are needed.
#[derive(Debug)]
pub struct Collection {
    /// What decides which cases these are; none where they were given and not read.
    named_by: Option<DataRecipe>,
    cases: CaseList,
    roster: Roster,
    /// The split that a data set states itself.
    stated: Option<Split>,
    skipped: Vec<String>,
    notes: Vec<String>,
}

/// Cases by what they are for, and the hash of all of them.
#[derive(Debug, Clone)]
pub struct Splits {
    /// To learn from.
    pub train: CaseList,
    /// To choose by.
    pub validation: CaseList,
    /// To report on.
    pub test: CaseList,
    /// BLAKE3 over ids and content of all three.
    pub hash: String,
    /// What was left out because a file of it could not be used, by file and reason; only where the
    /// recipe allows that.
    pub skipped: Vec<String>,
    /// What should be known of the way in which the data set was read.
    pub notes: Vec<String>,
}

impl Collection {
    /// Cases that are in memory already, with the split that is stated for them. They serve every recipe.
    pub fn given(cases: CaseList, stated: Option<Split>) -> Self {
        let roster = cases.roster();
        Self { named_by: None, cases, roster, stated, skipped: Vec::new(), notes: Vec::new() }
    }

    /// Whether they were given, and not read.
    pub fn is_given(&self) -> bool {
        self.named_by.is_none()
    }

    /// Reads what the recipe names. A task's cases are always held in memory.
    pub fn load(recipe: &DataRecipe, holding: &Holding) -> Result<Self> {
        if recipe.path.is_empty() && recipe.task.is_empty() {
            return Err(Error::recipe(
                "data.path",
                "names no data: give a data set's folder, or a synthetic task as data.task",
            ));
        }
        let named_by = Some(named_by(recipe));
        if !recipe.path.is_empty() {
            let path = Path::new(&recipe.path);
            let loaded = Loaded::read(path, &options(recipe)?, recipe.skip_bad, holding)?;
            let Loaded { dataset, cases, skipped } = loaded;
            let roster = cases.roster();
            let stated = dataset.stated_split(&roster)?;
            return Ok(Self { named_by, cases, roster, stated, skipped, notes: dataset.notes() });
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
        let cases = CaseList::from(cases);
        let (roster, skipped, notes) = (cases.roster(), Vec::new(), Vec::new());
        Ok(Self { named_by, cases, roster, stated: None, skipped, notes })
    }

    /// Whether these are the cases that a recipe names.
    pub fn serves(&self, recipe: &DataRecipe) -> bool {
        self.named_by.as_ref().is_none_or(|named| *named == named_by(recipe))
    }

    /// The cases by part; [`Splits::parts`] says how a data set is split.
    pub fn splits(&self, recipe: &DataRecipe) -> Result<Splits> {
        let hash = self.roster.hash().to_string();
        let (skipped, mut notes) = (self.skipped.clone(), self.notes.clone());
        let cases = recipe.in_context(self.cases.clone())?;
        if !self.is_given() && recipe.path.is_empty() && recipe.folds == 0 {
            let (from, to) = (recipe.train_count, recipe.train_count + recipe.validation_count);
            let [train, validation, test] =
                [0..from, from..to, to..cases.len()].map(|part| cases.select(part));
            return Ok(Splits { train, validation, test, hash, skipped, notes });
        }
        if self.stated.is_some() && recipe.folds > 0 {
            notes.push(format!(
                "{}: the split that the data set states is not used: of {} folds each is kept from one model and \
                 scored by it",
                recipe.path, recipe.folds
            ));
        }
        let mut parts = Splits::parts(&cases, &self.roster, self.stated.clone(), recipe)?;
        if !parts.contains_key(TRAIN) {
            let parts: Vec<_> = parts.into_keys().collect();
            return Err(multivalued_data::Error::dataset(
                &recipe.path,
                format!("states the parts {}, none of them 'train'; name one so", parts.join(", ")),
            )
            .into());
        }
        let mut take = |part: &str| parts.remove(part).unwrap_or_default();
        let (train, validation, test) = (take(TRAIN), take(VALIDATION), take(TEST));
        Ok(Splits { train, validation, test, hash, skipped, notes })
    }
}

/// The part of a recipe that decides which cases there are, whatever becomes of them.
fn named_by(recipe: &DataRecipe) -> DataRecipe {
    let usual = DataRecipe::default();
    DataRecipe {
        // Of files the seed only divides them; a task draws its cases by it.
        seed: if recipe.path.is_empty() { recipe.seed } else { usual.seed },
        folds: usual.folds,
        fold: usual.fold,
        validation_share: usual.validation_share,
        test_share: usual.test_share,
        normalise: usual.normalise,
        resize: usual.resize,
        spacing: usual.spacing,
        context: usual.context,
        ..recipe.clone()
    }
}

impl Splits {
    /// Loads what the recipe names.
    pub fn load(recipe: &DataRecipe, holding: &Holding) -> Result<Self> {
        Collection::load(recipe, holding)?.splits(recipe)
    }

    /// The fold of each case, from 1 on, by which models of a cross-validation did not see it.
    pub fn folds(roster: &Roster, recipe: &DataRecipe) -> Result<HashMap<String, usize>> {
        let groups: HashSet<&String> = roster.members().iter().map(|(_, group)| group).collect();
        // Each fold is scored by a model that other groups trained and still others chose.
        let needed = recipe.folds.max(if recipe.validation_share > 0.0 { 3 } else { 2 });
        if groups.len() < needed {
            return Err(Error::recipe(
                "data.folds",
                format!(
                    "{} folds need at least {needed} groups (patients), and the data have {}; use fewer folds, or \
                     name the groups by --group-by",
                    recipe.folds,
                    groups.len()
                ),
            ));
        }
        let split = Split::k_fold(roster, recipe.folds, recipe.seed)?;
        let mut folds = HashMap::new();
        for fold in 0..recipe.folds {
            folds.extend(split.fold(fold)?.1.into_iter().map(|id| (id.to_owned(), fold + 1)));
        }
        Ok(folds)
    }

    /// A data set's cases by part, as a training by this recipe takes them; no part is empty. Its own split is
    /// kept where it states one (`val` is `validation`), else its groups are split by the recipe's shares and
    /// seed. A stated split without validation cases gives up the recipe's share of its training groups. One fold
    /// of a cross-validation is the test part, whatever split is stated; where no fold is named, all cases are to
    /// train on, in turn.
    pub fn parts(
        cases: &CaseList,
        roster: &Roster,
        stated: Option<Split>,
        recipe: &DataRecipe,
    ) -> Result<BTreeMap<String, CaseList>> {
        let split = match stated {
            _ if recipe.folds > 0 => {
                let folds = Self::folds(roster, recipe)?;
                let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
                for (id, fold) in folds {
                    let part = if fold == recipe.fold { TEST } else { TRAIN };
                    parts.entry(part.to_owned()).or_default().push(id);
                }
                Split::from_parts(roster, parts)?
            }
            Some(split) => split,
            None => {
                let rest = 1.0 - recipe.validation_share - recipe.test_share;
                let shares =
                    [(TRAIN, rest), (VALIDATION, recipe.validation_share), (TEST, recipe.test_share)];
                let shares: Vec<(&str, f64)> = shares.into_iter().filter(|(_, share)| *share > 0.0).collect();
                Split::by_group(roster, &shares, recipe.seed)?
            }
        };
        let by_id: HashMap<&str, usize> = (0..cases.len()).map(|at| (cases.id(at), at)).collect();
        let mut parts = BTreeMap::new();
        for (part, ids) in split.parts() {
            let part = if part == "val" { VALIDATION } else { part };
            let cases = cases.select(ids.iter().filter_map(|id| by_id.get(id.as_str()).copied()));
            if !cases.is_empty() {
                parts.insert(part.to_owned(), cases);
            }
        }
        if !parts.contains_key(VALIDATION)
            && recipe.validation_share > 0.0
            && (recipe.folds == 0 || recipe.fold > 0)
            && let Some(train) = parts.remove(TRAIN)
        {
            let shares = [(TRAIN, 1.0 - recipe.validation_share), (VALIDATION, recipe.validation_share)];
            let divided = Split::by_group(&train.roster(), &shares, recipe.seed)?;
            let held_out: HashSet<&str> = divided.part(VALIDATION)?.iter().map(String::as_str).collect();
            let (validation, rest): (Vec<usize>, Vec<usize>) =
                (0..train.len()).partition(|&at| held_out.contains(train.id(at)));
            parts.insert(VALIDATION.to_owned(), train.select(validation));
            parts.insert(TRAIN.to_owned(), train.select(rest));
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
    fn every_case_is_in_the_test_part_of_one_fold_and_no_group_is_torn_apart() {
        let mut cases = crate::fixture::cases(23, [16, 16], 1, 1);
        for (at, case) in cases.iter_mut().enumerate() {
            case.group = format!("patient-{}", at / 2);
        }
        let roster = Roster::of(&cases);
        let recipe = DataRecipe { folds: 4, validation_share: 0.2, ..DataRecipe::default() };
        let parts = |fold: usize, stated: Option<Split>| {
            let recipe = DataRecipe { fold, ..recipe.clone() };
            let parts = Splits::parts(&cases[..].into(), &roster, stated, &recipe).unwrap();
            let loaded = parts.into_iter().map(|(part, cases)| (part, cases.to_vec().unwrap()));
            loaded.collect::<BTreeMap<_, _>>()
        };
        let mut tested: Vec<String> = Vec::new();
        for fold in 1..=4 {
            let parts = parts(fold, None);
            assert_eq!(parts.keys().collect::<Vec<_>>(), ["test", "train", "validation"]);
            assert_eq!(parts.values().map(Vec::len).sum::<usize>(), 23);
            let groups = |part: &str| parts[part].iter().map(|one| one.group.clone()).collect::<HashSet<_>>();
            for (a, b) in [("test", "train"), ("test", "validation"), ("train", "validation")] {
                assert!(groups(a).is_disjoint(&groups(b)), "{a} and {b} of fold {fold}");
            }
            tested.extend(parts["test"].iter().map(|case| case.id.clone()));
        }
        tested.sort();
        let mut all: Vec<String> = cases.iter().map(|case| case.id.clone()).collect();
        all.sort();
        assert_eq!(tested, all);
        // A stated split changes nothing, and without a fold there is one part.
        let stated = Split::by_group(&roster, &[("train", 0.5), ("test", 0.5)], 9).unwrap();
        assert_eq!(parts(2, Some(stated.clone())), parts(2, None));
        assert_eq!(parts(0, Some(stated))["train"].len(), 23);
        // Twelve groups.
        let refused = Splits::folds(&roster, &DataRecipe { folds: 13, ..recipe }).unwrap_err().to_string();
        assert!(refused.contains("data.folds") && refused.contains("the data have 12"), "{refused}");
    }

    #[test]
    fn given_cases_serve_every_recipe_and_keep_their_stated_parts() {
        let cases = crate::fixture::cases(10, [16, 16], 1, 1);
        let roster = Roster::of(&cases);
        let recipe = DataRecipe { validation_share: 0.2, test_share: 0.2, ..DataRecipe::default() };
        let given = Collection::given(cases[..].into(), None);
        assert!(given.is_given() && given.serves(&recipe));
        assert!(given.serves(&DataRecipe { path: "elsewhere".into(), ..recipe.clone() }));
        let shared = given.splits(&recipe).unwrap();
        assert_eq!((shared.train.len(), shared.validation.len(), shared.test.len()), (6, 2, 2));
        assert_eq!(shared.hash, roster.hash());
        let ids = |range: std::ops::Range<usize>| cases[range].iter().map(|case| case.id.clone()).collect();
        let parts =
            [("train".to_owned(), ids(0..7)), ("val".to_owned(), ids(7..9)), ("test".to_owned(), ids(9..10))];
        let stated = Split::from_parts(&roster, parts.into()).unwrap();
        let stated = Collection::given(cases[..].into(), Some(stated)).splits(&recipe).unwrap();
        assert_eq!((stated.train.len(), stated.validation.len(), stated.test.len()), (7, 2, 1));
        assert_eq!(stated.test.id(0), cases[9].id);
    }

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
        let load = |recipe: &DataRecipe| Splits::load(recipe, &Holding::Memory).unwrap();
        let all = load(&recipe);
        assert_eq!((all.train.len(), all.validation.len(), all.test.len()), (3, 2, 1));
        assert!(all.validation.id(0).contains("validation") && all.test.id(0).contains("test"));
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
