//! The pixels of single frames: as they are stored, as run lengths, as JPEG or as JPEG 2000. What is handed out is always
//! little-endian and exactly as long as size and type say.
//!
//! The decoders of `dicom-pixeldata` are not used: they index by what a file says without checking it, so that a
//! damaged file ends the program.

use std::path::Path;

use jpeg_decoder::{ColorTransform, Decoder, PixelFormat};

use super::jpeg2000;
use super::parts::{Parts, Stored};
use super::syntax::{self, Coding};
use crate::import::Sample;
use crate::memory::reserved;
use crate::{Error, Result};

/// What a file says of all its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    pub width: usize,
    pub height: usize,
    pub channels: usize,
    pub sample: Sample,
    /// Bits of a sample that count, from the lowest on.
    pub bits: u32,
    pub colours: Colours,
    /// Whether natively stored channels come one plane after the other.
    pub by_plane: bool,
}

/// What samples stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colours {
    Grey,
    /// The lowest value is white.
    Inverted,
    Rgb,
    /// Luma and chroma, of full range.
    Ybr,
}

impl Format {
    /// Samples of a frame.
    pub fn samples(&self) -> usize {
        self.width * self.height * self.channels
    }

    /// Bytes of a frame.
    pub fn bytes(&self) -> usize {
        self.samples() * self.sample.bytes()
    }
}

/// Reads one frame of a file that has so many.
pub(super) fn read(
    path: &Path,
    parts: &mut Parts,
    format: &Format,
    frame: usize,
    of: usize,
) -> Result<Vec<u8>> {
    let coding = syntax::coding(path, &parts.syntax)?;
    let stored = parts.pixels.clone();
    let (mut bytes, is_rgb) = match (stored, coding) {
        (Some(Stored::Native(range)), Coding::Native { big_endian }) => {
            if big_endian && format.sample.bytes() == 1 {
                let reason = "has 8-bit pixels in big-endian words, which files order in two ways; unpack it first with \
                              gdcmconv --raw IN.dcm OUT.dcm";
                return Err(Error::file(path, reason));
            }
            let length = format.bytes() as u64;
            let start = range.start + length * frame as u64;
            if range.end < start + length {
                let found = range.end - range.start;
                let reason = format!(
                    "is truncated: {found} of {} bytes of pixels; copy or export it again",
                    length * of as u64
                );
                return Err(Error::file(path, reason));
            }
            let mut bytes = parts.bytes(path, start..start + length)?;
            if big_endian {
                bytes.chunks_mut(format.sample.bytes()).for_each(<[u8]>::reverse);
            }
            (if format.by_plane { interleaved(&bytes, format) } else { bytes }, false)
        }
        (
            Some(Stored::Fragments(fragments)),
            coding @ (Coding::RunLengths | Coding::Jpeg | Coding::Jpeg2000),
        ) => {
            let some = match (of, fragments.len()) {
                (1, _) => &fragments[..],
                (of, found) if of == found => &fragments[frame..=frame],
                (of, found) => {
                    let reason = format!(
                        "has {found} compressed fragments for {of} frames; unpack it first with gdcmconv --raw IN.dcm \
                         OUT.dcm"
                    );
                    return Err(Error::file(path, reason));
                }
            };
            let mut packed =
                reserved(path, some.iter().map(|range| (range.end - range.start) as usize).sum())?;
            for range in some {
                packed.extend(parts.bytes(path, range.clone())?);
            }
            match coding {
                Coding::RunLengths => (run_lengths(path, &packed, format)?, false),
                // Colours that were transformed are transformed back by the decoder.
                Coding::Jpeg2000 => (jpeg2000::decode(path, &packed, format)?, true),
                _ => (jpeg(path, &packed, format)?, true),
            }
        }
        (None, _) => return Err(Error::file(path, "has no pixels; export it again, or remove it")),
        _ => {
            let reason = "is compressed in another way than its transfer syntax says; export it again";
            return Err(Error::file(path, reason));
        }
    };
    finish(&mut bytes, format, is_rgb);
    Ok(bytes)
}

/// Brings samples to the bits that count, the lowest value to black and colours to RGB.
fn finish(bytes: &mut [u8], format: &Format, is_rgb: bool) {
    let unused = format.sample.bytes() as u32 * 8 - format.bits;
    let invert = format.colours == Colours::Inverted;
    if unused > 0 || invert {
        macro_rules! each {
            ($unsigned:ty, $signed:ty, $size:literal) => {
                for word in bytes.as_chunks_mut::<$size>().0 {
                    let stored = <$unsigned>::from_le_bytes(*word) << unused;
                    let stored = if invert { !stored } else { stored };
                    *word = match format.sample {
                        Sample::I8 | Sample::I16 | Sample::I32 => {
                            ((stored as $signed) >> unused).to_le_bytes()
                        }
                        _ => (stored >> unused).to_le_bytes(),
                    };
                }
            };
        }
        match format.sample.bytes() {
            1 => each!(u8, i8, 1),
            2 => each!(u16, i16, 2),
            _ => each!(u32, i32, 4),
        }
    }
    if format.colours == Colours::Ybr && !is_rgb && format.sample == Sample::U8 {
        for [y, cb, cr] in bytes.as_chunks_mut::<3>().0 {
            // PS3.3 C.7.6.3.1.2, YBR_FULL.
            let [luma, blue, red] = [*y, *cb, *cr].map(f32::from);
            let (blue, red) = (blue - 128.0, red - 128.0);
            let byte = |value: f32| value.round().clamp(0.0, 255.0) as u8;
            *y = byte(luma + 1.402 * red);
            *cb = byte(luma - 0.344_136 * blue - 0.714_136 * red);
            *cr = byte(luma + 1.772 * blue);
        }
    }
}

