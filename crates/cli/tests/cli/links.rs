//! Links, devices and pipes: nothing is written through a link inside of the program's own folders, and what the
//! user names is written to as it is.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::workplace::{Answer, Workplace};

/// Every name inside of a run that some command writes.
const WRITTEN: [&str; 20] = [
    "run.lock",
    "recipe.toml",
    "log.jsonl",
    "report.json",
    "report.html",
    "coverage.json",
    "fingerprint.json",
    "verdict.json",
    "tensorboard",
    "sheets",
    "sheets/examples.png",
    "sheets/best.png",
    "sheets/worst.png",
    "sheets/codes.png",
    "last",
    "last.new",
    "last.old",
    "best",
    "best.new",
    "best.old",
];

/// Every command that writes into a run.
const WRITERS: [&[&str]; 4] = [
    &["train", "--resume", "--out", "run"],
    &["evaluate", "run"],
    &["calibrate", "run", "--coverage", "0.5"],
    &["inspect", "run"],
];

/// Puts a copy of what is there outside and a link to it in its place, as a folder from elsewhere may have it.
fn plant(place: &Workplace, name: &str) {
    let (path, outside) = (place.path("run").join(name), place.path("outside"));
    let _ = fs::remove_dir_all(&outside);
    fs::create_dir(&outside).unwrap();
    if path.exists() {
        fs::rename(&path, outside.join("target")).unwrap();
    } else if name.contains('.') && !name.ends_with(".new") && !name.ends_with(".old") {
        fs::write(outside.join("target"), "precious").unwrap();
    } else {
        fs::create_dir(outside.join("target")).unwrap();
    }
    symlink(outside.join("target"), path).unwrap();
}

