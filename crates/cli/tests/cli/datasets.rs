//! Data sets: what `generate` writes is read back with its truth, and `validate` names every fault.

use multivalued_data::dataset::{Dataset, Options, Roster};
use multivalued_data::synthetic::{Task, TaskName};

use crate::workplace::Workplace;

#[test]
fn a_generated_folder_holds_the_task_with_weights_and_truth() {
    let place = Workplace::new();
    place
        .run(&[
            "generate",
            "shapes-unbalanced",
            "--size",
            "32",
            "--count",
            "train=3,test=2",
            "--seed",
            "7",
            "--out",
            "set",
        ])
        .succeeds();
    let dataset = Dataset::open(&place.path("set"), &Options::default()).unwrap();
    let cases = dataset.load().unwrap();
    let task = Task::new(TaskName::ShapesUnbalanced, 32, 7).unwrap();
    let expected = [task.generate("train", 3), task.generate("test", 2)].concat();
    assert_eq!(cases.len(), 5);
    for (read, made) in cases.iter().zip(&expected) {
        assert_eq!((&read.id, &read.group, &read.truth), (&made.id, &made.group, &made.truth));
        assert_eq!(read.annotations, made.annotations);
        let same = |(a, b): (&f32, &f32)| (a / 65_535.0 - b).abs() < 1e-5;
        assert!(read.image.pixels().iter().zip(made.image.pixels()).all(same));
    }
    let split = dataset.stated_split(&Roster::of(&cases)).unwrap().unwrap();
    assert_eq!((split.part("train").unwrap().len(), split.part("test").unwrap().len()), (3, 2));

    let said = place.run(&["validate", "set"]).succeeds().out;
    for part in
        ["layout           manifest", "cases            5", "5 with 4", "train: 3", "sound            yes"]
    {
        assert!(said.contains(part), "{said} lacks {part}");
    }
    // What is there is not overwritten.
    place.run(&["generate", "shapes", "--out", "set"]).fails(2, &["set", "not empty", "--out"]);
}

#[test]
fn every_synthetic_task_can_be_written() {
    let place = Workplace::new();
    for task in TaskName::ALL.map(TaskName::as_str) {
        place.run(&["generate", task, "--size", "32", "--count", "test=2", "--out", task]).succeeds();
        place.run(&["validate", task]).succeeds();
    }
}

#[test]
fn validation_lists_every_fault_and_says_so_by_its_code() {
    let place = Workplace::new();
    for case in ["a", "b", "c", "d"] {
        place.png(&format!("set/{case}/image.png"), 2, &[1, 2, 3, case.as_bytes()[0]]);
        place.png(&format!("set/{case}/label0.png"), 2, &[0, 0, 255, 255]);
    }
    place.png("set/a/label1.png", 2, &[0, 0, 0, 0]);
    place.run(&["validate", "set"]).succeeds();
    // A mask of another size, a value that is no mask, a truncated file, an image without masks.
    place.png("set/b/label0.png", 1, &[0, 255]);
    place.png("set/c/label0.png", 2, &[0, 7, 9, 255]);
    place.write("set/d/label0.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    place.png("set/e/image.png", 2, &[9, 9, 9, 8]);
    let answer = place.run(&["validate", "set"]).fails(1, &["set: 4 faults", "validate again"]);
    for part in ["b/label0.png", "resample", "c/label0.png", "d/label0.png", "has no mask"] {
        assert!(answer.out.contains(part), "{} lacks {part}", answer.out);
    }
    let json = place.run(&["validate", "set", "--json"]).fails(1, &["4 faults"]).out;
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((found["cases"].as_u64(), found["problems"].as_array().map(Vec::len)), (Some(2), Some(4)));
}

#[test]
fn raters_are_listed_with_their_counts() {
    let place = Workplace::new();
    for case in ["a", "b", "c"] {
        place.png(&format!("set/{case}/image.png"), 2, &[1, 2, 3, case.as_bytes()[0]]);
        place.png(&format!("set/{case}/rater-anna.png"), 2, &[0, 0, 255, 255]);
    }
    place.png("set/a/rater-bo.png", 2, &[0, 0, 0, 0]);
    place.png("set/a/label0.png", 2, &[0, 0, 0, 0]);
    let said = place.run(&["validate", "set"]).succeeds().out;
    for row in ["  by             anna: 3", "  by             bo: 1", "  by             (not named): 1"] {
        assert!(said.contains(row), "{said} lacks {row}");
    }
    let json = place.run(&["validate", "set", "--json"]).succeeds().out;
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["raters"], serde_json::json!({ "anna": 3, "bo": 1 }));
    assert_eq!(found["unnamed_annotations"], 1);
}

