//! Data sets on disk as cases: what lies where is found first (no pixels are read), cases are then
//! loaded one by one, all in parallel, or from a packed cache.
//!
//! | item | what it is for |
//! |---|---|
//! | [`Dataset`] | the cases of a folder or manifest, by their files |
//! | [`Layout`] | how the files are arranged |
//! | [`Images`] | the images of a data set alone, for `predict` |
//! | [`inspect`] | every fault and the counts of a data set, for `validate` |
//! | [`Loaded`] | its cases, in memory or in a cache on disk, as [`Holding`] says |
//! | [`Packed`] | a file of cases, read one by one |
//! | [`Split`] | train, validation and test, or k folds, by group |

mod case_folders;
mod group;
mod hold;
mod image_folders;
mod images;
mod inspect;
mod layout;
mod lidc;
mod load;
mod manifest;
mod mask_values;
mod names;
mod nnunet;
mod packed;
mod rater_weights;
mod record;
mod side_by_side;
mod slices;
mod source;
mod space;
mod split;
mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rayon::prelude::*;

use crate::import::{Limits, MaskRule};
use crate::{Case, Error, Result};
pub use group::GroupBy;
pub use hold::{Cache, Holding, Listener, Loaded, Told};
pub use images::Images;
pub use inspect::{Inspection, inspect, inspect_showing};
pub use layout::Layout;
pub use packed::Packed;
pub use slices::{Slices, read_slices};
pub use source::{Label, Source, TrueMode};
pub use split::{Roster, Split};
use walk::Folder;
pub use walk::is_image_name;

/// How to read a data set; the default finds everything out by itself.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The layout, where it is not to be found by content.
    pub layout: Option<Layout>,
    /// What makes stored values a mask; otherwise as the data set says, else by the values that its masks hold.
    pub mask: Option<MaskRule>,
    /// Which part of a case's id is its group, in place of the layout's own groups.
    pub group_by: Option<GroupBy>,
    /// How large files may be.
    pub limits: Limits,
}

/// One case before its pixels are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The case's id.
    pub id: String,
    /// Its place in [`Dataset::sources`].
    pub source: usize,
    /// Its slice there.
    pub slice: usize,
}

/// A data set whose files are known and whose pixels are read on demand.
#[derive(Debug, Clone)]
pub struct Dataset {
    path: PathBuf,
    layout: Layout,
    /// None where it is found by the masks' values.
    mask: Option<MaskRule>,
    inferred: OnceLock<(MaskRule, Option<String>)>,
    limits: Limits,
    sources: Vec<Source>,
    entries: Vec<Entry>,
    notes: Vec<String>,
}

impl Dataset {
    /// Finds the cases of a folder or manifest. The first fault is the error; [`inspect`] lists all.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let mut problems = Vec::new();
        let dataset = Self::find(path, options, &mut problems)?;
        match problems.len() {
            0 => Ok(dataset),
            1 => Err(problems.remove(0)),
            count => Err(Error::dataset(
                path,
                format!("{}; and {} more faults, which validate lists", problems[0], count - 1),
            )),
        }
    }

    fn find(path: &Path, options: &Options, problems: &mut Vec<Error>) -> Result<Self> {
        let mut notes = Vec::new();
        let (layout, mut sources, implied) = find_sources(path, options.layout, problems, &mut notes)?;
        if sources.is_empty() && problems.is_empty() {
            return Err(Error::dataset(
                path,
                format!("holds no cases in the layout {layout}; check the path"),
            ));
        }
        let depths: Vec<_> = sources.par_iter().map(|source| load::depth(source, &options.limits)).collect();
        for (source, depth) in sources.iter_mut().zip(depths) {
            match depth {
                Ok(depth) => source.depth = depth,
                Err(fault) => problems.push(fault),
            }
        }
        let folder = if path.is_dir() { Some(path) } else { path.parent() };
        rater_weights::apply(folder.unwrap_or(path), &mut sources, problems, &mut notes)?;
        match &options.group_by {
            Some(by) => by.apply(path, &mut sources, problems),
            None => notes.extend(group::suspicion(&sources)),
        }
        check(path, &sources, problems);
        Ok(Self {
            path: path.to_owned(),
            layout,
            mask: options.mask.or(implied),
            inferred: OnceLock::new(),
            limits: options.limits,
            entries: entries(&sources),
            sources,
            notes,
        })
    }

    /// The folder or manifest.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How the files are arranged.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// What makes stored values a mask: as stated, else found by reading all masks when this is first asked.
    pub fn mask_rule(&self) -> MaskRule {
        self.mask.unwrap_or_else(|| self.inferred().0)
    }

    fn inferred(&self) -> &(MaskRule, Option<String>) {
        self.inferred.get_or_init(|| mask_values::infer(&self.sources, &self.limits))
    }

    /// What a user should know of the way in which the data set was read: a layout that was chosen among
    /// several, names that look like patients, raters without weight, masks that are not plainly binary.
    pub fn notes(&self) -> Vec<String> {
        let masks = self.inferred.get().and_then(|(_, note)| note.clone());
        self.notes.iter().cloned().chain(masks).collect()
    }

    /// The files of each image.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// All cases, in the order in which they are loaded.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many cases there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads one case. Of a volume the whole file is read: prefer [`Dataset::load`] for many slices.
    pub fn case(&self, index: usize) -> Result<Case> {
        let entry = &self.entries[index];
        load::case(&self.sources[entry.source], entry.slice, self.mask_rule(), &self.limits)
    }

    /// Reads all cases in parallel, in the order of [`Dataset::entries`] whatever the number of threads.
    pub fn load(&self) -> Result<Vec<Case>> {
        let rule = self.mask_rule();
        let loaded: Vec<Result<Vec<Case>>> =
            self.sources.par_iter().map(|source| load::cases(source, rule, &self.limits)).collect();
        let mut cases = Vec::with_capacity(self.len());
        // The first fault in order, so that the message does not depend on threads either.
        for source in loaded {
            cases.extend(source?);
        }
        let channels = cases.iter().map(|case| (case.id.as_str(), case.image.channels()));
        match load::same_channels(&self.path, channels) {
            Ok(()) => Ok(cases),
            Err(fault) => self.in_colours().ok_or(fault)?.load(),
        }
    }

    /// The same with every image as three colours: what becomes of grey and coloured pictures (PNG, TIFF, JPEG) in one
    /// data set. None where it is so already, or where some image is no picture, so that its channels may be
    /// anything.
    fn in_colours(&self) -> Option<Self> {
        let is_new =
            self.sources.iter().all(|source| !source.in_colours && slices::is_picture(&source.images));
        is_new.then(|| {
            let mut coloured = self.clone();
            coloured.sources.iter_mut().for_each(|source| source.in_colours = true);
            coloured.notes.push("grey and coloured images: all are read as three colours".into());
            coloured
        })
    }

    /// The split that the data set states itself (a manifest's column, folders named train and test),
    /// where every case has one.
    pub fn stated_split(&self, roster: &Roster) -> Result<Option<Split>> {
        let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in &self.entries {
            let Some(name) = &self.sources[entry.source].split else { return Ok(None) };
            parts.entry(name.clone()).or_default().push(entry.id.clone());
        }
        Split::from_parts(roster, parts).map(Some)
    }
}

