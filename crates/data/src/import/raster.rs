//! PNG, TIFF and JPEG through the `image` crate: 8 or 16 bits, grey or RGB, with or without alpha
//! (which is kept as the last channel).

use std::io::{BufRead, BufReader, Seek};
use std::path::Path;

use image::codecs::{jpeg::JpegDecoder, png::PngDecoder, tiff::TiffDecoder};
use image::{ImageDecoder, ImageError};

use super::sample::{Sample, Steps};
use super::{Limits, Samples, Size, float_tiff};
use crate::disk::File;
use crate::memory::reserved;
use crate::{Error, Result};

pub(super) struct Source<'a> {
    pub path: &'a Path,
    pub stored: u64,
    kind: &'static str,
    pub limits: &'a Limits,
}

impl<'a> Source<'a> {
    fn open(path: &'a Path, kind: &'static str, limits: &'a Limits) -> Result<(Self, impl BufRead + Seek)> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let stored = file.metadata().map_err(|e| Error::io(path, e))?.len();
        if stored > limits.bytes {
            let reason = format!("{stored} bytes are more than the {} allowed; crop it", limits.bytes);
            return Err(Error::file(path, reason));
        }
        Ok((Self { path, stored, kind, limits }, BufReader::new(file)))
    }

    fn decoder_limits(&self) -> image::Limits {
        let mut limits = image::Limits::default();
        let side = u32::try_from(self.limits.side).unwrap_or(u32::MAX);
        limits.max_image_width = Some(side);
        limits.max_image_height = Some(side);
        limits.max_alloc = Some(self.limits.bytes);
        limits
    }

    pub fn broken(&self, cause: impl std::fmt::Display) -> Error {
        Error::file(
            self.path,
            format!("cannot be read as {}: {cause}; export the file again or remove it", self.kind),
        )
    }

    fn refused(&self, cause: ImageError) -> Error {
        match cause {
            ImageError::Limits(limit) => Error::file(
                self.path,
                format!(
                    "is larger than allowed (side {}, {} bytes): {limit}; crop or resample it",
                    self.limits.side, self.limits.bytes
                ),
            ),
            other => self.broken(other),
        }
    }

    fn decode(&self, decoder: impl ImageDecoder) -> Result<Samples> {
        let (width, height) = decoder.dimensions();
        let color = decoder.color_type();
        let channels = usize::from(color.channel_count());
        let sample_bytes = usize::from(color.bytes_per_pixel()) / channels;
        let size = Size { width: width as usize, height: height as usize, depth: 1, channels };
        let sample = match sample_bytes {
            1 => Sample::U8,
            2 => Sample::U16,
            _ => Sample::F32,
        };
        // TIFF and JPEG decoders hold a copy of their own.
        let _room = self.limits.claim(self.path, &size, sample, self.stored, 2)?;
        let length = size.width * size.height * channels * sample_bytes;
        let mut bytes = reserved(self.path, length)?;
        bytes.resize(length, 0);
        decoder.read_image(&mut bytes).map_err(|e| self.refused(e))?;
        let big_endian = cfg!(target_endian = "big");
        let steps = Steps::interleaved(size);
        Ok(Samples { size, bytes, sample, big_endian, steps, scale: None, geometry: None })
    }
}

pub(super) fn read_png(path: &Path, limits: &Limits) -> Result<Samples> {
    let (source, reader) = Source::open(path, "PNG", limits)?;
    let decoder = PngDecoder::with_limits(reader, source.decoder_limits()).map_err(|e| source.refused(e))?;
    if decoder.is_apng().map_err(|e| source.refused(e))? {
        return Err(Error::file(path, "is an animated PNG; save one file per frame"));
    }
    source.decode(decoder)
}

pub(super) fn read_jpeg(path: &Path, limits: &Limits) -> Result<Samples> {
    let (source, reader) = Source::open(path, "JPEG", limits)?;
    let mut decoder = JpegDecoder::new(reader).map_err(|e| source.refused(e))?;
    decoder.set_limits(source.decoder_limits()).map_err(|e| source.refused(e))?;
    source.decode(decoder)
}

pub(super) fn read_tiff(path: &Path, limits: &Limits) -> Result<Samples> {
    let (source, mut reader) = Source::open(path, "TIFF", limits)?;
    let mut pages = tiff::decoder::Decoder::new(&mut reader).map_err(|e| source.broken(e))?;
    if pages.more_images() {
        return Err(Error::file(path, "has several pages; save one file per page, or a volume as NIfTI"));
    }
    if float_tiff::is_needed(&mut pages) {
        return float_tiff::read(&source, pages);
    }
    reader.rewind().map_err(|e| Error::io(path, e))?;
    let mut decoder = TiffDecoder::new(reader).map_err(|e| source.refused(e))?;
    let mut decoder_limits = source.decoder_limits();
    // A strip is no longer than the file, whatever the file says; 1 MiB is for its directory.
    let most = decoder.total_bytes().saturating_mul(2).saturating_add(source.stored + (1 << 20));
    decoder_limits.max_alloc = Some(limits.bytes.min(most));
    decoder.set_limits(decoder_limits).map_err(|e| source.refused(e))?;
    source.decode(decoder)
}
