//! Times training steps as recipes take them, here and in PyTorch, side by side on the same cores.
//!
//! `TORCH_PYTHON=path/to/python cargo bench -p multivalued --bench real_steps [-- CASE…]` prints one JSON line per case:
//! medians of both sides and their ratio. Ours are steps of `Trainer`, batches included; PyTorch's (`peer.py`) are the
//! same networks, losses, assignment, Adam and weight average on one batch that is ready. `soft` is a step of the first
//! part of a training, `last` one of its last part, with hard assignment, overlap and energy score.

#[path = "../against_torch/side.rs"]
mod side;

use multivalued::{Recipe, Splits, Trainer};
use multivalued_data::dataset::Holding;
use multivalued_engine::Device;
use serde_json::json;
use side::{RUNS, Side, TURNS, python};
use std::process::Command;
use std::time::Instant;

/// Name, recipe, part of the training, and the largest ratio of our time to PyTorch's that is aimed at.
const CASES: [(&str, &str, &str, f64); 2] =
    [("shapes-tiny-soft", "shapes-tiny", "soft", 0.35), ("shapes-tiny-last", "shapes-tiny", "last", 0.35)];

/// A recipe all of whose steps are of that part.
fn recipe(name: &str, part: &str) -> Recipe {
    let mut recipe = Recipe::open(name).expect("a recipe of the program's own");
    recipe.data.train_count = 4 * recipe.train.batch;
    (recipe.data.validation_count, recipe.data.test_count) = (0, 0);
    // Many steps, so that a few hundred are no progress to speak of.
    (recipe.train.epochs, recipe.train.steps) = (0, 1_000_000);
    if part == "last" {
        (recipe.assignment.anneal_until, recipe.loss.energy_from) = (0.0, 0.0);
    }
    recipe
}

fn serve(recipe: &Recipe) {
    let train = Splits::load(&recipe.data, &Holding::Memory).expect("a task's cases").train;
    let mut trainer = Trainer::new(recipe, train, Vec::new(), &Device::cpu()).expect("a valid recipe");
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

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, name, part] = &arguments[..]
        && flag == "--serve"
    {
        let recipe = recipe(name, part);
        // Inside the pool, as the program trains: its many small parallel loops then start at once.
        return rayon::scope(|_| serve(&recipe));
    }
    let python = python();
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/real_steps/peer.py");
    let itself = std::env::current_exe().expect("this program's path");
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
    for (case, name, part, target) in CASES.into_iter().filter(|(case, ..)| wanted(case)) {
        let of = recipe(name, part);
        let channels = of.model.channels.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let sizes = [of.train.batch, of.data.size, of.assignment.active_codes, of.model.head_width];
        let sizes = sizes.map(|size| size.to_string());
        let mut ours = Side::start(Command::new(&itself).args(["--serve", name, part]));
        let mut torch = ["channels-last", "nchw"].map(|layout| {
            let mut command = Command::new(&python);
            Side::start(command.args([peer, part, layout, &channels]).args(&sizes))
        });
        // Steps are short, and so is a turn: more runs in each.
        for _ in 0..TURNS {
            ours.run(10 * RUNS);
            torch.iter_mut().for_each(|side| side.run(10 * RUNS));
        }
        let (ours_s, torch_s) = (ours.median(), torch[0].median().min(torch[1].median()));
        println!(
            "{}",
            json!({
                "case": case,
                "ours_s": ours_s,
                "torch_s": torch_s,
                "ratio": ours_s / torch_s,
                "target": target,
                "ours_peak_mib": ours.peak_memory(),
                "torch_peak_mib": torch[0].peak_memory(),
            })
        );
        ours.stop();
        torch.into_iter().for_each(Side::stop);
    }
}
