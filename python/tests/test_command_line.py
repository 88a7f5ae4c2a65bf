"""`python -m multivalued` is the command line itself."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time

import multivalued as mv
from conftest import ELSEWHERE, command_line


def test_version_help_and_exit_codes(tmp_path: pathlib.Path) -> None:
    assert mv.__version__ in command_line("--version").stdout
    assert "Usage: multivalued" in command_line("--help").stdout
    wrong = command_line("predict", tmp_path / "none", "x.png", check=False)
    assert wrong.returncode == 2 and "error: " in wrong.stderr and "there is no such run" in wrong.stderr
    assert command_line("train", check=False).returncode == 2
    assert (
        command_line("generate", "shapes", "--out", tmp_path / "s", "--size", 32, "--count", "train=2").returncode == 0
    )
    assert len(mv.read_dataset(tmp_path / "s")) == 2


def test_ctrl_c_saves_and_a_second_command_goes_on(tmp_path: pathlib.Path) -> None:
    run = tmp_path / "run"
    words = [sys.executable, "-m", "multivalued", "train", "shapes-tiny", "--out", str(run), "--device", "cpu"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ELSEWHERE)
    deadline = time.monotonic() + 120
    while not (run / "log.jsonl").is_file() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 75 and "saved at step" in err, err
    assert (run / "last").exists()


def test_other_commands_end_at_once_with_ctrl_c(tmp_path: pathlib.Path) -> None:
    generate = ["generate", "shapes", "--count", "train=30000", "--out", str(tmp_path / "many")]
    process = subprocess.Popen([sys.executable, "-m", "multivalued", *generate], cwd=ELSEWHERE)
    while not (tmp_path / "many").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == -signal.SIGINT
