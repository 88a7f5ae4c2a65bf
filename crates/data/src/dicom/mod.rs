//! DICOM: single files, multi-frame files and series as images and volumes, and segmentations written for them.
//!
//! | file | what it does |
//! |---|---|
//! | `parts` | finds attributes and pixels in a file whose lengths are not trusted |
//! | `instance` | what a file says of itself |
//! | `syntax`, `frames` | transfer syntaxes, and the pixels of a frame |
//! | `stack` | the slices of a series in the order of their places |
//! | [`seg`], `elements` | hypotheses as a DICOM segmentation |
//!
//! A path names a file, a folder with one series, or `FOLDER/series-2`, which is no file: the second of several
//! series in a folder. No message holds a patient's data: what is told are paths, numbers and kinds.

mod elements;
mod frames;
mod instance;
mod jpeg2000;
mod parts;
pub mod seg;
mod stack;
mod syntax;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use dicom_core::Tag;
use rayon::prelude::*;

use crate::import::{Limits, Sample, Samples, Size, Steps};
use crate::memory::reserved;
use crate::{Error, Result, disk};
pub(crate) use instance::{Content, Instance};
use parts::Parts;
pub(crate) use stack::Stack;

/// Folders inside of folders that are looked into.
const MOST_DEPTH: usize = 16;
/// What the names of several series in a folder begin with.
const SERIES: &str = "series-";

/// Whether a path is a file that is DICOM by its first bytes. A pipe would keep its reader waiting.
pub(crate) fn is_dicom(path: &Path) -> bool {
    let mut head = [0; 132];
    let mut read = || disk::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    disk::is_file(path) && read().is_ok() && &head[128..] == b"DICM"
}

/// Whether a path names a DICOM file or series.
pub fn is_named_by(path: &Path) -> bool {
    is_folder(path) || is_dicom(path)
}

/// The images and volumes of a folder and all below it, each with its path relative to the folder: the folders of
/// series, and files that are no slices. Empty where there are none.
pub fn find(folder: &Path, limits: &Limits) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    find_below(folder, Path::new(""), 0, limits, &mut found)?;
    Ok(found)
}

fn find_below(
    folder: &Path,
    relative: &Path,
    depth: usize,
    limits: &Limits,
    found: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<()> {
    // What cannot be read is told of where the folder is opened.
    let series = series_in(folder, limits);
    let is_alone = |one: &Vec<Instance>| {
        one.len() == 1 || one.iter().any(|one| one.frames.iter().any(|frame| frame.place.is_none()))
    };
    match series {
        Ok(series) if series.iter().all(is_alone) => {
            let mut alone: Vec<PathBuf> = series.into_iter().flatten().map(|one| one.path).collect();
            alone.sort();
            let named = |path: PathBuf| (relative.join(path.file_name().unwrap_or_default()), path);
            found.extend(alone.into_iter().map(named));
        }
        _ => found.push((relative.to_owned(), folder.to_owned())),
    }
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| Error::io(folder, e))? {
        let entry = entry.map_err(|e| Error::io(folder, e))?;
        // Links are not followed: they might lead back.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && depth < MOST_DEPTH && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            folders.push(entry.file_name());
        }
    }
    folders.sort();
    folders
        .iter()
        .try_for_each(|name| find_below(&folder.join(name), &relative.join(name), depth + 1, limits, found))
}

/// Whether a path is a folder with DICOM files, or one of several series in such a folder.
pub(crate) fn is_folder(path: &Path) -> bool {
    let folder = match number_of_series(path) {
        Some((folder, _)) => folder,
        None => path,
    };
    // The first one that is found is enough.
    disk::is_dir(folder) && disk::list(folder).is_ok_and(|all| all.iter().any(|one| is_candidate(one)))
}

/// Whether files, all of those in a folder, are the slices of a series, by the first two of them.
pub(crate) fn is_series<'a>(files: impl IntoIterator<Item = &'a Path>) -> bool {
    let mut files = files.into_iter();
    let (Some(first), Some(second)) = (files.next(), files.next()) else { return false };
    if !is_dicom(first) || !is_dicom(second) || !files.all(is_dicom) {
        return false;
    }
    let limits = Limits::default();
    let (Ok(first), Ok(second)) = (Instance::read(first, &limits), Instance::read(second, &limits)) else {
        return false;
    };
    let is_placed = |one: &Instance| one.frames.iter().all(|frame| frame.place.is_some());
    first.series == second.series && is_placed(&first) && is_placed(&second)
}

/// Folder and number of `FOLDER/series-2`, where there is no file or folder of that name.
fn number_of_series(path: &Path) -> Option<(&Path, usize)> {
    let number = path.file_name()?.to_str()?.strip_prefix(SERIES)?.parse().ok()?;
    path.parent().filter(|folder| !disk::exists(path) && disk::is_dir(folder)).map(|folder| (folder, number))
}

/// The DICOM files of a folder, by name; hidden files and others are left out.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = disk::list(folder).map_err(|e| Error::io(folder, e))?;
    files.retain(|path| is_candidate(path));
    files.sort();
    Ok(files)
}

/// Whether a file of a folder may be a slice: DICOM, not hidden, and not the folder's table of contents.
fn is_candidate(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_aside = name.as_encoded_bytes().starts_with(b".") || name.eq_ignore_ascii_case("DICOMDIR");
    !is_aside && is_dicom(path)
}

