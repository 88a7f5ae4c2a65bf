//! Names that are odd but allowed work, and those that cannot work are told.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::workplace::{Answer, Workplace};

#[test]
fn odd_names_of_cases_work_from_training_to_prediction() {
    let place = Workplace::with_recipe();
    let names = [
        "plain",
        "with space",
        "Größe-画像",
        "new\nline",
        "-dash",
        "quote'\"<b>",
        "Case",
        "case",
        "100%",
        "a;b",
    ];
    for (at, name) in names.iter().enumerate() {
        let pixels: Vec<u8> = (0..=255).map(|v: u8| v.wrapping_mul(at as u8 + 1)).collect();
        let mask: Vec<u8> = (0..=255).map(|v| if v < 40 + at as u8 { 255 } else { 0 }).collect();
        place.png(&format!("my set/{name}/image.png"), 16, &pixels);
        place.png(&format!("my set/{name}/label0.png"), 16, &mask);
        place.png(&format!("images/{name}.png"), 16, &pixels);
    }
    place.run(&["validate", "my set"]).succeeds();
    place.train("my run", &["--data", "my set"]).trained();
    place.run(&["evaluate", "my run", "--data", "my set"]).succeeds();
    place.run(&["inspect", "my run"]).succeeds();
    place.run(&["predict", "my run", "images", "--out", "said"]).succeeds();
    for name in names {
        assert!(place.path("said").join(name).join("prediction.json").exists(), "{name:?}");
    }
    // A name that begins like an option, as an argument.
    fs::copy(place.path("images/plain.png"), place.path("-dash.png")).unwrap();
    place.run(&["predict", "--out", "dashed", "--", "my run", "-dash.png"]).succeeds();
    let page = fs::read_to_string(place.path("my run/report.html")).unwrap();
    assert!(!page.contains("<b>.png") && !page.contains("\"<b>"), "no name becomes markup");
}

#[test]
fn names_that_are_no_text_are_told_or_work() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.png("set/a/image.png", 16, &[7; 256]);
    place.png("set/a/label0.png", 16, &[0; 256]);
    let odd = OsStr::from_bytes(b"b\xff.png");
    fs::copy(place.path("set/a/image.png"), place.root().join(odd)).unwrap();
    fs::copy(place.path("set/a/image.png"), place.path("set/a").join(odd)).unwrap();
    let listed = place.run(&["validate", "set"]).fails(1, &["1 fault"]).out;
    assert!(listed.contains("not UTF-8") && listed.contains("rename"), "{listed}");
    place.train("new", &["--data", "set"]).fails(2, &["not UTF-8", "rename"]);
    let output = place.command(&["predict", "run", "--out", "said"]).arg(odd).output().unwrap();
    Answer::of(&["predict a name that is no text"], &output).succeeds();
    let folder = OsStr::from_bytes(b"set\xff");
    fs::rename(place.path("set"), place.root().join(folder)).unwrap();
    let output =
        place.command(&["train", "tiny.toml", "--out", "new", "--data"]).arg(folder).output().unwrap();
    Answer::of(&["train on a name that is no text"], &output).fails(2, &["not UTF-8"]);
}

#[test]
fn names_that_are_too_long_and_links_that_lead_nowhere_are_told() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let long = "a".repeat(300);
    for arguments in [
        &["validate", long.as_str()][..],
        &["evaluate", &long],
        &["predict", "run", &long, "--out", "x"],
        &["predict", "run", "tiny.toml", "--out", &long],
        &["train", "tiny.toml", "--out", &long],
        &["generate", "shapes", "--out", &long],
        &["evaluate", "run", "--json", &long],
    ] {
        place.run(arguments).fails(2, &["aaaaaaaa"]);
    }
    place.png("set/a/image.png", 16, &[7; 256]);
    place.png("set/a/label0.png", 16, &[0; 256]);
    std::os::unix::fs::symlink("../a", place.path("set/a/again")).unwrap();
    let listed = place.run(&["validate", "set"]).fails(1, &["1 fault"]).out;
    assert!(listed.contains("set/a/again: links back"), "{listed}");
    fs::remove_file(place.path("set/a/again")).unwrap();
    std::os::unix::fs::symlink("nowhere.png", place.path("set/a/label1.png")).unwrap();
    assert!(place.run(&["validate", "set"]).fails(1, &["1 fault"]).out.contains("label1.png"));
    std::os::unix::fs::symlink("loop.png", place.path("loop.png")).unwrap();
    let answer = place.run(&["predict", "run", "loop.png", "--out", "x"]);
    assert!([2, 74].contains(&answer.code) && answer.err.contains("loop.png"), "{}", answer.err);
}

