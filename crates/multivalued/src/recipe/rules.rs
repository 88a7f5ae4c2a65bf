//! Every rule of `validate`, unknown keys, and the way through TOML and back.

use super::bounds::range_of;
use super::{BUILT_IN, Recipe, keys};
use crate::Error;

/// The key that an error names.
fn key_of(error: &Error) -> &str {
    match error {
        Error::Recipe { key, .. } => key,
        other => panic!("not about a key: {other}"),
    }
}

#[test]
fn each_broken_rule_names_its_key() {
    let table: &[(&[&str], &str)] = &[
        (&["data.task=shapes", "data.path=somewhere"], "data.task"),
        (&["method.latent_dim=0"], "method.latent_dim"),
        (&["method.divergence=-1"], "method.divergence"),
        (&["method.kind=unet", "model.code_entry=bottleneck"], "model.code_entry"),
        (&["predict.samples=0"], "predict.samples"),
        (&["predict.views=0"], "predict.views"),
        (&["predict.views=17"], "predict.views"),
        (&["method.kind=unet", "predict.views=2"], "predict.views"),
        (&["data.size=15"], "data.size"),
        (&["data.size=4097"], "data.size"),
        (&["data.validation_share=-0.1"], "data.validation_share"),
        (&["data.validation_share=1.0"], "data.validation_share"),
        (&["data.test_share=nan"], "data.test_share"),
        (&["data.validation_share=0.5", "data.test_share=0.5"], "data.test_share"),
        (&["data.folds=1"], "data.folds"),
        (&["data.folds=65"], "data.folds"),
        (&["data.folds=3", "data.fold=4"], "data.fold"),
        (&["data.fold=1"], "data.fold"),
        (&["data.normalise={ range = { low = 1.0, high = 1.0 } }"], "data.normalise"),
        (&["data.normalise={ range = { low = -inf, high = 1.0 } }"], "data.normalise"),
        (&["augment.rotation=181"], "augment.rotation"),
        (&["augment.crop=[0, 16]"], "augment.crop"),
        (&["model.channels=[]"], "model.channels"),
        (&["model.channels=[8, 0]"], "model.channels"),
        (&["model.input_channels=0"], "model.input_channels"),
        (&["model.input_channels=5"], "model.input_channels"),
        (&["model.classes=0"], "model.classes"),
        (&["model.code_count=1"], "model.code_count"),
        (&["model.code_dim=14"], "model.code_dim"),
        (&["model.code_count=2", "model.code_dim=1", "assignment.active_codes=0"], "model.code_count"),
        (&["model.head_width=0"], "model.head_width"),
        (&["assignment.active_codes=17"], "assignment.active_codes"),
        (&["assignment.active_codes=1"], "assignment.active_codes"),
        (&["assignment.temperature_start=0"], "assignment.temperature_start"),
        (&["assignment.temperature_start=inf"], "assignment.temperature_start"),
        (&["assignment.temperature_end=-1"], "assignment.temperature_end"),
        (&["assignment.anneal_until=1.5"], "assignment.anneal_until"),
        (&["assignment.same_iou=-0.5"], "assignment.same_iou"),
        (&["assignment.min_usage=2"], "assignment.min_usage"),
        (&["loss.cross_entropy_from=nan"], "loss.cross_entropy_from"),
        (&["loss.energy_from=1.1"], "loss.energy_from"),
        (&["loss.average_decay=1.1"], "loss.average_decay"),
        (&["train.final_rate=-1"], "train.final_rate"),
        (&["predict.merge_iou=1.01"], "predict.merge_iou"),
        (&["assignment.prior=-1"], "assignment.prior"),
        (&["loss.cross_entropy=-1"], "loss.cross_entropy"),
        (&["loss.commitment=nan"], "loss.commitment"),
        (&["loss.covariance=-0.01"], "loss.covariance"),
        (&["loss.energy=inf"], "loss.energy"),
        (&["loss.reconstruction_with_energy=-1"], "loss.reconstruction_with_energy"),
        (&["loss.probability_gradient=1.5"], "loss.probability_gradient"),
        (&["train.weight_decay=-1"], "train.weight_decay"),
        (&["train.clip_norm=-1"], "train.clip_norm"),
        (&["model.code_scale=-1"], "model.code_scale"),
        (&["train.batch=0"], "train.batch"),
        (&["assignment.space=embedding", "train.batch=1"], "train.batch"),
        (&["train.minutes=-1"], "train.minutes"),
        (&["train.epochs=0"], "train.steps"),
        (&["train.steps=10"], "train.steps"),
        (&["train.epochs=0", "train.steps=99"], "train.steps"),
        (&["data.resize=[4, 64]"], "data.resize"),
        (&["train.learning_rate=0"], "train.learning_rate"),
        (&["train.learning_rate=inf"], "train.learning_rate"),
        (&["train.beta2=1"], "train.beta2"),
        (&["train.weight_average=1"], "train.weight_average"),
        (&["train.validate_every=0"], "train.validate_every"),
        (&["predict.min_probability=1"], "predict.min_probability"),
    ];
    Recipe::default().validate().unwrap();
    for (changes, key) in table {
        let mut recipe = Recipe::default();
        changes.iter().for_each(|change| recipe.set(change).unwrap_or_else(|e| panic!("{change}: {e}")));
        let error = recipe.validate().expect_err(changes[0]);
        assert_eq!(key_of(&error), *key, "{changes:?}: {error}");
    }
}