/// The image series of a folder by their numbers, each with its files by name.
pub(crate) fn series_in(folder: &Path, limits: &Limits) -> Result<Vec<Vec<Instance>>> {
    let files = files_in(folder)?;
    let contents: Vec<Content> =
        files.par_iter().map(|file| Content::read(file, limits)).collect::<Result<_>>()?;
    let mut series: BTreeMap<(i64, String), Vec<Instance>> = BTreeMap::new();
    for content in contents {
        if let Content::Image(instance) = content {
            series.entry((instance.series_number, instance.series.clone())).or_default().push(*instance);
        }
    }
    Ok(series.into_values().collect())
}

/// How many image series a folder has, and each in words that name no patient.
pub fn list_series(folder: &Path, limits: &Limits) -> Result<Vec<String>> {
    let words = |series: Vec<Instance>| {
        let Instance { format, modality, series_number, .. } = &series[0];
        let slices: usize = series.iter().map(|one| one.frames.len()).sum();
        format!("{modality}, number {series_number}, {slices} slice(s) of {}x{}", format.width, format.height)
    };
    Ok(series_in(folder, limits)?.into_iter().map(words).collect())
}

impl Stack {
    /// Opens what a path names: headers alone.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self> {
        let (folder, number) = match number_of_series(path) {
            Some((folder, number)) => (folder, Some(number)),
            None if disk::is_dir(path) => (path, None),
            None => return Self::new(path, vec![Instance::read(path, limits)?]),
        };
        let mut series = series_in(folder, limits)?;
        let at = match (number, series.len()) {
            (_, 0) => {
                return Err(Error::file(folder, "holds no DICOM images; give the folder of a scan"));
            }
            (None, 1) => 0,
            (None, count) => {
                let listed = list_series(folder, limits)?;
                let listed =
                    listed.iter().enumerate().map(|(at, words)| format!("{SERIES}{} ({words})", at + 1));
                let listed: Vec<String> = listed.collect();
                return Err(Error::file(
                    folder,
                    format!(
                        "holds {count} series: {}; name one, as in {}",
                        listed.join(", "),
                        folder.join(format!("{SERIES}1")).display()
                    ),
                ));
            }
            (Some(number), count) if (1..=count).contains(&number) => number - 1,
            (Some(number), count) => {
                return Err(Error::file(
                    folder,
                    format!(
                        "holds {count} series, and {SERIES}{number} is none of them; name one up to {SERIES}{count}"
                    ),
                ));
            }
        };
        Self::new(path, series.swap_remove(at))
    }

    /// Columns, rows, slices and channels.
    pub fn size(&self) -> Size {
        let format = &self.instances[0].format;
        let Self { slices, .. } = self;
        Size { width: format.width, height: format.height, depth: slices.len(), channels: format.channels }
    }

    /// Reads the pixels.
    pub fn read(&self, path: &Path, limits: &Limits) -> Result<Samples> {
        let (size, format) = (self.size(), &self.instances[0].format);
        let scales: Vec<(f64, f64)> = self.slices.iter().map(|&at| self.frame(at).scale).collect();
        let one_scale = scales.iter().all(|scale| *scale == scales[0]);
        // Slices with scales of their own, as PET has them, are stored as their values.
        let sample = if one_scale { format.sample } else { Sample::F32 };
        let stored = self.instances.iter().map(|one| disk::length(&one.path).unwrap_or(0)).sum();
        let _room = limits.claim(path, &size, sample, stored, 1)?;
        let length = size.width * size.height * size.channels * sample.bytes();
        let mut bytes = reserved(path, length * size.depth)?;
        let mut opened: Option<(usize, Parts)> = None;
        for (&(instance, frame), scale) in self.slices.iter().zip(&scales) {
            let Instance { path, frames, format, .. } = &self.instances[instance];
            let mut parts = match opened.take() {
                Some((number, parts)) if number == instance => parts,
                _ => Parts::open(path, limits)?,
            };
            let read = frames::read(path, &mut parts, format, frame, frames.len())?;
            match one_scale {
                true => bytes.extend(read),
                false => bytes.extend(scaled(read, size, format.sample, *scale)),
            }
            opened = Some((instance, parts));
        }
        let scale = scales.first().copied().filter(|scale| one_scale && *scale != (1.0, 0.0));
        let steps = Steps::interleaved(size);
        Ok(Samples { size, bytes, sample, big_endian: false, steps, scale, geometry: self.geometry.clone() })
    }
}

/// The values of a slice as f32.
fn scaled(bytes: Vec<u8>, size: Size, sample: Sample, scale: (f64, f64)) -> Vec<u8> {
    let size = Size { depth: 1, ..size };
    // One long row, so that the order stays.
    let row = Size { width: size.width * size.height * size.channels, height: 1, depth: 1, channels: 1 };
    let steps = Steps::planar(row);
    let samples =
        Samples { size: row, bytes, sample, big_endian: false, steps, scale: Some(scale), geometry: None };
    let mut values = Vec::with_capacity(row.width);
    samples.add_slice(0, &mut values);
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// The text of an attribute of a file; none where it has none.
pub(crate) fn attribute(path: &Path, tag: Tag, limits: &Limits) -> Result<Option<String>> {
    Ok(instance::text(&Parts::open(path, limits)?.attributes(path)?, tag))
}

/// Reads what a path names.
pub(crate) fn read(path: &Path, limits: &Limits) -> Result<Samples> {
    Stack::open(path, limits)?.read(path, limits)
}

/// The files that a path names.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let folder = number_of_series(path).map_or(path, |(folder, _)| folder);
    files_in(folder).unwrap_or_default()
}
