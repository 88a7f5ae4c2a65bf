//! Disks that are full or cannot be written to, and memory that is too small: the old checkpoint stays, and
//! the program says so.
#![cfg(unix)]

use std::fs;
use std::process::Command;

use crate::interruption::{log, send, start, wait_until};
use crate::workplace::{Answer, Workplace};

/// A run that was interrupted after some steps, with a checkpoint of some hundred KiB.
fn interrupted_run() -> Workplace {
    let place = Workplace::with_recipe();
    let sets = ["--set", "model.channels=[16, 32]", "--set", "train.validate_every=1000"];
    let arguments =
        [&["train", "tiny.toml", "--out", "run", "--set", "train.steps=1000000"][..], &sets].concat();
    let child = start(&place, &arguments);
    wait_until(|| log(&place, "run").contains("\"kind\":\"step\""));
    send("-TERM", &child);
    Answer::of(&arguments, &child.wait_with_output().unwrap()).fails(75, &[]);
    place
}

/// Runs a script with the program as `$0`.
pub fn script(place: &Workplace, interpreter: &[&str], script: &str) -> Option<Answer> {
    let mut command = Command::new(interpreter[0]);
    command.args(&interpreter[1..]).args(["-c", script, env!("CARGO_BIN_EXE_multivalued")]);
    match command.current_dir(place.root()).output() {
        Err(error) => {
            eprintln!("skipped: no {}: {error}", interpreter[0]);
            None
        }
        Ok(output) => Some(Answer::of(&[script], &output)),
    }
}

/// Runs a script that may mount what nobody else sees; nothing where that is not allowed.
fn with_mounts(place: &Workplace, text: &str) -> Option<Answer> {
    let unshare = ["unshare", "--mount", "bash"];
    let allowed = script(place, &unshare, "mkdir -p probe && mount -t tmpfs -o size=4k none probe")?;
    if allowed.code != 0 {
        eprintln!("skipped: this user may not mount: {}", allowed.err);
        return None;
    }
    script(place, &unshare, text)
}

#[test]
fn a_file_that_may_not_grow_leaves_the_old_checkpoint_intact() {
    let place = interrupted_run();
    let checkpoint = || {
        let mut files: Vec<_> =
            fs::read_dir(place.path("run/last")).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect::<Vec<_>>()
    };
    let before = checkpoint();
    // No file may grow beyond 16 KiB: a checkpoint does not fit, as on a full disk.
    let limited = "ulimit -f 16; trap '' XFSZ; exec \"$0\" train --resume --out run --save-every 0";
    if let Some(answer) = script(&place, &["bash"], limited) {
        answer.fails(74, &["run/last", "bytes could not be written", "free some space"]);
        assert_eq!(checkpoint(), before, "the old checkpoint is as it was");
    }
}

#[test]
fn a_disk_that_is_really_full_leaves_the_old_checkpoint_intact() {
    let place = interrupted_run();
    // A disk with room for the run and a little more: none, some for the log, and half a checkpoint.
    for room in [0, 24, 96] {
        let text = format!(
            r#"mkdir -p disk && mount -t tmpfs -o size=$(( $(du -sk run | cut -f1) + 4 + {room} ))k none disk || exit 99
            cp -r run disk/run || exit 98
            "$0" train --resume --out disk/run --save-every 0; echo "ended with $?"
            diff -r run/last disk/run/last && echo "as it was"
            ls disk/run
            # With space again it goes on, from what was kept.
            mount -o remount,size=64m disk
            # In the foreground, or the signal would come twice: to the program and to its group.
            timeout --foreground --preserve-status -s TERM 3 "$0" train --resume --out disk/run; echo "then with $?""#
        );
        let Some(answer) = with_mounts(&place, &text) else { return };
        let (out, err) = (&answer.out, &answer.err);
        assert!(out.contains("ended with 74") && out.contains("as it was"), "{room} KiB: {out}\n{err}");
        assert!(err.contains("No space left") && err.contains("free some space"), "{err}");
        assert!(!out.contains("last.new") && !out.contains(".part"), "{out}");
        assert!(out.contains("then with 75") && err.contains("saved at step"), "{out}\n{err}");
    }
}

