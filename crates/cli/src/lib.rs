//! What the program `multivalued` does, for the program itself and for other languages: one file per command, device
//! choice, progress and report pages.
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
//!
//! [`main_with`] is the program. The rest of what is public here is what the Python package calls, which has arrays
//! in place of files and exceptions in place of exit codes.

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

pub use command::combine::Combine;
pub use command::export::Export;
pub use command::options::{Loading, Reading};
pub use command::plan::{data_of, planned};
pub use command::train::{RecipeText, Train};
pub use device::{DeviceChoice, description};
pub use exit::{Failure, Outcome};
pub use log::Numbers;
pub use multivalued_data::fingerprint::Warnings;
pub use picture::{Exhibit, png, sheet};
pub use run::calibration::Calibration;
pub use run::cases::Cases;
pub use run::counting::Counting;
pub use run::evaluation::Evaluation;
pub use run::keep::Keep;
pub use run::likeness::fingerprint;
pub use run::model::RunModel;
pub use run::observer::Observer;
pub use run::reader::Reader;
pub use run::training::Training;
pub use run::{RunFolder, levels};
pub use terminal::heard_by;

use std::ffi::OsString;

use clap::Parser;

/// The program: runs the command that the arguments name, the program's own name first, and gives the exit code.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = match command::Program::try_parse_from(&arguments) {
        Ok(program) => program,
        Err(error) => {
            // The parser's words repeat the arguments, which may be names that others chose.
            let harmless = arguments.iter().map(|argument| terminal::shown(&argument.to_string_lossy()));
            let error = command::Program::try_parse_from(harmless).err().unwrap_or(error);
            // Whoever closed the output does not want to hear of it.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    // A GPU that fails far inside a command ends it as any other error does.
    match multivalued_engine::catching(|| program.run()).map_err(Failure::from).flatten() {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    }
}
