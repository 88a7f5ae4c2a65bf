//! Cross-validations and mixtures: every case scored by a model that did not see it, several models as one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use multivalued_data::report::Report;

use crate::workplace::{Answer, Workplace};

impl Workplace {
    /// Twelve patients with two images each, and a second data set of one patient.
    fn with_patients() -> Self {
        let place = Self::with_recipe();
        for (set, patients) in [("set", 12), ("other", 1)] {
            for at in 0..2 * patients {
                let (patient, image) = (at / 2, at % 2);
                let size = 3 + at % 5;
                let inside = |k: usize, wide: usize| k % 16 < wide && k / 16 < size;
                let draw =
                    |wide: usize| -> Vec<u8> { (0..256).map(|k| 255 * u8::from(inside(k, wide))).collect() };
                let picture: Vec<u8> =
                    (0..256).map(|k| 40 + (k * 7 % 13) as u8 + 120 * u8::from(inside(k, 8))).collect();
                let folder = format!("{set}/p{patient:02}-{image}");
                self::draw(&place, &folder, &picture, &[draw(8), draw(5)]);
            }
        }
        place
    }

    /// Trains so many folds into `run`.
    fn folds(&self, run: &str, count: &str, more: &[&str]) -> Answer {
        let folds = ["--data", "set", "--group-by", "^(p[0-9]+)", "--folds", count];
        self.train(run, &[&folds, more].concat())
    }

    fn report(&self, path: &str) -> Report {
        Report::read(&self.path(path)).unwrap()
    }
}

fn draw(place: &Workplace, folder: &str, picture: &[u8], masks: &[Vec<u8>; 2]) {
    place.png(&format!("{folder}/image.png"), 16, picture);
    for (at, mask) in masks.iter().enumerate() {
        place.png(&format!("{folder}/label{at}.png"), 16, mask);
    }
}

#[test]
fn folds_score_every_case_once_and_predict_together() {
    let place = Workplace::with_patients();
    let said = place.folds("run", "3", &[]).trained();
    assert!(
        said.out.contains("fold 3 of 3: GED") && said.out.contains("split folds: 24 cases"),
        "{}",
        said.out
    );
    let pooled = place.report("run/report.json");
    assert_eq!((pooled.summary.cases, pooled.summary.groups), (24, 12));
    assert!(pooled.intervals_by_group.is_some());
    // The pooled rows are the rows of the folds' own reports.
    let mut patients = BTreeSet::new();
    for fold in 1..=3 {
        let own = place.report(&format!("run/fold-{fold}/report.json"));
        for row in &own.images {
            let same = pooled.images.iter().find(|one| one.id == row.id).unwrap();
            assert_eq!(same.scores, row.scores, "{} of fold {fold}", row.id);
        }
        let groups: BTreeSet<String> = own.images.iter().map(|row| row.group.clone()).collect();
        assert!(
            groups.iter().all(|group| patients.insert(group.clone())),
            "{groups:?} are in another fold too"
        );
    }
    assert_eq!(patients.len(), 12);
    for file in ["recipe.toml", "report.html", "verdict.json", "mixture.json", "sheets/worst.png"] {
        assert!(place.path("run").join(file).exists(), "{file}");
    }
    let recipe = |of: &str| fs::read_to_string(place.path(of).join("recipe.toml")).unwrap();
    assert!(recipe("run").contains("folds = 3\nfold = 0\n") && recipe("run/fold-2").contains("\nfold = 2\n"));

    // The run is a model of its three: by its own data as they were pooled, by others together.
    let before = fs::read(place.path("run/report.json")).unwrap();
    place.run(&["evaluate", "run"]).succeeds();
    place.run(&["evaluate", "run", "--data", "set", "--json", "again.json"]).succeeds();
    assert_eq!(fs::read(place.path("run/report.json")).unwrap(), before);
    assert_eq!(fs::read(place.path("again.json")).unwrap(), before);
    place.run(&["evaluate", "run", "--split", "test"]).fails(2, &["no part 'test'", "there are folds"]);
    let mixed = |model: &str, out: &str| {
        place.run(&["evaluate", model, "--data", "other", "--json", out]).succeeds();
        place.report(out).summary.scores.ged_exact
    };
    let together = mixed("run", "together.json");
    let alone = (1..=3).map(|fold| mixed(&format!("run/fold-{fold}"), "alone.json")).sum::<f64>() / 3.0;
    // Merging at 0.99 may change a little.
    assert!(together <= alone + 0.01, "{together}, {alone}");
    place.run(&["predict", "run", "other/p00-0/image.png", "--out", "said"]).succeeds();
    assert!(place.path("said/image/hypothesis-1.png").exists());
    let said = place.run(&["inspect", "run"]).succeeds().out;
    assert!(said.contains("3 models that predict together"), "{said}");
    let said = place.run(&["calibrate", "run", "--coverage", "0.6"]).succeeds().out;
    assert!(said.contains("24 cases of folds"), "{said}");
    place.run(&["predict", "run", "other/p00-0/image.png", "--coverage", "0.6", "--out", "sure"]).succeeds();

    // Handed on it is the same, and its own data are still scored fold by fold.
    place.run(&["export", "run", "--out", "model", "--attribution", "Nobody's"]).succeeds();
    let card = fs::read_to_string(place.path("model/README.md")).unwrap();
    assert!(
        card.contains("3 that predict together") && card.contains("\nCross-validation: 24 images"),
        "{card}"
    );
    assert!((mixed("model", "handed-on.json") - together).abs() < 0.02);
    let said = place.run(&["evaluate", "model", "--data", "set"]).succeeds().out;
    assert!(said.contains("split folds: 24 cases"), "{said}");
    for file in ["model/mixture.json", "model/recipe.toml", "model/member-1/recipe.toml"] {
        let text = fs::read_to_string(place.path(file)).unwrap();
        assert!(!text.contains(&*place.root().to_string_lossy()), "{file} tells of this machine: {text}");
    }
    place.run(&["train", "--resume", "--out", "model"]).fails(2, &["model", "handed on"]);
}

