//! `docs/recipe.md` says what the code says: its tables come from the recipe's own comments and defaults.
//!
//! After a change: `UPDATE_DOCS=1 cargo test -p multivalued --test recipe_page`.

use std::collections::BTreeMap;
use std::path::Path;

use multivalued::Recipe;
use multivalued::recipe::{BUILT_IN, keys};

/// The recipe's tables, the types that describe them, and what each table is about.
const TABLES: [(&str, &str, &str); 7] = [
    ("data", "DataRecipe", "where cases come from"),
    ("augment", "Augmentation", "what is done to training samples"),
    ("model", "ModelRecipe", "the networks and the codebook"),
    ("assignment", "AssignmentRecipe", "how annotations find their codes"),
    ("loss", "LossRecipe", "what is minimised"),
    ("train", "TrainRecipe", "how it is minimised"),
    ("predict", "PredictRecipe", "what a prediction keeps"),
];

/// What the paper uses (§4.1 and §4.2); keys it does not speak of are missing.
const PAPER: [(&str, &str); 22] = [
    ("data.size", "160 (shapes)"),
    ("data.train_count", "2000 (shapes)"),
    ("data.test_count", "200 (shapes)"),
    ("model.channels", "[32, 64, 128, 256]"),
    ("model.norm_group", "0"),
    ("model.code_count", "256"),
    ("model.code_dim", "256"),
    ("model.code_entry", "\"head\""),
    ("model.classifier", "\"simplex-etf\""),
    ("model.classifier_hidden", "0"),
    ("model.lookup", "\"euclidean\""),
    ("model.train_codes", "false"),
    ("assignment.space", "\"embedding\""),
    ("loss.reconstruction", "\"log-bce\""),
    ("loss.cross_entropy_from", "20 epochs"),
    ("loss.commitment", "0.25"),
    ("loss.covariance", "0.01"),
    ("loss.energy", "0"),
    ("train.batch", "32"),
    ("train.annotations", "1"),
    ("train.learning_rate", "1e-4"),
    ("predict.min_probability", "1e-5"),
];

/// A field's or variant's name, its comment and, for a field, its type.
type Items = Vec<(String, String, String)>;

/// The public fields of structs and the variants of enums in a source text, by type.
fn items(source: &str) -> BTreeMap<String, Items> {
    let mut types: BTreeMap<String, Items> = BTreeMap::new();
    let (mut current, mut comment) = (None, String::new());
    for line in source.lines() {
        let text = line.trim();
        if let Some(name) = text.strip_prefix("pub struct ").or_else(|| text.strip_prefix("pub enum ")) {
            current = name.strip_suffix(" {").map(str::to_owned);
            comment.clear();
        } else if line == "}" {
            current = None;
        } else if let Some(part) = text.strip_prefix("///") {
            comment = format!("{comment} {}", part.trim()).trim().to_owned();
        } else if let Some(name) = &current
            && !text.starts_with("#[")
            && let Some(item) = text.strip_suffix(',')
        {
            let (item, kind) = item.split_once(": ").unwrap_or((item, ""));
            let item = item.trim_start_matches("pub ").to_owned();
            types.entry(name.clone()).or_default().push((
                item,
                std::mem::take(&mut comment),
                kind.to_owned(),
            ));
        }
    }
    types
}

/// `SimplexEtf` as recipes write it.
fn kebab(variant: &str) -> String {
    let mut text = String::new();
    for (at, letter) in variant.char_indices() {
        if letter.is_uppercase() && at > 0 {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// A number with no more digits than its 32 bits hold; anything else as it is.
fn shortest(value: &str) -> String {
    match value.parse::<f32>() {
        Ok(number) if value.contains('.') => format!("{number:?}"),
        _ => value.to_owned(),
    }
}

fn page() -> String {
    let mut types = items(include_str!("../src/recipe.rs"));
    types.extend(items(include_str!("../../data/src/augment.rs")));
    let defaults: BTreeMap<String, String> = keys().into_iter().map(|key| (key.name, key.default)).collect();
    let paper: BTreeMap<&str, &str> = PAPER.into();
    let built_in: Vec<_> = BUILT_IN.iter().map(|(name, _)| format!("`{name}`")).collect();
    let mut page = format!(
        "# Recipes: every key\n\n\
         <!-- Made from the code: UPDATE_DOCS=1 cargo test -p multivalued --test recipe_page -->\n\n\
         A recipe is a TOML file that states only what differs from the defaults. `multivalued train RECIPE` takes \
         a file or the name of a recipe that comes with the program ({}); `--set table.key=value` changes a key \
         from the command line. An unknown key is an error. The run's folder holds the recipe with all keys.\n\n\
         Defaults are the best measured values; where the paper names a value it stands beside.\n",
        built_in.join(", ")
    );
    for (table, name, about) in TABLES {
        page += &format!(
            "\n## `[{table}]`: {about}\n\n| key | default | the paper | meaning |\n|---|---|---|---|\n"
        );
        for (field, meaning, kind) in &types[name] {
            let key = format!("{table}.{field}");
            let default = match defaults.get(&key).map_or("", String::as_str) {
                "" => "none".to_owned(),
                value => format!("`{}`", shortest(value)),
            };
            let paper = paper.get(key.as_str()).map_or(String::new(), |value| format!("`{value}`"));
            let values = types.get(kind).map_or(String::new(), |variants| {
                let named = variants.iter().map(|(variant, about, _)| {
                    format!("`{}`: {}", kebab(variant), about.trim_end_matches('.'))
                });
                format!(" {}.", named.collect::<Vec<_>>().join("; "))
            });
            page += &format!("| `{field}` | {default} | {paper} | {meaning}{values} |\n");
        }
    }
    page + "\n`data.normalise` is `\"min-max\"`, `\"z-score\"` or `{ range = { low = 0.0, high = 1.0 } }`.\n"
}

#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipe.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/recipe.md is not what the code says; UPDATE_DOCS=1 writes it anew");
}

#[test]
fn the_page_names_every_key_and_no_other() {
    let page = page();
    for key in keys() {
        let (table, field) = key.name.split_once('.').unwrap();
        let section = page.split(&format!("## `[{table}]`")).nth(1).unwrap().split("\n## ").next().unwrap();
        assert!(section.contains(&format!("| `{field}` |")), "{}", key.name);
    }
    assert_eq!(page.matches("\n| `").count(), keys().len());
    for (key, _) in PAPER {
        assert!(keys().iter().any(|known| known.name == key), "{key} is no key");
    }
    assert!(!page.contains("|  |\n"), "a key has no meaning");
}

#[test]
fn the_normalisations_are_written_as_the_page_says() {
    let mut recipe = Recipe::default();
    for value in ["min-max", "z-score", "{ range = { low = 0.0, high = 1.0 } }"] {
        recipe.set(&format!("data.normalise={value}")).unwrap();
    }
}
