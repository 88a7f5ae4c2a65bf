//! Transfer syntaxes: which are read, and what to do with the others.

use std::path::Path;

use crate::{Error, Result};

pub(super) const IMPLICIT: &str = "1.2.840.10008.1.2";
pub(super) const EXPLICIT: &str = "1.2.840.10008.1.2.1";
pub(super) const BIG_ENDIAN: &str = "1.2.840.10008.1.2.2";

/// How frames are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Native { big_endian: bool },
    RunLengths,
    Jpeg,
    Jpeg2000,
}

/// The coding of a transfer syntax. One without a decoder is refused by name, with a program that unpacks it.
pub(super) fn coding(path: &Path, syntax: &str) -> Result<Coding> {
    let unread = match syntax {
        IMPLICIT | EXPLICIT | "1.2.840.10008.1.2.1.99" => return Ok(Coding::Native { big_endian: false }),
        BIG_ENDIAN => return Ok(Coding::Native { big_endian: true }),
        "1.2.840.10008.1.2.5" => return Ok(Coding::RunLengths),
        "1.2.840.10008.1.2.4.50"
        | "1.2.840.10008.1.2.4.51"
        | "1.2.840.10008.1.2.4.57"
        | "1.2.840.10008.1.2.4.70" => return Ok(Coding::Jpeg),
        "1.2.840.10008.1.2.4.90" | "1.2.840.10008.1.2.4.91" => return Ok(Coding::Jpeg2000),
        "1.2.840.10008.1.2.4.80" | "1.2.840.10008.1.2.4.81" => "JPEG-LS",
        "1.2.840.10008.1.2.4.92" | "1.2.840.10008.1.2.4.93" => "JPEG 2000 Part 2",
        "1.2.840.10008.1.2.4.201" | "1.2.840.10008.1.2.4.202" | "1.2.840.10008.1.2.4.203" => "HTJ2K",
        "1.2.840.10008.1.2.4.110" | "1.2.840.10008.1.2.4.111" | "1.2.840.10008.1.2.4.112" => "JPEG XL",
        other if other.starts_with("1.2.840.10008.1.2.4.10") => "MPEG video",
        _ => "unknown here",
    };
    Err(Error::file(
        path,
        format!(
            "its transfer syntax {syntax} ({unread}) has no decoder here; unpack it first with gdcmconv --raw IN.dcm \
             OUT.dcm"
        ),
    ))
}
