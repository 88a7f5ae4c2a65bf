//! Where a DICOM file keeps its attributes and its pixels, found without reading a value.
//!
//! The parser of `dicom-object` takes memory as large as an element says it is, and calls itself for every sequence
//! in a sequence. So each length is held against the file's end first, and depth and number of elements have limits;
//! the parser is then given the attributes alone, and never the pixels.

use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use dicom_core::dictionary::{DataDictionary, DataDictionaryEntry, VirtualVr};
use dicom_core::{Tag, VR};
use dicom_dictionary_std::{StandardDataDictionary, tags};
use dicom_object::InMemDicomObject;
use dicom_transfer_syntax_registry::entries;
use flate2::read::DeflateDecoder;

use super::syntax;
use crate::disk::File;
use crate::import::Limits;
use crate::memory::reserved;
use crate::{Error, Result};

/// Sequences inside of sequences and their items; real files have fewer than ten.
const MOST_DEPTH: usize = 32;
/// Attributes of a file. A multi-frame file has some fifty for each frame.
const MOST_ELEMENTS: usize = 2_000_000;
/// Bytes of all attributes.
const MOST_HEADER_BYTES: u64 = 256 << 20;
/// Bytes of a text or a list of numbers, which take several times as many in memory.
const MOST_TEXT_BYTES: u64 = 1 << 20;
/// A length that is not stated.
const UNDEFINED: u32 = u32::MAX;
/// The transfer syntax whose data set is deflated as a whole.
const DEFLATED: &str = "1.2.840.10008.1.2.1.99";

trait Source: Read + Seek + Send {}
impl<T: Read + Seek + Send> Source for T {}

/// Where pixels lie in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stored {
    /// As they are, one frame after the other.
    Native(Range<u64>),
    /// Compressed; without the table of offsets.
    Fragments(Vec<Range<u64>>),
}

/// An opened file.
pub(super) struct Parts {
    source: Box<dyn Source>,
    /// The transfer syntax's UID.
    pub syntax: String,
    /// The data set up to the pixels.
    header: Range<u64>,
    /// None where the file has no pixels.
    pub pixels: Option<Stored>,
}

impl Parts {
    /// Finds the parts of a file.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let length = file.metadata().map_err(|e| Error::io(path, e))?.len();
        if length > limits.bytes {
            let reason = format!("{length} bytes are more than the {} allowed; crop it", limits.bytes);
            return Err(Error::file(path, reason));
        }
        let mut source: Box<dyn Source> = Box::new(BufReader::with_capacity(1 << 14, file));
        let mut walk =
            Walk { path, source: &mut source, at: 0, end: length, explicit: true, big_endian: false };
        let syntax = walk.transfer_syntax()?;
        let start = walk.at;
        let (mut start, mut end) = (start, length);
        if syntax == DEFLATED {
            let inflated = inflate(path, &mut source, start, limits)?;
            (start, end) = (0, inflated.len() as u64);
            source = Box::new(Cursor::new(inflated));
        }
        let (explicit, big_endian) = (syntax != syntax::IMPLICIT, syntax == syntax::BIG_ENDIAN);
        let mut walk = Walk { path, source: &mut source, at: start, end, explicit, big_endian };
        walk.go_to(start)?;
        let (header_end, pixels) = walk.data_set()?;
        Ok(Self { source, syntax, header: start..header_end, pixels })
    }

    /// All attributes but the pixels.
    pub fn attributes(&mut self, path: &Path) -> Result<InMemDicomObject> {
        let bytes = self.bytes(path, self.header.clone())?;
        let read = match self.syntax.as_str() {
            syntax::IMPLICIT => {
                InMemDicomObject::read_dataset_with_ts(&*bytes, &entries::IMPLICIT_VR_LITTLE_ENDIAN.erased())
            }
            syntax::BIG_ENDIAN => {
                InMemDicomObject::read_dataset_with_ts(&*bytes, &entries::EXPLICIT_VR_BIG_ENDIAN.erased())
            }
            _ => {
                InMemDicomObject::read_dataset_with_ts(&*bytes, &entries::EXPLICIT_VR_LITTLE_ENDIAN.erased())
            }
        };
        // Without the parser's own words, which may hold a value, and so a patient's name.
        read.map_err(|_| {
            Error::file(path, "has attributes that cannot be read as DICOM; export the file again")
        })
    }

    /// Bytes of the file, whose range was held against the file's end.
    pub fn bytes(&mut self, path: &Path, range: Range<u64>) -> Result<Vec<u8>> {
        let length = range.end - range.start;
        let mut bytes = reserved(path, length as usize)?;
        self.source.seek(SeekFrom::Start(range.start)).map_err(|e| Error::io(path, e))?;
        let read = self.source.by_ref().take(length).read_to_end(&mut bytes);
        match read.map_err(|e| Error::io(path, e))? as u64 == length {
            true => Ok(bytes),
            false => Err(Error::file(path, "became shorter while it was read; try again")),
        }
    }
}

