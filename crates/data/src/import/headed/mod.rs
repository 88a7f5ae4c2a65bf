//! Images and volumes that a header of text describes: MetaImage and NRRD. The samples follow the header
//! or lie in a file beside it; a header that names a file elsewhere is refused.
//!
//! The two formats differ in their headers alone ([`metaimage`], [`nrrd`]). What comes after is here:
//! sizes are checked against limits before samples are read, and samples are read as far as the header says.

mod metaimage;
mod nrrd;

use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

use super::sample::{Sample, Steps};
use super::{Limits, Samples, Size};
use crate::disk::{self, File};
use crate::files;
use crate::memory::reserved;
use crate::{Error, Geometry, Mask, Result};

/// No header needs more; what is longer is no header.
const MOST_HEADER_BYTES: u64 = 1 << 16;

/// The two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    MetaImage,
    Nrrd,
}

impl Kind {
    /// Told by the first bytes. MetaImage has no signature: its first line is one of a few fields.
    pub fn identify(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"NRRD000") {
            return Some(Self::Nrrd);
        }
        let first = head.split(|&byte| byte == b'=').next().filter(|key| key.len() < head.len())?;
        let fields: [&[u8]; 3] = [b"ObjectType", b"NDims", b"Comment"];
        fields.contains(&first.trim_ascii()).then_some(Self::MetaImage)
    }

    /// The extension of a file that holds header and samples.
    pub fn extension(self) -> &'static str {
        match self {
            Self::MetaImage => "mha",
            Self::Nrrd => "nrrd",
        }
    }
}

/// How samples are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Raw,
    Zlib,
    Gzip,
}

/// Where samples begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    At(u64),
    /// Wherever it takes to end with the file.
    FromEnd,
}

/// A checked header.
#[derive(Debug)]
pub(crate) struct Header {
    kind: Kind,
    size: Size,
    sample: Sample,
    big_endian: bool,
    geometry: Geometry,
    /// The file that holds the samples: the header's own, or one beside it.
    data: PathBuf,
    /// Bytes of that file.
    stored: u64,
    start: Start,
    packing: Packing,
    /// The lines that place the image in the world, without channels, for masks that are written back.
    place: Vec<String>,
}

/// What a header says, line by line.
struct Text {
    lines: Vec<String>,
    /// Bytes up to and with the line that ends the header.
    length: u64,
}

impl Text {
    /// Reads lines up to the first that `is_last`, or to the end of the file.
    fn read(path: &Path, is_last: impl Fn(&str) -> bool) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let mut bytes = Vec::new();
        file.take(MOST_HEADER_BYTES).read_to_end(&mut bytes).map_err(|e| Error::io(path, e))?;
        let mut text = Self { lines: Vec::new(), length: 0 };
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            text.length += line.len() as u64;
            let line = String::from_utf8_lossy(line).trim().to_owned();
            let ends = is_last(&line);
            text.lines.push(line);
            if ends {
                return Ok(text);
            }
        }
        if text.length == MOST_HEADER_BYTES {
            return Err(Error::file(
                path,
                format!("has no end of its header within {MOST_HEADER_BYTES} bytes; export it again"),
            ));
        }
        Ok(text)
    }
}

/// A file that a header names: a plain name, so that a header cannot make other folders' files be read.
fn beside(path: &Path, name: &str) -> Result<PathBuf> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) if !name.contains(['/', '\\', '%']) => {}
        _ => {
            return Err(Error::file(
                path,
                format!(
                    "keeps its samples in '{name}'; one file in the same folder is wanted, move it there"
                ),
            ));
        }
    }
    let data = path.with_file_name(name);
    match disk::is_file(&data) {
        true => Ok(data),
        false => Err(Error::file(
            path,
            format!("keeps its samples in '{name}', which is not in its folder; copy it there"),
        )),
    }
}

/// Numbers separated by blanks.
fn numbers<T: std::str::FromStr>(path: &Path, key: &str, text: &str) -> Result<Vec<T>> {
    let number = |word: &str| {
        word.parse()
            .map_err(|_| Error::file(path, format!("has the {key} '{text}', not numbers; export it again")))
    };
    text.split_whitespace().map(number).collect()
}

/// Columns, rows and slices: one slice where there is no third axis; further axes must have length 1.
fn extent(path: &Path, lengths: &[usize]) -> Result<[usize; 3]> {
    let at = |axis: usize| lengths.get(axis).copied().unwrap_or(1);
    if lengths.len() < 2 {
        return Err(Error::file(
            path,
            format!("has {} axes; a 2-D image or a 3-D volume is wanted", lengths.len()),
        ));
    }
    if let Some(axis) = (3..lengths.len()).find(|&axis| lengths[axis] != 1) {
        return Err(Error::file(
            path,
            format!(
                "has {} entries along axis {}; save each time point or channel as its own file",
                lengths[axis],
                axis + 1
            ),
        ));
    }
    Ok([at(0), at(1), at(2)])
}

/// The geometry of axes that are given as steps in the world from voxel to voxel. `signs` turn the file's
/// world axes into right, anterior, superior, which NIfTI uses, so that files of different formats can be
/// held against each other.
pub(crate) fn geometry(steps: [[f64; 3]; 3], origin: [f64; 3], signs: Option<[f64; 3]>) -> Geometry {
    let length = |step: [f64; 3]| step.iter().map(|part| part * part).sum::<f64>().sqrt();
    let spacing = steps.map(|step| if length(step) == 0.0 { 1.0 } else { length(step) as f32 });
    let affine = signs.map(|signs| {
        [0, 1, 2].map(|row| {
            [steps[0][row], steps[1][row], steps[2][row], origin[row]]
                .map(|value| (value * signs[row]) as f32)
        })
    });
    Geometry { spacing, affine }
}

