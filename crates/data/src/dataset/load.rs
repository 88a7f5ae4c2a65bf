//! From files to cases: channels joined, every mask held against its image.

use std::path::{Path, PathBuf};

use super::{Label, Source, TrueMode};
use crate::import::mask::slice_mask;
use crate::import::{self, Format, Limits, MaskRule, Samples, Size};
use crate::memory::{claim, reserved};
use crate::{Annotation, Case, Error, Geometry, Image, Mask, Mode, Result};

/// Reads an image without annotations: one image, or one per slice of a volume. Several files are the
/// channels of the same image.
pub fn read_slices(paths: &[PathBuf], limits: &Limits) -> Result<Vec<Image>> {
    let slices = Slices::open(paths, limits)?;
    slices.claim_all()?;
    (0..slices.len()).map(|z| slices.image(z)).collect()
}

/// The files of one image, in memory as they are stored; its slices are made one at a time.
#[derive(Debug)]
pub struct Slices {
    paths: Vec<PathBuf>,
    channels: Vec<Samples>,
    /// How many slices of its file a slice is made of.
    joined: usize,
}

impl Slices {
    /// Reads the files of one image, which hold its channels, and holds them against each other.
    pub fn open(paths: &[PathBuf], limits: &Limits) -> Result<Self> {
        let mut channels: Vec<Samples> = Vec::with_capacity(paths.len());
        for path in paths {
            let samples = import::read(path, limits)?;
            if let Some(first) = channels.first() {
                same_space(Space::of(path, &samples), Space::of(&paths[0], first))?;
            }
            finite(path, &samples)?;
            channels.push(samples);
        }
        Self { paths: paths.to_vec(), channels, joined: 1 }.with_few_channels()
    }

    /// The same for a model that takes so many channels: where the files' slices fit that as channels, and else
    /// would not, they are such. A model of three channels takes grey pictures as colours.
    pub fn open_for(paths: &[PathBuf], wanted: usize, limits: &Limits) -> Result<Self> {
        let slices = Self::open(paths, limits)?;
        let joined: usize = slices.channels.iter().map(|one| one.size.channels * one.size.depth).sum();
        match (slices.channels() != wanted, wanted) {
            (true, _) if joined == wanted => slices.with_slices_joined().with_few_channels(),
            (true, 3) if is_picture(paths) => Ok(slices.in_colours()),
            _ => Ok(slices),
        }
    }

    /// The same of a source, whose slices become channels where [`depth`] takes them for such.
    pub(super) fn of(source: &Source, limits: &Limits) -> Result<Self> {
        let slices = Self::open(&source.images, limits)?;
        match source.depth {
            _ if source.in_colours => Ok(slices.in_colours()),
            1 => slices.with_slices_joined().with_few_channels(),
            _ => Ok(slices),
        }
    }

    /// Files of up to four slices as files of so many channels.
    fn with_slices_joined(mut self) -> Self {
        for samples in &mut self.channels {
            let (size, steps) = (&mut samples.size, &mut samples.steps);
            if size.channels == 1 && size.depth <= 4 {
                self.joined = size.depth;
                std::mem::swap(&mut size.depth, &mut size.channels);
                std::mem::swap(&mut steps.slice, &mut steps.channel);
            }
        }
        self
    }

    /// A picture as red, green and blue: grey is all three, and alpha is left out.
    fn in_colours(mut self) -> Self {
        for Samples { size, steps, .. } in &mut self.channels {
            if size.channels < 3 {
                steps.channel = 0;
            }
            size.channels = 3;
        }
        self
    }

    fn with_few_channels(self) -> Result<Self> {
        at_most_four(&self.paths[0], self.channels())?;
        Ok(self)
    }

