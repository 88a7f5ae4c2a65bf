//! The two sides of a comparison with PyTorch, each a process that answers a line with the times of so many runs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Turns each side takes, and timed runs in a turn.
pub const TURNS: usize = 4;
pub const RUNS: usize = 3;
/// Runs before those that are timed.
const WARM_UP: usize = 2;

/// The Python that has PyTorch.
pub fn python() -> String {
    std::env::var("TORCH_PYTHON").unwrap_or_else(|_| {
        eprintln!(
            "set TORCH_PYTHON to a Python with torch 2.11 (python3 -m venv, pip install torch==2.11.0 numpy)"
        );
        std::process::exit(2);
    })
}

/// One side of the comparison, in a process of its own.
pub struct Side {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    times: Vec<f64>,
}

impl Side {
    /// Starts it, and has it warm up meanwhile; several sides may do so at once.
    pub fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the side's process starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut side = Self { child, input, output, times: Vec::new() };
        side.ask(WARM_UP);
        side
    }

    /// Waits until it has warmed up, which is not counted.
    pub fn warmed_up(mut self) -> Self {
        self.listen();
        self.times.clear();
        self
    }

    pub fn run(&mut self, runs: usize) {
        self.ask(runs);
        self.listen();
    }

    fn ask(&mut self, runs: usize) {
        writeln!(self.input, "{runs}").expect("the side listens");
    }

    fn listen(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the side answers");
        let times: Vec<f64> = serde_json::from_str(&line).expect("times in seconds");
        self.times.extend(times);
    }

    pub fn median(&mut self) -> f64 {
        self.times.sort_by(f64::total_cmp);
        self.times[self.times.len() / 2]
    }

    /// Peak resident memory in MiB, where the system tells.
    pub fn peak_memory(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
    }

    pub fn stop(self) {
        drop(self.input);
        let mut child = self.child;
        child.wait().expect("the side ends when its input does");
    }
}
