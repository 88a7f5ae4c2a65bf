//! Times training steps as recipes take them, here and in PyTorch, side by side on the same cores or the same GPU.
//!
//! `TORCH_PYTHON=path/to/python cargo bench -p multivalued --bench real_steps [-- CASE…]` prints one JSON line per case:
//! medians of both sides and their ratio. Ours are steps of `Trainer`, batches included; PyTorch's (`peer.py`) are the
//! same networks, losses, assignment, Adam and weight average on one batch that is ready, on a GPU as one CUDA graph.
//! `soft` is a step of the first part of a training, `last` one of its last part, with hard assignment, overlap and
//! energy score. Those of `shapes` and `lidc` take several minutes each on a CPU, most of it PyTorch's. Cases of a GPU
//! run where they are named, or all of them with `cuda`; `--profile CASE` prints where the time of such a step goes,
//! kernel by kernel. `REAL_STEPS_PEER` names `peer.py` where the program was built elsewhere.

#[path = "../against_torch/side.rs"]
mod side;

use multivalued::{Recipe, Splits, Trainer};
use multivalued_data::dataset::Holding;
use multivalued_engine::{Device, KernelTime, Precision};
use serde_json::json;
use side::{RUNS, Side, TURNS, python};
use std::process::Command;
use std::time::Instant;

/// Name, recipe, part of the training, device, and the largest ratio of our time to PyTorch's that is aimed at.
const CASES: [(&str, &str, &str, &str, f64); 16] = [
    ("shapes-tiny-soft", "shapes-tiny", "soft", "cpu", 0.35),
    ("shapes-tiny-last", "shapes-tiny", "last", "cpu", 0.35),
    ("shapes-soft", "shapes", "soft", "cpu", 0.35),
    ("shapes-last", "shapes", "last", "cpu", 0.35),
    ("lidc-soft", "lidc", "soft", "cpu", 0.35),
    ("lidc-last", "lidc", "last", "cpu", 0.35),
    ("cuda-shapes-tiny-soft", "shapes-tiny", "soft", "cuda:bf16", 0.6),
    ("cuda-shapes-tiny-last", "shapes-tiny", "last", "cuda:bf16", 0.6),
    ("cuda-shapes-soft", "shapes", "soft", "cuda:bf16", 0.6),
    ("cuda-shapes-last", "shapes", "last", "cuda:bf16", 0.6),
    ("cuda-lidc-soft", "lidc", "soft", "cuda:bf16", 0.6),
    ("cuda-lidc-last", "lidc", "last", "cuda:bf16", 0.6),
    ("cuda-shapes-soft-tf32", "shapes", "soft", "cuda:tf32", 0.6),
    ("cuda-shapes-last-tf32", "shapes", "last", "cuda:tf32", 0.6),
    ("cuda-lidc-soft-tf32", "lidc", "soft", "cuda:tf32", 0.6),
    ("cuda-lidc-last-tf32", "lidc", "last", "cuda:tf32", 0.6),
];

/// A recipe all of whose steps are of that part.
fn recipe(name: &str, part: &str) -> Recipe {
    let mut recipe = Recipe::open(name).expect("a recipe of the program's own");
    if recipe.data.task.is_empty() {
        // LIDC's slices are not part of the program; drawn ones of their size take as long.
        (recipe.data.task, recipe.data.size) = ("shapes".into(), 128);
    }
    recipe.data.train_count = 4 * recipe.train.batch;
    (recipe.data.validation_count, recipe.data.test_count) = (0, 0);
    // Many steps, so that a few hundred are no progress to speak of.
    (recipe.train.epochs, recipe.train.steps) = (0, 1_000_000);
    match part {
        "last" => (recipe.assignment.anneal_until, recipe.loss.energy_from) = (0.0, 0.0),
        _ => recipe.loss.energy_from = 1.0,
    }
    recipe
}

fn open(device: &str) -> Device {
    let on_gpu = |precision| Device::cuda(0, precision).expect("a GPU");
    match device {
        "cpu" => Device::cpu(),
        "cuda:tf32" => on_gpu(Precision::Tf32),
        _ => on_gpu(Precision::Bf16),
    }
}

fn trainer(recipe: &Recipe, device: &Device) -> Trainer {
    let train = Splits::load(&recipe.data, &Holding::Memory).expect("a task's cases").train;
    Trainer::new(recipe, train, Vec::new(), device).expect("a valid recipe")
}

