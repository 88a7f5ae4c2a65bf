//! Nothing is lost: kills at random moments, signals, two processes on one run.
#![cfg(unix)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::workplace::{Answer, Workplace};

/// Starts a training in the background.
pub fn start(place: &Workplace, arguments: &[&str]) -> Child {
    place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success(), "kill {signal}");
}

/// Waits for something that must come.
pub fn wait_until(mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn log(place: &Workplace, run: &str) -> String {
    fs::read_to_string(place.path(run).join("log.jsonl")).unwrap_or_default()
}

fn lines(place: &Workplace, run: &str) -> usize {
    log(place, run).lines().count()
}

/// Whether this process was started with a signal ignored: by `nohup`, or in a shell's background.
fn is_ignored(signal: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// What must be the same however often a training was interrupted.
fn results(place: &Workplace, run: &str) -> Vec<Vec<u8>> {
    let files =
        ["last/model.safetensors", "last/optimiser.safetensors", "best/model.safetensors", "report.json"];
    files.map(|file| fs::read(place.path(run).join(file)).unwrap()).to_vec()
}

/// Kills a training so many times, every other time while it starts, then lets it finish.
fn killed_and_resumed(kills: u32) {
    let place = Workplace::with_recipe();
    let steps = format!("train.steps={}", 20 * kills);
    place.train("whole", &["--save-every", "0", "--set", &steps]).trained();
    let arguments = ["train", "tiny.toml", "--out", "torn", "--save-every", "0", "--set", &steps, "--resume"];
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut alive = 0;
    for kill in 0..kills {
        let began = lines(&place, "torn");
        let mut child = start(&place, &arguments);
        if kill % 2 == 0 {
            wait_until(|| lines(&place, "torn") > began || child.try_wait().unwrap().is_some());
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(60).mul_f64((random >> 40) as f64 / (1u64 << 24) as f64));
        alive += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Only a machine that is very busy lets the training end earlier.
    assert!(alive > kills / 3, "only {alive} of {kills} kills met a living process");
    place.run(&arguments).trained();
    assert_eq!(results(&place, "torn"), results(&place, "whole"), "the same to the bit after {kills} kills");
}

#[test]
fn a_training_killed_at_random_moments_ends_the_same() {
    killed_and_resumed(15);
}

#[test]
#[ignore = "takes minutes"]
fn a_training_killed_a_hundred_times_ends_the_same() {
    killed_and_resumed(100);
}

#[test]
fn a_signal_ends_the_training_after_its_step_with_a_checkpoint() {
    let place = Workplace::with_recipe();
    // So many that a busy machine does not get to the end between two looks at the log.
    place.train("whole", &["--set", "train.steps=6000"]).trained();
    let arguments = ["train", "tiny.toml", "--set", "train.steps=6000", "--out", "run"];
    let first = [("-TERM", 15, &[][..])];
    let later =
        [("-INT", 2), ("-USR1", 10), ("-HUP", 1)].map(|(name, number)| (name, number, &["--resume"][..]));
    for (signal, number, more) in first.into_iter().chain(later) {
        if is_ignored(number) {
            eprintln!("skipped: {signal} is ignored here, and a training then ignores it, too");
            continue;
        }
        let all = [&arguments[..], more].concat();
        let before = lines(&place, "run");
        let child = start(&place, &all);
        // Some steps into this process.
        wait_until(|| lines(&place, "run") >= before + 3);
        send(signal, &child);
        let answer = Answer::of(&all, &child.wait_with_output().unwrap());
        answer.fails(75, &["interrupted: run: saved at step", "--resume --out run"]);
        assert!(log(&place, "run").contains("\"reason\":\"interrupted\""));
    }
    // The run's own recipe is enough, and another one is refused.
    place
        .run(&["train", "tiny.toml", "--set", "train.steps=6001", "--resume", "--out", "run"])
        .fails(2, &["another recipe", "train.steps = 6000 is now 6001"]);
    place.run(&["train", "--resume", "--out", "run"]).trained();
    assert_eq!(results(&place, "run"), results(&place, "whole"));
}

/// A training of which one step takes many seconds.
const SLOW: [&str; 10] = [
    "train",
    "tiny.toml",
    "--out",
    "run",
    "--set",
    "data.size=512",
    "--set",
    "train.batch=32",
    "--set",
    "model.channels=[64, 64, 64]",
];

/// Ends a process by a signal and says how long that took.
fn stopped(signal: &str, child: Child) -> (Output, Duration) {
    let sent = Instant::now();
    send(signal, &child);
    let output = child.wait_with_output().unwrap();
    (output, sent.elapsed())
}

#[test]
fn a_step_that_does_not_end_is_not_waited_for() {
    let place = Workplace::with_recipe();
    let child = start(&place, &SLOW);
    wait_until(|| log(&place, "run").contains("\"kind\":\"start\""));
    std::thread::sleep(Duration::from_millis(200));
    let (output, took) = stopped("-TERM", child);
    assert!(took < Duration::from_secs(10), "{took:?}");
    // A machine on which the step ends in time saves it.
    if output.status.code() != Some(75) {
        Answer::of(&SLOW, &output)
            .fails(143, &["a step did not end within 8 s", "no checkpoint was saved yet"]);
    }
}

#[test]
fn before_the_first_step_and_after_the_last_a_signal_ends_the_process_at_once() {
    let place = Workplace::with_recipe();
    let changes = ["data.task=lung-opacity", "data.size=64", "train.steps=1", "train.warmup_steps=1"];
    let sets: Vec<&str> = changes.iter().flat_map(|change| ["--set", change]).collect();
    // While the cases are made, and while the model is scored on its test part.
    let arguments =
        [&["train", "tiny.toml", "--out", "run", "--set", "data.test_count=20000"][..], &sets].concat();
    for moment in ["loading", "scoring"] {
        let more = if moment == "scoring" {
            &["--set", "data.test_count=3000", "--set", "predict.views=8"][..]
        } else {
            &[]
        };
        let child = start(&place, &[&arguments[..], more].concat());
        match moment {
            "loading" => std::thread::sleep(Duration::from_millis(300)),
            _ => wait_until(|| log(&place, "run").contains("\"reason\":\"finished\"")),
        }
        let (output, took) = stopped("-TERM", child);
        let ended = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
        assert_eq!(ended, Some(143), "{moment}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(took < Duration::from_secs(2), "{moment}: {took:?}");
    }
    // Nothing is lost: the model is there, and its scores come with --resume.
    assert!(place.path("run/best").is_dir());
}

#[test]
fn a_training_that_shall_survive_a_hang_up_does() {
    let place = Workplace::with_recipe();
    let mut command = Command::new("sh");
    let line = "trap '' HUP; exec \"$0\" train tiny.toml --out run --set train.steps=1000000";
    command.args(["-c", line, env!("CARGO_BIN_EXE_multivalued")]).current_dir(place.root());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| log(&place, "run").contains("\"kind\":\"step\""));
    if cfg!(target_os = "linux") {
        send("-HUP", &child);
        std::thread::sleep(Duration::from_millis(500));
        assert!(child.try_wait().unwrap().is_none(), "a hang-up ended what was started to survive it");
    }
    let (output, _) = stopped("-TERM", child);
    Answer::of(&[line], &output).fails(75, &["saved at step"]);
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let place = Workplace::with_recipe();
    let mut child = start(&place, &SLOW);
    wait_until(|| log(&place, "run").contains("\"kind\":\"start\""));
    std::thread::sleep(Duration::from_millis(200));
    send("-TERM", &child);
    std::thread::sleep(Duration::from_millis(200));
    let sent = Instant::now();
    send("-TERM", &child);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(143));
    assert!(sent.elapsed() < Duration::from_secs(2), "{:?}", sent.elapsed());
}

#[test]
fn a_run_in_use_is_refused_to_a_second_process() {
    let place = Workplace::with_recipe();
    let arguments = ["train", "tiny.toml", "--out", "run", "--set", "train.steps=1000000"];
    let mut child = start(&place, &arguments);
    wait_until(|| log(&place, "run").contains("\"kind\":\"start\""));
    let owner = format!("process {}", child.id());
    place.run(&["train", "--resume", "--out", "run"]).fails(2, &["run: is in use", &owner, "--out"]);
    // Looking is free; what would write into the run is not.
    wait_until(|| place.path("run/best").exists());
    place.png("image.png", 16, &[7; 256]);
    place.run(&["predict", "run", "image.png", "--out", "said"]).succeeds();
    place.run(&["inspect", "run"]).succeeds();
    place.run(&["evaluate", "run", "--split", "validation"]).succeeds();
    place.run(&["evaluate", "run"]).fails(2, &["run: is in use", &owner]);
    place.run(&["calibrate", "run"]).fails(2, &["run: is in use", &owner]);
    child.kill().unwrap();
    child.wait().unwrap();
    // The lock goes with its owner.
    let before = lines(&place, "run");
    let child = start(&place, &["train", "--resume", "--out", "run"]);
    wait_until(|| {
        lines(&place, "run") > before || log(&place, "run").matches("\"kind\":\"start\"").count() > 1
    });
    send("-TERM", &child);
    Answer::of(&["resumed"], &child.wait_with_output().unwrap()).fails(75, &["saved at step"]);
}
