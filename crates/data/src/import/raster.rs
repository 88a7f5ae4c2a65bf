//! PNG, TIFF and JPEG through the `image` crate: 8 or 16 bits, grey or RGB, with or without alpha
//! (which is kept as the last channel).

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::Path;

use image::codecs::{jpeg::JpegDecoder, png::PngDecoder, tiff::TiffDecoder};
use image::{ImageDecoder, ImageError};

use super::{Limits, Samples, Size};
use crate::{Error, Result};

struct Source<'a> {
    path: &'a Path,
    stored: u64,
    kind: &'static str,
    limits: &'a Limits,
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

    fn broken(&self, cause: impl std::fmt::Display) -> Error {
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
        self.limits.check(self.path, &size, sample_bytes as u64, self.stored)?;
        let mut bytes = vec![0; size.width * size.height * channels * sample_bytes];
        decoder.read_image(&mut bytes).map_err(|e| self.refused(e))?;
        let (values, full_scale) = match sample_bytes {
            1 => (planes(&bytes, channels, |&byte: &u8| f32::from(byte)), Some(255.0)),
            2 => {
                let words = bytes.as_chunks::<2>().0;
                (planes(words, channels, |&word| f32::from(u16::from_ne_bytes(word))), Some(65_535.0))
            }
            _ => (planes(bytes.as_chunks::<4>().0, channels, |&word| f32::from_ne_bytes(word)), None),
        };
        Ok(Samples { size, values, full_scale, geometry: None })
    }
}

/// Interleaved samples to planes.
fn planes<T>(interleaved: &[T], channels: usize, value: impl Fn(&T) -> f32) -> Vec<f32> {
    (0..channels).flat_map(|c| interleaved.iter().skip(c).step_by(channels).map(&value)).collect()
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
    let pages = tiff::decoder::Decoder::new(&mut reader).map_err(|e| source.broken(e))?;
    if pages.more_images() {
        return Err(Error::file(path, "has several pages; save one file per page, or a volume as NIfTI"));
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