#[test]
fn folds_go_on_where_they_were_and_end_the_same() {
    let place = Workplace::with_patients();
    place.folds("whole", "3", &[]).trained();
    place.folds("torn", "3", &[]).trained();
    // As if the second fold had been killed at its start, and the third never begun.
    for gone in ["torn/fold-3", "torn/fold-2/last", "torn/fold-2/best"] {
        fs::remove_dir_all(place.path(gone)).unwrap();
    }
    for gone in ["torn/fold-2/report.json", "torn/report.json", "torn/mixture.json"] {
        fs::remove_file(place.path(gone)).unwrap();
    }
    let untouched = fs::metadata(place.path("torn/fold-1/last")).unwrap().modified().unwrap();
    place.run(&["predict", "torn", "set/p00-0/image.png", "--out", "x"]).fails(2, &["torn", "--resume"]);
    place.run(&["train", "--resume", "--out", "torn", "--folds", "4"]).fails(2, &["--folds 3, not 4"]);
    let said = place.run(&["train", "--resume", "--out", "torn"]).trained();
    assert!(said.err.contains("fold 1 of 3: finished before"), "{}", said.err);
    assert!(!said.err.contains("fold 2 of 3: finished"), "{}", said.err);
    assert_eq!(fs::metadata(place.path("torn/fold-1/last")).unwrap().modified().unwrap(), untouched);
    for file in ["report.json", "fold-2/best/model.safetensors", "fold-3/best/model.safetensors"] {
        let read = |run: &str| fs::read(place.path(run).join(file)).unwrap();
        assert_eq!(read("torn"), read("whole"), "{file}");
    }
    place.folds("whole", "3", &[]).fails(2, &["holds a run already"]);
}

#[cfg(unix)]
#[test]
fn a_signal_in_a_later_fold_saves_it() {
    use crate::interruption::{log, send, start, wait_until};
    let place = Workplace::with_patients();
    let arguments = ["train", "tiny.toml", "--data", "set", "--folds", "2", "--out", "run"];
    let long = [&arguments[..], &["--set", "train.steps=400", "--set", "train.validate_every=50"]].concat();
    let child = start(&place, &long);
    wait_until(|| log(&place, "run/fold-2").lines().count() >= 3);
    send("-TERM", &child);
    let answer = Answer::of(&long, &child.wait_with_output().unwrap());
    answer.fails(75, &["interrupted: run: saved in fold 2 of 2", "--resume --out run"]);
    assert!(place.path("run/fold-2/last/state.json").exists());
    let said = place.run(&["train", "--resume", "--out", "run"]).trained();
    assert!(said.err.contains("fold 1 of 2: finished before"), "{}", said.err);
    assert_eq!(place.report("run/report.json").summary.cases, 24);
}

