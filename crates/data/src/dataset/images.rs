//! The images of a data set alone: whoever predicts needs no masks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::walk::Folder;
use super::{Layout, find_sources, layout};
use crate::{Error, Result};

/// The images of a data set.
#[derive(Debug)]
pub struct Images {
    /// How the files are arranged.
    pub layout: Layout,
    /// The id and the files of each image; several files hold its channels.
    pub all: Vec<(String, Vec<PathBuf>)>,
    /// What is wrong with its files, such as a channel that is missing; such images are not among them.
    pub faults: Vec<Error>,
    /// What a user should know of the way in which it was read.
    pub notes: Vec<String>,
}

impl Images {
    /// Finds the images of a folder or manifest, annotated or not; no pixels are read. None where no layout is
    /// named and the folder has none.
    pub fn find(path: &Path, named: Option<Layout>) -> Result<Option<Self>> {
        if named.is_none() && path.is_dir() && layout::manifest_in(path).is_none() {
            let root = Folder::read(path, &mut Vec::new())?;
            if root.has_no_files() || Layout::detect(&root, &mut Vec::new()).is_err() {
                return Ok(None);
            }
        }
        let (mut faults, mut notes) = (Vec::new(), Vec::new());
        let (layout, sources, _) = find_sources(path, named, &mut faults, &mut notes)?;
        let mut all: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for source in sources {
            let image = source.images[0].display().to_string();
            if let Some(first) = all.insert(source.id.clone(), source.images) {
                let (id, other) = (source.id, first[0].display());
                let reason =
                    format!("the id '{id}' is given twice, to {other} and to {image}; ids are unique");
                return Err(Error::dataset(path, reason));
            }
        }
        if all.is_empty() {
            let none =
                || Error::dataset(path, format!("holds no images in the layout {layout}; check the path"));
            return Err(faults.into_iter().next().unwrap_or_else(none));
        }
        Ok(Some(Self { layout, all: all.into_iter().collect(), faults, notes }))
    }
}
