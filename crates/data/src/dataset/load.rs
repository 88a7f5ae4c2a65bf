//! From files to cases: channels joined, every mask held against its image.

use std::path::{Path, PathBuf};

use super::Source;
use crate::import::mask::slice_mask;
use crate::import::{self, Limits, MaskRule, Samples};
use crate::{Annotation, Case, Error, Geometry, Image, Mode, Result};

/// Reads an image without annotations, as prediction does: one image, or one per slice of a volume.
/// Several files are the channels of the same image.
pub fn read_slices(paths: &[PathBuf], limits: &Limits) -> Result<Vec<Image>> {
    Ok(slices(&channels(paths, limits)?))
}

/// The files of one image, held against each other.
fn channels(paths: &[PathBuf], limits: &Limits) -> Result<Vec<Samples>> {
    let channels = paths.iter().map(|path| {
        let samples = import::read(path, limits)?;
        import::finite(path, &samples)?;
        Ok(samples)
    });
    let channels = channels.collect::<Result<Vec<_>>>()?;
    for (path, samples) in paths.iter().zip(&channels).skip(1) {
        same_space((path, samples), (&paths[0], &channels[0]))?;
    }
    let count: usize = channels.iter().map(|samples| samples.size.channels).sum();
    if count > 4 {
        let reason = format!("has {count} channels with its companions; an image has 1 to 4");
        return Err(Error::file(&paths[0], reason));
    }
    Ok(channels)
}

/// One image per slice, all channels joined.
fn slices(channels: &[Samples]) -> Vec<Image> {
    let Some(first) = channels.first() else { return Vec::new() };
    let count = channels.iter().map(|samples| samples.size.channels).sum();
    let slice = |z: usize| {
        let pixels = channels.iter().flat_map(|samples| samples.slice(z)).copied().collect();
        let mut image = Image::new(first.size.width, first.size.height, count, pixels);
        image.geometry = first.slice_geometry(z);
        image
    };
    (0..first.size.depth).map(slice).collect()
}

/// Reads the case of a plain image, or the cases of a volume's slices.
pub(super) fn cases(source: &Source, rule: MaskRule, limits: &Limits) -> Result<Vec<Case>> {
    let channels = channels(&source.images, limits)?;
    let (first_path, first) = (&source.images[0], &channels[0]);
    if first.size.depth != source.depth {
        return Err(Error::file(first_path, format!("changed while it was read: now {}", first.size)));
    }
    let case = |(z, image)| Case {
        id: source.case_id(z),
        group: source.group.clone(),
        image,
        annotations: Vec::with_capacity(source.labels.len()),
        truth: None,
    };
    let mut cases: Vec<_> = slices(&channels).into_iter().enumerate().map(case).collect();
    let masks = |path: &Path| {
        let samples = import::read(path, limits)?;
        same_space((path, &samples), (first_path, first))?;
        (0..source.depth).map(|z| slice_mask(path, &samples, z, rule)).collect::<Result<Vec<_>>>()
    };
    for label in &source.labels {
        for (case, mask) in cases.iter_mut().zip(masks(&label.path)?) {
            case.annotations.push(Annotation { mask, rater: label.rater.clone(), weight: label.weight });
        }
    }
    for mode in &source.truth {
        for (case, mask) in cases.iter_mut().zip(masks(&mode.path)?) {
            case.truth.get_or_insert_default().push(Mode { mask, probability: mode.probability });
        }
    }
    Ok(cases)
}

/// Refuses a file that does not cover the same pixels, and the same place, as the image.
fn same_space((path, samples): (&Path, &Samples), (image_path, image): (&Path, &Samples)) -> Result<()> {
    let [size, wanted] = [samples.size, image.size];
    if (size.width, size.height, size.depth) != (wanted.width, wanted.height, wanted.depth) {
        return Err(Error::file(
            path,
            format!("is {size}, but its image {} is {wanted}; resample one of them", image_path.display()),
        ));
    }
    let (Some(geometry), Some(other)) = (&samples.geometry, &image.geometry) else { return Ok(()) };
    let distance = largest_shift(geometry, other, [wanted.width, wanted.height, wanted.depth]);
    let voxel = other.spacing.into_iter().fold(f32::INFINITY, f32::min);
    // Writers round differently; a tenth of a voxel is no other place.
    if distance > 0.1 * voxel {
        return Err(Error::file(
            path,
            format!(
                "lies up to {distance} (in its unit of length) away from its image {}; resample it onto the image",
                image_path.display()
            ),
        ));
    }
    Ok(())
}

/// How far apart two geometries put the origin and the ends of the three axes.
fn largest_shift(a: &Geometry, b: &Geometry, size: [usize; 3]) -> f32 {
    let (Some(a), Some(b)) = (a.affine, b.affine) else { return 0.0 };
    let ends = [[0, 0, 0], [size[0] - 1, 0, 0], [0, size[1] - 1, 0], [0, 0, size[2] - 1]];
    let distance = |voxel: [usize; 3]| {
        let squares = (0..3).map(|row| {
            let difference: f32 = (0..3).map(|axis| (a[row][axis] - b[row][axis]) * voxel[axis] as f32).sum();
            (difference + a[row][3] - b[row][3]).powi(2)
        });
        squares.sum::<f32>().sqrt()
    };
    ends.into_iter().map(distance).fold(0.0, f32::max)
}

/// Refuses a data set whose images differ in their number of channels; takes ids with those numbers.
pub(super) fn same_channels<'a>(path: &Path, images: impl Iterator<Item = (&'a str, usize)>) -> Result<()> {
    let mut images = images.peekable();
    let Some(&(first, wanted)) = images.peek() else { return Ok(()) };
    match images.find(|&(_, channels)| channels != wanted) {
        None => Ok(()),
        Some((other, channels)) => Err(Error::dataset(
            path,
            format!("case '{first}' has {wanted} channels, case '{other}' has {channels}; make them equal"),
        )),
    }
}
