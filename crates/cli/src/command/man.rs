//! `man`: the manual pages.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_mangen::Man as Page;

use super::Program;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::terminal::{say, say_document};

/// Write the manual pages, one per command
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  multivalued man --out man && man man/multivalued-generate.1")]
pub struct Man {
    /// The folder to write to; without it the main page is printed
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    pub fn run(&self) -> Outcome {
        let mut program = Program::command();
        // Gives every command its full name and its share of the global settings.
        program.build();
        let Some(out) = &self.out else {
            return say_document(String::from_utf8_lossy(&rendered(program)?).trim_end());
        };
        folder::make(out)?;
        let commands: Vec<_> = program.get_subcommands().cloned().collect();
        for command in commands.into_iter().filter(|command| command.get_name() != "help") {
            let name = format!("multivalued-{}", command.get_name());
            folder::write(&out.join(format!("{name}.1")), &rendered(command)?)?;
        }
        folder::write(&out.join("multivalued.1"), &rendered(program)?)?;
        say(&format!("manual pages written to {}", out.display()))
    }
}

fn rendered(command: clap::Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    Page::new(command).render(&mut page).map_err(|error| Failure::Io(format!("manual page: {error}")))?;
    Ok(page)
}
