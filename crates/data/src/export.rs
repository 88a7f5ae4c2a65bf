//! Writing masks in the format and geometry of the image they belong to.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use image::{ExtendedColorType, ImageFormat};

use crate::files;
use crate::import::{Format, Limits, headed, identify, nifti};
use crate::{Error, Mask, Result};

/// Writes the masks of one image (one per slice of a volume) next to nothing but `stem`, to which the
/// fitting extension is added: NIfTI for NIfTI (gzipped if the source is), MHA for MetaImage, NRRD for NRRD
/// (packed if the source is), TIFF for TIFF, NPY for NPY and NPZ, PNG for PNG and for JPEG, whose loss a mask does not survive. Returns the file's path.
pub fn write_masks_like(source: &Path, stem: &Path, slices: &[Mask], limits: &Limits) -> Result<PathBuf> {
    let format = identify(source)?;
    let gzipped = source.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let extension = match format {
        Format::Nifti if gzipped => "nii.gz",
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
    let path = PathBuf::from(path);
    if format == Format::Nifti {
        nifti::write_masks(&path, &nifti::read_header(source, limits)?, slices)?;
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
        Format::Npy | Format::Npz => write_npy_mask(&path, mask)?,
        _ => write_png_mask(&path, mask)?,
    }
    Ok(path)
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

/// Writes an unsigned 8-bit NPY array of label numbers, (rows, columns).
fn write_npy_mask(path: &Path, mask: &Mask) -> Result<()> {
    let mut header = format!(
        "{{'descr': '|u1', 'fortran_order': False, 'shape': ({}, {}), }}",
        mask.height(),
        mask.width()
    );
    // The data starts at a multiple of 64 bytes, the header ends with a newline.
    let padding = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let write = |mut out: BufWriter<File>| {
        out.write_all(b"\x93NUMPY\x01\x00")?;
        out.write_all(&(header.len() as u16).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        out.write_all(&mask.labels())?;
        out.flush()
    };
    write(BufWriter::new(files::create(path)?)).map_err(|e| Error::io(path, e))
}
