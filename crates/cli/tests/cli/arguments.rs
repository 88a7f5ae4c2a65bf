//! Arguments: help, the nearest right word for a wrong one, and outputs that nobody reads.

use std::io::Read;
use std::process::Stdio;

use crate::workplace::Workplace;

#[test]
fn every_command_has_help_with_an_example() {
    let place = Workplace::new();
    let help = place.run(&["--help"]).succeeds().out;
    let listed = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let commands: Vec<_> = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|word| !word.is_empty()))
        .filter(|word| *word != "help")
        .collect();
    assert!(commands.contains(&"generate") && commands.contains(&"man"), "{help}");
    for command in commands {
        let help = place.run(&[command, "--help"]).succeeds().out;
        assert!(help.contains("Example"), "{command} shows no example:\n{help}");
    }
    assert!(help.contains("75 interrupted"));
}

#[test]
fn a_wrong_word_is_answered_with_the_nearest_right_one() {
    let place = Workplace::new();
    for (arguments, near) in [
        (&["generat"][..], "generate"),
        (&["validate", "--jsn", "x"], "--json"),
        (&["generate", "shape", "--out", "x"], "shapes"),
        (&["generate", "shapes", "--ot", "x"], "--out"),
        (&["completions", "bsh"], "bash"),
    ] {
        place.run(arguments).fails(2, &[near]);
    }
    place.run(&[]).fails(2, &["Usage"]);
    place.run(&["validate"]).fails(2, &["<DATA>"]);
}

#[test]
fn values_out_of_range_name_the_option_and_the_rule() {
    let place = Workplace::new();
    for (arguments, parts) in [
        (&["generate", "shapes", "--out", "x", "--size", "8"][..], &["8 pixels", "16 to 4096"][..]),
        (&["generate", "shapes", "--out", "x", "--size", "big"], &["--size"]),
        (&["generate", "shapes", "--out", "x", "--count", "train"], &["--count", "train=200"]),
        (&["generate", "shapes", "--out", "x", "--count", "../up=3"], &["letters, digits"]),
        (&["generate", "shapes", "--out", "x", "--count", "a=0"], &["1 to 100000"]),
        (&["generate", "shapes", "--out", "x", "--count", "a=1,a=2"], &["given twice"]),
        (&["validate", "x", "--layout", "bids"], &["--layout", "lidc-slices"]),
        (&["validate", "x", "--masks", "fuzzy"], &["--masks", "threshold"]),
        (&["validate", "x", "--group-by", "("], &["--group-by", "no regular expression"]),
    ] {
        place.run(arguments).fails(2, parts);
        assert!(!place.path("x").exists(), "{arguments:?} left something behind");
    }
}

#[test]
fn completions_and_manual_pages() {
    let place = Workplace::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(place.run(&["completions", shell]).succeeds().out.contains("validate"), "{shell}");
    }
    assert!(place.run(&["man"]).succeeds().out.contains(".TH multivalued 1"));
    place.run(&["man", "--out", "pages"]).succeeds();
    let page = std::fs::read_to_string(place.path("pages/multivalued-generate.1")).unwrap();
    assert!(page.contains("multivalued\\-generate") && page.contains("\\-\\-size"), "{page}");
}

#[test]
fn an_output_that_its_reader_closed_ends_the_program_quietly() {
    let place = Workplace::new();
    let mut child =
        place.command(&["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(child.wait().unwrap().success() && err.is_empty(), "{err}");
}

// `script` has other options elsewhere.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_of_any_width_shows_the_progress() {
    let place = Workplace::with_recipe();
    for columns in [1, 20, 80] {
        let shown = format!(
            "stty cols {columns} rows 24; {} train tiny.toml --out run-{columns} --set train.steps=1000",
            env!("CARGO_BIN_EXE_multivalued")
        );
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &shown, "/dev/null"]).current_dir(place.root()).stdin(Stdio::null());
        match script.output() {
            Err(error) => eprintln!("skipped: no pseudo-terminal: {error}"),
            Ok(output) => {
                let answer = crate::workplace::Answer::of(&[&shown], &output).trained();
                assert!(
                    !answer.out.contains("panicked") && answer.out.contains("ged_exact"),
                    "{}",
                    answer.out
                );
                // The live lines come and go; no plain ones are left.
                assert!(columns < 80 || answer.out.contains("steps/s"), "{}", answer.out);
            }
        }
    }
}

#[test]
fn without_colour_there_are_no_escapes() {
    let place = Workplace::new();
    let output = place.command(&["--help"]).env("NO_COLOR", "1").env("COLUMNS", "20").output().unwrap();
    assert!(output.status.success() && !output.stdout.contains(&0x1b));
}