#[test]
fn a_leak_between_splits_is_a_fault() {
    let place = Workplace::new();
    place.png("a.png", 2, &[1, 2, 3, 4]);
    place.png("m.png", 2, &[0, 0, 255, 255]);
    let row = |id: &str, split: &str| {
        format!(
            "{{\"id\":\"{id}\",\"image\":\"a.png\",\"labels\":\"m.png\",\"group\":\"p\",\"split\":\"{split}\"}}\n"
        )
    };
    place.write("manifest.jsonl", row("x", "train") + &row("y", "test"));
    let answer = place.run(&["validate", "manifest.jsonl"]).fails(1, &["faults"]);
    for part in ["the group 'p' is in train and", "same image but lie in different splits"] {
        assert!(answer.out.contains(part), "{} lacks {part}", answer.out);
    }
}

#[test]
fn groups_are_suspected_and_stated() {
    let place = Workplace::new();
    for name in ["P1_s1", "P1_s2", "P2_s1", "P2_s2"] {
        place.png(&format!("set/images/{name}.png"), 2, &[1, 2, 3, 4]);
        place.png(&format!("set/masks/{name}.png"), 2, &[0, 1, 2, 0]);
    }
    let answer = place.run(&["validate", "set"]).succeeds();
    for part in [
        "note: 'P1_s1' and 'P1_s2' may be of one patient",
        "--group-by '^([^_]+)_'",
        "note: the masks",
        "labels:2",
    ] {
        assert!(answer.err.contains(part), "{} lacks {part}", answer.err);
    }
    assert!(
        answer.out.contains("image-folders") && answer.out.contains("groups           4"),
        "{}",
        answer.out
    );
    let answer =
        place.run(&["validate", "set", "--group-by", "^(P[0-9]+)_", "--masks", "labels:2"]).succeeds();
    assert!(
        answer.out.contains("groups           2") && !answer.err.contains("note"),
        "{}{}",
        answer.out,
        answer.err
    );
    place.run(&["validate", "set", "--group-by", "^P1"]).fails(1, &["fault"]);
}

#[test]
fn what_is_no_data_set_is_refused_with_a_reason() {
    let place = Workplace::new();
    place.write("notes.txt", "hello");
    place.write("empty/readme.txt", "nothing here");
    place.write(
        "pickle/object.npy",
        b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    );
    place.write("broken.jsonl", "{\n");
    std::fs::create_dir_all(place.path("a folder — with spaces/-dash")).unwrap();
    for (data, parts) in [
        ("none", &["none", "no such file"][..]),
        ("notes.txt", &["notes.txt", "manifest"]),
        ("empty", &["empty", "check the path"]),
        ("pickle", &["no known layout"]),
        ("a folder — with spaces", &["a folder — with spaces"]),
    ] {
        place.run(&["validate", data]).fails(2, parts);
    }
    assert!(place.run(&["validate", "broken.jsonl"]).fails(1, &["1 fault"]).out.contains("line 1"));
    // A name that begins like an option, after `--`.
    place.run(&["validate", "--", "-dash"]).fails(2, &["-dash"]);
}

