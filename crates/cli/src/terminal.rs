//! Writing to standard output and standard error without ever panicking, and without letting names that
//! others chose (of files, columns, readers) steer the terminal.

use std::cell::RefCell;
use std::io::{self, Write};

use serde::Serialize;

use crate::exit::{Failure, Outcome};

/// Hears what would go to the terminal.
type Listener = Box<dyn FnMut(&str)>;

thread_local! {
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

/// Does some work on this thread whose words go, line by line, to a listener in place of the terminal. A listener
/// is not heard by another one while it listens.
pub fn heard_by<T>(listener: impl FnMut(&str) + 'static, work: impl FnOnce() -> T) -> T {
    /// Also where the work unwinds.
    struct Restored(Option<Listener>);
    impl Drop for Restored {
        fn drop(&mut self) {
            LISTENER.with(|place| *place.borrow_mut() = self.0.take());
        }
    }
    let before = LISTENER.with(|place| place.borrow_mut().replace(Box::new(listener)));
    let _restored = Restored(before);
    work()
}

/// Whether somebody else than the terminal listens.
pub fn is_heard() -> bool {
    LISTENER.with(|place| place.try_borrow().is_ok_and(|listener| listener.is_some()))
}

/// Tells the listener, where there is one.
fn told(text: &str) -> bool {
    LISTENER.with(|place| match place.try_borrow_mut() {
        Ok(mut place) => place.as_mut().map(|listener| text.split('\n').for_each(listener)).is_some(),
        Err(_) => false,
    })
}

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
    if told(text) {
        return Ok(());
    }
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
    let line = shown(line);
    if !told(&line) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
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
    fn a_listener_hears_lines_until_the_work_ends() {
        let heard = std::rc::Rc::new(RefCell::new(Vec::new()));
        let into = heard.clone();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            heard_by(
                move |line| into.borrow_mut().push(line.to_owned()),
                || {
                    complain("a\tb");
                    say_lines("one\ntwo").unwrap();
                    assert!(is_heard());
                    panic!("the work fails");
                },
            )
        }));
        assert!(unwound.is_err() && !is_heard());
        assert_eq!(*heard.borrow(), [r"a\tb", "one", "two"]);
    }

    #[test]
    fn a_json_document_stays_the_same_document() {
        let value = serde_json::json!({ "name\u{9b}": ["\u{1b}[0m\n", "\u{7f}", "\u{202e}"] });
        let text = quoted_shown(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.contains(|character| character != '\n' && is_obeyed(character)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