fn serve(recipe: &Recipe, device: &Device) {
    let mut trainer = trainer(recipe, device);
    for line in std::io::stdin().lines() {
        let runs: usize = line.expect("a line").trim().parse().expect("a number of runs");
        let times: Vec<f64> = (0..runs)
            .map(|_| {
                let start = Instant::now();
                trainer.step().expect("a step");
                start.elapsed().as_secs_f64()
            })
            .collect();
        println!("{}", json!(times));
    }
}

/// Prints the kernels of one step.
fn profile(recipe: &Recipe, device: &Device) {
    let Device::Cuda(cuda) = device else { return println!("only a GPU's kernels are timed") };
    let mut trainer = trainer(recipe, device);
    let mut step = || _ = trainer.step().expect("a step");
    (0..20).for_each(|_| step());
    let times = cuda.timing(step);
    let total: f64 = times.iter().map(|time| time.milliseconds).sum();
    println!("{total:.2} ms in {} launches", times.iter().map(|time| time.launches).sum::<usize>());
    for KernelTime { kernel, launches, milliseconds } in times {
        println!("{milliseconds:8.3} ms {launches:4} x {kernel}");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let named = |case: &str| CASES.into_iter().find(|(name, ..)| *name == case).expect("one of the cases");
    if let [flag, case] = &arguments[..] {
        let (_, name, part, device, _) = named(case);
        let recipe = recipe(name, part);
        // Inside the pool, as the program trains: its many small parallel loops then start at once.
        match flag.as_str() {
            "--serve" => return rayon::scope(|_| serve(&recipe, &open(device))),
            "--profile" => return rayon::scope(|_| profile(&recipe, &open(device))),
            _ => {}
        }
    }
    let python = python();
    let peer = std::env::var("REAL_STEPS_PEER")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/real_steps/peer.py").into());
    let itself = std::env::current_exe().expect("this program's path");
    let wanted = |name: &str, device: &str| match arguments.is_empty() {
        true => device == "cpu",
        false => arguments.iter().any(|argument| argument == name || device.starts_with(argument.as_str())),
    };
    for (case, name, part, device, target) in
        CASES.into_iter().filter(|(case, _, _, device, _)| wanted(case, device))
    {
        let of = recipe(name, part);
        let ours = Side::start(Command::new(&itself).args(["--serve", case]));
        // PyTorch's better way: of two layouts, and of a GPU's two ways to compute in bf16.
        let ways: &[(&str, &str)] = match device {
            "cpu" => &[("channels-last", "cpu"), ("nchw", "cpu")],
            "cuda:tf32" => &[("channels-last", "cuda:tf32"), ("nchw", "cuda:tf32")],
            _ => &[("channels-last", "cuda:bf16"), ("channels-last", "cuda:autocast"), ("nchw", "cuda:bf16")],
        };
        let start = |&(layout, device): &(&str, &str)| {
            let settings = json!({
                "part": part,
                "layout": layout,
                "channels": of.model.channels,
                "batch": of.train.batch,
                "size": of.data.size,
                "codes": of.assignment.active_codes,
                "head_width": of.model.head_width,
                "norm_group": of.model.norm_group,
                "empty_head": of.model.empty_head,
                "device": device,
            });
            Side::start(Command::new(&python).args([&peer, &settings.to_string()]))
        };
        let torch: Vec<Side> = ways.iter().map(start).collect();
        let mut ours = ours.warmed_up();
        let mut torch: Vec<Side> = torch.into_iter().map(Side::warmed_up).collect();
        // Steps are short, and so is a turn: more runs in each.
        for _ in 0..TURNS {
            ours.run(10 * RUNS);
            torch.iter_mut().for_each(|side| side.run(10 * RUNS));
        }
        let (ours_s, torch_s): (f64, Vec<f64>) =
            (ours.median(), torch.iter_mut().map(Side::median).collect());
        let best_s = torch_s.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{}",
            json!({
                "case": case,
                "ours_s": ours_s,
                "torch_s": best_s,
                "torch_ways_s": torch_s,
                "ratio": ours_s / best_s,
                "target": target,
                "ours_peak_mib": ours.peak_memory(),
                "torch_peak_mib": torch[0].peak_memory(),
            })
        );
        ours.stop();
        torch.into_iter().for_each(Side::stop);
    }
}
