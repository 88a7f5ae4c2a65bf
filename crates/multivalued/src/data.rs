//! The cases a recipe names: a synthetic task's, or a data set's by its splits.

use crate::recipe::DataRecipe;
use crate::{Error, Result};
use multivalued_data::Case;
use multivalued_data::dataset::{Dataset, Options, Roster, Split};
use multivalued_data::synthetic::Task;
use std::collections::HashMap;
use std::path::Path;

/// Cases by what they are for, and the hash of all of them.
pub struct Splits {
    /// To learn from.
    pub train: Vec<Case>,
    /// To choose by.
    pub validation: Vec<Case>,
    /// To report on.
    pub test: Vec<Case>,
    /// BLAKE3 over ids and content.
    pub hash: String,
}

impl Splits {
    /// Loads what the recipe names. A data set's own splits (`train`, `validation` or `val`, `test`) are
    /// kept where it states them; else its groups are split by the recipe's shares and seed.
    pub fn load(recipe: &DataRecipe, options: &Options) -> Result<Self> {
        if recipe.path.is_empty() && recipe.task.is_empty() {
            return Err(Error::recipe(
                "data.path",
                "names no data: give a data set's folder, or a synthetic task as data.task",
            ));
        }
        if !recipe.path.is_empty() {
            return Self::from_folder(Path::new(&recipe.path), recipe, options);
        }
        let name = recipe
            .task
            .parse()
            .map_err(|error: multivalued_data::Error| Error::recipe("data.task", error.to_string()))?;
        let task = Task::new(name, recipe.size, recipe.seed)?;
        let train = task.generate("train", recipe.train_count);
        let validation = task.generate("validation", recipe.validation_count);
        let test = task.generate("test", recipe.test_count);
        let hash = Roster::of(&train).hash().to_string();
        Ok(Self { train, validation, test, hash })
    }

    fn from_folder(path: &Path, recipe: &DataRecipe, options: &Options) -> Result<Self> {
        let dataset = Dataset::open(path, options)?;
        let cases = dataset.load()?;
        let roster = Roster::of(&cases);
        let split = match dataset.stated_split(&roster)? {
            Some(split) => split,
            None => {
                let rest = 1.0 - recipe.validation_share - recipe.test_share;
                let shares =
                    [("train", rest), ("validation", recipe.validation_share), ("test", recipe.test_share)];
                let shares: Vec<(&str, f64)> = shares.into_iter().filter(|(_, share)| *share > 0.0).collect();
                Split::by_group(&roster, &shares, recipe.seed)?
            }
        };
        let hash = roster.hash().to_string();
        let mut by_id: HashMap<String, Case> =
            cases.into_iter().map(|case| (case.id.clone(), case)).collect();
        let mut take = |names: &[&str]| -> Vec<Case> {
            let part = names.iter().find_map(|name| split.parts().get(*name));
            part.into_iter().flatten().filter_map(|id| by_id.remove(id)).collect()
        };
        let (train, validation, test) = (take(&["train"]), take(&["validation", "val"]), take(&["test"]));
        Ok(Self { train, validation, test, hash })
    }
}
