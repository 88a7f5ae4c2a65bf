//! Sound files, damaged in ways that are the same every time. The tests of several crates share this.

use std::fs;
use std::path::Path;

use multivalued_data::draw::Draw;

/// The tiny sound files of a fuzz target, and what once broke it, by name.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Says which input it was when a check panics.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was b\"{}\"", self.0.escape_ascii());
        }
    }
}

/// Checks each file as it is and then `count` files that damage made of them.
pub fn check_damaged(name: &str, sound: &[Vec<u8>], count: u64, check: impl Fn(&[u8])) {
    let shown = |bytes: &[u8]| {
        let _shown = Shown(bytes);
        check(bytes);
    };
    sound.iter().for_each(|bytes| shown(bytes));
    for index in 0..count {
        shown(&damaged(&mut Draw::new(1, &["damage", name], index), sound));
    }
}

/// One of the files with one to four faults.
fn damaged(draw: &mut Draw, sound: &[Vec<u8>]) -> Vec<u8> {
    /// What numbers and texts of formats stumble over.
    const PIECES: [&[u8]; 16] = [
        &[0; 8],
        &[0xff; 8],
        &[0xff; 2],
        b"\0\0\0\x80",
        b"\xff\xff\xff\x7f",
        b"\x01\0",
        b"-1",
        b"0",
        b"18446744073709551616",
        b"1e400",
        b"nan",
        b"\"",
        b"{",
        b"]",
        b"\n",
        b"\xc3",
    ];
    let mut bytes = sound[draw.index(sound.len())].clone();
    for _ in 0..1 + draw.index(4) {
        let at = draw.index(bytes.len() + 1);
        let end = (at + draw.index(9)).min(bytes.len());
        match draw.index(8) {
            0 | 1 if at < bytes.len() => bytes[at] = draw.index(256) as u8,
            2 if at < bytes.len() => bytes[at] ^= 1 << draw.index(8),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = PIECES[draw.index(PIECES.len())];
                let end = (at + piece.len()).min(bytes.len());
                // Over what is there, or between it.
                let end = if draw.chance(0.5) { end } else { at };
                bytes.splice(at..end, piece.iter().copied());
            }
            5 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            6 => {
                let other = &sound[draw.index(sound.len())];
                let from = draw.index(other.len() + 1);
                let to = (from + draw.index(33)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            7 if draw.chance(0.3) => bytes.truncate(at),
            _ => {}
        }
    }
    bytes
}
