//! The files behind a case.

use std::path::{Path, PathBuf};

/// An annotation's file.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// The mask file.
    pub path: PathBuf,
    /// Who drew it, where known.
    pub rater: Option<String>,
    /// How much it counts.
    pub weight: f32,
}

impl Label {
    pub(super) fn unnamed(path: &Path) -> Self {
        Self { path: path.to_owned(), rater: None, weight: 1.0 }
    }
}

/// The file of a true mode.
#[derive(Debug, Clone, PartialEq)]
pub struct TrueMode {
    /// The mask file.
    pub path: PathBuf,
    /// Its probability given the image.
    pub probability: f32,
}

/// The files behind one image and its annotations: one case, or as many as a volume has slices.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Unique in the data set.
    pub id: String,
    /// What a split must not tear apart.
    pub group: String,
    /// The image's files; several where each holds some of the channels.
    pub images: Vec<PathBuf>,
    /// The annotations' files.
    pub labels: Vec<Label>,
    /// The true modes' files, where the truth is known; only a manifest can say so.
    pub truth: Vec<TrueMode>,
    /// The split the data set itself puts it in.
    pub split: Option<String>,
    /// Slices; each becomes a case of its own, `ID/slice-000` and so on. 1 for a plain image.
    pub depth: usize,
    /// Whether the image is read as three colours, though its file is grey or has an alpha channel.
    pub in_colours: bool,
}

impl Source {
    /// An image of one slice, its own group, in no split and with nothing known of the truth.
    pub(super) fn new(id: String, images: Vec<PathBuf>, labels: Vec<Label>) -> Self {
        Self {
            group: id.clone(),
            id,
            images,
            labels,
            truth: Vec::new(),
            split: None,
            depth: 1,
            in_colours: false,
        }
    }

    /// All files.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let labels = self.labels.iter().map(|label| &label.path);
        self.images.iter().chain(labels).chain(self.truth.iter().map(|mode| &mode.path))
    }

    /// The id of the case that a slice becomes.
    pub(super) fn case_id(&self, slice: usize) -> String {
        match self.depth {
            1 => self.id.clone(),
            _ => format!("{}/slice-{slice:03}", self.id),
        }
    }
}
