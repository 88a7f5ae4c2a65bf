//! Recipes.

use multivalued::Recipe;

/// Each line is a change, too: a recipe may be written as lines `table.key = value`.
const MOST_CHANGES: usize = 4;

/// A recipe that survives the way through TOML, or a refusal.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Recipe::parse(text, "fuzzed") {
        Ok(recipe) => {
            let sound = recipe.validate().is_ok();
            let written = recipe.to_toml();
            let back = Recipe::parse(&written, "written").expect("what was written is read");
            assert_eq!(back.to_toml(), written);
            assert_eq!(back.validate().is_ok(), sound);
        }
        Err(fault) => assert!(fault.to_string().contains("fuzzed"), "{fault}"),
    }
    let mut recipe = Recipe::default();
    for line in text.lines().take(MOST_CHANGES) {
        let before = recipe.to_toml();
        if recipe.set(line).is_err() {
            assert_eq!(recipe.to_toml(), before, "a refused change changes nothing");
        }
    }
    let _ = recipe.validate();
}
