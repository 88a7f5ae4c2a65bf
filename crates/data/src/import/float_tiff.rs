//! Grey TIFFs that the `image` crate leaves out: floating-point, signed and 32- or 64-bit samples.

use std::io::{Read, Seek};

use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::{SampleFormat, Tag};

use super::raster::Source;
use super::sample::{Sample, Steps};
use super::{Samples, Size};
use crate::Result;

/// Whether the samples are such.
pub(super) fn is_needed<R: Read + Seek>(decoder: &mut Decoder<R>) -> bool {
    let Ok(ColorType::Gray(bits)) = decoder.colortype() else { return false };
    let formats = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).ok().flatten().unwrap_or_default();
    bits > 16 || formats.iter().any(|&format| SampleFormat::from_u16(format) != Some(SampleFormat::Uint))
}

pub(super) fn read<R: Read + Seek>(source: &Source, mut decoder: Decoder<R>) -> Result<Samples> {
    let broken = |e| source.broken(e);
    let (width, height) = decoder.dimensions().map_err(broken)?;
    let ColorType::Gray(bits) = decoder.colortype().map_err(broken)? else {
        return Err(source.broken("it is not grey"));
    };
    let size = Size { width: width as usize, height: height as usize, depth: 1, channels: 1 };
    // Only the number of bytes counts here; samples of 16 bits may be floats, which become wider.
    let widest = if bits > 32 { Sample::F64 } else { Sample::F32 };
    // The decoder's own, and the same as bytes.
    let _room = source.limits.claim(source.path, &size, widest, source.stored, 2)?;
    let decoded = (size.width * size.height * widest.bytes()) as u64;
    // A strip is no longer than the file or the image, whatever the file says; 1 MiB is for its directory.
    let most = usize::try_from(decoded.saturating_add(source.stored + (1 << 20))).unwrap_or(usize::MAX);
    let mut limits = Limits::default();
    limits.decoding_buffer_size = most;
    limits.intermediate_buffer_size = most;
    limits.ifd_value_size = limits.ifd_value_size.min(most);
    let mut decoder = decoder.with_limits(limits);
    macro_rules! stored {
        ($sample:expr, $values:expr) => {
            ($sample, $values.into_iter().flat_map(|value| value.to_le_bytes()).collect())
        };
    }
    let (sample, bytes): (Sample, Vec<u8>) = match decoder.read_image().map_err(broken)? {
        DecodingResult::F16(values) => stored!(Sample::F32, values.into_iter().map(f32::from)),
        DecodingResult::F32(values) => stored!(Sample::F32, values),
        DecodingResult::F64(values) => stored!(Sample::F64, values),
        DecodingResult::U8(values) => (Sample::U8, values),
        DecodingResult::U16(values) => stored!(Sample::U16, values),
        DecodingResult::U32(values) => stored!(Sample::U32, values),
        DecodingResult::U64(values) => stored!(Sample::U64, values),
        DecodingResult::I8(values) => stored!(Sample::I8, values),
        DecodingResult::I16(values) => stored!(Sample::I16, values),
        DecodingResult::I32(values) => stored!(Sample::I32, values),
        DecodingResult::I64(values) => stored!(Sample::I64, values),
    };
    if bytes.len() != size.width * size.height * sample.bytes() {
        let found = bytes.len() / sample.bytes();
        return Err(source.broken(format!("{found} samples for {width}x{height} pixels")));
    }
    let steps = Steps::planar(size);
    Ok(Samples { size, bytes, sample, big_endian: false, steps, scale: None, geometry: None })
}