impl Header {
    /// Reads and checks a header; no samples.
    pub fn read(path: &Path, kind: Kind, limits: &Limits) -> Result<Self> {
        let mut header = match kind {
            Kind::MetaImage => metaimage::parse(path)?,
            Kind::Nrrd => nrrd::parse(path)?,
        };
        let numbers = header.geometry.spacing.iter().chain(header.geometry.affine.iter().flatten().flatten());
        if numbers.into_iter().any(|number| !number.is_finite()) {
            return Err(Error::file(
                path,
                "has a spacing, direction or origin that is not finite; export it again",
            ));
        }
        let stored = disk::length(&header.data).map_err(|e| Error::io(&header.data, e))?;
        header.stored = stored;
        limits.check(path, &header.size, header.sample.bytes() as u64, stored)?;
        let needed = header.sample_bytes() as u64;
        let available = match header.start {
            Start::At(start) => stored.saturating_sub(start),
            Start::FromEnd => stored,
        };
        if header.packing == Packing::Raw && available < needed {
            return Err(header.truncated(path, available));
        }
        Ok(header)
    }

    /// Slices.
    pub fn depth(&self) -> usize {
        self.size.depth
    }

    fn sample_bytes(&self) -> usize {
        let Size { width, height, depth, channels } = self.size;
        width * height * depth * channels * self.sample.bytes()
    }

    fn truncated(&self, path: &Path, found: u64) -> Error {
        let data = match self.data == path {
            true => String::new(),
            false => format!(" (in {})", self.data.display()),
        };
        let needed = self.sample_bytes();
        Error::file(
            path,
            format!("is truncated: {found} of {needed} sample bytes{data}; copy or export it again"),
        )
    }

    fn bytes(&self, path: &Path) -> Result<Vec<u8>> {
        let length = self.sample_bytes();
        let mut file = File::open(&self.data).map_err(|e| Error::io(&self.data, e))?;
        let seek = match self.start {
            Start::At(start) => SeekFrom::Start(start),
            Start::FromEnd => SeekFrom::End(-(length as i64)),
        };
        file.seek(seek).map_err(|e| Error::io(&self.data, e))?;
        let reader = BufReader::with_capacity(1 << 16, file);
        let mut stream: Box<dyn Read> = match self.packing {
            Packing::Raw => Box::new(reader),
            Packing::Zlib => Box::new(ZlibDecoder::new(reader)),
            Packing::Gzip => Box::new(MultiGzDecoder::new(reader)),
        };
        let unpack = |e: std::io::Error| {
            Error::file(path, format!("cannot be unpacked: {e}; copy or export the file again"))
        };
        let mut bytes = reserved(path, length)?;
        stream.by_ref().take(length as u64).read_to_end(&mut bytes).map_err(unpack)?;
        if bytes.len() < length {
            return Err(self.truncated(path, bytes.len() as u64));
        }
        if self.packing != Packing::Raw {
            // One byte more reaches the checksum, which is compared there.
            let _ = stream.read(&mut [0]).map_err(unpack)?;
        }
        Ok(bytes)
    }
}

/// Reads a file of either format.
pub(super) fn read(path: &Path, kind: Kind, limits: &Limits) -> Result<Samples> {
    let header = Header::read(path, kind, limits)?;
    let _room = limits.claim(path, &header.size, header.sample, header.stored, 1)?;
    Ok(Samples {
        size: header.size,
        bytes: header.bytes(path)?,
        sample: header.sample,
        big_endian: header.big_endian,
        // A pixel's channels lie side by side in the file.
        steps: Steps::interleaved(header.size),
        scale: None,
        geometry: Some(header.geometry),
    })
}

/// Writes masks as one file of 8-bit labels (0 background, 1 the first class, …) in the geometry of `like`,
/// header and samples together, packed where those of `like` are. One mask per slice, in their order.
pub(crate) fn write_masks(path: &Path, like: &Header, slices: &[Mask]) -> Result<()> {
    super::one_mask_per_slice(path, like.size, slices)?;
    write(path, like, Element::Label, slices.iter().flat_map(Mask::labels).collect())
}

/// Writes a map of f32 in the same way.
pub(crate) fn write_map(path: &Path, like: &Header, slice: &dyn Fn(usize) -> Vec<f32>) -> Result<()> {
    let values = (0..like.depth()).flat_map(slice);
    write(path, like, Element::Value, values.flat_map(f32::to_le_bytes).collect())
}

/// What is written for a voxel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    /// A label in 8 bits.
    Label,
    /// An f32, little-endian.
    Value,
}

fn write(path: &Path, like: &Header, element: Element, bytes: Vec<u8>) -> Result<()> {
    let packed = match like.packing {
        Packing::Raw => Ok(bytes),
        Packing::Zlib => {
            let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
            out.write_all(&bytes).and_then(|()| out.finish())
        }
        Packing::Gzip => {
            let mut out = GzEncoder::new(Vec::new(), Compression::default());
            out.write_all(&bytes).and_then(|()| out.finish())
        }
    };
    let packed = packed.map_err(|e| Error::io(path, e))?;
    let head = match like.kind {
        Kind::MetaImage => metaimage::header(like, element, packed.len()),
        Kind::Nrrd => nrrd::header(like, element),
    };
    files::replace(path, |file| file.write_all(head.as_bytes()).and_then(|()| file.write_all(&packed)))
}
