//! Baselines by the same commands, models that are handed on, and figures of several runs.

use std::fs;

use multivalued_data::report::Report;

use crate::workplace::Workplace;

const PROBABILISTIC: [&str; 6] = [
    "--set",
    "method.kind=probabilistic-unet",
    "--set",
    "train.annotations=1",
    "--set",
    "predict.samples=20",
];

#[test]
fn a_baseline_is_trained_scored_predicted_and_resumed_like_the_method() {
    let place = Workplace::with_recipe();
    let said = place.train("prob", &PROBABILISTIC).trained();
    assert!(said.err.contains("divergence") && !said.err.contains("codes"), "{}", said.err);
    for part in
        ["ged_4", "ged_16", "ged_32", "ged_50", "ged_100", "ged_limit", "GED from n draws is too high"]
    {
        assert!(said.out.contains(part), "{}", said.out);
    }
    let scores = Report::read(&place.path("prob/report.json")).unwrap().summary.scores;
    let inflated = scores.diversity_outputs / 19.0;
    assert!((scores.ged_exact - scores.ged_limit - inflated).abs() < 1e-9, "{scores:?}");
    let page = fs::read_to_string(place.path("prob/report.html")).unwrap();
    assert!(page.contains("GED from n draws is too high") && !page.contains("Codes in use"));
    assert_eq!(page.contains("GED in the limit of many draws"), inflated > 0.0);

    // Interrupted in the middle and taken up again it is the same run.
    let halves = [&PROBABILISTIC[..], &["--save-every", "0"]].concat();
    place.train("again", &halves).trained();
    let model = |run: &str| fs::read(place.path(run).join("last/model.safetensors")).unwrap();
    assert_eq!(model("prob"), model("again"));
    place.run(&["train", "--resume", "--out", "prob"]).trained();
    let said = place.run(&["inspect", "prob"]).succeeds().out;
    assert!(said.contains("Probabilistic U-Net, 20 samples"), "{said}");

    place.train("unet", &["--set", "method.kind=unet"]).trained();
    let scores = Report::read(&place.path("unet/report.json")).unwrap().summary.scores;
    assert_eq!((scores.n_x, scores.ged_limit), (1.0, scores.ged_exact));
    place.train("x", &["--set", "method.kind=vnet"]).fails(2, &["method.kind", "probabilistic-unet"]);

    place.train("own", &[]).trained();
    let table = place.run(&["compare", "own", "prob", "unet", "--figures", "figures"]).succeeds().out;
    assert!(table.contains("ged_limit") && table.contains("method.kind"), "{table}");
    let (_, errors) = table.split_once("\nmode_ece ").expect("a calibration error");
    assert!(errors.lines().nth(1).unwrap().starts_with("  by chance alone"), "{table}");
    let figure = |name: &str| fs::read_to_string(place.path("figures").join(name)).unwrap();
    let lines = |name: &str| figure(name).matches("<polyline").count();
    assert_eq!(lines("validation-ged.svg"), 3, "every method");
    assert_eq!((lines("used-codes.svg"), lines("mean-inner-product.svg")), (1, 1), "the one with codes");
    assert_eq!(figure("image-ged.svg").matches("class=\"mean\"").count(), 3, "a column for each");
    let table = place.run(&["compare", "own", "prob", "unet", "--markdown"]).succeeds().out;
    let cells: Vec<Vec<&str>> = table.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    assert_eq!(cells.len(), 5, "{table}");
    assert!(cells.iter().all(|row| row.len() == cells[0].len()), "{table}");
    let column = |name: &str| cells[0].iter().position(|cell| *cell == name).unwrap();
    assert_eq!(
        (cells[2][column("run")], cells[2][column("seed")], cells[2][column("steps")]),
        ("own", "1", "40")
    );
    let limit: f64 = cells[4][column("ged_limit")].parse().unwrap();
    assert!((limit - scores.ged_limit).abs() < 1e-4 && cells[4][column("time")].ends_with(" s"), "{table}");
    fs::remove_file(place.path("unet/log.jsonl")).unwrap();
    let table = place.run(&["compare", "own", "unet", "--markdown"]).succeeds().out;
    assert!(table.contains("| unet | - | - | - | - | - |"), "{table}");
    place.run(&["compare", "own", "unet", "--figures", "figures"]).fails(2, &["unet", "log.jsonl"]);
}

