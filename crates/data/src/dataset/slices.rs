//! An image's files as its slices, channels joined.

use std::path::{Path, PathBuf};

use super::Source;
use super::space::{Space, same_space};
use crate::import::{self, Format, Limits, Samples};
use crate::memory::{claim, reserved};
use crate::{Error, Image, Result};

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
    pub(super) channels: Vec<Samples>,
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

    /// The same of a source, whose slices become channels where [`depth`](super::load::depth) takes them for such.
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
    pub(super) fn of_depth(&self, source: &Source) -> Result<()> {
        match self.len() == source.depth {
            true => Ok(()),
            false => {
                let size = self.channels[0].size;
                Err(Error::file(&self.paths[0], format!("changed while it was read: now {size}")))
            }
        }
    }

    /// Refuses slices that do not fit into memory all at once.
    pub(super) fn claim_all(&self) -> Result<()> {
        claim(&self.paths[0], self.slice_bytes() * self.len() as u64).map(drop)
    }
}

/// Refuses values that are no numbers.
pub(super) fn finite(path: &Path, samples: &Samples) -> Result<()> {
    match samples.always_finite() {
        true => Ok(()),
        false => {
            (0..samples.size.depth).try_for_each(|z| import::finite(path, samples, &samples.slice(path, z)?))
        }
    }
}

/// Refuses an image with too many channels in its files.
pub(super) fn at_most_four(path: &Path, channels: usize) -> Result<()> {
    match channels {
        ..=4 => Ok(()),
        _ => {
            let reason = format!("has {channels} channels with its companions; an image has 1 to 4");
            Err(Error::file(path, reason))
        }
    }
}

/// Whether an image is one file whose channels are grey or colours, with alpha or without: PNG, TIFF or JPEG.
pub(super) fn is_picture(files: &[PathBuf]) -> bool {
    let of_colours = |file: &PathBuf| {
        import::identify(file).is_ok_and(|format| matches!(format, Format::Png | Format::Tiff | Format::Jpeg))
    };
    matches!(files, [file] if of_colours(file))
}
