//! Times the reference network on a GPU: training steps by precision, their memory, prediction of
//! sixteen hypotheses, and with `--profile` where the time of a step goes, kernel by kernel.
//!
//! `cargo bench -p multivalued-engine --bench cuda_steps [-- --profile] [-- PRECISION…]` prints a JSON line per
//! precision. The program is started anew for each, so that the time to the first step is a whole one.

#[path = "../against_torch/network.rs"]
mod network;

use multivalued_engine::{Adam, AdamOptions, Cuda, Device, KernelTime, Precision, Tape, Tensor, Var};
use network::Network;
use serde_json::json;
use std::process::Command;
use std::time::Instant;

const CHANNELS: [usize; 4] = [32, 64, 128, 256];
const BATCH: usize = 32;
const SIZE: usize = 160;
const STEPS: usize = 30;
const HYPOTHESES: usize = 16;

const PRECISIONS: [(&str, Precision); 3] =
    [("f32", Precision::F32), ("tf32", Precision::Tf32), ("bf16", Precision::Bf16)];

struct Training {
    network: Network,
    adam: Adam,
    x: Var,
    y: Var,
}

impl Training {
    fn new(device: &Device) -> Self {
        let network = Network::new(device, &CHANNELS, false);
        let image: Vec<f32> = (0..BATCH * SIZE * SIZE).map(|i| (i as f32 * 0.618).fract()).collect();
        let label: Vec<f32> = image.iter().map(|&x| f32::from(x > 0.5)).collect();
        let tensor = |values: &[f32]| Tensor::from_slice(device, [BATCH, SIZE, SIZE, 1], values);
        let (x, y) = (Var::constant(tensor(&image)), Var::constant(tensor(&label)));
        let adam = Adam::new(&network.parameters, AdamOptions::default());
        Self { network, adam, x, y }
    }

    fn step(&mut self) {
        let tape = Tape::recording(&self.network.parameters);
        let loss = self.network.loss(&tape, &self.x, &self.y);
        let gradients = tape.backward(&loss);
        drop(loss);
        self.adam.step(&mut self.network.parameters, &gradients, 1e-4);
    }
}

/// The median of some runs, in milliseconds.
fn median(runs: usize, mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[runs / 2]
}

fn print_profile(times: &[KernelTime]) {
    let total: f64 = times.iter().map(|time| time.milliseconds).sum();
    println!(
        "kernels of one step: {total:.2} ms in {} launches",
        times.iter().map(|t| t.launches).sum::<usize>()
    );
    for KernelTime { kernel, launches, milliseconds } in times {
        println!("{milliseconds:8.3} ms {:5.1} % {launches:4} x {kernel}", 100.0 * milliseconds / total);
    }
}

fn measure(name: &str, precision: Precision, profile: bool, start: Instant) {
    let device = match Device::cuda(0, precision) {
        Ok(device) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    let opened = start.elapsed().as_secs_f64();
    let mut training = Training::new(&device);
    training.step();
    let first_step = start.elapsed().as_secs_f64();
    for _ in 0..4 {
        training.step();
    }
    let allocations = device.allocations();
    let step = median(STEPS, || training.step());
    let grown = device.allocations() - allocations;
    let peak = device.peak_bytes() as f64 / (1u64 << 30) as f64;
    // The host's own time: launches are queued, so what it takes without waiting is hidden.
    let queue = median(5, || {
        let tape = Tape::recording(&training.network.parameters);
        let loss = training.network.loss(&tape, &training.x, &training.y);
        drop(tape.backward(&loss));
    });
    device.synchronise();
    let predict = median(10, || _ = training.network.predict(&training.x, HYPOTHESES)) / BATCH as f64;
    println!(
        "{}",
        json!({
            "precision": name,
            "device": format!("{device:?}"),
            "opened_s": opened,
            "first_step_s": first_step,
            "step_ms": step,
            "host_ms": queue,
            "peak_gib": peak,
            "allocations_while_timed": grown,
            "predict_16_ms_per_image": predict,
        })
    );
    if let (true, Device::Cuda(cuda)) = (profile, &device) {
        let cuda: &Cuda = cuda;
        print_profile(&cuda.timing(|| training.step()));
    }
}

fn main() {
    let start = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let profile = arguments.iter().any(|argument| argument == "--profile");
    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    if let [only] = named[..]
        && let Some((name, precision)) = PRECISIONS.iter().find(|(name, _)| name == only)
    {
        return measure(name, *precision, profile, start);
    }
    let itself = std::env::current_exe().expect("this program's path");
    for (name, _) in PRECISIONS.iter().filter(|(name, _)| named.is_empty() || named.iter().any(|n| n == name))
    {
        let mut command = Command::new(&itself);
        command.arg(name);
        if profile {
            command.arg("--profile");
        }
        command.status().expect("this program starts again");
    }
}
