//! A run from recipe to report, and what the other commands make of it.

use std::collections::BTreeSet;
use std::fs;

use multivalued_data::report::Report;

use crate::bad_files::nifti_header;
use crate::shipped::model;
use crate::workplace::Workplace;

#[test]
fn a_run_leaves_everything_that_its_page_promises() {
    let place = Workplace::with_recipe();
    let said = place.train("run", &["--seed", "3"]).trained();
    assert!(
        said.out.contains("ged_exact") && said.out.contains("report page: run/report.html"),
        "{}",
        said.out
    );
    for file in
        ["recipe.toml", "log.jsonl", "report.json", "report.html", "sheets/examples.png", "last", "best"]
    {
        assert!(place.path("run").join(file).exists(), "{file}");
    }
    assert!(fs::read_dir(place.path("run/tensorboard")).unwrap().count() == 1);
    let recipe = fs::read_to_string(place.path("run/recipe.toml")).unwrap();
    assert!(
        recipe.contains("seed = 3") && recipe.contains("learning_rate"),
        "all keys are written: {recipe}"
    );
    let log = fs::read_to_string(place.path("run/log.jsonl")).unwrap();
    for part in
        ["\"kind\":\"start\"", "\"kind\":\"step\"", "\"validation.ged_exact\"", "\"reason\":\"finished\""]
    {
        assert!(log.contains(part), "{log} lacks {part}");
    }
    assert_eq!(log.matches("\"kind\":\"epoch\"").count(), 10);
    // Plain lines where nobody watches on a terminal, without control characters.
    assert!(said.err.contains("epoch 2/10 · step 8/40") && !said.err.contains('\u{1b}'), "{}", said.err);
    // The recipe in the run gives the same run.
    place.run(&["train", "run/recipe.toml", "--out", "again"]).trained();
    let model = |run: &str| fs::read(place.path(run).join("best/model.safetensors")).unwrap();
    assert_eq!(model("run"), model("again"));
    place.train("run", &[]).fails(2, &["holds a run already", "--resume"]);
}

#[test]
fn a_run_is_evaluated_compared_and_looked_into() {
    let place = Workplace::with_recipe();
    place.train("one", &[]).trained();
    place.train("two", &["--set", "train.steps=8"]).trained();
    let before = fs::read(place.path("one/report.json")).unwrap();
    place.run(&["evaluate", "one", "--json", "copy.json", "--html", "copy.html"]).succeeds();
    assert_eq!(fs::read(place.path("one/report.json")).unwrap(), before, "the same scores come out again");
    assert_eq!(fs::read(place.path("copy.json")).unwrap(), before);
    let val = place.run(&["evaluate", "one", "--split", "validation"]).succeeds().out;
    assert!(val.contains("split validation: 4 cases"), "{val}");
    place.run(&["evaluate", "one", "--split", "nonsense"]).fails(2, &["nonsense", "test, train, validation"]);

    place.run(&["evaluate", "one", "--require", "ged_exact<=2", "--require", "n_x>=1"]).succeeds();
    place.run(&["evaluate", "one", "--require", "ged_exact<=0"]).fails(1, &["ged_exact is", "at most 0"]);
    place.run(&["evaluate", "one", "--require", "ged_exat<=1"]).fails(2, &["did you mean `ged_exact`"]);
    place.run(&["evaluate", "one", "--require", "ged_exact=1"]).fails(2, &["SCORE<=VALUE"]);

    let table = place.run(&["compare", "one", "two"]).succeeds().out;
    assert!(table.contains("ged_exact") && table.contains("train.steps  40   8"), "{table}");
    place.run(&["compare", "one", "none"]).fails(2, &["none", "no such run"]);
    let said = place.run(&["inspect", "one"]).succeeds().out;
    assert!(said.contains("validation GED") && said.contains("mean probability"), "{said}");
    assert!(place.path("one/sheets/codes.png").exists());
    place.run(&["inspect", "."]).fails(2, &["is no run"]);
}

