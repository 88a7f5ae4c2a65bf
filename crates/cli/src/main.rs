//! The program `multivalued`: one file per command, device choice, progress and report pages.
//!
//! | module | what it is for |
//! |---|---|
//! | `command` | the commands and their options |
//! | `exit`, `terminal` | exit codes and failures; printing that never panics |
//! | `folder` | writing files so that nobody meets half of one |
//! | `picture` | images and masks as coloured tiles and contact sheets |
//! | `page` | the report page: one self-contained HTML file |
//! | `tensorboard` | event files that TensorBoard reads |
//! | `run`, `log` | a run's folder, its lock, progress and signals; the lines of `log.jsonl` |
//! | `device` | which device computes |

mod command;
mod device;
mod document;
mod exit;
mod folder;
mod log;
mod page;
mod picture;
mod run;
mod tensorboard;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let program = command::Program::parse();
    // A GPU that fails far inside a command ends it as any other error does.
    match multivalued_engine::catching(|| program.run()).map_err(exit::Failure::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
