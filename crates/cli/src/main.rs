//! The program `multivalued`; the library beside it does all the work.

use std::process::ExitCode;

fn main() -> ExitCode {
    multivalued_cli::main_with(std::env::args_os()).into()
}