    /// How many slices there are; 1 for a plain image.
    pub fn len(&self) -> usize {
        self.channels.first().map_or(0, |first| first.size.depth)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One slice, all channels joined.
    pub fn image(&self, z: usize) -> Result<Image> {
        let (path, first) = (&self.paths[0], &self.channels[0]);
        let _room = claim(path, self.slice_bytes())?;
        let mut pixels = reserved(path, self.slice_bytes() as usize / size_of::<f32>())?;
        self.channels.iter().for_each(|samples| samples.add_slice(z, &mut pixels));
        let mut image = Image::new(first.size.width, first.size.height, self.channels(), pixels);
        image.geometry = first.slice_geometry(z);
        Ok(image)
    }

    /// One slice with its neighbours as further channels, the one before it first. At the ends it stands for the one that
    /// is missing.
    pub fn with_neighbours(&self, z: usize) -> Result<Image> {
        let [before, after] = [z.saturating_sub(1), (z + 1).min(self.len() - 1)];
        Ok(Image::joined(&[&self.image(before)?, &self.image(z)?, &self.image(after)?]))
    }

    /// Columns and rows.
    pub fn size(&self) -> [usize; 2] {
        self.channels.first().map_or([0, 0], |first| [first.size.width, first.size.height])
    }

    /// How many slices of its file a slice is made of: more than 1 where they are channels.
    pub fn joined(&self) -> usize {
        self.joined
    }

    /// Bytes of the samples in memory.
    pub fn bytes(&self) -> u64 {
        self.channels.iter().map(|samples| samples.bytes.len() as u64).sum()
    }

    /// Planes of each slice.
    pub fn channels(&self) -> usize {
        self.channels.iter().map(|samples| samples.size.channels).sum()
    }

    fn slice_bytes(&self) -> u64 {
        self.channels.iter().map(Samples::slice_bytes).sum()
    }

    /// Refuses files that have other slices than when the data set was opened.
    fn of_depth(&self, source: &Source) -> Result<()> {
        match self.len() == source.depth {
            true => Ok(()),
            false => {
                let size = self.channels[0].size;
                Err(Error::file(&self.paths[0], format!("changed while it was read: now {size}")))
            }
        }
    }

    /// Refuses slices that do not fit into memory all at once.
    fn claim_all(&self) -> Result<()> {
        claim(&self.paths[0], self.slice_bytes() * self.len() as u64).map(drop)
    }
}

/// Refuses values that are no numbers.
fn finite(path: &Path, samples: &Samples) -> Result<()> {
    match samples.always_finite() {
        true => Ok(()),
        false => {
            (0..samples.size.depth).try_for_each(|z| import::finite(path, samples, &samples.slice(path, z)?))
        }
    }
}

/// Refuses an image with too many channels in its files.
fn at_most_four(path: &Path, channels: usize) -> Result<()> {
    match channels {
        ..=4 => Ok(()),
        _ => {
            let reason = format!("has {channels} channels with its companions; an image has 1 to 4");
            Err(Error::file(path, reason))
        }
    }
}

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

/// A file, and the pixels and the place that it covers.
#[derive(Clone, Copy)]
struct Space<'a> {
    path: &'a Path,
    size: Size,
    geometry: Option<&'a Geometry>,
}

impl<'a> Space<'a> {
    fn of(path: &'a Path, samples: &'a Samples) -> Self {
        Self { path, size: samples.size, geometry: samples.geometry.as_ref() }
    }
}

/// Refuses a file that does not cover the same pixels, and the same place, as the image.
fn same_space(file: Space, image: Space) -> Result<()> {
    let (path, image_path) = (file.path, image.path);
    let [size, wanted] = [file.size, image.size];
    if (size.width, size.height, size.depth) != (wanted.width, wanted.height, wanted.depth) {
        return Err(Error::file(
            path,
            format!("is {size}, but its image {} is {wanted}; resample one of them", image_path.display()),
        ));
    }
    let (Some(geometry), Some(other)) = (file.geometry, image.geometry) else { return Ok(()) };
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

/// Whether an image is one file whose channels are grey or colours, with alpha or without: PNG, TIFF or JPEG.
pub(super) fn is_picture(files: &[PathBuf]) -> bool {
    let of_colours = |file: &PathBuf| {
        import::identify(file).is_ok_and(|format| matches!(format, Format::Png | Format::Tiff | Format::Jpeg))
    };
    matches!(files, [file] if of_colours(file))
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