#[test]
fn folds_that_cannot_be_are_refused_before_anything_is_written() {
    let place = Workplace::with_patients();
    place.folds("run", "13", &[]).fails(2, &["data.folds", "13 groups", "the data have 12", "--group-by"]);
    place.folds("run", "1", &[]).fails(2, &["--folds", "2 to 64"]);
    assert!(!place.path("run/recipe.toml").exists());
    place.train("run", &["--set", "data.folds=1"]).fails(2, &["data.folds", "at least 2"]);
    // A synthetic task has its cases in one pool; a stated split is told of and not used.
    let said = place.train("task", &["--folds", "2", "--set", "train.steps=8"]).trained();
    assert!(said.out.contains("split folds: 40 cases"), "{}", said.out);
    place
        .run(&["generate", "shapes", "--size", "16", "--count", "train=10,test=6", "--out", "made"])
        .succeeds();
    let said = place.train("stated", &["--data", "made", "--folds", "2", "--set", "train.steps=8"]).trained();
    assert!(said.err.contains("the split that the data set states is not used"), "{}", said.err);
    assert!(said.out.contains("split folds: 16 cases"), "{}", said.out);
    // Time is for all of them together.
    let time = ["--folds", "2", "--minutes", "0.04", "--set", "train.warmup_steps=1"];
    place.train("timed", &time).trained();
    let recipe = fs::read_to_string(place.path("timed/fold-1/recipe.toml")).unwrap();
    assert!(recipe.contains("minutes = 0.02\n"), "{recipe}");
}