/// The cases that sources become, in order.
fn entries(sources: &[Source]) -> Vec<Entry> {
    let of = |(at, source): (usize, &Source)| {
        let entry = |slice| Entry { id: source.case_id(slice), source: at, slice };
        (0..source.depth).map(entry).collect::<Vec<_>>()
    };
    sources.iter().enumerate().flat_map(of).collect()
}

fn find_sources(
    path: &Path,
    layout: Option<Layout>,
    problems: &mut Vec<Error>,
    notes: &mut Vec<String>,
) -> Result<(Layout, Vec<Source>, Option<MaskRule>)> {
    if !path.is_dir() {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_manifest =
            path.is_file() && matches!(extension.to_ascii_lowercase().as_str(), "jsonl" | "csv");
        if path.exists() && !is_manifest {
            return Err(Error::dataset(
                path,
                "is neither a folder nor a .jsonl or .csv manifest; give one of these",
            ));
        }
        if let Some(other) = layout.filter(|&layout| layout != Layout::Manifest) {
            return Err(Error::dataset(path, format!("is a file, but the layout {other} wants a folder")));
        }
        return Ok((Layout::Manifest, manifest::sources(path, problems)?, None));
    }
    if layout.is_none_or(|layout| layout == Layout::Manifest)
        && let Some(file) = layout::manifest_in(path)
    {
        return Ok((Layout::Manifest, manifest::sources(&file, problems)?, None));
    }
    let root = Folder::read(path, problems)?;
    // Where nothing is left to know a layout by, what could not be listed is the fault.
    let layout = layout.map_or_else(|| Layout::detect(&root, notes), Ok);
    let layout = layout.map_err(|none| if problems.is_empty() { none } else { problems.swap_remove(0) })?;
    let (sources, rule) = match layout {
        Layout::Manifest => {
            return Err(Error::dataset(path, "has neither manifest.jsonl nor manifest.csv; add one"));
        }
        // Known to be binary, so that no mask need be read to find out.
        Layout::LidcSlices => (lidc::slices(&root, problems), Some(MaskRule::Binary)),
        Layout::LidcCrops => (lidc::crops(&root, problems), Some(MaskRule::Binary)),
        Layout::NnUnet => nnunet::sources(&root, problems)?,
        Layout::ImageFolders => (image_folders::sources(&root, problems, notes), None),
        Layout::SideBySide => (side_by_side::sources(&root, problems), None),
        Layout::CaseFolders => (case_folders::sources(&root, problems, notes), None),
    };
    Ok((layout, sources, rule))
}

/// What no layout may have: images without masks, ids twice, a group in two splits.
fn check(path: &Path, sources: &[Source], problems: &mut Vec<Error>) {
    let mut seen: BTreeMap<&str, &Source> = BTreeMap::new();
    let mut splits: BTreeMap<&str, &str> = BTreeMap::new();
    for source in sources {
        let image = source.images[0].display();
        if source.labels.is_empty() {
            problems.push(Error::dataset(
                path,
                format!("the image {image} has no mask; add one (an empty mask means \"nothing there\") or remove it"),
            ));
        }
        if let Some(first) = seen.insert(&source.id, source) {
            let other = first.images[0].display();
            problems.push(Error::dataset(
                path,
                format!("the id '{}' is given twice, to {other} and to {image}; ids are unique", source.id),
            ));
        }
        let Some(split) = source.split.as_deref() else { continue };
        let first = *splits.entry(&source.group).or_insert(split);
        if first != split {
            problems.push(Error::dataset(
                path,
                format!(
                    "the group '{}' is in {first} and, with case '{}', in {split}; a group belongs to one split",
                    source.group, source.id
                ),
            ));
        }
    }
}

/// The split that a folder's name stands for.
fn split_name(folder: &str) -> Option<String> {
    let name = match folder.to_ascii_lowercase().as_str() {
        "train" | "training" => "train",
        "val" | "valid" | "validation" => "val",
        "test" | "testing" => "test",
        _ => return None,
    };
    Some(name.to_owned())
}
