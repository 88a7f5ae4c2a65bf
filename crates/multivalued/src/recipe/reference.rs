//! `docs/recipe.md`, made of the rows of all tables.

use super::bounds::range_of;
use super::keys;
use super::table::{Row, rows};

/// `docs/recipe.md`: every key with its default, its meaning and the paper's value.
pub fn reference() -> String {
    let mut text = String::from(
        "# Recipe reference\n\n\
         A recipe is a TOML file that states what differs from these defaults; `table.key=value` changes \
         one key. A number outside its range is refused. The last column is the paper's value: a dash where the paper has nothing of the kind or \
         leaves it to the data. Generated from the tables in `crates/multivalued/src/recipe`.\n",
    );
    let defaults = keys();
    let mut table = "";
    for Row { key: name, meaning, paper, .. } in rows() {
        let meaning = meaning.trim();
        let (this, key) = name.split_once('.').unwrap_or(("", name));
        if this != table {
            table = this;
            text += &format!(
                "\n## `[{table}]`\n\n| key | default | range | meaning | paper |\n|---|---|---|---|---|\n"
            );
        }
        let default = defaults.iter().find(|key| key.name == *name).map_or("", |key| &key.default);
        let default = if default.is_empty() { "none".into() } else { format!("`{default}`") };
        let paper = if paper.is_empty() { "–" } else { *paper };
        let range = range_of(name).unwrap_or_else(|| "–".into());
        text += &format!("| `{key}` | {default} | {range} | {meaning} | {paper} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_explained_once() {
        let mut explained: Vec<&str> = rows().map(|row| row.key).collect();
        let keys = keys();
        let mut known: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        explained.sort_unstable();
        known.sort_unstable();
        assert_eq!(explained, known);
    }

    /// `MULTIVALUED_WRITE_DOCS=1 cargo test -p multivalued` brings the file up to date.
    #[test]
    fn the_committed_reference_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipe.md");
        if std::env::var_os("MULTIVALUED_WRITE_DOCS").is_some() {
            std::fs::write(&path, reference()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), reference(), "see the test's comment");
    }
}
