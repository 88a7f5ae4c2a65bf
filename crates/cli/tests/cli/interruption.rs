//! Nothing is lost: kills at random moments, signals, two processes on one run.
#![cfg(unix)]

use std::fs;
use std::process::{Child, Command, Stdio};
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
    place.train("whole", &["--save-every", "0", "--set", &steps]).succeeds();
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
    place.run(&arguments).succeeds();
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
    place.train("whole", &["--set", "train.steps=400"]).succeeds();
    let arguments = ["train", "tiny.toml", "--set", "train.steps=400", "--out", "run"];
    for (signal, more) in [("-TERM", &[][..]), ("-INT", &["--resume"]), ("-USR1", &["--resume"])] {
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
        .run(&["train", "tiny.toml", "--set", "train.steps=401", "--resume", "--out", "run"])
        .fails(2, &["another recipe", "train.steps = 400 is now 401"]);
    place.run(&["train", "--resume", "--out", "run"]).succeeds();
    assert_eq!(results(&place, "run"), results(&place, "whole"));
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let place = Workplace::with_recipe();
    // One step of this takes many seconds.
    let arguments = [
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
    let mut child = start(&place, &arguments);
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
    let child = start(&place, &["train", "--resume", "--out", "run"]);
    std::thread::sleep(Duration::from_millis(300));
    send("-TERM", &child);
    Answer::of(&["resumed"], &child.wait_with_output().unwrap()).fails(75, &["saved at step"]);
}