#[test]
fn a_model_is_handed_on_and_taken_in_place_of_a_run() {
    let place = Workplace::with_recipe();
    place
        .run(&["generate", "shapes", "--size", "16", "--count", "train=24,test=6", "--out", "set"])
        .succeeds();
    place.train("run", &["--data", "set"]).trained();
    place.run(&["calibrate", "run", "--coverage", "0.6"]).succeeds();
    place.run(&["export", "run", "--out", "x"]).fails(2, &["--attribution", "licence"]);
    let export = ["export", "run", "--out", "models/mine", "--attribution", "Nobody's, CC0"];
    place.run(&export).succeeds();
    place.run(&export).fails(2, &["models/mine", "not empty"]);

    let file = |name: &str| fs::read(place.path("models/mine").join(name)).unwrap();
    let machine = place.root().to_string_lossy().into_owned();
    for name in ["README.md", "recipe.toml", "report.json", "coverage.json", "model.safetensors"] {
        assert!(!String::from_utf8_lossy(&file(name)).contains(&machine), "{name} tells of this machine");
    }
    let card = String::from_utf8(file("README.md")).unwrap();
    for part in [
        "Nobody's, CC0",
        "Not a medical device",
        "| `ged_exact` |",
        "seed 1",
        "# mine",
        "| expects | images of 16x16 pixels",
    ] {
        assert!(card.contains(part), "{card} lacks {part}");
    }
    let best = fs::metadata(place.path("run/best/model.safetensors")).unwrap().len() as usize;
    assert!(file("model.safetensors").len() < best * 3 / 4, "f16 against {best} bytes of f32");

    let image = "set/images/shapes-test-00000.png";
    let answer =
        place.run(&["predict", "models/mine", image, "--coverage", "0.6", "--out", "said"]).succeeds();
    assert!(!answer.err.contains("warning"), "{}", answer.err);
    assert!(place.path("said/shapes-test-00000/hypothesis-1.png").exists());
    place.run(&["evaluate", "models/mine"]).fails(2, &["carries no data", "--data"]);
    let own = Report::read(&place.path("run/report.json")).unwrap().summary.scores.ged_exact;
    place.run(&["evaluate", "models/mine", "--data", "set", "--json", "scores.json"]).succeeds();
    let rounded = Report::read(&place.path("scores.json")).unwrap().summary.scores.ged_exact;
    assert!((own - rounded).abs() < 0.02, "f16 changes little: {own}, {rounded}");
    assert_eq!(Report::read(&place.path("models/mine/report.json")).unwrap().summary.scores.ged_exact, own);
    place.run(&["inspect", "models/mine"]).fails(2, &["--data"]);
    let said = place.run(&["inspect", "models/mine", "--data", "set"]).succeeds().out;
    assert!(said.contains("codes that take part") && said.contains("mean probability"), "{said}");
    place.run(&["compare", "run", "models/mine"]).succeeds();
    place.run(&["train", "--resume", "--out", "models/mine"]).fails(2, &["models/mine", "handed on"]);

    // A synthetic task needs no attribution, and a model of it scores itself without touching its folder.
    place.train("task", &[]).trained();
    place.run(&["export", "task", "--out", "models/task"]).succeeds();
    place.run(&["evaluate", "models/task"]).succeeds();
    assert!(!place.path("models/task/report.html").exists());

    // The fingerprint says what is unlike the training data; without it nothing is said, damaged it is an error.
    assert!(!String::from_utf8(file("fingerprint.json")).unwrap().contains("reader"), "raters stay at home");
    place.png("large.png", 48, &[7; 48 * 48]);
    let warned = |out: &str| {
        let answer = place.run(&["predict", "models/mine", "large.png", "--out", out]).succeeds();
        let text = fs::read_to_string(place.path(out).join("large/prediction.json")).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let listed = document["warnings"].as_array().unwrap().len();
        (answer.err.contains("warning: large.png: unlike the training data"), listed > 0)
    };
    assert_eq!(warned("unlike"), (true, true));
    fs::remove_file(place.path("models/mine/fingerprint.json")).unwrap();
    assert_eq!(warned("unknown"), (false, false));
    place.write("models/mine/fingerprint.json", "{}");
    place.run(&["predict", "models/mine", image, "--out", "z"]).fails(2, &["fingerprint.json", "remove it"]);
    fs::remove_file(place.path("models/mine/fingerprint.json")).unwrap();

    let weights = place.path("models/mine/model.safetensors");
    fs::write(&weights, &file("model.safetensors")[..1000]).unwrap();
    place.run(&["predict", "models/mine", image, "--out", "y"]).fails(2, &["model.safetensors", "B3SUMS"]);
    fs::remove_file(place.path("models/mine/B3SUMS")).unwrap();
    place.run(&["predict", "models/mine", image, "--out", "y"]).fails(2, &["model.safetensors", "complete"]);
}

#[test]
fn several_views_of_an_image_are_averaged_where_they_are_asked_for() {
    let place = Workplace::with_recipe();
    // Steps enough for outputs that are not all empty; probabilities as they are, since they would be fitted to
    // the views that the recipe says.
    let once = ["flip_horizontal=0.5", "rotation=10"].map(|change| format!("augment.{change}"));
    let once = [&once[0], &once[1], "train.steps=200", "predict.calibrate=false"];
    let once: Vec<&str> = once.iter().flat_map(|change| ["--set", *change]).collect();
    place.train("run", &once).trained();
    let report = || fs::read(place.path("run/report.json")).unwrap();
    let own = report();
    let ged = |json: &str| Report::read(&place.path(json)).unwrap().summary.scores.ged_exact;
    for views in ["1", "4"] {
        place.run(&["evaluate", "run", "--views", views, "--json", &format!("{views}.json")]).succeeds();
    }
    assert_eq!(ged("1.json"), ged("run/report.json"));
    assert_ne!(ged("4.json"), ged("1.json"));
    assert_eq!(report(), own, "a run's report is of its own views");
    place.run(&["evaluate", "run", "--views", "0"]).fails(2, &["predict.views", "1 to 16"]);

    place.run(&["generate", "shapes", "--size", "16", "--count", "test=1", "--out", "set"]).succeeds();
    place.run(&["predict", "run", "set/images", "--out", "once"]).succeeds();
    place.run(&["predict", "run", "set/images", "--views", "8", "--out", "asked"]).succeeds();
    // A run that was told so looks eight times by itself.
    place.train("eight", &[&once[..], &["--set", "predict.views=8"]].concat()).trained();
    place.run(&["predict", "eight", "set/images", "--out", "told"]).succeeds();
    let said = |out: &str| {
        let text = fs::read(place.path(out).join("shapes-test-00000/prediction.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()["slices"].clone()
    };
    assert_eq!(said("asked"), said("told"));
    assert_ne!(said("asked"), said("once"));

    place.train("unet", &["--set", "method.kind=unet"]).trained();
    place.run(&["evaluate", "unet", "--views", "2"]).fails(2, &["predict.views", "baseline"]);
}