#[test]
fn images_that_declare_too_much_are_refused_at_once() {
    let place = Workplace::new();
    // A PNG header of 65,535 x 65,535 pixels with nothing behind it.
    let mut header = b"IHDR\0\0\xff\xff\0\0\xff\xff\x08\0\0\0\0".to_vec();
    let checksum = crc32(&header).to_be_bytes();
    header.extend(checksum);
    place.write("set/a/image.png", [b"\x89PNG\r\n\x1a\n\0\0\0\r".as_slice(), &header].concat());
    place.png("set/a/label0.png", 2, &[0, 0, 255, 255]);
    let start = std::time::Instant::now();
    let answer = place.run(&["validate", "set"]).fails(1, &["1 fault"]);
    assert!(answer.out.contains("image.png") && answer.out.contains("larger than allowed"), "{}", answer.out);
    assert!(start.elapsed().as_secs() < 2);
}

/// CRC-32 as PNG wants it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(
            sum ^ u32::from(byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}

#[cfg(unix)]
#[test]
fn a_place_that_may_not_be_written_to_is_refused_before_the_work() {
    use std::os::unix::fs::PermissionsExt;
    let place = Workplace::new();
    place.write("file", "in the way");
    place.run(&["generate", "shapes", "--out", "file/below"]).fails(2, &["file"]);
    std::fs::create_dir(place.path("locked")).unwrap();
    std::fs::set_permissions(place.path("locked"), PermissionsExt::from_mode(0o500)).unwrap();
    if std::fs::write(place.path("locked/probe"), "").is_ok() {
        eprintln!("skipped: this user may write anywhere");
        return;
    }
    place.run(&["generate", "shapes", "--out", "locked/set"]).fails(74, &["locked/set", "may write to"]);
}

#[test]
fn agreement_of_raters_is_told_and_shown() {
    let place = Workplace::new();
    place.run(&["generate", "raters", "--size", "48", "--count", "test=20", "--out", "set"]).succeeds();
    let answer = place.run(&["validate", "set", "--html", "study.html"]).succeeds();
    for part in
        ["of 20 cases with several annotations", "  mean IoU", "  Fleiss' kappa", "against the others"]
    {
        assert!(answer.out.contains(part), "{} lacks {part}", answer.out);
    }
    let json = place.run(&["validate", "set", "--json"]).succeeds().out;
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    let agreement = &found["agreement"];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!(number(&agreement["fleiss_kappa"]) > 0.0 && number(&agreement["mean_iou"]) < 1.0, "{agreement}");
    // The task's readers by their nature.
    let bias = |rater: &str| number(&agreement["raters"][rater]["area_bias"]);
    assert!(bias("strict") < bias("middle") && bias("wide") < bias("generous"), "{agreement}");
    assert_eq!(agreement["disputed"].as_array().unwrap().len(), 12);
    let page = std::fs::read_to_string(place.path("study.html")).unwrap();
    assert_eq!(page.matches("<article ").count(), 12);
    for part in ["Most disputed cases", "generous", "area against the others", "</footer>"] {
        assert!(page.contains(part), "the page lacks {part}");
    }
    assert!(page.contains("default-src 'none'"), "the page asks nothing of the network");
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let masks = data["pictures"]["11"]["hypotheses"].as_array().unwrap();
    assert!(masks.iter().any(|one| one["name"] == "generous" && one["colour"].is_string()), "{masks:?}");
    let answer = place.run(&["validate", "set", "--html", "-"]).succeeds();
    assert!(answer.out.starts_with("<!doctype html>") && answer.err.contains("Fleiss"), "{}", answer.err);
    place.run(&["validate", "set", "--html", "-", "--json"]).fails(2, &["standard output takes one"]);
}

#[test]
fn one_rater_has_nobody_to_agree_with() {
    let place = Workplace::new();
    place.png("set/a/image.png", 2, &[1, 2, 3, 4]);
    place.png("set/a/label0.png", 2, &[0, 0, 255, 255]);
    let answer = place.run(&["validate", "set", "--html", "one.html"]).succeeds();
    assert!(!answer.out.contains("agreement"), "{}", answer.out);
    let json = place.run(&["validate", "set", "--json"]).succeeds().out;
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(found["agreement"].is_null());
    let page = std::fs::read_to_string(place.path("one.html")).unwrap();
    assert!(page.contains("No case has several annotations"), "{page}");
}