/// All files below a folder with their content.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rest = vec![folder.to_owned()];
    while let Some(path) = rest.pop() {
        if path.is_dir() {
            rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn nothing_is_written_through_a_link_that_was_planted_in_a_run() {
    let place = Workplace::with_recipe();
    place.train("made", &[]).trained();
    place.run(&["calibrate", "made", "--coverage", "0.5"]).succeeds();
    place.run(&["inspect", "made"]).succeeds();
    for name in WRITTEN {
        for writer in WRITERS {
            let _ = fs::remove_dir_all(place.path("run"));
            let copied = Command::new("cp").arg("-r").args([place.path("made"), place.path("run")]).status();
            assert!(copied.unwrap().success());
            plant(&place, name);
            let before = content(&place.path("outside"));
            let answer = place.run(writer);
            assert_eq!(content(&place.path("outside")), before, "{writer:?} wrote through {name}");
            // What is looked at alone writes sheets alone.
            if writer[0] != "inspect" || name == "sheets" || name == "sheets/codes.png" {
                answer.fails(2, &[&format!("run/{name}: is a link"), "Remove the link"]);
            } else {
                answer.succeeds();
            }
        }
    }
    // Names that were predictable once, and are not used any more.
    let _ = fs::remove_dir_all(place.path("run"));
    fs::rename(place.path("made"), place.path("run")).unwrap();
    place.write("precious", "mine");
    for name in
        ["report.json", "report.html", "recipe.toml", "log.jsonl", "coverage.json", "sheets/codes.png"]
    {
        symlink(place.path("precious"), place.path("run").join(format!("{name}.part"))).unwrap();
    }
    for writer in WRITERS {
        place.run(writer).trained();
    }
    assert_eq!(fs::read(place.path("precious")).unwrap(), b"mine");
}

#[test]
fn a_new_training_refuses_a_folder_with_links_and_takes_a_link_as_its_folder() {
    let place = Workplace::with_recipe();
    for name in WRITTEN.into_iter().filter(|name| !name.contains('/')) {
        fs::create_dir_all(place.path("run")).unwrap();
        // Leading nowhere, so that writing through it would make a file.
        symlink(place.path("nowhere"), place.path("run").join(name)).unwrap();
        place.train("run", &[]).fails(2, &[&format!("run/{name}: is a link")]);
        assert!(!place.path("nowhere").exists(), "{name}");
        fs::remove_dir_all(place.path("run")).unwrap();
    }
    fs::create_dir(place.path("disk")).unwrap();
    symlink("disk", place.path("run")).unwrap();
    place.train("run", &[]).trained();
    assert!(place.path("disk/best/state.json").is_file() && place.path("run").is_symlink());
    // A second name of the lock would be written to as well.
    place.write("precious", "mine");
    fs::remove_file(place.path("disk/run.lock")).unwrap();
    fs::hard_link(place.path("precious"), place.path("disk/run.lock")).unwrap();
    place.run(&["evaluate", "run"]).fails(2, &["run.lock", "2 names"]);
    assert_eq!(fs::read(place.path("precious")).unwrap(), b"mine");
}

#[test]
fn folders_that_are_named_may_be_links_and_what_is_made_inside_may_not() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.png("image.png", 16, &[7; 256]);
    for folder in ["far", "elsewhere"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    symlink("far", place.path("out")).unwrap();
    place.run(&["predict", "run", "image.png", "--out", "out"]).succeeds();
    assert!(place.path("far/image/prediction.json").is_file());
    fs::create_dir(place.path("said")).unwrap();
    symlink("../elsewhere", place.path("said/image")).unwrap();
    place.run(&["predict", "run", "image.png", "--out", "said"]).fails(2, &["said/image", "is a link"]);
    assert_eq!(fs::read_dir(place.path("elsewhere")).unwrap().count(), 0);

    place.run(&["compare", "run", "--figures", "out"]).succeeds();
    assert!(place.path("far/image-ged.svg").is_file());
    place.write("precious", "mine");
    fs::remove_file(place.path("far/image-ged.svg")).unwrap();
    symlink("../precious", place.path("far/image-ged.svg")).unwrap();
    place.run(&["compare", "run", "--figures", "out"]).fails(2, &["out/image-ged.svg", "is a link"]);
    symlink("../precious", place.path("far/multivalued.1")).unwrap();
    place.run(&["man", "--out", "out"]).fails(2, &["out/multivalued.1", "is a link"]);
    assert_eq!(fs::read(place.path("precious")).unwrap(), b"mine");

    fs::create_dir(place.path("model")).unwrap();
    symlink("model", place.path("handed")).unwrap();
    place.run(&["export", "run", "--out", "handed"]).succeeds();
    assert!(place.path("model/B3SUMS").is_file());
    fs::create_dir(place.path("set")).unwrap();
    symlink("set", place.path("data")).unwrap();
    place.run(&["generate", "shapes", "--size", "16", "--count", "test=1", "--out", "data"]).succeeds();
    assert!(place.path("set/manifest.jsonl").is_file());
}

/// Ends the program where it hangs.
fn within_20_seconds(place: &Workplace, arguments: &[&str]) -> Answer {
    let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("{arguments:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Answer::of(arguments, &child.wait_with_output().unwrap())
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_document_goes_to_what_the_user_named_and_leaves_it_what_it_was() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let is_report = |bytes: &[u8]| {
        let report: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        assert_eq!(report["format"], "multivalued-report");
    };
    // A file, a link to a file, and a link to nothing yet.
    fs::create_dir(place.path("far")).unwrap();
    place.write("far/old.json", "old");
    place.write("plain.json", "old");
    for (link, target) in [("link.json", "far/old.json"), ("dangling.json", "far/new.json")] {
        symlink(target, place.path(link)).unwrap();
    }
    for name in ["plain.json", "link.json", "dangling.json"] {
        place.run(&["evaluate", "run", "--json", name]).succeeds();
        assert_eq!(place.path(name).is_symlink(), name != "plain.json");
    }
    for name in ["plain.json", "far/old.json", "far/new.json"] {
        is_report(&fs::read(place.path(name)).unwrap());
    }
    assert_eq!(fs::read_dir(place.path("far")).unwrap().count(), 2, "nothing is left beside them");

    // A pipe stays one, and its reader gets the document.
    fifo(&place.path("pipe"));
    let reader = Command::new("cat").arg(place.path("pipe")).stdout(Stdio::piped()).spawn().unwrap();
    place.run(&["evaluate", "run", "--json", "pipe"]).succeeds();
    is_report(&reader.wait_with_output().unwrap().stdout);
    use std::os::unix::fs::FileTypeExt;
    assert!(fs::symlink_metadata(place.path("pipe")).unwrap().file_type().is_fifo());

    // A device of its own, where one may be made: character device 1, 3 takes everything and keeps nothing.
    let made = Command::new("mknod").arg(place.path("null")).args(["c", "1", "3"]).status();
    if made.is_ok_and(|status| status.success()) {
        place.run(&["evaluate", "run", "--json", "null", "--html", "null"]).succeeds();
        assert!(fs::symlink_metadata(place.path("null")).unwrap().file_type().is_char_device());
    }

    // Standard output under all its names; the table steps aside.
    symlink("/dev/stdout", place.path("out")).unwrap();
    for name in ["-", "/dev/stdout", "/dev/fd/1", "out"] {
        let answer = place.run(&["evaluate", "run", "--json", name]).succeeds();
        is_report(answer.out.as_bytes());
        assert!(answer.err.contains("ged_exact"), "{}", answer.err);
    }
    let page = place.run(&["evaluate", "run", "--html", "-"]).succeeds().out;
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"), "{}", &page[..80]);
    place
        .run(&["evaluate", "run", "--json", "-", "--html", "-"])
        .fails(2, &["--json and --html", "takes one"]);
    assert!(!place.path("-").exists());
}

#[test]
fn devices_and_pipes_in_place_of_a_runs_files_are_refused_and_not_waited_for() {
    let place = Workplace::with_recipe();
    place.train("made", &[]).trained();
    for name in ["run.lock", "log.jsonl", "recipe.toml", "last/state.json", "last/model.safetensors"] {
        let _ = fs::remove_dir_all(place.path("run"));
        let copied = Command::new("cp").arg("-r").args([place.path("made"), place.path("run")]).status();
        assert!(copied.unwrap().success());
        let path = place.path("run").join(name);
        fs::remove_file(&path).unwrap();
        fifo(&path);
        within_20_seconds(&place, &["train", "--resume", "--out", "run"]).fails(2, &["run"]);
        within_20_seconds(&place, &["evaluate", "run"]);
        within_20_seconds(&place, &["inspect", "run"]);
    }
}

/// A run's best checkpoint, whose state says what a change makes of it.
fn states(place: &Workplace, change: impl FnOnce(&mut serde_json::Value)) {
    let path = place.path("run/best/state.json");
    let mut state: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut state);
    fs::write(path, serde_json::to_vec(&state).unwrap()).unwrap();
}

#[test]
fn only_a_checkpoints_own_files_are_opened() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let whole = fs::read(place.path("run/best/state.json")).unwrap();
    fifo(&place.path("run/best/pipe"));
    let huge = "0".repeat(64);
    for name in
        ["/dev/zero", "pipe", "../..", "../last/model.safetensors", "/etc/hostname", "", ".", "state.json"]
    {
        states(&place, |state| state["files"][name] = huge.clone().into());
        let answer = within_20_seconds(&place, &["evaluate", "run"]);
        answer.fails(2, &["best/state.json", &format!("names '{name}'")]);
        fs::write(place.path("run/best/state.json"), &whole).unwrap();
    }
    // A known name that is a device, a pipe or far too large.
    let model = place.path("run/best/model.safetensors");
    fs::rename(&model, place.path("away")).unwrap();
    symlink("/dev/zero", &model).unwrap();
    within_20_seconds(&place, &["evaluate", "run"]).fails(2, &["model.safetensors", "no regular file"]);
    fs::remove_file(&model).unwrap();
    fifo(&model);
    within_20_seconds(&place, &["evaluate", "run"]).fails(2, &["model.safetensors", "no regular file"]);
    fs::remove_file(&model).unwrap();
    fs::File::create(&model).unwrap().set_len(1 << 40).unwrap();
    within_20_seconds(&place, &["evaluate", "run"]).fails(2, &["model.safetensors", "1099511627776 bytes"]);
    fs::rename(place.path("away"), &model).unwrap();
    place.run(&["evaluate", "run"]).succeeds();
    let state = place.path("run/best/state.json");
    fs::File::create(&state).unwrap().set_len(1 << 40).unwrap();
    within_20_seconds(&place, &["evaluate", "run"]).fails(2, &["state.json", "1099511627776 bytes"]);
}
