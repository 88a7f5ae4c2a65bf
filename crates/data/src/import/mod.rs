//! Reading image and mask files: the format is told by the file's first bytes, sizes are checked
//! against limits and against the memory there is before anything is allocated, and every refusal names
//! the file and the remedy. Samples stay in memory as they are stored; a slice at a time is made f32.
//!
//! | file | formats |
//! |---|---|
//! | [`crate::dicom`] | DICOM files, and folders with a series of them |
//! | `headed` | MetaImage and NRRD, 2-D or 3-D |
//! | [`nifti`] | NIfTI-1, plain or gzipped, 2-D or 3-D |
//! | `npy`, `npz` | NumPy arrays; never pickles |
//! | `raster`, `float_tiff` | PNG, TIFF, JPEG |
//! | `mask` | what makes stored values a mask: [`MaskRule`] |

mod float_tiff;
pub(crate) mod headed;
pub(crate) mod mask;
pub mod nifti;
mod npy;
#[cfg(not(target_arch = "wasm32"))]
mod npz;
mod raster;
mod sample;

use std::io::Read;
use std::path::Path;

use crate::disk::{self, File};
use crate::memory::{Room, claim};
use crate::{Error, Image, Mask, Result, dicom};
pub(crate) use headed::geometry as placed;
pub use mask::MaskRule;
pub(crate) use sample::{Sample, Samples, Steps};

/// How large a file may declare itself to be. What lies beyond is refused before memory is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most columns, rows or slices.
    pub side: usize,
    /// Most pixels of one image or slice.
    pub pixels: usize,
    /// Most bytes of one file's samples once decoded.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { side: 16_384, pixels: 1 << 26, bytes: 2 << 30 }
    }
}

/// No decoder here turns one stored byte into more than this many (deflate: 1,032; LZW: 2,730).
const MOST_BYTES_PER_STORED_BYTE: u64 = 4_096;
/// Below this a wrong declaration costs nothing, so the ratio is not looked at.
const ALWAYS_ALLOWED: u64 = 16 << 20;

impl Limits {
    /// Claims the memory of a declared size: its samples `copies` times while they are read, and one slice of
    /// f32. Refuses what [`check`](Self::check) refuses.
    pub(crate) fn claim(
        &self,
        path: &Path,
        size: &Size,
        sample: Sample,
        stored: u64,
        copies: u64,
    ) -> Result<Room> {
        self.check(path, size, sample.bytes() as u64, stored)?;
        // Both factors are bounded by the check.
        let slice = (size.width * size.height * size.channels) as u64;
        claim(path, slice * (size.depth as u64 * sample.bytes() as u64 * copies + size_of::<f32>() as u64))
    }

    /// Refuses a declared size that is empty, beyond the limits, or more than `stored` bytes can hold.
    fn check(&self, path: &Path, size: &Size, sample_bytes: u64, stored: u64) -> Result<()> {
        let Size { width, height, depth, channels } = *size;
        let refuse = |why: String| {
            Err(Error::file(
                path,
                format!("declares {width}x{height}x{depth} with {channels} channel(s): {why}"),
            ))
        };
        if width == 0 || height == 0 || depth == 0 {
            return refuse("there is nothing in it; remove the file or export it again".into());
        }
        if !(1..=4).contains(&channels) {
            return refuse("an image has 1 to 4 channels; save fewer, or one file per channel".into());
        }
        if width.max(height).max(depth) > self.side {
            return refuse(format!("the largest side allowed is {}; crop or resample it", self.side));
        }
        if width as u64 * height as u64 > self.pixels as u64 {
            return refuse(format!("an image may have {} pixels; crop or resample it", self.pixels));
        }
        // Each factor is bounded above, so the product fits u64.
        let declared = width as u64 * height as u64 * depth as u64 * channels as u64 * sample_bytes;
        if declared > self.bytes {
            return refuse(format!("{declared} bytes are more than the {} allowed; crop it", self.bytes));
        }
        if declared > ALWAYS_ALLOWED && declared / MOST_BYTES_PER_STORED_BYTE > stored {
            return refuse(format!("its {stored} bytes cannot hold that; the file is truncated or hostile"));
        }
        Ok(())
    }
}

/// The extent of what a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub channels: usize,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.width, self.height)?;
        if self.depth > 1 { write!(f, "x{}", self.depth) } else { Ok(()) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    Jpeg,
    Tiff,
    Npy,
    Npz,
    Nifti,
    Headed(headed::Kind),
    /// A file, or a folder with a series.
    Dicom,
}

