//! The commands: one file each, with its options beside what it does.

mod bench;
mod calibrate;
pub mod combine;
mod compare;
mod completions;
mod demo;
mod distil;
mod evaluate;
pub mod export;
mod generate;
mod import;
mod inspect;
mod man;
pub mod options;
pub mod plan;
mod predict;
mod serve;
pub mod train;
mod validate;
mod view;

use clap::{Parser, Subcommand};

use crate::exit::Outcome;
use crate::run::team::Team;

/// Learn dynamic multi-valued mappings: one image in, a varying set of plausible masks with honest
/// probabilities out.
#[derive(Debug, Parser)]
#[command(name = "multivalued", version, propagate_version = true, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 below a requested bound or a model of no use, 2 the user's error, 74 the system \
refused to read or write, 75 interrupted with a checkpoint saved, 128 + N ended by signal N."
)]
pub struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Generate(generate::Generate),
    Import(import::Import),
    Validate(validate::Validate),
    Plan(plan::PlanCommand),
    Train(train::Train),
    Predict(predict::Predict),
    View(view::View),
    Evaluate(evaluate::Evaluate),
    Calibrate(calibrate::Calibrate),
    Combine(combine::Combine),
    Distil(distil::Distil),
    Export(export::Export),
    Serve(serve::Serve),
    Inspect(inspect::Inspect),
    Compare(compare::Compare),
    Bench(bench::Bench),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Program {
    /// Runs the command that was given; a training as one of several processes where `team` says so.
    pub fn run(mut self, team: Team) -> Outcome {
        if let Command::Train(train) = &mut self.command {
            train.team = team;
        }
        match self.command {
            Command::Demo(command) => command.run(),
            Command::Generate(command) => command.run(),
            Command::Import(command) => command.run(),
            Command::Validate(command) => command.run(),
            Command::Plan(command) => command.run(),
            Command::Train(command) => command.run(),
            Command::Predict(command) => command.run(),
            Command::View(command) => command.run(),
            Command::Evaluate(command) => command.run(),
            Command::Calibrate(command) => command.run(),
            Command::Combine(command) => command.run(),
            Command::Distil(command) => command.run(),
            Command::Export(command) => command.run(),
            Command::Serve(command) => command.run(),
            Command::Inspect(command) => command.run(),
            Command::Compare(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Man(command) => command.run(),
        }
    }
}
