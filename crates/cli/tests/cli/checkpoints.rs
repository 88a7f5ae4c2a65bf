//! Checkpoints and other files of a run that are torn, damaged, foreign or newer are refused by name.

use std::fs;

use crate::workplace::Workplace;

/// Changes one file of a checkpoint, expects a refusal, and puts the file back.
fn refused(place: &Workplace, file: &str, change: impl FnOnce(&mut Vec<u8>), parts: &[&str]) {
    let path = place.path("run").join(file);
    let whole = fs::read(&path).unwrap();
    let mut bytes = whole.clone();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    for arguments in [&["train", "--resume", "--out", "run"][..], &["evaluate", "run"]] {
        let uses = if arguments[0] == "train" { "last/" } else { "best/" };
        if file.starts_with(uses) {
            place.run(arguments).fails(2, parts);
        }
    }
    fs::write(path, whole).unwrap();
}

#[test]
fn what_is_no_whole_checkpoint_of_this_run_is_refused() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).succeeds();
    for file in ["last/model.safetensors", "last/optimiser.safetensors", "best/model.safetensors"] {
        let name = file.split('/').next_back().unwrap();
        refused(&place, file, |bytes| bytes.truncate(bytes.len() / 2), &[name]);
        refused(&place, file, |bytes| bytes.clear(), &[name]);
        let flipped = |bytes: &mut Vec<u8>| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        };
        refused(&place, file, flipped, &[name]);
        refused(&place, file, |bytes| *bytes = b"not a checkpoint at all".to_vec(), &[name]);
        // A header that declares more than there is.
        refused(&place, file, |bytes| bytes[..8].fill(0xff), &[name]);
    }
    for file in ["last/state.json", "best/state.json"] {
        refused(&place, file, |bytes| bytes.truncate(bytes.len() / 2), &["state.json"]);
        refused(&place, file, |bytes| *bytes = b"{}".to_vec(), &["state.json"]);
        let newer = |bytes: &mut Vec<u8>| {
            let mut state: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            state["version"] = 999.into();
            *bytes = serde_json::to_vec(&state).unwrap();
        };
        refused(&place, file, newer, &["999"]);
    }
    // All is well again.
    place.run(&["train", "--resume", "--out", "run"]).succeeds();
    for file in ["model.safetensors", "state.json"] {
        let (away, path) = (place.path("away"), place.path("run/last").join(file));
        fs::rename(&path, &away).unwrap();
        place.run(&["train", "--resume", "--out", "run"]).fails(2, &["run/last", file]);
        fs::rename(away, path).unwrap();
    }
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).succeeds();
    place.train("other", &["--set", "model.channels=[4, 16]"]).succeeds();
    for part in ["last", "best"] {
        fs::remove_dir_all(place.path("run").join(part)).unwrap();
        fs::rename(place.path("other").join(part), place.path("run").join(part)).unwrap();
    }
    place.run(&["train", "--resume", "--out", "run"]).fails(2, &["run/last"]);
}

#[test]
fn damaged_files_of_a_run_are_named() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).succeeds();
    place.run(&["calibrate", "run"]).succeeds();
    place.png("image.png", 16, &[7; 256]);
    let predict = &["predict", "run", "image.png", "--coverage", "0.9", "--out", "x"][..];
    let resume = &["train", "--resume", "--out", "run"][..];
    for (file, arguments) in [
        ("recipe.toml", resume),
        ("recipe.toml", &["evaluate", "run"]),
        ("log.jsonl", resume),
        ("log.jsonl", &["inspect", "run"]),
        ("report.json", &["compare", "run"]),
        ("coverage.json", predict),
    ] {
        let path = place.path("run").join(file);
        let whole = fs::read(&path).unwrap();
        for damaged in [&b"{ no sense\n\n"[..], b"\xff\xfe\n", &[0; 64]] {
            fs::write(&path, damaged).unwrap();
            let answer = place.run(arguments);
            // A log whose only line is torn is an empty log.
            if file != "log.jsonl" || damaged.ends_with(b"\n") {
                answer.fails(2, &[file]);
            }
        }
        fs::write(path, whole).unwrap();
    }
    place.run(predict).succeeds();
}
