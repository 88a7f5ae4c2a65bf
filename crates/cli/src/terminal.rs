//! Writing to standard output and standard error without ever panicking.

use std::io::{self, Write};

use crate::exit::{Failure, Outcome};

/// Prints a result. An output that its reader has closed ends the command quietly.
pub fn say(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).map_err(
        |error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Io(format!("standard output: {error}")),
        },
    )
}

/// Prints a remark to standard error; if nobody can read it, nothing better can be done.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Lines of two columns, the first one padded.
pub fn two_columns(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    let lines = rows.iter().map(|(left, right)| format!("{left:<width$}  {right}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}