/// Tells the format by content: names lie more often than first bytes do.
pub(crate) fn identify(path: &Path) -> Result<Format> {
    if dicom::is_folder(path) {
        return Ok(Format::Dicom);
    }
    // A pipe would keep its reader waiting, a device never end.
    disk::length(path).map_err(|e| Error::io(path, e))?;
    if !disk::is_file(path) {
        return Err(Error::file(path, "is no file but a folder, pipe or device; give an image file"));
    }
    let mut head = Vec::with_capacity(352);
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    file.take(352).read_to_end(&mut head).map_err(|e| Error::io(path, e))?;
    let refuse = |what: &str| Err(Error::file(path, what));
    match head.as_slice() {
        // Before all others: the 128 bytes in front of it may look like anything.
        head if head.get(128..132) == Some(b"DICM") => Ok(Format::Dicom),
        [] => refuse("is empty; export it again"),
        [0x89, b'P', b'N', b'G', ..] => Ok(Format::Png),
        [0xff, 0xd8, 0xff, ..] => Ok(Format::Jpeg),
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Ok(Format::Tiff),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Ok(Format::Npy),
        [b'P', b'K', 3 | 5, 4 | 6, ..] => Ok(Format::Npz),
        // Gzip, or one of the four-byte header lengths of NIfTI and its relatives.
        [0x1f, 0x8b, ..] | [0x5c | 0x1c, 1 | 2, 0, 0, ..] | [0, 0, 1 | 2, 0x5c | 0x1c, ..] => {
            Ok(Format::Nifti)
        }
        [0, 0, 0, 1, ..] => {
            refuse("looks like FreeSurfer MGH; convert it to NIfTI-1 (mri_convert x.mgz x.nii.gz)")
        }
        [0x80, 2..=5, ..] => refuse(
            "is a Python pickle, which is a program and is never executed here; save the array with numpy.save(..., allow_pickle=False)",
        ),
        [0x89, b'H', b'D', b'F', ..] => refuse("is an HDF5 file; save the array as NPY or NIfTI"),
        head => match headed::Kind::identify(head) {
            Some(kind) => Ok(Format::Headed(kind)),
            None => refuse(
                "is none of PNG, TIFF, JPEG, NPY, NPZ, NIfTI-1, MetaImage, NRRD, DICOM; convert it to one of these",
            ),
        },
    }
}

/// Whether a path is an image by its first bytes; it may be broken all the same.
pub fn is_image(path: &Path) -> bool {
    identify(path).is_ok()
}

/// Reads any supported file.
pub(crate) fn read(path: &Path, limits: &Limits) -> Result<Samples> {
    match identify(path)? {
        Format::Png => raster::read_png(path, limits),
        Format::Jpeg => raster::read_jpeg(path, limits),
        Format::Tiff => raster::read_tiff(path, limits),
        Format::Npy => npy::read(path, limits),
        #[cfg(not(target_arch = "wasm32"))]
        Format::Npz => npz::read(path, limits),
        #[cfg(target_arch = "wasm32")]
        Format::Npz => {
            Err(Error::file(path, "is an NPZ archive, which is not read here; save it with numpy.save"))
        }
        Format::Nifti => nifti::read(path, limits),
        Format::Headed(kind) => headed::read(path, kind, limits),
        Format::Dicom => dicom::read(path, limits),
    }
}

/// How many slices a file holds: those of a volume, otherwise 1. Reads no more than a header.
pub(crate) fn depth(path: &Path, limits: &Limits) -> Result<usize> {
    match identify(path)? {
        Format::Nifti => Ok(nifti::read_header(path, limits)?.depth()),
        Format::Headed(kind) => Ok(headed::Header::read(path, kind, limits)?.depth()),
        Format::Dicom => Ok(dicom::Stack::open(path, limits)?.size().depth),
        _ => Ok(1),
    }
}

/// Refuses masks that are not one for each slice of a volume, of its size.
fn one_mask_per_slice(path: &Path, size: Size, slices: &[Mask]) -> Result<()> {
    let Size { width, height, depth, .. } = size;
    if slices.len() != depth {
        return Err(Error::mismatch(
            path.display(),
            format!("{} masks for a volume of {depth} slices; give one per slice", slices.len()),
        ));
    }
    match slices.iter().find(|mask| (mask.width(), mask.height()) != (width, height)) {
        None => Ok(()),
        Some(mask) => Err(Error::mismatch(
            path.display(),
            format!("a mask of {}x{} for slices of {width}x{height}", mask.width(), mask.height()),
        )),
    }
}

/// Reads a 2-D image with its raw values; a volume is refused.
pub fn read_image(path: &Path, limits: &Limits) -> Result<Image> {
    let samples = read(path, limits)?;
    refuse_volume(path, samples.size)?;
    let Size { width, height, channels, .. } = samples.size;
    let pixels = samples.slice(path, 0)?;
    finite(path, &samples, &pixels)?;
    let mut image = Image::new(width, height, channels, pixels);
    image.geometry = samples.geometry;
    Ok(image)
}

/// Reads a 2-D mask; a volume is refused.
pub fn read_mask(path: &Path, rule: MaskRule, limits: &Limits) -> Result<Mask> {
    let samples = read(path, limits)?;
    refuse_volume(path, samples.size)?;
    mask::slice_mask(path, &samples, 0, rule)
}

/// Reads the mask of each slice of an image or volume.
pub fn read_masks(path: &Path, rule: MaskRule, limits: &Limits) -> Result<Vec<Mask>> {
    let samples = read(path, limits)?;
    (0..samples.size.depth).map(|z| mask::slice_mask(path, &samples, z, rule)).collect()
}

fn refuse_volume(path: &Path, size: Size) -> Result<()> {
    if size.depth == 1 {
        return Ok(());
    }
    Err(Error::file(path, format!("is a volume of {size}, where one slice is wanted; open it as a data set")))
}

/// Refuses NaN and infinity in a slice: one such pixel would spoil a whole training run.
pub(crate) fn finite(path: &Path, samples: &Samples, slice: &[f32]) -> Result<()> {
    if samples.always_finite() {
        return Ok(());
    }
    match slice.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let Size { width, height, .. } = samples.size;
            let (x, y) = (at % width, at / width % height);
            let value = slice[at];
            Err(Error::file(
                path,
                format!("has the value {value} at pixel ({x}, {y}); replace such values by a finite number"),
            ))
        }
    }
}
