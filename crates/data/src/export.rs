//! Writing masks, and maps of values, in the format and geometry of the image they belong to.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use image::{ExtendedColorType, ImageFormat};
use tiff::encoder::TiffEncoder;
use tiff::encoder::colortype::Gray32Float;

use crate::disk::File;
use crate::files;
use crate::import::{Format, Limits, headed, identify, nifti};
use crate::{Error, Mask, Result, dicom};

/// Writes the masks of one image (one per slice of a volume) next to nothing but `stem`, to which the
/// fitting extension is added: NIfTI for NIfTI (gzipped if the source is), MHA for MetaImage, NRRD for NRRD
/// (packed if the source is), TIFF for TIFF, NPY for NPY and NPZ, gzipped NIfTI for
/// DICOM, PNG for PNG and for JPEG, whose loss a mask does not survive. Returns the file's path.
pub fn write_masks_like(source: &Path, stem: &Path, slices: &[Mask], limits: &Limits) -> Result<PathBuf> {
    let (format, path) = named_like(source, stem)?;
    if let Format::Nifti | Format::Dicom = format {
        nifti::write_masks(&path, &nifti_header(source, format, limits)?, slices)?;
        return Ok(path);
    }
    if let Format::Headed(kind) = format {
        headed::write_masks(&path, &headed::Header::read(source, kind, limits)?, slices)?;
        return Ok(path);
    }
    let [mask] = slices else {
        return Err(Error::mismatch(
            path.display(),
            format!("{} masks for the single image {}; give one", slices.len(), source.display()),
        ));
    };
    match format {
        Format::Tiff => write_raster(&path, mask, ImageFormat::Tiff)?,
        Format::Npy | Format::Npz => write_npy(&path, "|u1", [mask.width(), mask.height()], &mask.labels())?,
        _ => write_png_mask(&path, mask)?,
    }
    Ok(path)
}

/// Writes a map of values from 0 to 1, asked for slice by slice, beside nothing but `stem`, as
/// [`write_masks_like`] does: f32 in NIfTI, MHA, NRRD, TIFF and NPY; 16-bit grey in PNG, in which 65,535 is 1.
/// `size` is a slice's columns and rows.
pub fn write_map_like(
    source: &Path,
    stem: &Path,
    size: [usize; 2],
    slice: &dyn Fn(usize) -> Vec<f32>,
    limits: &Limits,
) -> Result<PathBuf> {
    let (format, path) = named_like(source, stem)?;
    match format {
        Format::Nifti | Format::Dicom => {
            nifti::write_map(&path, &nifti_header(source, format, limits)?, slice)?;
        }
        Format::Headed(kind) => {
            headed::write_map(&path, &headed::Header::read(source, kind, limits)?, slice)?;
        }
        Format::Tiff => write_tiff_map(&path, &slice(0), size)?,
        Format::Npy | Format::Npz => {
            let bytes: Vec<u8> = slice(0).into_iter().flat_map(f32::to_le_bytes).collect();
            write_npy(&path, "<f4", size, &bytes)?;
        }
        Format::Png | Format::Jpeg => {
            let grey = |value: f32| ((value * 65_535.0).round() as u16).to_ne_bytes();
            let bytes: Vec<u8> = slice(0).into_iter().flat_map(grey).collect();
            write_pixels(&path, &bytes, size, ExtendedColorType::L16, ImageFormat::Png)?;
        }
    }
    Ok(path)
}

/// The format of a file, and `stem` with the extension of what is written for it.
fn named_like(source: &Path, stem: &Path) -> Result<(Format, PathBuf)> {
    let format = identify(source)?;
    let gzipped = source.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let extension = match format {
        Format::Nifti if gzipped => "nii.gz",
        Format::Dicom => "nii.gz",
        Format::Nifti => "nii",
        Format::Headed(kind) => kind.extension(),
        Format::Tiff => "tiff",
        Format::Npy | Format::Npz => "npy",
        Format::Png | Format::Jpeg => "png",
    };
    // Not `with_extension`, which would cut a name such as "case-1.2".
    let mut path = stem.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    Ok((format, PathBuf::from(path)))
}

/// The header of what is written for a NIfTI file or a DICOM series.
fn nifti_header(source: &Path, format: Format, limits: &Limits) -> Result<nifti::Header> {
    match format {
        Format::Dicom => {
            let stack = dicom::Stack::open(source, limits)?;
            nifti::Header::of(source, stack.size(), stack.geometry.as_ref())
        }
        _ => nifti::read_header(source, limits),
    }
}

fn write_tiff_map(path: &Path, values: &[f32], [width, height]: [usize; 2]) -> Result<()> {
    let mut out = BufWriter::new(files::create(path)?);
    let written = TiffEncoder::new(&mut out)
        .and_then(|mut tiff| tiff.write_image::<Gray32Float>(width as u32, height as u32, values));
    written.map_err(|error| Error::file(path, format!("cannot be written: {error}")))?;
    out.flush().map_err(|e| Error::io(path, e))
}

/// Writes an 8-bit grey PNG: 255 inside a one-class mask, otherwise the label numbers.
pub fn write_png_mask(path: &Path, mask: &Mask) -> Result<()> {
    write_raster(path, mask, ImageFormat::Png)
}

fn write_raster(path: &Path, mask: &Mask, format: ImageFormat) -> Result<()> {
    let mut grey = mask.labels();
    if mask.classes() == 1 {
        grey.iter_mut().for_each(|value| *value *= 255);
    }
    write_pixels(path, &grey, [mask.width(), mask.height()], ExtendedColorType::L8, format)
}

/// Writes interleaved samples, those of 16 bits in the machine's byte order.
pub(crate) fn write_pixels(
    path: &Path,
    bytes: &[u8],
    size: [usize; 2],
    colour: ExtendedColorType,
    format: ImageFormat,
) -> Result<()> {
    let [Ok(width), Ok(height)] = size.map(u32::try_from) else {
        return Err(Error::mismatch(path.display(), format!("{size:?} pixels are too many for {format:?}")));
    };
    let mut out = BufWriter::new(files::create(path)?);
    image::write_buffer_with_format(&mut out, bytes, width, height, colour, format).map_err(|e| match e {
        image::ImageError::IoError(e) => Error::io(path, e),
        other => Error::file(path, format!("cannot be written: {other}")),
    })?;
    out.flush().map_err(|e| Error::io(path, e))
}

/// Writes an NPY array, (rows, columns), of samples of a type in NumPy's words.
fn write_npy(path: &Path, kind: &str, [width, height]: [usize; 2], bytes: &[u8]) -> Result<()> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({height}, {width}), }}");
    // The data starts at a multiple of 64 bytes, the header ends with a newline.
    let padding = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let write = |mut out: BufWriter<File>| {
        out.write_all(b"\x93NUMPY\x01\x00")?;
        out.write_all(&(header.len() as u16).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        out.write_all(bytes)?;
        out.flush()
    };
    write(BufWriter::new(files::create(path)?)).map_err(|e| Error::io(path, e))
}
