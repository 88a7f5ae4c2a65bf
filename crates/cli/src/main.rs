//! The program `multivalued`: one file per command, device choice, progress and report pages.
//!
//! | module | what it is for |
//! |---|---|
//! | `command` | the commands and their options |
//! | `exit`, `terminal`, `columns` | exit codes and failures; printing that never panics; tables |
//! | `folder` | writing files so that nobody meets half of one |
//! | `picture` | images and masks as coloured tiles and contact sheets |
//! | `page` | the report page: one self-contained HTML file |
//! | `tensorboard` | event files that TensorBoard reads |
//! | `run`, `log` | a run's folder, its lock, progress and signals; the lines of `log.jsonl` |
//! | `device` | which device computes |

mod columns;
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

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let program = command::Program::try_parse_from(&arguments).unwrap_or_else(|error| {
        // The parser's words repeat the arguments, which may be names that others chose.
        let harmless = arguments.iter().map(|argument| terminal::shown(&argument.to_string_lossy()));
        command::Program::try_parse_from(harmless).err().unwrap_or(error).exit()
    });
    // A GPU that fails far inside a command ends it as any other error does.
    match multivalued_engine::catching(|| program.run()).map_err(exit::Failure::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
