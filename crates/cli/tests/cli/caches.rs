//! Data that are larger than memory: what is trained from a cache on disk is what would be trained in memory.

use std::fs;
use std::path::Path;

use crate::memory::{data_set, limited};
use crate::workplace::Workplace;

/// All that a run leaves which does not tell of time or place.
fn content(run: &Path) -> Vec<(String, Vec<u8>)> {
    let names = [
        "best/model.safetensors",
        "last/model.safetensors",
        "last/average.safetensors",
        "last/optimiser.safetensors",
        "fingerprint.json",
        "report.json",
        "verdict.json",
        "sheets/examples.png",
        "sheets/worst.png",
    ];
    let read =
        |name: &str| fs::read(run.join(name)).unwrap_or_else(|error| panic!("{run:?}/{name}: {error}"));
    names.map(|name| (name.to_owned(), read(name))).into()
}

fn place_with_data() -> Workplace {
    let place = Workplace::with_recipe();
    let counts = ["--count", "train=20,val=4,test=6", "--size", "24"];
    place.run(&[&["generate", "raters", "--out", "set"][..], &counts].concat()).succeeds();
    place
}

fn caches(place: &Workplace) -> Vec<String> {
    let names = fs::read_dir(place.path("caches")).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".lock"));
    names.sort();
    names
}

#[test]
fn a_training_from_disk_is_the_one_in_memory_to_the_bit() {
    let place = place_with_data();
    for (at, sets) in [
        &[][..],
        &["augment.flip_horizontal=0.5", "augment.noise=0.1", "augment.crop=[16, 16]"],
        &["data.resize=[20, 16]", "augment.quarter_turns=false"],
    ]
    .into_iter()
    .enumerate()
    {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let [memory, disk] = ["memory", "disk"].map(|name| format!("{name}-{at}"));
        let more = [&["--data", "set"][..], &sets].concat();
        let said = place.train(&memory, &more).trained();
        assert!(!said.err.contains("packing"), "{}", said.err);
        let said = place.train(&disk, &[&more[..], &["--cache", "caches"]].concat()).trained();
        // Once, and once more in another size.
        assert_eq!(said.err.contains("packing 30 images into caches/set-"), at != 1, "{}", said.err);
        for (one, other) in content(&place.path(&memory)).iter().zip(content(&place.path(&disk))) {
            assert!(*one == other, "{} differs with {sets:?}", one.0);
        }
    }
    let made = caches(&place);
    assert!(made.len() == 2 && made.iter().any(|name| name.ends_with("-20x16.cases")), "{made:?}");
}

#[test]
fn every_command_reads_from_a_cache() {
    let place = place_with_data();
    // Planned; the images are resized, so that there are two caches.
    place.run(&["plan", "set", "--cache", "caches", "--out", "plan.toml"]).succeeds();
    assert_eq!(caches(&place).len(), 1);
    place.train("run", &["--data", "set"]).trained();
    for command in [&["evaluate", "run"][..], &["calibrate", "run", "--coverage", "0.5"], &["inspect", "run"]]
    {
        for data in [&[][..], &["--data", "set"]] {
            let plain = place.run(&[command, data].concat()).succeeds().out;
            let cached = place.run(&[command, data, &["--cache", "caches"]].concat()).succeeds();
            assert_eq!((cached.out, cached.err.contains("packing")), (plain, false), "{command:?} {data:?}");
        }
    }
    // Cross-validation, in memory and from disk.
    for (run, more) in [("memory", &[][..]), ("disk", &["--cache", "caches"])] {
        let folds =
            ["--data", "set", "--folds", "2", "--set", "train.steps=8", "--set", "data.validation_share=0.2"];
        place.train(run, &[&folds[..], more].concat()).trained();
    }
    for file in ["report.json", "verdict.json", "fold-2/best/model.safetensors"] {
        let [memory, disk] = ["memory", "disk"].map(|run| fs::read(place.path(run).join(file)).unwrap());
        assert!(memory == disk, "{file} differs");
    }
}

#[test]
fn a_cache_that_is_stale_or_damaged_is_made_anew() {
    let place = place_with_data();
    let train = |run: &str| place.train(run, &["--data", "set", "--cache", "caches"]).trained().err;
    assert!(train("first").contains("packing"));
    assert!(!train("second").contains("packing"));
    let cache = place.path("caches").join(&caches(&place)[0]);
    let mut bytes = fs::read(&cache).unwrap();
    bytes[300] ^= 1;
    fs::write(&cache, &bytes).unwrap();
    let said = train("third");
    assert!(said.contains("the checksum of a case does not match; it is made anew"), "{said}");
    assert!(content(&place.path("first")) == content(&place.path("third")));
    // A source that changed is noticed; the run that was trained before knows its data no more.
    fs::copy(
        place.path("set/labels/raters-train-00000-0.png"),
        place.path("set/labels/raters-train-00001-0.png"),
    )
    .unwrap();
    assert!(train("fourth").contains("packing"));
    place.run(&["evaluate", "first", "--cache", "caches"]).fails(2, &["has changed since the training"]);
    // What is no folder.
    place.write("taken", "a file");
    place.train("fifth", &["--data", "set", "--cache", "taken"]).fails(2, &["taken", "choose another path"]);
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_too_small_is_told_and_no_half_cache_stays() {
    let place = place_with_data();
    // No file may grow beyond 16 KiB.
    let text = "ulimit -f 16; trap '' XFSZ; exec \"$0\" train tiny.toml --data set --out run --cache caches";
    let Some(answer) = crate::full_disk::script(&place, &["bash"], text) else { return };
    answer.fails(74, &["caches/set-", "--cache DIR", "free some space"]);
    assert!(caches(&place).is_empty(), "{:?}", caches(&place));
}

/// Where the machine has too little memory the cache is made without being asked for.
#[test]
fn what_does_not_fit_is_packed_and_streamed() {
    let place = Workplace::with_recipe();
    data_set(&place, "large", [512, 512, 200]);
    let sets = ["train.steps=8", "augment.crop=[16, 16]", "data.validation_share=0", "data.test_share=0"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let train = |run| [&["train", "tiny.toml", "--data", "large", "--out", run][..], &sets].concat();
    // As f32 the slices take 200 MiB, which is less than the limit and more than a third of it.
    let said = limited(&place, 560 << 10, &train("run"));
    said.fails(1, &["packing 200 images into", "they take more than", "nothing says how good"]);
    assert!(place.path("run/best/model.safetensors").is_file());
    let said = place.run(&train("all")).fails(1, &["nothing says how good"]);
    assert!(!said.err.contains("packing"), "{}", said.err);
    let weights = |run: &str| fs::read(place.path(run).join("best/model.safetensors")).unwrap();
    assert!(weights("run") == weights("all"));
}
