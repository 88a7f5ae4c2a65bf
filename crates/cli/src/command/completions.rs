//! `completions`: the shell's word list.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Program;
use crate::exit::Outcome;
use crate::terminal::say_document;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  source <(multivalued completions bash)\n  multivalued completions fish > ~/.config/fish/completions/multivalued.fish"
)]
pub struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub fn run(&self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Program::command(), "multivalued", &mut script);
        say_document(String::from_utf8_lossy(&script).trim_end())
    }
}
