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
    place.train("run", &[]).trained();
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
    place.run(&["train", "--resume", "--out", "run"]).trained();
    for file in ["model.safetensors", "state.json"] {
        let (away, path) = (place.path("away"), place.path("run/last").join(file));
        fs::rename(&path, &away).unwrap();
        place.run(&["train", "--resume", "--out", "run"]).fails(2, &["run/last", file]);
        fs::rename(away, path).unwrap();
    }
}

/// Rewrites the header of a model's file, with its length and with its hash in `state.json`, so that
/// only the header itself can be what is refused.
fn forged(place: &Workplace, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
    let (model, state) = (place.path("run/best/model.safetensors"), place.path("run/best/state.json"));
    let bytes = fs::read(&model).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    change(header.as_object_mut().unwrap());
    let mut text = serde_json::to_vec(&header).unwrap();
    text.resize(text.len().next_multiple_of(8), b' ');
    let forged = [&(text.len() as u64).to_le_bytes()[..], &text, &bytes[8 + length..]].concat();
    let mut told: serde_json::Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    told["files"]["model.safetensors"] = blake3::hash(&forged).to_hex().to_string().into();
    fs::write(model, forged).unwrap();
    fs::write(state, serde_json::to_vec(&told).unwrap()).unwrap();
}

#[test]
fn a_model_whose_tensors_are_not_the_recipes_is_refused() {
    type Change = fn(&mut serde_json::Map<String, serde_json::Value>);
    let name = |header: &serde_json::Map<String, serde_json::Value>| {
        header.keys().find(|name| *name != "__metadata__").unwrap().clone()
    };
    let changes: [(&str, Change); 6] = [
        ("missing", |header| {
            let last = header.keys().rfind(|name| *name != "__metadata__").unwrap().clone();
            let tensor = header.remove(&last).unwrap();
            header.insert("stranger".into(), tensor);
        }),
        ("kind", |header| header.values_mut().for_each(|tensor| tensor["dtype"] = "I32".into())),
        ("shape", |header| {
            header.values_mut().for_each(|tensor| {
                if let Some(shape) = tensor["shape"].as_array_mut() {
                    shape.insert(0, 1.into());
                }
            });
        }),
        ("overlap", |header| {
            header.values_mut().for_each(|tensor| tensor["data_offsets"] = serde_json::json!([0, 4]));
        }),
        ("beyond", |header| {
            header
                .values_mut()
                .for_each(|tensor| tensor["data_offsets"] = serde_json::json!([0, 1u64 << 60]));
        }),
        ("huge", |header| {
            header
                .values_mut()
                .for_each(|tensor| tensor["shape"] = serde_json::json!([1u64 << 62, 1u64 << 62]));
        }),
    ];
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let whole = ["model.safetensors", "state.json"].map(|file| {
        let path = place.path("run/best").join(file);
        (path.clone(), fs::read(path).unwrap())
    });
    for (what, change) in changes {
        forged(&place, change);
        let said = place.run(&["evaluate", "run"]).fails(2, &["best/model.safetensors"]).err;
        if what == "missing" {
            assert!(said.contains("stranger") || said.contains("missing"), "{said}");
        }
        place.run(&["predict", "run/best", "tiny.toml", "--out", "x"]).fails(2, &["model.safetensors"]);
        for (path, bytes) in &whole {
            fs::write(path, bytes).unwrap();
        }
    }
    // One more than the recipe knows.
    forged(&place, |header| {
        let copy = header[&name(header)].clone();
        header.insert("stranger".into(), copy);
    });
    place.run(&["evaluate", "run"]).fails(2, &["best/model.safetensors"]);
    for (path, bytes) in &whole {
        fs::write(path, bytes).unwrap();
    }
    place.run(&["evaluate", "run"]).succeeds();
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.train("other", &["--set", "model.channels=[4, 16]"]).trained();
    for part in ["last", "best"] {
        fs::remove_dir_all(place.path("run").join(part)).unwrap();
        fs::rename(place.path("other").join(part), place.path("run").join(part)).unwrap();
    }
    let differ = "model.channels = [4, 16] is now [4, 8]";
    place.run(&["train", "--resume", "--out", "run"]).fails(2, &["run/last", "another recipe", differ]);
}

#[test]
fn damaged_files_of_a_run_are_named() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.run(&["calibrate", "run", "--coverage", "0.6"]).succeeds();
    place.png("image.png", 16, &[7; 256]);
    let predict = &["predict", "run", "image.png", "--coverage", "0.6", "--out", "x"][..];
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
