//! What recipes differ in, key by key.

use std::collections::{BTreeMap, BTreeSet};

use multivalued::Recipe;

/// A resolved recipe's lines as `table.key` and value.
pub fn keys(toml: &str) -> BTreeMap<String, String> {
    let mut table = String::new();
    let mut keys = BTreeMap::new();
    for line in toml.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = format!("{name}.");
        } else if let Some((key, value)) = line.split_once(" = ") {
            keys.insert(format!("{table}{key}"), value.to_owned());
        }
    }
    keys
}

/// The keys whose values are not the same in all recipes.
pub fn differences(recipes: &[BTreeMap<String, String>]) -> Vec<Vec<String>> {
    let all: BTreeSet<&String> = recipes.iter().flat_map(BTreeMap::keys).collect();
    all.into_iter()
        .filter(|key| recipes.iter().any(|recipe| recipe.get(*key) != recipes[0].get(*key)))
        .map(|key| {
            let value =
                |recipe: &BTreeMap<String, String>| recipe.get(key).cloned().unwrap_or_else(|| "-".into());
            std::iter::once(key.clone()).chain(recipes.iter().map(value)).collect()
        })
        .collect()
}

/// What became of a run's own recipe, as a list for a sentence.
pub fn changes(own: &Recipe, given: &Recipe) -> String {
    let rows = differences(&[keys(&own.to_toml()), keys(&given.to_toml())]);
    rows.iter().map(|row| format!("{} = {} is now {}", row[0], row[1], row[2])).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_held_against_each_other_key_by_key() {
        let a = keys("[train]\nsteps = 10\nseed = 1\n\n[data.normalise]\nlow = 0\n");
        let b = keys("[train]\nsteps = 10\nseed = 2\n");
        assert_eq!(differences(&[a, b]), [["data.normalise.low", "0", "-"], ["train.seed", "1", "2"]]);
    }

    #[test]
    fn a_key_that_one_recipe_does_not_state_shifts_nothing() {
        let own = Recipe::default();
        let mut given = own.clone();
        given.set("augment.crop=[8, 8]").unwrap();
        given.set("train.seed=7").unwrap();
        assert_eq!(changes(&own, &given), "augment.crop = - is now [8, 8]; train.seed = 1 is now 7");
        assert_eq!(changes(&given, &given), "");
    }
}