/// The data set of a deflated file, no longer than allowed.
fn inflate(path: &Path, source: &mut impl Source, start: u64, limits: &Limits) -> Result<Vec<u8>> {
    source.seek(SeekFrom::Start(start)).map_err(|e| Error::io(path, e))?;
    let mut bytes = Vec::new();
    let read =
        DeflateDecoder::new(source).take(limits.bytes.min(MOST_HEADER_BYTES) + 1).read_to_end(&mut bytes);
    read.map_err(|e| Error::file(path, format!("cannot be unpacked: {e}; copy or export the file again")))?;
    match bytes.len() as u64 > limits.bytes.min(MOST_HEADER_BYTES) {
        true => Err(Error::file(
            path,
            "unpacks to more than 256 MiB; store it without deflating it (gdcmconv --raw)",
        )),
        false => Ok(bytes),
    }
}

/// Goes from element to element.
struct Walk<'a> {
    path: &'a Path,
    source: &'a mut Box<dyn Source>,
    at: u64,
    end: u64,
    explicit: bool,
    big_endian: bool,
}

/// The beginning of an element.
struct Element {
    tag: Tag,
    vr: VR,
    length: u32,
    /// Where it begins, and where its value does.
    start: u64,
}

/// A sequence or one of its items that is not at its end.
struct Level {
    is_item: bool,
    /// Where it ends, if that is stated.
    end: Option<u64>,
    /// Whether elements around it state their types.
    explicit: bool,
}