#[test]
fn a_full_disk_is_told_by_every_command_that_writes() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.png("image.png", 16, &[7; 256]);
    let text = r#"mkdir -p disk && mount -t tmpfs -o size=48k none disk || exit 99
        head -c 48k /dev/zero > disk/full 2>/dev/null
        for command in "generate shapes --out disk/set" "predict run image.png --out disk/said" \
            "evaluate run --json disk/a.json" "evaluate run --html disk/a.html" "man --out disk/man" \
            "train tiny.toml --out disk/run"; do
            "$0" $command > /dev/null; echo "ended with $?"
        done"#;
    let Some(answer) = with_mounts(&place, text) else { return };
    assert_eq!(answer.out.matches("ended with 74").count(), 6, "{}\n{}", answer.out, answer.err);
    assert_eq!(answer.err.matches("No space left").count(), 6, "{}", answer.err);
}

#[test]
fn a_disk_that_is_read_only_is_refused_before_the_work() {
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    place.png("image.png", 16, &[7; 256]);
    let text = r#"mkdir -p disk && mount -t tmpfs none disk && cp -r run disk/run && mount -o remount,ro disk || exit 99
        for command in "generate shapes --out disk/set" "train tiny.toml --out disk/new" \
            "predict run image.png --out disk/said" "calibrate disk/run" "man --out disk/man"; do
            "$0" $command > /dev/null; echo "ended with $?"
        done
        # Reading needs no right to write.
        "$0" predict disk/run image.png --out said && "$0" evaluate disk/run --split validation > /dev/null \
            && "$0" compare disk/run > /dev/null && "$0" evaluate disk/run && "$0" inspect disk/run > /dev/null \
            && echo "all read""#;
    let Some(answer) = with_mounts(&place, text) else { return };
    assert_eq!(answer.out.matches("ended with 74").count(), 5, "{}\n{}", answer.out, answer.err);
    assert_eq!(answer.err.matches("; choose a folder that can be written to").count(), 7, "{}", answer.err);
    assert!(!answer.err.contains("epoch"), "no training begins: {}", answer.err);
    assert!(answer.out.contains("all read"), "{}\n{}", answer.out, answer.err);
    assert!(answer.out.contains("ged_exact") && answer.err.contains("nothing was written into the run"));
    assert_eq!(answer.err.matches("nothing was written").count(), 2, "{}", answer.err);
}

#[test]
fn a_run_that_is_marked_as_read_only_is_scored_and_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Workplace::with_recipe();
    place.train("run", &[]).trained();
    let files = || {
        let mut files: Vec<_> = fs::read_dir(place.path("run")).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        files
            .into_iter()
            .map(|path| (fs::metadata(&path).unwrap().modified().unwrap(), path))
            .collect::<Vec<_>>()
    };
    let before = files();
    fs::set_permissions(place.path("run"), PermissionsExt::from_mode(0o555)).unwrap();
    let answer = place.run(&["evaluate", "run", "--json", "scores.json"]).succeeds();
    fs::set_permissions(place.path("run"), PermissionsExt::from_mode(0o755)).unwrap();
    assert!(answer.out.contains("ged_exact"), "{}", answer.out);
    assert!(answer.err.contains("nothing was written into the run: run: is read-only"), "{}", answer.err);
    assert_eq!(files(), before);
    assert!(place.path("scores.json").is_file());
}

#[test]
fn memory_that_is_too_small_is_told() {
    let place = Workplace::with_recipe();
    // 600 MB of addresses hold the program. What a large batch needs at the least is known before the first
    // step; a smaller one is begun, and its step then asks for more than there is.
    for (batch, parts) in [
        (128, &["train.batch (128 images of 128x128)", "needs 4.0 GiB of memory", "are free"]),
        (8, &["out of memory", "MiB more were asked for", "smaller batch"]),
    ] {
        let recipe = format!(
            "--set data.size=128 --set data.train_count=128 --set train.batch={batch} --set 'model.channels=[64, 64]'"
        );
        let limited =
            format!("ulimit -v 600000; exec \"$0\" train tiny.toml --out run-{batch} {recipe} --device cpu");
        if let Some(answer) = script(&place, &["bash"], &limited) {
            answer.fails(2, parts);
        }
    }
}
