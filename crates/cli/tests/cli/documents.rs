//! The commands that documents and help texts show can be run as shown.

use std::path::Path;

use crate::shipped::model;
use crate::workplace::Workplace;

/// The lines of a document that start the program, without their remarks.
fn shown(document: &str) -> Vec<Vec<String>> {
    let lines = document.lines().map(|line| line.split(" # ").next().unwrap_or("").trim());
    let commands = lines.filter_map(|line| line.strip_prefix("multivalued "));
    commands
        .map(|line| line.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect())
        .collect()
}

#[test]
fn the_lines_of_the_readme_predict_by_a_shipped_model_and_go_from_a_folder_to_predictions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let commands = shown(&readme);
    assert_eq!(commands.len(), 9, "{commands:?}");
    let place = Workplace::with_recipe();
    place
        .run(&["generate", "shapes", "--size", "16", "--count", "train=100,test=6", "--out", "data"])
        .succeeds();
    place.png("slice.png", 16, &[7; 256]);
    place.png("scan.png", 16, &[7; 256]);
    for command in commands {
        // The model from the checkout, a small recipe and an image that is there; all else as shown.
        let word = |word: &String| match word.as_str() {
            "models/lidc" => model("lidc").to_str().unwrap().to_owned(),
            "lidc" => "tiny.toml".to_owned(),
            "scan.nii.gz" => "scan.png".to_owned(),
            other => other.to_owned(),
        };
        let mut words: Vec<String> = command.iter().map(word).collect();
        // What would be planned takes minutes.
        if words[0] == "train" && words[1].starts_with('-') {
            words.insert(1, "tiny.toml".into());
        }
        // It would serve until it is ended.
        if words == ["view"] {
            words.extend(["--out".into(), "viewer".into()]);
        }
        let answer = place.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        match words[0].as_str() {
            "train" => answer.trained(),
            _ => answer.succeeds(),
        };
    }
    assert!(place.path("runs/mine/report.html").exists());
    assert!(place.path("viewer/index.html").exists());
    for said in
        ["slice/hypothesis-1.png", "slice/prediction.json", "slice/sheet.png", "scan/hypothesis-1.png"]
    {
        assert!(place.path("predictions").join(said).exists(), "{said}");
    }
}

#[test]
fn examples_of_the_help_name_options_and_recipes_that_exist() {
    let place = Workplace::new();
    for command in
        ["generate", "validate", "train", "predict", "evaluate", "calibrate", "inspect", "compare", "bench"]
    {
        let help = place.command(&[command, "--help"]).env("COLUMNS", "200").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let examples = shown(&help);
        assert!(!examples.is_empty(), "{command}");
        for example in examples {
            for option in example.iter().filter_map(|word| word.strip_prefix("--")) {
                let option = option.split('=').next().unwrap_or("");
                assert!(
                    help.contains(&format!("--{option} ")) || help.contains(&format!("--{option}\n")),
                    "{example:?}"
                );
            }
            // Short enough for a terminal of 80 columns.
            assert!(example.join(" ").len() + "  multivalued ".len() <= 80, "{example:?}");
        }
    }
    let help = place.run(&["train", "--help"]).succeeds().out;
    assert!(help.contains("shapes-tiny") && help.contains("lidc") && help.contains("paper/lidc"), "{help}");
}
