//! NIfTI-1, plain or gzipped: 2-D images and 3-D volumes, and masks written back in their geometry.
//! The header is checked field by field before any voxel is read; voxels are read as far as the
//! header says and the file reaches, so that neither a lying header nor a gzip bomb takes memory.

mod header;

use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::sample::Steps;
use super::{Limits, Samples};
use crate::disk::File;
use crate::files;
use crate::memory::reserved;
use crate::{Error, Mask, Result};
use header::HEADER_BYTES;
pub use header::Header;

/// Opens a file and reads its header; the stream then stands right behind it. Also how many bytes are stored.
fn open(path: &Path, limits: &Limits) -> Result<(Header, Box<dyn Read>, u64)> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let stored = file.metadata().map_err(|e| Error::io(path, e))?.len();
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let gzipped =
        std::io::BufRead::fill_buf(&mut reader).map_err(|e| Error::io(path, e))?.starts_with(&[0x1f, 0x8b]);
    let mut stream: Box<dyn Read> =
        if gzipped { Box::new(MultiGzDecoder::new(reader)) } else { Box::new(reader) };
    let mut raw = [0; HEADER_BYTES];
    stream.read_exact(&mut raw).map_err(|e| {
        Error::file(
            path,
            format!("is no NIfTI-1 file: its header of 348 bytes cannot be read ({e}); export it again"),
        )
    })?;
    let header = Header::parse(path, raw)?;
    limits.check(path, &header.size, header.sample.bytes() as u64, stored)?;
    let needed = header.first_voxel + voxel_bytes(&header) as u64;
    if !gzipped && stored < needed {
        return Err(Error::file(
            path,
            format!("is truncated: {stored} of {needed} bytes; copy or export it again"),
        ));
    }
    Ok((header, stream, stored))
}

fn voxel_bytes(header: &Header) -> usize {
    header.width() * header.height() * header.depth() * header.sample.bytes()
}

/// Reads and checks a header; no voxels.
pub fn read_header(path: &Path, limits: &Limits) -> Result<Header> {
    open(path, limits).map(|(header, ..)| header)
}

pub(super) fn read(path: &Path, limits: &Limits) -> Result<Samples> {
    let (header, mut stream, stored) = open(path, limits)?;
    let _room = limits.claim(path, &header.size, header.sample, stored, 1)?;
    let unpack = |e: std::io::Error| {
        Error::file(path, format!("cannot be unpacked: {e}; copy or export the file again"))
    };
    let skipped = header.first_voxel - HEADER_BYTES as u64;
    let passed = std::io::copy(&mut stream.by_ref().take(skipped), &mut std::io::sink()).map_err(unpack)?;
    let length = voxel_bytes(&header);
    // Taken at once rather than grown, which would need twice as much; pages that stay unread cost nothing.
    let mut bytes = reserved(path, length)?;
    stream.by_ref().take(length as u64).read_to_end(&mut bytes).map_err(unpack)?;
    if passed < skipped || bytes.len() < length {
        let reason =
            format!("is truncated: {} of {length} voxel bytes; copy or export it again", bytes.len());
        return Err(Error::file(path, reason));
    }
    // One byte more reaches gzip's checksum, which is compared there. Bytes after the voxels have no meaning.
    let _ = stream.read(&mut [0]).map_err(unpack)?;
    Ok(Samples {
        size: header.size,
        bytes,
        sample: header.sample,
        big_endian: header.big_endian,
        steps: Steps::planar(header.size),
        scale: header.scale,
        geometry: Some(header.geometry),
    })
}

/// Writes masks as one NIfTI-1 file of 8-bit labels (0 background, 1 the first class, …) in the
/// geometry of `like`, gzipped where the name ends in `.gz`. One mask per slice, in their order.
pub fn write_masks(path: &Path, like: &Header, slices: &[Mask]) -> Result<()> {
    super::one_mask_per_slice(path, like.size, slices)?;
    write(path, |out| {
        out.write_all(&like.around(2, 8))?;
        slices.iter().try_for_each(|mask| out.write_all(&mask.labels()))
    })
}

/// Writes a map of f32 in the geometry of `like`, slice by slice.
pub(crate) fn write_map(path: &Path, like: &Header, slice: &dyn Fn(usize) -> Vec<f32>) -> Result<()> {
    let bytes = |value: f32| if like.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    write(path, |out| {
        out.write_all(&like.around(16, 32))?;
        (0..like.depth())
            .try_for_each(|z| out.write_all(&slice(z).into_iter().flat_map(bytes).collect::<Vec<u8>>()))
    })
}

/// Writes a file, gzipped where its name ends in `.gz`.
fn write(path: &Path, content: impl Fn(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(files::create(path)?);
    let written = if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
        let mut packed = GzEncoder::new(&mut out, Compression::default());
        content(&mut packed).and_then(|()| packed.finish().map(|_| ()))
    } else {
        content(&mut out)
    };
    written.and_then(|()| out.flush()).map_err(|e| Error::io(path, e))
}

#[cfg(test)]
mod tests {
    use super::header::tests::{header, parse, with};
    use super::*;

    #[test]
    fn volumes_and_their_scale() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.nii");
        for (slope, inter, expected) in
            [(0f32, 9f32, [0.0, 11.0]), (f32::NAN, 0.0, [0.0, 11.0]), (2.0, -1.0, [-1.0, 21.0])]
        {
            let mut bytes = with(112, &slope.to_le_bytes()).to_vec();
            bytes[116..120].copy_from_slice(&inter.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend((0..12i16).flat_map(i16::to_le_bytes));
            std::fs::write(&path, &bytes).unwrap();
            let samples = read(&path, &Limits::default()).unwrap();
            let values = samples.values();
            assert_eq!([values[0], values[11]], expected);
            assert_eq!(samples.slice(&path, 1).unwrap(), values[6..]);
            assert_eq!(samples.geometry.unwrap().spacing, [0.5, 0.25, 2.0]);
            std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
            let message = read(&path, &Limits::default()).unwrap_err().to_string();
            assert!(message.contains("truncated: 375 of 376"), "{message}");
        }
    }

    #[test]
    fn masks_keep_the_header_in_both_byte_orders() {
        let folder = tempfile::tempdir().unwrap();
        let little = parse(header()).unwrap();
        let mut swapped = header();
        for (at, length) in [(0, 4), (108, 4)] {
            swapped[at..at + length].reverse();
        }
        for at in (40..56).chain(70..74).step_by(2) {
            swapped[at..at + 2].reverse();
        }
        for at in (76..108).step_by(4) {
            swapped[at..at + 4].reverse();
        }
        let big = parse(swapped).unwrap();
        assert_eq!(big.geometry, little.geometry);
        let masks = [Mask::from_fn(3, 2, |x, y| x == y), Mask::from_fn(3, 2, |x, _| x == 2)];
        for (like, name) in [(&little, "l.nii"), (&big, "b.nii"), (&little, "l.nii.gz"), (&big, "b.nii.gz")] {
            let path = folder.path().join(name);
            write_masks(&path, like, &masks).unwrap();
            let back = read(&path, &Limits::default()).unwrap();
            assert_eq!(back.geometry.as_ref(), Some(&little.geometry));
            assert_eq!(back.values(), [1., 0., 0., 0., 1., 0., 0., 0., 1., 0., 0., 1.]);
        }
        let message =
            write_masks(&folder.path().join("x.nii"), &little, &masks[..1]).unwrap_err().to_string();
        assert!(message.contains("1 masks for a volume of 2 slices"), "{message}");
    }
}