#[test]
fn links_into_each_other_do_not_multiply_the_work() {
    let place = Workplace::new();
    place.png("set/a/image.png", 16, &[7; 256]);
    place.png("set/a/label0.png", 16, &[0; 256]);
    // Each of forty folders links to the next one twice: two to the power of forty ways to the last.
    for at in 0..40 {
        fs::create_dir(place.path(&format!("set/n{at}"))).unwrap();
        for link in ["left", "right"] {
            let target = format!("../n{}", at + 1);
            std::os::unix::fs::symlink(target, place.path(&format!("set/n{at}/{link}"))).unwrap();
        }
    }
    fs::create_dir(place.path("set/n40")).unwrap();
    let start = std::time::Instant::now();
    let listed = place.run(&["validate", "set"]).fails(1, &["faults"]).out;
    assert!(listed.contains("is the same folder as") && listed.contains("cases            1"), "{listed}");
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    // One way to a folder is enough, wherever it lies.
    fs::create_dir(place.path("linked")).unwrap();
    std::os::unix::fs::symlink("../set/a", place.path("linked/b")).unwrap();
    place.run(&["validate", "linked"]).succeeds();
}

#[test]
fn a_file_in_the_place_of_a_folder_is_told_and_the_other_way_round() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.write("file", "x");
    fs::create_dir(place.path("folder")).unwrap();
    for (arguments, part) in [
        (&["train", "tiny.toml", "--out", "file"][..], "file"),
        (&["train", "folder", "--out", "new"], "no such recipe"),
        (&["train", "--resume", "--out", "file"], "is no run"),
        (&["train", "--resume", "--out", "folder"], "is no run"),
        (&["generate", "shapes", "--out", "file"], "file"),
        (&["predict", "run", "tiny.toml", "--out", "file"], "file"),
        (&["predict", "folder", "tiny.toml", "--out", "new"], "is no run"),
        (&["predict", "run", "folder", "--out", "new"], "holds no images"),
        (&["evaluate", "file"], "is no run"),
        (&["evaluate", "run", "--json", "folder"], "where a file is wanted"),
        (&["evaluate", "run", "--json", "nowhere/a.json"], "no such folder"),
        (&["evaluate", "run", "--html", "file/a.html"], "no such folder"),
        (&["evaluate", "run", "--data", "folder"], "holds no image files"),
        (&["calibrate", "folder"], "is no run"),
        (&["inspect", "file"], "is no run"),
        (&["compare", "folder", "run"], "is no run"),
        (&["man", "--out", "file"], "in the way"),
        (&["bench", "folder"], "no such recipe"),
        (&["validate", "folder"], "holds no image files"),
    ] {
        place.run(arguments).fails(2, &[part]);
    }
    // A folder where a file of the run belongs.
    for file in ["report.json", "recipe.toml", "log.jsonl"] {
        let (path, away) = (place.path("run").join(file), place.path("away"));
        fs::rename(&path, &away).unwrap();
        fs::create_dir(&path).unwrap();
        for arguments in [&["compare", "run"][..], &["evaluate", "run"], &["inspect", "run"]] {
            let answer = place.run(arguments);
            assert!([0, 2].contains(&answer.code), "{arguments:?} {file}: {} {}", answer.code, answer.err);
        }
        fs::remove_dir(&path).unwrap();
        fs::rename(away, path).unwrap();
    }
}
