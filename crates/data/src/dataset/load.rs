//! From files to cases: every mask held against its image.

use std::path::Path;

use super::slices::{Slices, at_most_four, finite};
use super::space::{Space, same_space};
use super::{Label, Source, TrueMode};
use crate::import::mask::slice_mask;
use crate::import::{self, Limits, MaskRule, Samples, Size};
use crate::{Annotation, Case, Error, Geometry, Image, Mask, Mode, Result};

/// What [`visit`] shows of a slice.
pub(super) enum Part<'a> {
    Image(Image),
    Annotation(Mask, &'a Label),
    Truth(Mask, &'a TrueMode),
}

/// Reads a source and shows it slice by slice: the image first, then each mask file. Only the samples of one
/// file (of the image: its channels) are in memory at a time.
pub(super) fn visit(
    source: &Source,
    slices: Slices,
    rule: MaskRule,
    limits: &Limits,
    mut show: impl FnMut(usize, Part),
) -> Result<()> {
    let path = &source.images[0];
    slices.of_depth(source)?;
    for z in 0..source.depth {
        show(z, Part::Image(slices.image(z)?));
    }
    let Samples { size, geometry, .. } = { slices.channels }.swap_remove(0);
    visit_masks(source, Space { path, size, geometry: geometry.as_ref() }, rule, limits, &mut show)
}

fn visit_masks(
    source: &Source,
    image: Space,
    rule: MaskRule,
    limits: &Limits,
    show: &mut impl FnMut(usize, Part),
) -> Result<()> {
    let masks = |path: &Path, show: &mut dyn FnMut(usize, Mask)| {
        let samples = import::read(path, limits)?;
        same_space(Space::of(path, &samples), image)?;
        (0..source.depth).try_for_each(|z| slice_mask(path, &samples, z, rule).map(|mask| show(z, mask)))
    };
    for label in &source.labels {
        masks(&label.path, &mut |z, mask| show(z, Part::Annotation(mask, label)))?;
    }
    for mode in &source.truth {
        masks(&mode.path, &mut |z, mask| show(z, Part::Truth(mask, mode)))?;
    }
    Ok(())
}

/// Reads a source and hands out its cases one after the other. Of a volume the image's samples and the bits of
/// all masks are in memory, and one slice as f32.
pub(super) fn each_case(
    source: &Source,
    rule: MaskRule,
    limits: &Limits,
    mut take: impl FnMut(Case) -> Result<()>,
) -> Result<()> {
    let slices = Slices::of(source, limits)?;
    slices.of_depth(source)?;
    let path = &source.images[0];
    let Samples { size, geometry, .. } = &slices.channels[0];
    let image = Space { path, size: *size, geometry: geometry.as_ref() };
    let mut masks: Vec<(Vec<Annotation>, Vec<Mode>)> = vec![Default::default(); source.depth];
    // All of them before the first case, since a volume with a faulty mask has none.
    visit_masks(source, image, rule, limits, &mut |z, part| match part {
        Part::Annotation(mask, label) => masks[z].0.push(annotation(mask, label)),
        Part::Truth(mask, mode) => masks[z].1.push(Mode { mask, probability: mode.probability }),
        Part::Image(_) => unreachable!("only masks are shown"),
    })?;
    for (z, (annotations, truth)) in masks.into_iter().enumerate() {
        take(Case {
            id: source.case_id(z),
            group: source.group.clone(),
            image: slices.image(z)?,
            annotations,
            truth: (!truth.is_empty()).then_some(truth),
        })?;
    }
    Ok(())
}

fn annotation(mask: Mask, label: &Label) -> Annotation {
    Annotation { mask, rater: label.rater.clone(), weight: label.weight }
}

/// How many slices an image's files have. A file of up to four slices whose mask has one holds channels.
pub(super) fn depth(source: &Source, limits: &Limits) -> Result<usize> {
    let depth = import::depth(&source.images[0], limits)?;
    let flat_mask = || {
        let mask = source.labels.first().map(|label| import::depth(&label.path, limits));
        // A mask that cannot be read is told of when it is loaded.
        mask.is_some_and(|depth| depth.is_ok_and(|depth| depth == 1))
    };
    Ok(if (2..=4).contains(&depth) && flat_mask() { 1 } else { depth })
}

/// Reads the case of a plain image, or the cases of a volume's slices.
pub(super) fn cases(source: &Source, rule: MaskRule, limits: &Limits) -> Result<Vec<Case>> {
    let slices = Slices::of(source, limits)?;
    slices.claim_all()?;
    let mut cases: Vec<Option<Case>> = vec![None; slices.len()];
    visit(source, slices, rule, limits, |z, part| add(&mut cases[z], source, z, part))?;
    Ok(cases.into_iter().flatten().collect())
}

/// Reads the case of one slice; the others are let go one by one.
pub(super) fn case(source: &Source, slice: usize, rule: MaskRule, limits: &Limits) -> Result<Case> {
    let mut case = None;
    visit(source, Slices::of(source, limits)?, rule, limits, |z, part| {
        if z == slice {
            add(&mut case, source, z, part);
        }
    })?;
    Ok(case.expect("visit shows the image of every slice"))
}

/// Adds what is shown of a slice to its case, which begins with the image.
fn add(case: &mut Option<Case>, source: &Source, z: usize, part: Part) {
    match (part, case) {
        (Part::Image(image), case) => {
            *case = Some(Case {
                id: source.case_id(z),
                group: source.group.clone(),
                image,
                annotations: Vec::with_capacity(source.labels.len()),
                truth: None,
            });
        }
        (Part::Annotation(mask, label), Some(case)) => {
            case.annotations.push(annotation(mask, label));
        }
        (Part::Truth(mask, mode), Some(case)) => {
            case.truth.get_or_insert_default().push(Mode { mask, probability: mode.probability });
        }
        _ => unreachable!("visit shows the image first"),
    }
}

/// Every fault of a source's files, of which [`visit`] tells the first: each file is read and held against the
/// first image that can be read, whatever is wrong with the others.
pub(super) fn faults(source: &Source, rule: MaskRule, limits: &Limits, first: Error) -> Vec<Error> {
    let mut faults = Vec::new();
    let mut image: Option<(&Path, Size, Option<Geometry>)> = None;
    let mut channels = 0;
    let masks = source.labels.iter().map(|label| &label.path);
    let masks = masks.chain(source.truth.iter().map(|mode| &mode.path)).map(|path| (path, true));
    for (path, is_mask) in source.images.iter().map(|path| (path, false)).chain(masks) {
        let samples = match import::read(path, limits) {
            Ok(samples) => samples,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        if let Some((path_of_image, size, geometry)) = &image {
            let image = Space { path: path_of_image, size: *size, geometry: geometry.as_ref() };
            faults.extend(same_space(Space::of(path, &samples), image).err());
        }
        if is_mask {
            let masks = (0..samples.size.depth).map(|z| slice_mask(path, &samples, z, rule));
            faults.extend(masks.filter_map(Result::err).next());
        } else {
            faults.extend(finite(path, &samples).err());
            channels += samples.size.channels;
            image.get_or_insert((path, samples.size, samples.geometry));
        }
    }
    faults.extend(at_most_four(&source.images[0], channels).err());
    // A file that changed while it was read is sound the second time.
    if faults.is_empty() { vec![first] } else { faults }
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