/// The channels of each pixel side by side.
fn interleaved(planes: &[u8], format: &Format) -> Vec<u8> {
    let size = format.sample.bytes();
    let plane = planes.len() / format.channels;
    let pixels = (0..plane / size).map(|pixel| pixel * size);
    let places = pixels.flat_map(|at| (0..format.channels).map(move |channel| channel * plane + at));
    places.flat_map(|at| planes[at..at + size].iter().copied()).collect()
}

/// PS3.5 Annex G: a header of 16 numbers, then for each byte of a pixel, the highest first, a segment of PackBits.
fn run_lengths(path: &Path, packed: &[u8], format: &Format) -> Result<Vec<u8>> {
    let broken =
        || Error::file(path, "has run lengths that do not make a frame of its size; copy or export it again");
    let (head, _) = packed.split_at_checked(64).ok_or_else(broken)?;
    let number = |at: usize| u32::from_le_bytes(head.as_chunks::<4>().0[at]) as usize;
    let (size, pixels) = (format.sample.bytes(), format.width * format.height);
    let segments = format.channels * size;
    if number(0) != segments || segments > 15 {
        return Err(broken());
    }
    let mut bytes = reserved(path, format.bytes())?;
    bytes.resize(format.bytes(), 0u8);
    for segment in 0..segments {
        let end = if segment + 1 < segments { number(segment + 2) } else { packed.len() };
        let packed = packed.get(number(segment + 1)..end).ok_or_else(broken)?;
        let (channel, byte) = (segment / size, size - 1 - segment % size);
        let places = (0..pixels).map(|pixel| (pixel * format.channels + channel) * size + byte);
        if unpack_bits(packed, places, &mut bytes).is_none() {
            return Err(broken());
        }
    }
    Ok(bytes)
}

/// Writes PackBits to places; none where there is too little for them.
fn unpack_bits(packed: &[u8], mut places: impl Iterator<Item = usize>, bytes: &mut [u8]) -> Option<()> {
    let mut packed = packed.iter().copied();
    let mut next = places.next();
    while next.is_some() {
        let control = packed.next()?;
        match control {
            128 => {}
            0..128 => {
                for _ in 0..=control {
                    let value = packed.next()?;
                    let Some(at) = next else { break };
                    bytes[at] = value;
                    next = places.next();
                }
            }
            _ => {
                let value = packed.next()?;
                for _ in 0..257 - u16::from(control) {
                    let Some(at) = next else { break };
                    bytes[at] = value;
                    next = places.next();
                }
            }
        }
    }
    Some(())
}

pub(super) fn undecodable(path: &Path, coding: &str, cause: &str) -> Error {
    let reason = format!(
        "its {coding} frame cannot be decoded ({cause}); copy it again, or unpack it with gdcmconv --raw IN.dcm OUT.dcm"
    );
    Error::file(path, reason)
}

fn jpeg(path: &Path, packed: &[u8], format: &Format) -> Result<Vec<u8>> {
    let broken = |cause: String| undecodable(path, "JPEG", &cause);
    let mut decoder = Decoder::new(packed);
    decoder.set_max_decoding_buffer_size(format.samples() * 4);
    // Files that call luma and chroma RGB are not rare; JFIF has nothing but luma and chroma.
    let is_jfif = packed.get(6..10) == Some(b"JFIF");
    match format.colours {
        Colours::Rgb if !is_jfif => decoder.set_color_transform(ColorTransform::RGB),
        Colours::Ybr => decoder.set_color_transform(ColorTransform::YCbCr),
        _ => {}
    }
    decoder.read_info().map_err(|cause| broken(cause.to_string()))?;
    let Some(info) = decoder.info() else { return Err(broken("no size".into())) };
    let (channels, size) = match info.pixel_format {
        PixelFormat::L8 => (1, 1),
        PixelFormat::L16 => (1, 2),
        PixelFormat::RGB24 => (3, 1),
        PixelFormat::CMYK32 => (4, 1),
    };
    let found = (usize::from(info.width), usize::from(info.height), channels, size);
    let wanted = (format.width, format.height, format.channels, format.sample.bytes());
    // Eight bits of a file that leaves room for sixteen.
    let is_narrow = (found.0, found.1, found.2, 2) == wanted && size == 1;
    if found != wanted && !is_narrow {
        return Err(broken(format!(
            "{}x{} with {channels} channels of {} bits, where the file says {}x{} with {} of {}",
            found.0,
            found.1,
            8 * size,
            wanted.0,
            wanted.1,
            wanted.2,
            8 * wanted.3
        )));
    }
    let decoded = decoder.decode().map_err(|cause| broken(cause.to_string()))?;
    let bytes: Vec<u8> = match size {
        // The decoder gives the machine's own byte order.
        2 => decoded
            .as_chunks::<2>()
            .0
            .iter()
            .flat_map(|word| u16::from_ne_bytes(*word).to_le_bytes())
            .collect(),
        _ if is_narrow => decoded.iter().flat_map(|byte| [*byte, 0]).collect(),
        _ => decoded,
    };
    match bytes.len() == format.bytes() {
        true => Ok(bytes),
        false => Err(broken("too few pixels".into())),
    }
}