/// The last number of `LOW to HIGH`.
fn upper_bound(key: &str) -> f64 {
    let range = range_of(key).unwrap_or_else(|| panic!("{key} holds numbers and has no range"));
    range.split(" to ").nth(1).unwrap().parse().unwrap()
}

/// How one value of a key is written.
type Written = fn(&str) -> String;

/// Every key that holds a number or a list of numbers, with a way to write one value of it.
fn numeric_keys() -> Vec<(String, Written)> {
    let one: Written = str::to_owned;
    let list: Written = |value| format!("[{value}, {value}]");
    keys()
        .into_iter()
        .filter_map(|key| match key.default.as_bytes().first() {
            None if ["augment.crop", "data.resize"].contains(&key.name.as_str()) => Some((key.name, list)),
            Some(b'[') => Some((key.name, list)),
            Some(b'0'..=b'9') => Some((key.name, one)),
            _ => None,
        })
        .collect()
}

#[test]
fn every_number_has_bounds_and_is_refused_beyond_them_by_key_value_and_bound() {
    let numeric = numeric_keys();
    assert!(numeric.len() > 55, "{}", numeric.len());
    for (key, written) in numeric {
        let most = upper_bound(&key);
        let whole = Recipe::default().set(&format!("{key}={}", written("0.5"))).is_err();
        let beyond =
            if whole { format!("{}", most + (most * 1e-3).max(1.0)) } else { format!("{:.7}", most * 1.001) };
        let never = ["nan", "inf", "-inf", "1e30", "18446744073709551615", "9223372036854775807", &beyond];
        // One below the smallest; nothing else is negative.
        let below = if key == "predict.empty_shift" { "-21" } else { "-1" };
        for value in never.into_iter().chain([below]) {
            let mut recipe = Recipe::default();
            let refused = recipe.set(&format!("{key}={}", written(value))).and_then(|()| recipe.validate());
            let error = refused.expect_err(&format!("{key}={value}"));
            assert_eq!(key_of(&error), key, "{value}: {error}");
            let reached = recipe != Recipe::default();
            let range = range_of(&key).unwrap();
            assert!(!reached || error.to_string().contains(&range), "{key}={value}: {error} lacks {range}");
        }
        // Zero and the bound itself are answered, by whichever rule.
        for value in ["0".to_owned(), "0.0".to_owned(), format!("{most}")] {
            let mut recipe = Recipe::default();
            _ = recipe.set(&format!("{key}={}", written(&value))).and_then(|()| recipe.validate());
        }
    }
}

#[test]
fn seeds_that_toml_cannot_write_are_refused() {
    for seed in [u64::MAX, 1 << 63, i64::MAX as u64] {
        let mut recipe = Recipe::default();
        recipe.train.seed = seed;
        assert_eq!(key_of(&recipe.validate().unwrap_err()), "train.seed");
    }
    let mut recipe = Recipe::default();
    (recipe.train.seed, recipe.data.seed) = (9_000_000_000_000_000_000, 9_000_000_000_000_000_000);
    recipe.validate().unwrap();
    assert_eq!(Recipe::parse(&recipe.to_toml(), "test").unwrap(), recipe);
}