#[test]
fn a_folder_of_files_is_split_trained_on_and_scored_against_its_truth() {
    let place = Workplace::with_recipe();
    place
        .run(&["generate", "shapes", "--size", "16", "--count", "train=24,test=6", "--out", "set"])
        .succeeds();
    place.train("run", &["--data", "set", "--set", "data.validation_share=0.25"]).trained();
    let report = Report::read(&place.path("run/report.json")).unwrap();
    assert_eq!(report.summary.cases, 6);
    assert!(report.summary.truth.is_some(), "the truth was found in the manifest");
    // The same data by their path have the same parts as the run.
    let same = place.run(&["evaluate", "run", "--data", "set", "--split", "train"]).succeeds().out;
    assert!(same.contains("split train: 18 cases"), "{same}");
    let own = place.run(&["evaluate", "run", "--split", "validation"]).succeeds().out;
    assert!(own.contains("split validation: 6 cases"), "a quarter of the training groups: {own}");
    let val = place.run(&["evaluate", "run", "--data", "set", "--split", "val"]).succeeds().out;
    assert_eq!(val, own);
    // A file that changed since the training is noticed.
    let image = |name: &str| place.path("set/images").join(name);
    fs::copy(image("shapes-test-00000.png"), image("shapes-test-00001.png")).unwrap();
    place.run(&["evaluate", "run"]).fails(2, &["set", "has changed since the training", "--data"]);
    // Now they are other data, with the parts they state.
    let other = place.run(&["evaluate", "run", "--data", "set", "--split", "train"]).succeeds().out;
    assert!(other.contains("split train: 24 cases"), "{other}");
    place
        .run(&["evaluate", "run", "--data", "set", "--split", "val"])
        .fails(2, &["no part 'val", "test, train"]);
}

#[test]
fn data_without_a_split_are_scored_by_the_runs_own_or_as_a_whole() {
    let place = Workplace::with_recipe();
    let mask: Vec<u8> = (0..=255).map(|at| if at < 64 { 255 } else { 0 }).collect();
    let add = |set: &str, case: u8| {
        let pixels: Vec<u8> = (0..=255).map(|v: u8| v ^ case).collect();
        place.png(&format!("{set}/{case}/image.png"), 16, &pixels);
        place.png(&format!("{set}/{case}/label0.png"), 16, &mask);
    };
    (0..20).for_each(|case| add("set", case));
    let shares = ["--set", "data.validation_share=0.2", "--set", "data.test_share=0.3"];
    place.train("run", &[&["--data", "set"][..], &shares].concat()).trained();
    let table = |more: &[&str]| place.run(&[&["evaluate", "run"], more].concat()).succeeds().out;
    // Where they were trained on, and as a copy elsewhere.
    fs::rename(place.path("set"), place.path("moved")).unwrap();
    place.run(&["evaluate", "run"]).fails(2, &["set"]);
    let from_copy = ["test", "val", "train"].map(|part| table(&["--data", "moved", "--split", part]));
    assert_eq!(table(&["--data", "moved"]), from_copy[0], "the test part is the usual one");
    let calibrated = place.run(&["calibrate", "run", "--coverage", "0.8", "--data", "moved"]).succeeds().out;
    assert!(calibrated.contains("4 cases of validation"), "{calibrated}");
    place.run(&["export", "run", "--out", "model", "--attribution", "Nobody's"]).succeeds();
    let said = place.run(&["evaluate", "model", "--data", "moved", "--split", "val"]).succeeds().out;
    assert!(said.contains("split validation: 4 cases"), "{said}");
    fs::rename(place.path("moved"), place.path("set")).unwrap();
    assert_eq!(["test", "val", "train"].map(|part| table(&["--split", part])), from_copy);
    for (said, part) in from_copy.iter().zip(["test: 6", "validation: 4", "train: 10"]) {
        assert!(said.contains(&format!("split {part} cases")), "{said}");
    }
    // Another data set has no parts to choose from.
    (30..35).for_each(|case| add("other", case));
    for part in ["val", "test"] {
        place
            .run(&["evaluate", "run", "--data", "other", "--split", part])
            .fails(2, &["states no parts", "leave --split away"]);
    }
    place.run(&["calibrate", "run", "--data", "other", "--split", "val"]).fails(2, &["states no parts"]);
    let whole = table(&["--data", "other"]);
    assert!(whole.contains("split all: 5 cases"), "{whole}");
    assert_eq!(table(&["--data", "other", "--split", "all"]), whole);
    // A card with scores of other data says so, and the model does not take those data for its own.
    let card = |model: &str| fs::read_to_string(place.path(model).join("README.md")).unwrap();
    assert!(card("model").contains("\nPart `test`: 6 images"), "{}", card("model"));
    assert!(card("model").contains("between training, validation and test"), "{}", card("model"));
    table(&["--data", "other", "--json", "run/report.json"]);
    place.run(&["export", "run", "--out", "abroad", "--attribution", "Nobody's"]).succeeds();
    for part in
        ["\nAll cases of a data set that was not trained on: 5 images", "between training and validation,"]
    {
        assert!(card("abroad").contains(part), "{}", card("abroad"));
    }
    let said = place.run(&["evaluate", "abroad", "--data", "other"]).succeeds().out;
    assert!(said.contains("split all: 5 cases"), "{said}");
}

