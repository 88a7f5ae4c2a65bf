//! Writing to standard output and standard error without ever panicking.

use std::io::{self, Write};

use crate::exit::{Failure, Outcome};

/// Prints a result. An output that its reader has closed ends the command quietly.
pub fn say(text: &str) -> Outcome {
    output(format!("{text}\n").as_bytes())
}

/// The same with the bytes of a document, as they are.
pub fn output(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Io(format!("standard output: {error}")),
    })
}

/// Prints a remark to standard error; if nobody can read it, nothing better can be done.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Lines that are broken between words where they are longer than a usual terminal is wide.
pub fn wrapped(text: &str) -> String {
    const WIDTH: usize = 80;
    let mut out: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.chars().count() <= WIDTH {
            out.push(line.to_owned());
            continue;
        }
        let mut broken = String::new();
        for word in line.split_whitespace() {
            if !broken.is_empty() && broken.chars().count() + 1 + word.chars().count() > WIDTH {
                out.push(std::mem::take(&mut broken));
            }
            if !broken.is_empty() {
                broken.push(' ');
            }
            broken.push_str(word);
        }
        out.push(broken);
    }
    out.join("\n")
}

/// Lines of two columns, the first one padded.
pub fn two_columns(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    let lines = rows.iter().map(|(left, right)| format!("{left:<width$}  {right}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_short_ones_left_alone() {
        let table = "score    mean\n  a      0.5";
        assert_eq!(wrapped(table), table);
        let broken = wrapped(&"word ".repeat(40));
        assert!(broken.lines().all(|line| line.len() <= 80 && !line.starts_with(' ')), "{broken}");
        assert_eq!(broken.split_whitespace().count(), 40);
    }
}