#[cfg(unix)]
#[test]
fn a_fold_that_is_a_link_is_refused() {
    let place = Workplace::with_patients();
    fs::create_dir_all(place.path("elsewhere")).unwrap();
    fs::create_dir_all(place.path("run")).unwrap();
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("run/fold-1")).unwrap();
    place.folds("run", "3", &[]).fails(2, &["fold-1", "is a link"]);
    assert_eq!(fs::read_dir(place.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn seeds_are_combined_into_one_model() {
    let place = Workplace::with_recipe();
    place.train("one", &[]).trained();
    place.train("two", &["--seed", "2"]).trained();
    place.run(&["combine", "one", "two", "--out", "mixed"]).succeeds();
    place.run(&["combine", "one", "two", "--out", "mixed"]).fails(2, &["mixed", "not empty"]);
    place.run(&["combine", "one", "--out", "x"]).fails(2, &["2"]);
    place
        .run(&["combine", "one", "mixed", "--out", "x"])
        .fails(2, &["mixed", "a mixture of 2 models itself"]);
    place.run(&["combine", "one", "nobody", "--out", "x"]).fails(2, &["nobody", "no such run"]);
    place.run(&["evaluate", "mixed", "--json", "mixed.json"]).succeeds();
    let ged = |report: &str| place.report(report).summary.scores.ged_exact;
    let mean = (ged("one/report.json") + ged("two/report.json")) / 2.0;
    assert!(ged("mixed.json") <= mean + 0.01, "{}, {mean}", ged("mixed.json"));
    assert!(!place.path("mixed/report.json").exists(), "a model that was handed on is not written to");
    // Handed on, its weights are rounded to f16, and it is a mixture of two all the same.
    place.run(&["export", "mixed", "--out", "models/mixed"]).fails(2, &["mixed", "has no report.json"]);
    place.run(&["evaluate", "mixed", "--json", "mixed/report.json"]).succeeds();
    place.run(&["export", "mixed", "--out", "models/mixed"]).succeeds();
    place.run(&["evaluate", "models/mixed", "--json", "handed-on.json"]).succeeds();
    assert!((ged("handed-on.json") - ged("mixed.json")).abs() < 0.01, "{}", ged("handed-on.json"));
    assert!(place.path("models/mixed/member-2/model.safetensors").is_file());
    // Models in place of runs, and members that do not go together.
    place.run(&["export", "one", "--out", "models/one"]).succeeds();
    place.run(&["combine", "models/one", "two", "--out", "also"]).succeeds();
    place
        .run(&["evaluate", "also", "--require", &format!("ged_exact<={}", ged("mixed.json") + 0.02)])
        .succeeds();
    place
        .run(&["train", "tiny.toml", "--set", "method.kind=probabilistic-unet", "--out", "sampler"])
        .trained();
    place
        .run(&["combine", "one", "sampler", "--out", "x"])
        .fails(2, &["member 2 of 2", "samples an image", "must agree"]);
    assert!(!place.path("x").exists());

    // A member that is damaged, missing or a link is named.
    place.run(&["generate", "shapes", "--size", "16", "--count", "test=1", "--out", "set"]).succeeds();
    let predict = ["predict", "mixed", "set/images", "--out", "said"];
    let recipe = place.path("mixed/member-2/recipe.toml");
    let text = fs::read_to_string(&recipe).unwrap();
    fs::write(&recipe, text.replace("input_channels = 1", "input_channels = 3")).unwrap();
    place.run(&predict).fails(2, &["member-2/recipe.toml", "B3SUMS"]);
    fs::write(&recipe, text).unwrap();
    let list = fs::read_to_string(place.path("mixed/mixture.json")).unwrap();
    place.write("mixed/mixture.json", list.replace("member-2", "../two"));
    place.run(&predict).fails(2, &["mixture.json", "without separators"]);
    place.write("mixed/mixture.json", &list);
    fs::rename(place.path("mixed/member-2"), place.path("away")).unwrap();
    place.run(&predict).fails(2, &["member-2", "holds no model"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(place.path("away"), place.path("mixed/member-2")).unwrap();
        place.run(&predict).fails(2, &["member-2", "is a link"]);
        fs::remove_file(place.path("mixed/member-2")).unwrap();
    }
    fs::rename(place.path("away"), place.path("mixed/member-2")).unwrap();
    place.run(&predict).succeeds();
}

#[test]
fn a_mixture_is_scored_on_what_none_of_its_members_has_seen() {
    let place = Workplace::with_patients();
    let data = ["--data", "set", "--group-by", "^(p[0-9]+)", "--set", "data.test_share=0.5"];
    let other_parts = [&data[..], &["--set", "data.seed=2", "--seed", "2"]].concat();
    place.train("one", &data).trained();
    place.train("same", &[&data[..], &["--seed", "2"]].concat()).trained();
    place.train("parts", &other_parts).trained();
    // Long enough that folds differ.
    place.folds("run", "3", &["--set", "train.steps=200"]).trained();
    let ids = |report: &str| -> BTreeSet<String> {
        place.report(report).images.iter().map(|image| image.id.clone()).collect()
    };
    let evaluate = |model: &str| place.run(&["evaluate", model, "--data", "set", "--json", "scores.json"]);

    // The same parts: those of each member.
    let said = place.run(&["combine", "one", "same", "--out", "alike"]).succeeds();
    assert!(said.out.contains("as long as those of all") && !said.err.contains("note"), "{}", said.err);
    let said = evaluate("alike").succeeds();
    assert!(said.out.contains("split test: 12 cases") && !said.err.contains("note"), "{}", said.err);
    // Other parts: what is in the test part of each.
    place.run(&["combine", "one", "parts", "--out", "mixed"]).succeeds();
    let said = evaluate("mixed").succeeds();
    let common: BTreeSet<String> =
        ids("one/report.json").intersection(&ids("parts/report.json")).cloned().collect();
    assert!(!common.is_empty() && common.len() < 12, "{common:?}");
    assert_eq!(ids("scores.json"), common);
    assert!(said.err.contains(&format!("the {} of 24 cases", common.len())), "{}", said.err);
    place.run(&["calibrate", "mixed", "--data", "set"]).fails(2, &["no part 'validation'", "there are test"]);
    // So it stays where it is handed on.
    place.run(&["export", "mixed", "--out", "again"]).fails(2, &["--json mixed/report.json"]);
    place.run(&["evaluate", "mixed", "--data", "set", "--json", "mixed/report.json"]).succeeds();
    place.run(&["export", "mixed", "--out", "again", "--attribution", "nobody's"]).succeeds();
    evaluate("again").succeeds();
    assert_eq!(ids("scores.json"), common);
    // The student's own parts are others than a teacher's.
    let distil = ["--data", "set", "--set", "train.steps=20", "--set", "train.warmup_steps=1"];
    let student = |model: &str, out: &str, more: &[&str]| {
        place.run(&[&["distil", model, "--out", out], &distil[..], more].concat()).trained()
    };
    let said = student("mixed", "student", &[]);
    assert!(said.err.contains("mixed was trained on other parts"), "{}", said.err);
    let said = student("alike", "pupil", &[]);
    assert!(!said.err.contains("on other parts"), "{}", said.err);

    // Folds by themselves, and all of them in any order.
    place.run(&["combine", "run/fold-1", "run/fold-2", "--out", "two"]).succeeds();
    evaluate("two").fails(2, &["two", "different parts of set", "give other data"]);
    let folds = ["run/fold-3", "run/fold-1", "run/fold-2"];
    place.run(&[&["combine"][..], &folds, &["--out", "three"]].concat()).succeeds();
    assert!(evaluate("three").succeeds().out.contains("split folds: 24 cases"));
    // Each by the fold that did not see it; another fold says something else.
    let rows = |report: &str| -> BTreeMap<String, f64> {
        place.report(report).images.into_iter().map(|row| (row.id, row.scores.soft_dice)).collect()
    };
    let (pooled, again) = (rows("run/report.json"), rows("scores.json"));
    assert!(pooled.iter().all(|(id, dice)| (again[id] - dice).abs() < 0.002), "{pooled:?}, {again:?}");
    place.run(&["evaluate", "run/fold-1", "--data", "other", "--json", "one.json"]).succeeds();
    place.run(&["evaluate", "run/fold-2", "--data", "other", "--json", "two.json"]).succeeds();
    let (one, two) = (rows("one.json"), rows("two.json"));
    assert!(one.iter().any(|(id, dice)| (two[id] - dice).abs() > 0.02), "{one:?}, {two:?}");

    // The same files in other groups, and the same parts in another size.
    place.train("nogroup", &["--data", "set", "--set", "data.test_share=0.5", "--seed", "2"]).trained();
    for (members, out) in [(["one", "nogroup"], "mg"), (["nogroup", "one"], "gm")] {
        place.run(&[&["combine"][..], &members, &["--out", out]].concat()).succeeds();
        evaluate(out).succeeds();
        let wanted: BTreeSet<String> =
            ids("one/report.json").intersection(&ids("nogroup/report.json")).cloned().collect();
        assert_eq!(ids("scores.json"), wanted, "{out}");
    }
    place.train("small", &[&data[..], &["--set", "data.resize=[12, 12]"]].concat()).trained();
    place.run(&["combine", "one", "small", "--out", "sizes"]).succeeds();
    let said = evaluate("sizes").succeeds();
    assert!(
        said.out.contains("split test: 12 cases") && !said.err.contains("different parts"),
        "{}",
        said.err
    );
    let said = student("one", "resized", &["--set", "data.resize=[12, 12]"]);
    assert!(!said.err.contains("on other parts"), "{}", said.err);
    let said = student("run/fold-1/best", "of-fold", &[]);
    assert!(said.err.contains("best was trained on other parts"), "{}", said.err);

    // Other data, and one model twice.
    place.train("stranger", &["--seed", "2"]).trained();
    let said = place.run(&["combine", "one", "stranger", "--out", "strange"]).succeeds();
    assert!(said.err.contains("one and stranger were not trained on the same data"), "{}", said.err);
    evaluate("strange").succeeds();
    assert_eq!(ids("scores.json"), ids("one/report.json"));
    place.run(&["combine", "one", "same", "stranger", "--out", "three-known"]).succeeds();
    let said = evaluate("three-known").succeeds();
    assert!(
        said.out.contains("split test: 12 cases") && !said.err.contains("different parts"),
        "{}",
        said.err
    );
    place.run(&["calibrate", "three-known", "--data", "set", "--coverage", "0.5"]).succeeds();
    for name in ["one", "same"] {
        place
            .run(&["export", name, "--out", &format!("bare/{name}"), "--attribution", "nobody's"])
            .succeeds();
        fs::remove_file(place.path("bare").join(name).join("report.json")).unwrap();
    }
    place.run(&["combine", "bare/one", "bare/same", "--out", "unknown"]).succeeds();
    let said = evaluate("unknown").succeeds();
    assert!(said.err.contains("not all members of unknown say"), "{}", said.err);
    place
        .run(&["combine", "one", "same", "one", "--out", "x"])
        .fails(2, &["one: has the same weights as one", "once"]);
}

#[test]
fn a_student_learns_from_its_teacher() {
    let place = Workplace::with_recipe();
    place
        .run(&["generate", "shapes", "--size", "16", "--count", "train=24,val=4,test=4", "--out", "set"])
        .succeeds();
    place.train("one", &[]).trained();
    place.train("two", &["--seed", "2"]).trained();
    place.run(&["combine", "one", "two", "--out", "mixed"]).succeeds();
    let distil = |run: &str, share: &str| {
        place.run(&[
            "distil",
            "mixed",
            "--data",
            "set",
            "--share",
            share,
            "--out",
            run,
            "--set",
            "train.steps=60",
        ])
    };
    let weights = |run: &str| fs::read(place.path(run).join("best/model.safetensors")).unwrap();
    distil("student", "0.9").trained();
    let recipe = fs::read_to_string(place.path("student/recipe.toml")).unwrap();
    assert!(recipe.contains("mixed\"") && recipe.contains("teacher_share = 0.9"), "{recipe}");
    place.run(&["evaluate", "student", "--json", "student.json"]).succeeds();
    // A teacher without weight changes nothing.
    distil("unheard", "0").trained();
    let own = fs::read_to_string(place.path("unheard/recipe.toml")).unwrap();
    let alone: Vec<&str> = own.lines().filter(|line| !line.starts_with("teacher")).collect();
    place.write("alone.toml", alone.join("\n"));
    place.run(&["train", "alone.toml", "--out", "alone"]).trained();
    assert!(weights("alone") == weights("unheard") && weights("alone") != weights("student"));

    place.run(&["train", "--resume", "--out", "student"]).trained();
    distil("x", "1").fails(2, &["train.teacher_share", "1"]);
    place.run(&["distil", "nobody", "--data", "set", "--out", "x"]).fails(2, &["nobody", "no such run"]);
    place
        .run(&["distil", "mixed", "--data", "set", "--cache", "kept", "--out", "x"])
        .fails(2, &["mixed", "cache"]);
    fs::rename(place.path("mixed"), place.path("away")).unwrap();
    place.run(&["train", "--resume", "--out", "student"]).fails(2, &["mixed", "no such run"]);
}

#[test]
fn a_training_starts_from_the_weights_that_fit() {
    let place = Workplace::with_recipe();
    place.train("one", &["--set", "train.steps=200"]).trained();
    // With a rate of nothing the model stays what it started from.
    let still =
        ["--set", "train.learning_rate=1e-10", "--set", "train.steps=8", "--set", "train.weight_average=0"];
    let said = place.train("same", &[&["--from", "one"][..], &still].concat()).trained();
    assert!(said.err.contains("starts from") && !said.err.contains("anew start"), "{}", said.err);
    let ged = |report: &str| place.report(report).summary.scores.ged_exact;
    assert!((ged("same/report.json") - ged("one/report.json")).abs() < 0.03, "{}", ged("same/report.json"));
    place.train("fresh", &still).trained();
    assert!(
        ged("fresh/report.json") > ged("same/report.json") + 0.05,
        "an untrained model says something else"
    );
    // The model is not needed any more, and what differs is named.
    place.run(&["export", "one", "--out", "model"]).succeeds();
    let wider = [&["--from", "model", "--set", "model.channels=[4, 12]"][..], &still].concat();
    let said = place.train("wider", &wider).trained();
    assert!(said.err.contains("; anew start image_encoder.block1"), "{}", said.err);
    fs::rename(place.path("model"), place.path("moved")).unwrap();
    fs::remove_file(place.path("wider/report.json")).unwrap();
    place.run(&["train", "--resume", "--out", "wider"]).trained();
    assert!(place.path("wider/report.json").exists());
    place.train("x", &["--from", "model"]).fails(2, &["model", "no such"]);
    place.run(&["combine", "one", "fresh", "--out", "mixed"]).succeeds();
    place.train("x", &["--from", "mixed"]).fails(2, &["a mixture of 2 models itself"]);
}
