//! Recipes as text: the ones that come with the program, files, and `table.key=value`.

use super::Recipe;
use crate::{Error, Result};
use multivalued_data::disk;
use std::path::Path;

/// The recipes that come with the program, by name.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("shapes-tiny", include_str!("../../../../recipes/shapes-tiny.toml")),
    ("shapes-tiny-unbalanced", include_str!("../../../../recipes/shapes-tiny-unbalanced.toml")),
    ("shapes-tiny-varying", include_str!("../../../../recipes/shapes-tiny-varying.toml")),
    ("shapes-tiny-256", include_str!("../../../../recipes/shapes-tiny-256.toml")),
    ("shapes", include_str!("../../../../recipes/shapes.toml")),
    ("lung-opacity", include_str!("../../../../recipes/lung-opacity.toml")),
    ("lidc", include_str!("../../../../recipes/lidc.toml")),
    ("raters", include_str!("../../../../recipes/raters.toml")),
    (
        "baseline/lidc-probabilistic-unet",
        include_str!("../../../../recipes/baseline/lidc-probabilistic-unet.toml"),
    ),
    ("baseline/lidc-unet", include_str!("../../../../recipes/baseline/lidc-unet.toml")),
    ("paper/shapes", include_str!("../../../../recipes/paper/shapes.toml")),
    ("paper/lung-opacity", include_str!("../../../../recipes/paper/lung-opacity.toml")),
    ("paper/lidc", include_str!("../../../../recipes/paper/lidc.toml")),
    ("ablation/no-covariance", include_str!("../../../../recipes/ablation/no-covariance.toml")),
    ("ablation/fixed-codebook", include_str!("../../../../recipes/ablation/fixed-codebook.toml")),
    ("ablation/learnable-classifier", include_str!("../../../../recipes/ablation/learnable-classifier.toml")),
];

impl Recipe {
    /// A recipe that comes with the program.
    pub fn named(name: &str) -> Result<Self> {
        let known = || BUILT_IN.iter().map(|(name, _)| *name);
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text, name),
            None => Err(Error::RecipeText {
                place: name.into(),
                reason: format!(
                    "no such recipe{}; a file's name ends in .toml, the built-in ones are {}",
                    suggestion(name, known()),
                    known().collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    }

    /// A recipe from a file, or a built-in one where no such file is there and the name has no ending.
    pub fn open(name_or_path: &str) -> Result<Self> {
        let path = Path::new(name_or_path);
        if path.extension().is_some_and(|ending| ending == "toml") || path.is_file() {
            Self::read(path)
        } else {
            Self::named(name_or_path)
        }
    }

    /// A recipe from a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = disk::read_to_string(path).map_err(|source| Error::io(path, source))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// A recipe from text; `place` names it in errors.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        toml::from_str(text)
            .map_err(|error| Error::RecipeText { place: place.into(), reason: explained(&error, text) })
    }

    /// Changes one value: `train.steps=100`, read as TOML where it is, else as text.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let Some((key, value)) = assignment.split_once('=') else {
            return Err(Error::recipe(assignment, "write it as table.key=value"));
        };
        let (key, value) = (key.trim(), value.trim());
        let known = keys();
        if !known.iter().any(|known| known.name == key) {
            let near = suggestion(key, known.iter().map(|known| known.name.as_str()));
            return Err(Error::recipe(key, format!("no such key{near}")));
        }
        let mut table =
            toml::Table::try_from(&*self).map_err(|error| Error::recipe(key, error.to_string()))?;
        let parsed = toml::from_str::<toml::Table>(&format!("value = {value}"))
            .ok()
            .and_then(|mut table| table.remove("value"))
            .unwrap_or_else(|| toml::Value::String(value.into()));
        let mut place = &mut table;
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                place.insert(part.into(), parsed);
                break;
            }
            let entry = place.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            let Some(table) = entry.as_table_mut() else {
                return Err(Error::recipe(key, "no such key"));
            };
            place = table;
        }
        *self =
            table.try_into().map_err(|error: toml::de::Error| Error::recipe(key, explained(&error, "")))?;
        Ok(())
    }

    /// The whole recipe as TOML, defaults included.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a recipe is plain values")
    }

    /// The recipe without what only the machine has where it was followed: the paths of the data, of the weights it
    /// started from and of its teacher.
    pub fn without_place(&self) -> Self {
        let mut recipe = self.clone();
        recipe.data.path.clear();
        recipe.train.from.clear();
        recipe.train.teacher.clear();
        recipe
    }
}

/// The parser's words as one sentence, with the line of the recipe where that is known and the nearest right key
/// where one is unknown.
fn explained(error: &toml::de::Error, recipe: &str) -> String {
    let before = error.span().and_then(|span| recipe.get(..span.start));
    let place = before.map_or(String::new(), |before| {
        let number = before.matches('\n').count();
        let line: String = recipe.lines().nth(number).unwrap_or_default().trim().chars().take(80).collect();
        format!("line {}, `{line}`: ", number + 1)
    });
    let text = format!("{place}{}", error.message().trim_end());
    let Some((_, rest)) = error.message().split_once("unknown field `") else {
        return text;
    };
    // The parser goes on: NAME`, expected one of `A`, `B`, ...
    let mut names = rest.split('`').step_by(2);
    let unknown = names.next().unwrap_or_default();
    format!("{text}{}", suggestion(unknown, names))
}

/// `; did you mean X?` for the nearest of some words, if it is near.
pub fn suggestion<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let nearest = known.map(|known| (distance(word, known), known)).min();
    match nearest {
        Some((distance, known)) if distance <= 1 + word.len() / 3 => format!("; did you mean `{known}`?"),
        _ => String::new(),
    }
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &b) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// One key of a recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// As `table.key`.
    pub name: String,
    /// The default, as TOML.
    pub default: String,
}

/// All keys with their defaults, in the recipe's order.
pub fn keys() -> Vec<Key> {
    // By way of text, where f32 has its own few digits and not those of the f64 it would become.
    let table: toml::Table = toml::from_str(&Recipe::default().to_toml()).expect("a recipe is a table");
    let mut keys = Vec::new();
    for (name, value) in table {
        let toml::Value::Table(table) = value else { continue };
        for (key, value) in table {
            keys.push(Key { name: format!("{name}.{key}"), default: value.to_string() });
        }
    }
    // What is none by default is not written.
    for name in ["data.resize", "augment.crop"] {
        keys.push(Key { name: name.into(), default: String::new() });
    }
    keys
}