#[test]
fn an_older_report_is_compared_by_the_scores_it_has() {
    let place = Workplace::with_recipe();
    place.train("new", &[]).trained();
    place.train("old", &["--set", "train.steps=8"]).trained();
    let path = place.path("old/report.json");
    let mut report: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let images = report["images"].as_array().unwrap().len();
    report.as_object_mut().unwrap().remove("mode_probabilities").expect("every shape has four modes");
    let images = (0..images).map(|at| format!("/images/{at}"));
    for object in ["/summary", "/intervals", "/std_over_images"].map(String::from).into_iter().chain(images) {
        report.pointer_mut(&object).unwrap().as_object_mut().unwrap().remove("iou_max_labels").unwrap();
    }
    fs::write(&path, report.to_string()).unwrap();
    for runs in [["old", "new"], ["new", "old"]] {
        let table = place.run(&["compare", runs[0], runs[1]]).succeeds().out;
        let row = table.lines().find(|line| line.starts_with("iou_max_labels")).unwrap_or_default();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells.iter().position(|cell| *cell == "-"),
            Some(if runs[0] == "old" { 1 } else { 3 }),
            "{table}"
        );
    }
}

#[test]
fn images_are_predicted_in_their_own_format() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.run(&["generate", "shapes", "--size", "16", "--count", "test=3", "--out", "set"]).succeeds();
    place.run(&["predict", "run", "set/images", "--top", "2", "--samples", "3", "--out", "said"]).succeeds();
    let name = "said/shapes-test-00000";
    let document: serde_json::Value =
        serde_json::from_slice(&fs::read(place.path(name).join("prediction.json")).unwrap()).unwrap();
    let hypotheses = document["slices"][0]["hypotheses"].as_array().unwrap();
    assert!((1..=2).contains(&hypotheses.len()));
    let first = &hypotheses[0];
    let mask = image::open(place.path(name).join(first["file"].as_str().unwrap())).unwrap().into_luma8();
    let area = mask.pixels().filter(|pixel| pixel.0[0] == 255).count() as u64;
    assert_eq!((mask.dimensions(), first["areas"][0].as_u64()), ((16, 16), Some(area)));
    for file in ["sheet.png", "sample-1.png", "sample-3.png"] {
        assert!(place.path(name).join(file).exists(), "{file}");
    }
    let total: f64 = hypotheses.iter().map(|one| one["probability"].as_f64().unwrap()).sum();
    let dropped = document["slices"][0]["dropped_probability"].as_f64().unwrap();
    assert!((total + dropped - 1.0).abs() < 1e-5);

    // An image whose sides the network's levels do not divide, and one of a single pixel.
    place.png("odd/odd.png", 13, &(0..13 * 7).map(|v| v as u8).collect::<Vec<_>>());
    place.png("odd/dot.png", 1, &[7]);
    place.png("odd/constant.png", 16, &[9; 256]);
    place.run(&["predict", "run", "odd", "--out", "odd-said"]).succeeds();
    let odd = image::open(place.path("odd-said/odd/hypothesis-1.png")).unwrap();
    assert_eq!((odd.width(), odd.height()), (13, 7));

    place.write("text.png", "no image");
    image::RgbImage::new(16, 16).save(place.path("colour.png")).unwrap();
    for (arguments, parts) in [
        (&["predict", "run", "text.png", "--out", "x"][..], &["text.png"][..]),
        (&["predict", "run", "none.png", "--out", "x"], &["none.png", "no such file"]),
        (&["predict", "run", "colour.png", "--out", "x"], &["3 channels"]),
        (&["predict", "none", "text.png", "--out", "x"], &["no such run"]),
        (&["predict", "run", "set/images", "--out", "said"], &["not empty"]),
        (&["predict", "run", "set/images", "--top", "0", "--out", "x"], &["--top"]),
    ] {
        place.run(arguments).fails(2, parts);
    }
}

