//! What is written to a terminal: names that others chose never steer it, and tables keep their columns.
#![cfg(unix)]

use std::fs;

use crate::bad_files::zip;
use crate::workplace::{Answer, Workplace};

/// A name that clears the screen, rings, turns red and ends the line.
const HOSTILE: &str = "x\u{1b}[2J\u{7}\u{9b}31m\nforged\ry\u{202e}";
/// The same as it must be shown.
const SHOWN: &str = r"x\u{1b}[2J\u{7}\u{9b}31m\nforged\ry\u{202e}";

impl Answer {
    /// Asserts that nothing but text and our own line breaks came out, and that the name is shown.
    #[track_caller]
    fn shows_harmlessly(self, name: &str) -> Self {
        let said = format!("{}{}", self.out, self.err);
        let obeyed = said.chars().find(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}'));
        assert!(obeyed.is_none() && !said.contains("\nforged"), "{obeyed:?} in {said:?}");
        assert!(said.contains(name), "{said:?} does not show {name}");
        self
    }
}

#[test]
fn names_of_files_never_steer_the_terminal() {
    let place = Workplace::with_recipe();
    for (case, value) in [(HOSTILE, 1), ("b", 2)] {
        place.png(&format!("set/{case}/image.png"), 16, &[value; 256]);
        place.png(&format!("set/{case}/rater-{HOSTILE}.png"), 16, &[0; 256]);
    }
    place.run(&["validate", "set"]).succeeds().shows_harmlessly(SHOWN);
    place.run(&["validate", "set", "--json"]).succeeds().shows_harmlessly("\\u001b[2J");
    place.png(&format!("set/{HOSTILE}/label0.png"), 8, &[0; 64]);
    place.run(&["validate", "set"]).fails(1, &[]).shows_harmlessly(SHOWN);
    place.train("refused", &["--data", "set"]).fails(2, &[]).shows_harmlessly(SHOWN);
    place.run(&["validate", HOSTILE]).fails(2, &[]).shows_harmlessly(SHOWN);
    place.run(&["predict", HOSTILE, "a.png"]).fails(2, &[]).shows_harmlessly(SHOWN);
    // The parser of arguments repeats what it was given.
    place.run(&[HOSTILE]).fails(2, &[]).shows_harmlessly(SHOWN);
    place.run(&["train", "tiny.toml", "--device", HOSTILE]).fails(2, &[]).shows_harmlessly(SHOWN);
    place
        .run(&["generate", "shapes", "--out", HOSTILE, "--count", "test=1"])
        .succeeds()
        .shows_harmlessly(SHOWN);
}

#[test]
fn what_files_hold_never_steers_the_terminal() {
    let place = Workplace::with_recipe();
    place.png("a.png", 16, &[1; 256]);
    place.png("m.png", 16, &[0; 256]);
    place.write("header.csv", format!("id,image,labels,\"{HOSTILE}\"\nx,a.png,m.png,1\n"));
    place.run(&["validate", "header.csv"]).fails(2, &["unknown column"]).shows_harmlessly(SHOWN);
    let name = serde_json::to_string(HOSTILE).unwrap();
    place.write(
        "values.jsonl",
        format!(
            "{{\"id\":{name},\"image\":\"a.png\",\"labels\":\"m.png\",\"rater\":{name},\"split\":{name}}}\n"
        ),
    );
    // As the name of a reader and of a split; of an id that is taken twice.
    place.run(&["validate", "values.jsonl"]).succeeds().shows_harmlessly(SHOWN);
    place.write("keys.jsonl", format!("{{\"id\":\"x\",\"image\":\"a.png\",{name}:1}}\n"));
    place.run(&["validate", "keys.jsonl"]).fails(1, &[]).shows_harmlessly("forged");
    place.write("gone.jsonl", format!("{{\"id\":\"x\",\"image\":{name},\"labels\":\"m.png\"}}\n"));
    place.run(&["validate", "gone.jsonl"]).fails(1, &[]).shows_harmlessly(SHOWN);
    place.train("run", &[]).trained();
    for entries in [&[(HOSTILE, b"x".as_slice())][..], &[(HOSTILE, b"x"), ("b", b"y")]] {
        place.write("archive.npz", zip(entries));
        place.run(&["predict", "run", "archive.npz"]).fails(2, &["archive.npz"]).shows_harmlessly("forged");
        place.run(&["predict", "run", "archive.npz", "--skip-bad"]).fails(2, &[]).shows_harmlessly("skipped");
    }
    for text in [format!("[train]\nsteps = \"{HOSTILE}\"\n"), format!("[train]\n# {HOSTILE}\n")] {
        place.write("hostile.toml", &text);
        place.run(&["train", "hostile.toml"]).fails(2, &["hostile.toml", "line"]).shows_harmlessly("line");
    }
    let quoted = toml_string(HOSTILE);
    place.write("key.toml", format!("[train]\n{quoted} = 1\n"));
    place.run(&["train", "key.toml"]).fails(2, &["unknown field"]).shows_harmlessly(SHOWN);
    place.write("task.toml", format!("[data]\ntask = {quoted}\n"));
    place.run(&["train", "task.toml"]).fails(2, &[]).shows_harmlessly(SHOWN);
    // A run from elsewhere: its recipe, its log and its report.
    fs::write(place.path("run/recipe.toml"), format!("[data]\ntask = {quoted}\n")).unwrap();
    place.run(&["evaluate", "run"]).fails(2, &[]).shows_harmlessly(SHOWN);
    place.run(&["compare", "run"]).succeeds().shows_harmlessly("score");
    let log = fs::read_to_string(place.path("run/log.jsonl")).unwrap();
    fs::write(place.path("run/log.jsonl"), log.replace("\"finished\"", &name)).unwrap();
    place.run(&["inspect", "run"]).fails(2, &[]).shows_harmlessly(SHOWN);
    let report = fs::read_to_string(place.path("run/report.json")).unwrap();
    let mut report: serde_json::Value = serde_json::from_str(&report).unwrap();
    report["format"] = HOSTILE.into();
    fs::write(place.path("run/report.json"), report.to_string()).unwrap();
    place.run(&["compare", "run"]).fails(2, &["report.json"]).shows_harmlessly("forged");
}

