//! Damaged recipes, parameters and states: read or refused, never a panic. `fuzz/` has the checks.

#[path = "../../data/tests/damage/mod.rs"]
mod damage;
#[path = "../../../fuzz/src/recipe.rs"]
mod recipe;
#[path = "../../../fuzz/src/safetensors.rs"]
mod safetensors;
#[path = "../../../fuzz/src/state.rs"]
mod state;

use damage::{check_damaged, seeds};
use multivalued::recipe::BUILT_IN;

#[test]
fn damaged_recipes() {
    let built_in = BUILT_IN.iter().map(|(_, text)| text.as_bytes().to_vec());
    let sound: Vec<_> = seeds("recipe").into_iter().chain(built_in).collect();
    check_damaged("recipe", &sound, 3000, recipe::check);
}

#[test]
fn damaged_parameters() {
    check_damaged("safetensors", &seeds("safetensors"), 20_000, safetensors::check);
}

#[test]
fn damaged_states() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = state::Checkpoint::make(folder.path().join("last"), 3);
    let own = std::fs::read(folder.path().join("last/state.json")).unwrap();
    let mut sound = seeds("state");
    sound.push(own);
    check_damaged("state", &sound, 3000, |bytes| checkpoint.check(bytes));
}

#[test]
#[ignore = "writes fuzz/seeds/state/begun.json"]
fn write_the_seed_of_states() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| {
        let text = std::fs::read(folder.path().join(name).join("state.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()
    };
    state::Checkpoint::make(folder.path().join("start"), 0);
    state::Checkpoint::make(folder.path().join("begun"), 3);
    // The target's files are those of the start, which are the same on every machine.
    let mut begun = read("begun");
    begun["files"] = read("start")["files"].take();
    begun["training"]["seconds"] = 1.into();
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/state");
    std::fs::create_dir_all(&seeds).unwrap();
    std::fs::write(seeds.join("begun.json"), serde_json::to_vec(&begun).unwrap()).unwrap();
}
