//! Writing to standard output and standard error without ever panicking, and without letting names that
//! others chose (of files, columns, readers) steer the terminal.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::{Failure, Outcome};

/// Prints a sentence of a result as one line, whatever the names in it hold.
pub fn say(line: &str) -> Outcome {
    say_document(&shown(line))
}

/// Prints lines that this program laid out itself; names in them went through [`shown`] before, so that no
/// line break is theirs.
pub fn say_lines(text: &str) -> Outcome {
    say_document(&text.split('\n').map(shown).collect::<Vec<_>>().join("\n"))
}

/// Prints a JSON document.
pub fn say_json(document: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(document).map_err(|error| Failure::Io(error.to_string()))?;
    say_quoted(&text)
}

/// Prints a document of JSON or TOML, in which names stand in quotes.
pub fn say_quoted(text: &str) -> Outcome {
    say_document(&quoted_shown(text))
}

/// Prints what other programs read, as it is.
pub fn say_document(text: &str) -> Outcome {
    output(format!("{text}\n").as_bytes())
}

/// The same with bytes. An output that its reader has closed ends the command quietly.
pub fn output(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Io(format!("standard output: {error}")),
    })
}

/// Prints a remark to standard error as one line; if nobody can read it, nothing better can be done.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(line));
}

/// Prints lines of our own to standard error, as [`say_lines`] does to standard output.
pub fn complain_lines(text: &str) {
    text.split('\n').for_each(complain);
}

/// Text in which what a terminal would obey is written out: an escape character as `\u{1b}`, a line break as
/// `\n`.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match is_obeyed(character) {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out
}

/// The same document with the control characters that JSON and TOML allow in strings written as they write the
/// others. Outside of strings a document has line breaks alone.
fn quoted_shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character != '\n' && is_obeyed(character) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => out.push(character),
        }
    }
    out
}

/// Control characters, line and paragraph separators, and marks that reverse the direction of what follows.
fn is_obeyed(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || matches!(character, '\u{2028}'..='\u{202e}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        assert_eq!(shown("a\u{1b}[31m\n\t\r\u{7f}\u{9b}"), r"a\u{1b}[31m\n\t\r\u{7f}\u{9b}");
        assert_eq!(shown("x\u{202e}gnp.\u{2066}\u{2028}"), r"x\u{202e}gnp.\u{2066}\u{2028}");
        for kept in ["Größe-画像", "a b;'\"\\", "±½ ▁█ …", "👩\u{200d}🔬"] {
            assert_eq!(shown(kept), kept);
        }
    }

    #[test]
    fn a_json_document_stays_the_same_document() {
        let value = serde_json::json!({ "name\u{9b}": ["\u{1b}[0m\n", "\u{7f}", "\u{202e}"] });
        let text = quoted_shown(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.contains(|character| character != '\n' && is_obeyed(character)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