impl Walk<'_> {
    fn truncated(&self) -> Error {
        let reason = format!(
            "is truncated: it ends at byte {} inside of an element; copy or export it again",
            self.end
        );
        Error::file(self.path, reason)
    }

    fn broken(&self, what: &str) -> Error {
        Error::file(
            self.path,
            format!("cannot be read as DICOM: {what} at byte {}; export it again", self.at),
        )
    }

    fn go_to(&mut self, at: u64) -> Result<()> {
        self.at = at;
        self.source.seek(SeekFrom::Start(at)).map(drop).map_err(|e| Error::io(self.path, e))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        if self.end - self.at < N as u64 {
            return Err(self.truncated());
        }
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(|e| Error::io(self.path, e))?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn short(&mut self) -> Result<u16> {
        let bytes = self.take()?;
        Ok(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn long(&mut self) -> Result<u32> {
        let bytes = self.take()?;
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// Passes a value, which must lie inside of the file.
    fn skip(&mut self, length: u32) -> Result<Range<u64>> {
        let length = u64::from(length);
        if self.end - self.at < length {
            return Err(self.truncated());
        }
        let range = self.at..self.at + length;
        // Relative, so that what is buffered stays.
        self.source.seek_relative(length as i64).map_err(|e| Error::io(self.path, e))?;
        self.at = range.end;
        Ok(range)
    }

    fn element(&mut self) -> Result<Element> {
        let start = self.at;
        let tag = Tag(self.short()?, self.short()?);
        if tag.0 == 0xfffe {
            return Ok(Element { tag, vr: VR::UN, length: self.long()?, start });
        }
        if !self.explicit {
            let length = self.long()?;
            let entry = StandardDataDictionary.by_tag(tag);
            let vr = match entry.map(DataDictionaryEntry::vr) {
                Some(VirtualVr::Exact(vr)) => vr,
                _ => VR::UN,
            };
            return Ok(Element { tag, vr, length, start });
        }
        let name = self.take::<2>()?;
        let Some(vr) = VR::from_binary(name) else { return Err(self.broken("no type of a value")) };
        let length = match vr {
            VR::OB
            | VR::OD
            | VR::OF
            | VR::OL
            | VR::OV
            | VR::OW
            | VR::SQ
            | VR::SV
            | VR::UC
            | VR::UN
            | VR::UR
            | VR::UT
            | VR::UV => {
                self.take::<2>()?;
                self.long()?
            }
            _ => u32::from(self.short()?),
        };
        Ok(Element { tag, vr, length, start })
    }

    /// Passes preamble and meta information and gives the transfer syntax.
    fn transfer_syntax(&mut self) -> Result<String> {
        self.go_to(128)?;
        if self.end < 132 || &self.take::<4>()? != b"DICM" {
            return Err(Error::file(self.path, "is no DICOM file; give one that begins as PS3.10 says"));
        }
        let mut syntax = None;
        while self.at < self.end {
            let start = self.at;
            let group = self.short()?;
            self.go_to(start)?;
            // The data set begins, whose elements may not state their types.
            if group != 2 {
                break;
            }
            let Element { tag, length, .. } = self.element()?;
            if tag == tags::TRANSFER_SYNTAX_UID && length <= 64 {
                let at = self.at;
                let range = self.skip(length)?;
                self.go_to(at)?;
                let mut text = vec![0; (range.end - range.start) as usize];
                self.source.read_exact(&mut text).map_err(|e| Error::io(self.path, e))?;
                self.at = range.end;
                let text = String::from_utf8_lossy(&text);
                syntax = Some(text.trim_end_matches(['\0', ' ']).to_owned());
            } else {
                self.skip(length)?;
            }
        }
        syntax.ok_or_else(|| self.broken("no transfer syntax is stated"))
    }

    /// Goes through the data set up to its pixels: where they begin, and where they lie.
    fn data_set(&mut self) -> Result<(u64, Option<Stored>)> {
        let first = self.at;
        let mut levels: Vec<Level> = Vec::new();
        for _ in 0..MOST_ELEMENTS {
            while let Some(end) = levels.last().and_then(|level| level.end) {
                if self.at > end {
                    return Err(self.broken("a sequence is shorter than what it holds"));
                }
                if self.at < end {
                    break;
                }
                self.explicit = levels.pop().is_none_or(|level| level.explicit);
            }
            if self.at - first > MOST_HEADER_BYTES {
                return Err(self.broken("more than 256 MiB of attributes"));
            }
            if self.at == self.end {
                return if levels.is_empty() { Ok((self.at, None)) } else { Err(self.truncated()) };
            }
            let Element { tag, vr, length, start } = self.element()?;
            match tag {
                tags::PIXEL_DATA if levels.is_empty() => return Ok((start, Some(self.stored(length)?))),
                Tag(0xfffe, 0xe000) => {
                    if levels.last().is_none_or(|level| level.is_item) {
                        return Err(self.broken("an item outside of a sequence"));
                    }
                    let end = self.end_of(length)?;
                    levels.push(Level { is_item: true, end, explicit: self.explicit });
                }
                Tag(0xfffe, 0xe00d | 0xe0dd) => {
                    let is_item = tag.1 == 0xe00d;
                    match levels.pop() {
                        Some(level) if level.is_item == is_item && level.end.is_none() => {
                            self.explicit = level.explicit;
                        }
                        _ => return Err(self.broken("an end without a beginning")),
                    }
                }
                _ if levels.last().is_some_and(|level| !level.is_item) => {
                    return Err(self.broken("no item where one is due"));
                }
                _ if length == UNDEFINED || vr == VR::SQ => {
                    let end = self.end_of(length)?;
                    levels.push(Level { is_item: false, end, explicit: self.explicit });
                    // What a sequence of unknown type holds does not state types either.
                    self.explicit &= vr != VR::UN;
                }
                _ => {
                    let is_plain = matches!(vr, VR::OB | VR::OD | VR::OF | VR::OL | VR::OV | VR::OW | VR::UN);
                    self.skip(length)?;
                    if !is_plain && u64::from(length) > MOST_TEXT_BYTES {
                        return Err(self.broken("a text of more than 1 MiB ends"));
                    }
                }
            }
            if levels.len() > MOST_DEPTH {
                return Err(self.broken("sequences inside of more than 16 others, which no real file has"));
            }
        }
        Err(self.broken("more than two million attributes"))
    }

    /// Where a sequence or item of that length ends, if that is stated.
    fn end_of(&self, length: u32) -> Result<Option<u64>> {
        match length {
            UNDEFINED => Ok(None),
            _ if self.end - self.at < u64::from(length) => Err(self.truncated()),
            _ => Ok(Some(self.at + u64::from(length))),
        }
    }

    /// Where the pixels lie whose element was just met.
    fn stored(&mut self, length: u32) -> Result<Stored> {
        if length != UNDEFINED {
            return Ok(Stored::Native(self.skip(length)?));
        }
        let mut fragments = Vec::new();
        loop {
            let Element { tag, length, .. } = self.element()?;
            match tag {
                Tag(0xfffe, 0xe000) if length != UNDEFINED => fragments.push(self.skip(length)?),
                Tag(0xfffe, 0xe0dd) => break,
                _ => return Err(self.broken("no fragment of pixels where one is due")),
            }
        }
        if fragments.is_empty() {
            return Err(self.broken("compressed pixels without a table of offsets"));
        }
        // The first item is the table of offsets, which may be empty.
        fragments.remove(0);
        Ok(Stored::Fragments(fragments))
    }
}