/// A basic TOML string.
fn toml_string(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { format!("\\u{:04X}", u32::from(c)) } else { c.to_string() };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

#[test]
fn tables_keep_their_columns() {
    let place = Workplace::with_recipe();
    place
        .run(&["generate", "shapes", "--size", "16", "--count", "train=8,val=4,test=4", "--out", "set"])
        .succeeds();
    // Two images to a patient, so that there are intervals over groups, too.
    let manifest = fs::read_to_string(place.path("set/manifest.jsonl")).unwrap();
    let in_pairs: Vec<String> = manifest
        .lines()
        .zip(0..)
        .map(|(line, at)| {
            let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
            row["group"] = format!("patient-{}", at / 2).into();
            row.to_string()
        })
        .collect();
    fs::write(place.path("set/manifest.jsonl"), in_pairs.join("\n")).unwrap();
    let long = "a-run-whose-name-says-everything-that-is-known-about-it-and-some-more";
    let runs: Vec<String> = (0..5).map(|at| format!("{long}-{at}")).collect();
    place.train(&runs[0], &["--data", "set"]).trained();
    for (at, run) in runs.iter().enumerate().skip(1) {
        std::process::Command::new("cp")
            .arg("-r")
            .arg(place.path(&runs[0]))
            .arg(place.path(run))
            .status()
            .unwrap();
        let recipe = fs::read_to_string(place.path(run).join("recipe.toml")).unwrap();
        let other = recipe.replace("seed = 1\n", &format!("seed = {}\n", 10 + at));
        fs::write(place.path(run).join("recipe.toml"), other).unwrap();
    }
    let narrow = |said: &str| {
        for line in said.lines() {
            assert!(line.chars().count() <= 80, "{} columns in\n{said}", line.chars().count());
        }
    };
    let scores = place.run(&["evaluate", &runs[0]]).succeeds().out;
    narrow(&scores);
    assert!(scores.contains("95 % over groups"), "{scores}");
    for all in [&[][..], &["--all"]] {
        let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
        let said = place.run(&[&["compare"][..], &runs, all].concat()).succeeds().out;
        narrow(&said);
        assert!(said.contains("a-run-") && said.contains('…') && said.contains("train.seed"), "{said}");
        // Every run has its column under every head.
        assert_eq!(said.matches("…").count() % 5, 0, "{said}");
    }
    place.run(&["inspect", &runs[0]]).succeeds();
    // A terminal shows faults in their column; where the output is kept, a row is a line.
    let deep = "d".repeat(120);
    place.png(&format!("faults/{deep}/image.png"), 2, &[1, 2, 3, 4]);
    place.png(&format!("faults/{deep}/label0.png"), 2, &[0, 7, 9, 255]);
    let piped = place.run(&["validate", "faults", "--masks", "binary"]).fails(1, &["1 fault"]).out;
    assert!(
        piped.contains(&format!("fault            faults/{deep}/label0.png: is not a binary mask")),
        "{piped}"
    );
    let mut script = std::process::Command::new("script");
    let shown =
        format!("stty cols 80 rows 24; {} validate faults --masks binary", env!("CARGO_BIN_EXE_multivalued"));
    script.args(["-qec", &shown, "/dev/null"]).current_dir(place.root()).stdin(std::process::Stdio::null());
    if let (true, Ok(output)) = (cfg!(target_os = "linux"), script.output()) {
        let said = Answer::of(&[&shown], &output).out.replace('\r', "");
        let (table, _) = said.split_once("error:").unwrap();
        narrow(table);
        assert!(table.contains("\n                 "), "{table}");
    }
}