/// A NIfTI-1 file of 8-bit voxels whose sform starts at (10, 20, 30).
fn nifti(size: [i16; 3]) -> Vec<u8> {
    let mut bytes = nifti_header(size);
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    for (axis, spacing) in [1f32, 0.5, 0.5, 3.0].into_iter().enumerate() {
        put(76 + 4 * axis, &spacing.to_le_bytes());
    }
    put(254, &1i16.to_le_bytes());
    let rows = [[0.5f32, 0.0, 0.0, 10.0], [0.0, 0.5, 0.0, 20.0], [0.0, 0.0, 3.0, 30.0]];
    for (place, value) in rows.into_iter().flatten().enumerate() {
        put(280 + 4 * place, &value.to_le_bytes());
    }
    let voxels = size.iter().map(|&side| side as usize).product::<usize>();
    bytes.extend((0..voxels).map(|at| (at % 200) as u8));
    bytes
}

#[test]
fn a_volume_is_predicted_slice_by_slice_in_its_own_space() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let volume = nifti([20, 18, 5]);
    place.write("scan.nii", &volume);
    place.run(&["predict", "run", "scan.nii", "--out", "said"]).succeeds();
    let mask = fs::read(place.path("said/scan/hypothesis-1.nii")).unwrap();
    assert_eq!(mask.len(), volume.len());
    assert_eq!(
        (&mask[40..56], &mask[280..328]),
        (&volume[40..56], &volume[280..328]),
        "the same size and place"
    );
    assert!(mask[352..].iter().all(|&label| label <= 1));
    let document: serde_json::Value =
        serde_json::from_slice(&fs::read(place.path("said/scan/prediction.json")).unwrap()).unwrap();
    assert_eq!(document["slices"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_prediction_is_never_empty() {
    let place = Workplace::with_recipe();
    // No code reaches so much: the most probable one stays.
    place.train("run", &["--set", "predict.min_probability=0.9999"]).trained();
    place.png("image.png", 16, &[7; 256]);
    place.run(&["predict", "run", "image.png", "--out", "said"]).succeeds();
    let document: serde_json::Value =
        serde_json::from_slice(&fs::read(place.path("said/image/prediction.json")).unwrap()).unwrap();
    let hypotheses = document["slices"][0]["hypotheses"].as_array().unwrap();
    assert_eq!(hypotheses.len(), 1);
    assert!((hypotheses[0]["probability"].as_f64().unwrap() - 1.0).abs() < 1e-6);
}

#[test]
fn a_recipe_without_a_head_for_the_empty_mask_is_told_of_it_where_masks_are_empty() {
    let place = Workplace::with_recipe();
    for (task, out) in [("raters", "readers"), ("shapes", "set")] {
        let count = ["--size", "32", "--count", "train=24,val=4,test=4", "--out", out];
        place.run(&[&["generate", task][..], &count].concat()).succeeds();
    }
    let note = "annotations are empty masks; with --set model.empty_head=true";
    let says = |run: &str, more: &[&str]| place.train(run, more).trained().err.contains(note);
    assert!(says("headless", &["--data", "readers"]));
    assert!(!says("with", &["--data", "readers", "--set", "model.empty_head=true"]));
    assert!(!says("full", &["--data", "set"]), "no mask is empty");
    let paper = ["--data", "readers", "--set", "assignment.space=embedding"];
    assert!(!says("paper", &paper), "it cannot have the head");
}

#[test]
fn readers_who_all_say_the_same_collapse_the_codebook_without_harm() {
    let place = Workplace::with_recipe();
    for case in 0..12u8 {
        let mask: Vec<u8> = (0..=255).map(|at| if at < 64 { 255 } else { 0 }).collect();
        place.png(&format!("set/{case}/image.png"), 16, &(0..=255).map(|v: u8| v ^ case).collect::<Vec<_>>());
        // One, three or seven readers.
        for reader in 0..[1, 3, 7][usize::from(case) % 3] {
            place.png(&format!("set/{case}/label{reader}.png"), 16, &mask);
        }
    }
    let said = place.run(&["validate", "set"]).succeeds().out;
    assert!(said.contains("4 with 1, 4 with 3, 4 with 7"), "{said}");
    let sets = ["--data", "set", "--set", "train.steps=200", "--set", "assignment.anneal_until=0.1"];
    let said = place.train("run", &sets).trained();
    let page = fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(said.err.contains("collapsed") && page.contains("codebook has collapsed"), "{}", said.err);
}

#[test]
fn a_short_list_stands_for_all_hypotheses() {
    let place = Workplace::new();
    let model = model("shapes").to_str().unwrap().to_owned();
    place.run(&["generate", "shapes", "--size", "64", "--count", "test=1", "--out", "set"]).succeeds();
    let image = "set/images/shapes-test-00000.png";
    let slice = |out: &str, options: &[&str]| -> serde_json::Value {
        let said = place.run(&[&["predict", &model, image, "--out", out], options].concat()).succeeds().out;
        assert_eq!(said.contains("GED between the short lists and all"), !options.is_empty(), "{said}");
        let text = fs::read_to_string(place.path(out).join("shapes-test-00000/prediction.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["slices"][0].clone()
    };
    let count = |slice: &serde_json::Value| slice["hypotheses"].as_array().unwrap().len();
    let all = slice("all", &[]);
    assert!(count(&all) > 2 && all["list_loss"].is_null(), "{all}");
    let two = slice("two", &["--list", "2"]);
    assert!(count(&two) <= 2 && two["list_loss"].as_f64().unwrap() >= 0.0, "{two}");
    assert_eq!(two["dropped_probability"], 0.0);
    let sum = |slice: &serde_json::Value| -> f64 {
        slice["hypotheses"].as_array().unwrap().iter().map(|one| one["probability"].as_f64().unwrap()).sum()
    };
    assert!((sum(&two) - 1.0).abs() < 1e-5 && !place.path("two/shapes-test-00000/hypothesis-3.png").exists());
    let whole = slice("whole", &["--list", "99"]);
    assert_eq!((&whole["hypotheses"], &whole["list_loss"]), (&all["hypotheses"], &serde_json::json!(0.0)));
    assert_eq!(slice("equal", &["--merge", "1"])["hypotheses"], all["hypotheses"]);
    assert!(count(&slice("merged", &["--merge", "0.5"])) < count(&all));
    for more in [&["--top", "1"][..], &["--coverage", "0.5"], &["--merge", "0.5"]] {
        let options = [&["predict", &model, image, "--list", "2", "--out", "x"], more].concat();
        place.run(&options).fails(2, &["--list", "cannot be used with", more[0]]);
    }
    place.run(&["predict", &model, image, "--merge", "0", "--out", "x"]).fails(2, &["--merge", "above 0"]);
    place.run(&["predict", &model, image, "--list", "0", "--out", "x"]).fails(2, &["--list"]);
}

#[test]
fn sets_are_calibrated_and_kept() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.run(&["generate", "shapes", "--size", "16", "--count", "test=2", "--out", "set"]).succeeds();
    let image = "set/images/shapes-test-00000.png";
    place
        .run(&["predict", "run", image, "--coverage", "0.6", "--out", "x"])
        .fails(2, &["not calibrated", "multivalued calibrate run --coverage 0.6"]);
    let said = place.run(&["calibrate", "run", "--coverage", "0.6"]).succeeds().out;
    assert!(said.contains("4 cases of validation") && said.contains("measured on test"), "{said}");
    place.run(&["calibrate", "run", "--coverage", "0.5", "--data", "set", "--split", "test"]).succeeds();
    place.run(&["predict", "run", image, "--coverage", "0.6", "--out", "said"]).succeeds();
    // A model's folder predicts by itself.
    place.run(&["predict", "run/best", image, "--out", "said-too"]).succeeds();
    place.run(&["calibrate", "run", "--coverage", "1.5"]).fails(2, &["1.5", "--coverage", "between 0 and 1"]);
    place.run(&["generate", "shapes", "--size", "16", "--count", "one=1", "--out", "one"]).succeeds();
    place
        .run(&["calibrate", "run", "--data", "one", "--split", "one"])
        .fails(2, &["the part 'one'", "0.9 needs at least 9 calibration cases, not 1", "at most 0.5"]);
    // What an earlier program wrote for two cases.
    place.write("run/coverage.json", "[{\"level\": 0.9, \"mass\": 2.0, \"cases\": 2}]");
    place
        .run(&["predict", "run", image, "--coverage", "0.9", "--out", "x"])
        .fails(2, &["coverage.json", "at least 9 calibration cases, not 2"]);
    place.run(&["calibrate", "run", "--split", "none"]).fails(2, &["no part 'none'"]);
}

#[test]
fn the_machine_is_measured() {
    let place = Workplace::with_recipe();
    let said = place.run(&["bench", "tiny.toml", "--steps", "2"]).succeeds().out;
    for part in ["GFLOP/s", "training step", "ms an image"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("conv 3x3"), "only where they are asked for: {said}");
    let listed = place.run(&["bench", "tiny.toml", "--steps", "1", "--ops"]).succeeds().out;
    for part in ["operation ", "parameters", "conv 3x3", " -> [", "resize", "backward ms", " operations"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    for part in ["kept MiB", "alive MiB", "memory by the plan", "memory held"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
}

/// Every operand of an exported step comes from an operation before it, from a parameter, or from outside.
#[test]
fn a_step_is_exported_as_a_graph() {
    let place = Workplace::with_recipe();
    let said = place.run(&["bench", "tiny.toml", "--steps", "1", "--json", "-"]).succeeds().out;
    let found: serde_json::Value = serde_json::from_str(&said).unwrap();
    let operations = found["step"]["operations"].as_array().unwrap();
    let operands = |of: &serde_json::Value| of["operands"].as_array().unwrap().clone();
    let mut parameters = BTreeSet::new();
    for (number, operation) in operations.iter().enumerate() {
        for operand in operands(operation) {
            parameters.extend(operand["parameter"].as_str().map(str::to_owned));
            if let Some(from) = operand["operation"].as_u64() {
                let from = usize::try_from(from).unwrap();
                assert!(from < number, "{operation:#}");
                assert_eq!(operations[from]["result"], operand["shape"], "{operation:#}");
            }
        }
    }
    let convolution = operations.iter().find(|operation| operation["name"] == "conv 3x3 + bias").unwrap();
    let names: Vec<_> =
        operands(convolution).iter().map(|of| of["parameter"].as_str().map(str::to_owned)).collect();
    assert!(
        names[0].is_none() && names[1].as_ref().is_some_and(|name| name.ends_with("weight")),
        "{names:?}"
    );
    assert!(parameters.len() > 20, "{parameters:?}");
    for key in ["planned_forward_bytes", "planned_backward_bytes", "held_bytes"] {
        assert!(found["step"][key].as_u64().unwrap() > 0, "{key}");
    }
    place.run(&["bench", "tiny.toml", "--steps", "1", "--json", "nowhere/step.json"]).fails(2, &["nowhere"]);
}