#[test]
fn values_of_the_wrong_kind_name_their_key() {
    for (change, key) in [
        ("train.steps=many", "train.steps"),
        ("train.steps=-1", "train.steps"),
        ("model.channels=8", "model.channels"),
        ("model.lookup=nearest", "model.lookup"),
        ("data.normalise={ range = { low = 0 } }", "data.normalise"),
        ("data.normalise={ rnge = { low = 0, high = 1 } }", "data.normalise"),
        ("augment.crop=[16]", "augment.crop"),
    ] {
        let error = Recipe::default().set(change).expect_err(change);
        assert_eq!(key_of(&error), key, "{change}: {error}");
    }
    assert!(Recipe::default().set("train.steps").unwrap_err().to_string().contains("table.key=value"));
}

#[test]
fn unknown_keys_are_answered_with_the_nearest() {
    for (given, meant) in [
        ("train.learning_rat", "train.learning_rate"),
        ("train.epoch", "train.epochs"),
        ("model.code_dims", "model.code_dim"),
        ("predict.min_probabilty", "predict.min_probability"),
    ] {
        let error = Recipe::default().set(&format!("{given}=1")).unwrap_err();
        assert_eq!(key_of(&error), given);
        assert!(error.to_string().contains(&format!("did you mean `{meant}`?")), "{error}");
        let (table, key) = given.split_once('.').unwrap();
        let text = format!("[{table}]\n{key} = 1\n");
        let error = Recipe::parse(&text, "my.toml").unwrap_err().to_string();
        let last = meant.split_once('.').unwrap().1;
        assert!(error.contains("my.toml") && error.contains(&format!("did you mean `{last}`?")), "{error}");
    }
    let error = Recipe::parse("[trian]\nsteps = 1\n", "my.toml").unwrap_err().to_string();
    assert!(error.contains("did you mean `train`?"), "{error}");
    let error = Recipe::named("shapes-tin").unwrap_err().to_string();
    assert!(error.contains("did you mean `shapes-tiny`?"), "{error}");
}

#[test]
fn the_normalisation_may_be_an_inline_table() {
    let text = "[data]\nnormalise = { range = { low = -1000.0, high = 400.0 } }\ntest_share = 0.3\n";
    let from_file = Recipe::parse(text, "test").unwrap();
    let mut by_key = Recipe::default();
    by_key.set("data.test_share=0.3").unwrap();
    by_key.set("data.normalise={ range = { low = -1000, high = 400 } }").unwrap();
    assert_eq!(from_file, by_key);
    assert_eq!(Recipe::parse(&by_key.to_toml(), "test").unwrap(), by_key);
    by_key.set("data.seed=5").unwrap();
    by_key.set("data.normalise=z-score").unwrap();
    assert_eq!(by_key.data.normalise, multivalued_data::normalise::Normalisation::ZScore);
}

#[test]
fn recipes_go_through_toml_and_back() {
    let mut changed = Recipe::default();
    for change in
        ["augment.crop=[64, 48]", "data.path=a \"b\" c", "train.learning_rate=1e-4", "augment.noise=0.1"]
    {
        changed.set(change).unwrap();
    }
    assert_eq!(changed.data.path, "a \"b\" c");
    for recipe in [Recipe::default(), changed] {
        assert_eq!(Recipe::parse(&recipe.to_toml(), "test").unwrap(), recipe);
    }
    // Each default, set by its own text, changes nothing.
    for key in keys().iter().filter(|key| !key.default.is_empty()) {
        let mut recipe = Recipe::default();
        recipe.set(&format!("{}={}", key.name, key.default)).unwrap();
        assert_eq!(recipe, Recipe::default(), "{}", key.name);
    }
}

#[test]
fn the_recipes_that_come_with_the_program_are_valid() {
    assert!(!BUILT_IN.is_empty());
    for (name, _) in BUILT_IN {
        let recipe = Recipe::named(name).unwrap();
        recipe.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(Recipe::open(name).unwrap(), recipe);
        assert_eq!(Recipe::parse(&recipe.to_toml(), name).unwrap(), recipe);
    }
}
