//! Times the reference network here and in PyTorch, side by side on the same cores.
//!
//! `TORCH_PYTHON=path/to/python cargo bench -p multivalued-engine --bench against_torch [-- CASE…]`
//! prints one JSON line per case: medians of both sides, their ratio, GFLOP/s against the measured
//! peak, and the peak resident memory of both. Each side runs in a process of its own and takes turns
//! with the other, so that both meet the same noise; PyTorch is timed channels-last and NCHW, and its
//! better median counts. Both use as many threads as there are cores.

mod network;
mod side;

use multivalued_engine::{Adam, AdamOptions, Device, Tape, Tensor, Var};
use network::Network;
use serde_json::json;
use side::{RUNS, Side, TURNS, python};
use std::process::Command;
use std::time::Instant;

struct Case {
    name: &'static str,
    channels: &'static [usize],
    batch: usize,
    size: usize,
    group_norm: bool,
    train: bool,
    /// The largest ratio of our time to PyTorch's that is aimed at.
    target: f64,
}

const PAPER: &[usize] = &[32, 64, 128, 256];
const SMALL: &[usize] = &[8, 16, 32, 64];

const CASES: [Case; 4] = [
    Case {
        name: "train-paper",
        channels: PAPER,
        batch: 4,
        size: 160,
        group_norm: false,
        train: true,
        target: 0.5,
    },
    Case {
        name: "train-small",
        channels: SMALL,
        batch: 32,
        size: 64,
        group_norm: false,
        train: true,
        target: 0.4,
    },
    Case {
        name: "train-small-gn",
        channels: SMALL,
        batch: 32,
        size: 64,
        group_norm: true,
        train: true,
        target: 0.35,
    },
    Case {
        name: "predict-16",
        channels: PAPER,
        batch: 1,
        size: 160,
        group_norm: false,
        train: false,
        target: 0.3,
    },
];

impl Case {
    /// Multiply-adds count twice; a training step is three forward passes.
    fn gflop(&self) -> f64 {
        let residual = |inputs: usize, outputs: usize, pixels: usize| {
            let skip = if inputs == outputs { 0 } else { inputs * outputs };
            2 * pixels * (9 * (inputs * outputs + 2 * outputs * outputs) + skip)
        };
        let pixels = |level: usize| (self.size >> level).pow(2);
        let encoder = |mut inputs: usize| -> usize {
            self.channels
                .iter()
                .enumerate()
                .map(|(level, &outputs)| {
                    residual(std::mem::replace(&mut inputs, outputs), outputs, pixels(level))
                })
                .sum()
        };
        let decoder: usize = self
            .channels
            .windows(2)
            .enumerate()
            .map(|(level, pair)| residual(pair[0] + pair[1], pair[0], pixels(level)))
            .sum();
        let deepest = self.channels.len() - 1;
        let flop = if self.train {
            let head = 2 * pixels(0) * (self.channels[0] * 32 + 32 * 32 + 32);
            let embedding = 2 * pixels(deepest) * self.channels[deepest] * 256;
            3 * self.batch * (encoder(1) + encoder(2) + decoder + head + embedding)
        } else {
            encoder(1) + decoder + 2 * pixels(0) * (self.channels[0] * 32 + 16 * (32 * 32 + 32))
        };
        flop as f64 / 1e9
    }

    /// Serves the line protocol of both sides: each line asks for that many timed runs, the answer is
    /// their times in seconds.
    fn serve(&self) {
        let device = Device::cpu();
        let mut network = Network::new(&device, self.channels, self.group_norm);
        let count = self.batch * self.size * self.size;
        let image: Vec<f32> = (0..count).map(|i| (i as f32 * 0.618).fract()).collect();
        let label: Vec<f32> = image.iter().map(|&x| f32::from(x > 0.5)).collect();
        let shape = [self.batch, self.size, self.size, 1];
        let [x, y] = [image, label].map(|values| Var::constant(Tensor::from_slice(&device, shape, &values)));
        let mut adam = Adam::new(&network.parameters, AdamOptions::default());
        for line in std::io::stdin().lines() {
            let runs: usize = line.expect("a line").trim().parse().expect("a number of runs");
            let times: Vec<f64> = (0..runs)
                .map(|_| {
                    let start = Instant::now();
                    if self.train {
                        let tape = Tape::recording(&network.parameters);
                        let loss = network.loss(&tape, &x, &y);
                        let gradients = tape.backward(&loss);
                        adam.step(&mut network.parameters, &gradients, 1e-4);
                    } else {
                        network.predict(&x, 16);
                    }
                    start.elapsed().as_secs_f64()
                })
                .collect();
            println!("{}", json!(times));
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, name] = &arguments[..]
        && flag == "--serve"
    {
        let case = CASES.iter().find(|case| case.name == name).expect("a known case");
        // Inside the pool, as training runs: its many small parallel loops then start at once.
        return rayon::scope(|_| case.serve());
    }
    let python = python();
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/against_torch/peer.py");
    let itself = std::env::current_exe().expect("this program's path");
    for case in
        CASES.iter().filter(|case| arguments.is_empty() || arguments.iter().any(|name| name == case.name))
    {
        let peak = Device::cpu().peak_gflops();
        let mut ours = Side::start(Command::new(&itself).args(["--serve", case.name])).warmed_up();
        let channels = case.channels.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let mut torch = ["channels-last", "nchw"].map(|layout| {
            let (batch, size) = (case.batch.to_string(), case.size.to_string());
            let norm = if case.group_norm { "group-norm" } else { "no-norm" };
            let kind = if case.train { "train" } else { "predict" };
            Side::start(Command::new(&python).args([peer, kind, &channels, &batch, &size, norm, layout]))
                .warmed_up()
        });
        for _ in 0..TURNS {
            ours.run(RUNS);
            torch.iter_mut().for_each(|side| side.run(RUNS));
        }
        let (ours_s, torch_s) = (ours.median(), torch[0].median().min(torch[1].median()));
        println!(
            "{}",
            json!({
                "case": case.name,
                "ours_s": ours_s,
                "torch_s": torch_s,
                "ratio": ours_s / torch_s,
                "target": case.target,
                "ours_gflops": case.gflop() / ours_s,
                "torch_gflops": case.gflop() / torch_s,
                "peak_gflops": peak,
                "ours_peak_mib": ours.peak_memory(),
                "torch_peak_mib": torch[0].peak_memory(),
                "threads": std::thread::available_parallelism().map_or(1, usize::from),
            })
        );
        ours.stop();
        torch.into_iter().for_each(Side::stop);
    }
}
