//! Recipes: what is wrong with one is told by key, cause and remedy before anything is computed.

use crate::workplace::Workplace;

#[test]
fn a_recipe_that_is_not_there_or_not_right_is_refused() {
    let place = Workplace::with_recipe();
    place.write("unknown.toml", "[train]\nstep = 3\n");
    place.write("type.toml", "[train]\nsteps = \"many\"\n");
    place.write("table.toml", "[trian]\nsteps = 3\n");
    place.write("broken.toml", "[train\n");
    for (recipe, parts) in [
        ("none.toml", &["none.toml", "no such file"][..]),
        ("shapes-tin", &["shapes-tin", "did you mean `shapes-tiny`"]),
        ("unknown.toml", &["unknown.toml", "line 2", "step", "did you mean `steps`"]),
        ("type.toml", &["type.toml", "line 2"]),
        ("table.toml", &["table.toml", "trian"]),
        ("broken.toml", &["broken.toml", "line 1"]),
    ] {
        place.run(&["train", recipe, "--out", "run"]).fails(2, parts);
    }
    assert!(!place.path("run").exists(), "nothing is made before the recipe is right");
}

#[test]
fn a_value_that_breaks_a_rule_names_its_key() {
    let place = Workplace::with_recipe();
    for (set, parts) in [
        ("train.stepz=3", &["train.stepz", "did you mean `train.steps`"][..]),
        ("train.steps", &["table.key=value"]),
        ("train.steps=many", &["train.steps"]),
        ("train.batch=0", &["train.batch"]),
        ("train.learning_rate=-1", &["train.learning_rate", "-1 is outside 1e-12 to 10"]),
        ("train.epochs=3", &["exactly one of"]),
        ("model.code_count=9", &["model.code_dim", "8 dimensions"]),
        ("model.code_count=1", &["model.code_count", "1 is outside 2 to 1024"]),
        ("predict.min_probability=1.5", &["predict.min_probability"]),
        ("loss.cross_entropy=-1", &["loss.cross_entropy", "-1 is outside 0 to 1000000"]),
        ("data.task=squares", &["squares", "choose one of"]),
        ("data.size=7", &["data.size", "16 to 4096"]),
    ] {
        place.train("run", &["--set", set]).fails(2, parts);
    }
}

#[test]
fn a_training_that_diverges_says_so_and_keeps_its_state() {
    let place = Workplace::with_recipe();
    place
        // Weight decay at such a rate multiplies the weights by -999 in every step.
        .train("run", &["--set", "train.learning_rate=10", "--set", "train.weight_decay=100"])
        .fails(2, &["diverged", "train.learning_rate"]);
    let log = std::fs::read_to_string(place.path("run/log.jsonl")).unwrap();
    assert!(log.contains("\"kind\":\"end\"") && log.contains("diverged"), "{log}");
}

#[test]
fn a_device_that_is_not_there_is_not_replaced_in_silence() {
    let place = Workplace::with_recipe();
    place.train("run", &["--device", "cuda:99"]).fails(2, &["--device cuda:99"]);
    place.train("run", &["--device", "tpu"]).fails(2, &["--device", "auto, cpu or cuda:N"]);
}

#[test]
fn data_that_do_not_suit_the_recipe_are_refused() {
    let place = Workplace::with_recipe();
    place.train("run", &["--data", "nowhere"]).fails(2, &["nowhere", "no such file"]);
    place.write("nothing.toml", "[model]\nchannels = [4]\n");
    place.run(&["train", "nothing.toml", "--out", "run"]).fails(2, &["data.path", "folder"]);
    for (case, size) in [("a", 16u32), ("b", 16), ("c", 16), ("d", 20), ("e", 16)] {
        let pixels: Vec<u8> = (0..size * size).map(|at| (at % 251) as u8 ^ case.as_bytes()[0]).collect();
        let mask: Vec<u8> = (0..size * size).map(|at| if at < 50 { 255 } else { 0 }).collect();
        place.png(&format!("set/{case}/image.png"), size, &pixels);
        place.png(&format!("set/{case}/label0.png"), size, &mask);
    }
    place.train("run", &["--data", "set"]).fails(2, &["20x20", "augment.crop"]);
    place
        .train("run2", &["--data", "set", "--set", "model.input_channels=3"])
        .fails(2, &["model.input_channels=1"]);
    // A data set with a fault is not trained on.
    place.png("set/f/image.png", 2, &[1, 2, 3, 4]);
    place.train("run3", &["--data", "set"]).fails(2, &["has no mask"]);
}
