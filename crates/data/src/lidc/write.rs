//! A scan's nodules as files that `train` reads.

use std::collections::BTreeSet;
use std::path::Path;

use image::{ExtendedColorType, ImageFormat};
use serde_json::{Value, json};

use super::nodule::{Nodule, nodules};
use super::outline::Pixel;
use super::{Options, Scan};
use crate::dicom::Stack;
use crate::export::{write_pixels, write_png_mask};
use crate::import::{Samples, Size, nifti};
use crate::{Error, Mask, Result, files};

/// What was written of a scan.
#[derive(Debug, Default)]
pub struct Written {
    /// Nodules, each of which someone outlined.
    pub nodules: usize,
    /// Slices with a crop, or of the volume.
    pub slices: usize,
    /// Outlines of slices that the scan does not have.
    pub missing_outlines: usize,
    /// The line of a volume in the manifest.
    pub row: Option<Value>,
}

/// Writes a scan into `out`. `nodule` is the number of its first nodule and `scan` that of the scan, each among those
/// of its patient.
pub fn write_scan(
    out: &Path,
    scan: &Scan,
    options: &Options,
    nodule: usize,
    number: usize,
) -> Result<Written> {
    let folder = scan.instances[0].path.parent().unwrap_or(&scan.xml).to_owned();
    let stack = Stack::new(&folder, scan.instances.clone())?;
    let Size { width, height, .. } = stack.size();
    let slice = |image: &str| stack.slices.iter().position(|&(at, _)| stack.instances[at].uid == image);
    let (found, missing_outlines) = nodules(&scan.reading, [width, height], options.with_border, &slice);
    let mut written = Written { nodules: found.len(), missing_outlines, ..Written::default() };
    if found.is_empty() && !options.volumes {
        return Ok(written);
    }
    let patient = out.join(&scan.patient);
    files::make_folder(&patient)?;
    let samples = stack.read(&folder, &options.limits)?;
    if options.volumes {
        written.slices = samples.size.depth;
        let name = format!("{}/scan-{number}", scan.patient);
        written.row = Some(write_volume(out, &name, scan, &stack, &samples, &found)?);
        return Ok(written);
    }
    for (at, one) in found.iter().enumerate() {
        let folder = patient.join(format!("nodule-{}", nodule + at));
        written.slices += write_crops(&folder, one, &samples, &scan.xml, options.crop)?;
    }
    Ok(written)
}

/// Writes `images/slice-K.png`, stretched to 8 bits each by its own smallest and largest value, and `mask-R/slice-K.png`
/// of every reader; one who did not draw there says that nothing is there.
fn write_crops(folder: &Path, nodule: &Nodule, samples: &Samples, xml: &Path, side: usize) -> Result<usize> {
    let Size { width, height, .. } = samples.size;
    if width < side || height < side {
        return Err(Error::file(
            xml,
            format!("its scan is {width}x{height}, smaller than crops of {side}x{side}"),
        ));
    }
    let (x, y) = nodule.centre();
    let first = |centre: usize, length: usize| centre.saturating_sub(side / 2).min(length - side);
    let (left, top) = (first(x, width), first(y, height));
    let masks: Vec<_> =
        (0..nodule.readers.len()).map(|reader| folder.join(format!("mask-{reader}"))).collect();
    let images = folder.join("images");
    files::make_folder(folder)?;
    masks.iter().chain([&images]).try_for_each(|folder| files::make_folder(folder))?;
    let slices = nodule.slices();
    let count = slices.clone().count();
    for (at, z) in slices.enumerate() {
        let name = format!("slice-{at}.png");
        let slice = samples.slice(xml, z)?;
        let rows = (top..top + side).flat_map(|y| &slice[y * width + left..y * width + left + side]);
        let values: Vec<f32> = rows.copied().collect();
        let grey = stretched(&values);
        write_pixels(&images.join(&name), &grey, [side, side], ExtendedColorType::L8, ImageFormat::Png)?;
        let none = BTreeSet::new();
        for (reader, folder) in masks.iter().enumerate() {
            let drawn = nodule.drawn(reader, z).unwrap_or(&none);
            let mask = Mask::from_fn(side, side, |x, y| drawn.contains(&(x + left, y + top)));
            write_png_mask(&folder.join(&name), &mask)?;
        }
    }
    Ok(count)
}

/// Values from the smallest to the largest as 0 to 255.
fn stretched(values: &[f32]) -> Vec<u8> {
    let low = values.iter().copied().fold(f32::INFINITY, f32::min);
    let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scale = if high > low { 255.0 / (high - low) } else { 0.0 };
    values.iter().map(|value| ((value - low) * scale).round() as u8).collect()
}

/// Writes `NAME/image.nii.gz` and `NAME/reader-1.nii.gz` and so on, and gives the manifest's line.
fn write_volume(
    out: &Path,
    name: &str,
    scan: &Scan,
    stack: &Stack,
    samples: &Samples,
    found: &[Nodule],
) -> Result<Value> {
    files::make_folder(&out.join(name))?;
    let header = nifti::Header::of(&scan.xml, stack.size(), stack.geometry.as_ref())?;
    let slice = |z: usize| samples.slice(&scan.xml, z).unwrap_or_default();
    let image = format!("{name}/image.nii.gz");
    nifti::write_map(&out.join(&image), &header, &slice)?;
    let Size { width, height, depth, .. } = stack.size();
    let mut labels = Vec::new();
    for reader in 0..scan.reading.readers.len() {
        let mask = |z: usize| {
            let drawn: Vec<&BTreeSet<Pixel>> = found.iter().filter_map(|one| one.drawn(reader, z)).collect();
            Mask::from_fn(width, height, |x, y| drawn.iter().any(|pixels| pixels.contains(&(x, y))))
        };
        let label = format!("{name}/reader-{}.nii.gz", reader + 1);
        nifti::write_masks(&out.join(&label), &header, &(0..depth).map(mask).collect::<Vec<_>>())?;
        labels.push(label);
    }
    Ok(json!({ "id": name, "image": image, "labels": labels, "group": scan.patient }))
}
