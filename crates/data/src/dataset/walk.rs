//! A folder and all below it, listed once, sorted by name. Links are followed, but no folder is entered twice:
//! links into each other would else multiply what there is to read without end. A folder that holds a DICOM series
//! and nothing else is listed as a file: it is one volume.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result, dicom};

/// Files that may lie among images without being images.
const COMPANIONS: [&str; 14] =
    ["txt", "md", "rst", "json", "jsonl", "csv", "tsv", "toml", "xml", "yaml", "pdf", "db", "raw", "zraw"];

/// Whether a file of this name, found in a folder of images, is taken for one: neither hidden nor a
/// companion such as a read-me.
pub fn is_image_name(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    // The samples of a MetaImage or NRRD header are read through the header.
    let is_samples = name.to_ascii_lowercase().ends_with(".raw.gz");
    !name.starts_with('.')
        && !is_samples
        && !COMPANIONS.iter().any(|other| extension.eq_ignore_ascii_case(other))
}

/// A file that is taken for an image or mask: neither hidden nor a companion such as a read-me. Or the folder of a
/// DICOM series.
#[derive(Debug, Clone)]
pub(super) struct ImageFile {
    pub path: PathBuf,
    /// The name without its extension; `.nii.gz` counts as one.
    pub stem: String,
}

impl ImageFile {
    fn at(path: PathBuf, name: &str) -> Option<Self> {
        if !is_image_name(name) {
            return None;
        }
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let stem = match stem.len().checked_sub(4).and_then(|cut| stem.split_at_checked(cut)) {
            Some((inner, nii))
                if extension.eq_ignore_ascii_case("gz") && nii.eq_ignore_ascii_case(".nii") =>
            {
                inner
            }
            _ => stem,
        };
        Some(Self { path, stem: stem.to_owned() })
    }
}

/// A folder's content.
#[derive(Debug)]
pub(super) struct Folder {
    pub path: PathBuf,
    pub name: String,
    /// The name of the folder around it.
    pub owner: String,
    pub folders: Vec<Folder>,
    pub files: Vec<ImageFile>,
}

impl Folder {
    /// Lists a folder. What cannot be listed in it is left out and told in `problems`.
    pub fn read(root: &Path, problems: &mut Vec<Error>) -> Result<Self> {
        let real = fs::canonicalize(root).map_err(|e| Error::io(root, e))?;
        let name = |path: Option<&Path>| {
            path.and_then(Path::file_name).map_or(String::new(), |name| name.to_string_lossy().into_owned())
        };
        let (own, owner) = (name(Some(&real)), name(real.parent()));
        let entered = HashMap::from([(real.clone(), root.to_owned())]);
        Walk { entered, problems }.read(root.to_owned(), &real, own, owner)
    }

    /// The folder of that name directly inside.
    pub fn child(&self, name: &str) -> Option<&Folder> {
        self.folders.iter().find(|folder| folder.name == name)
    }

    /// This folder and all below it, the outer before the inner.
    pub fn all(&self) -> Vec<&Folder> {
        let mut found = vec![self];
        for folder in &self.folders {
            found.extend(folder.all());
        }
        found
    }

    /// Whether no image file lies in it at any depth.
    pub fn has_no_files(&self) -> bool {
        self.files.is_empty() && self.folders.iter().all(Folder::has_no_files)
    }

    /// Whether it holds the slices of a DICOM series and nothing else.
    fn is_series(&self) -> bool {
        self.folders.is_empty() && dicom::is_series(self.files.iter().map(|file| &*file.path))
    }

    /// A path inside `root` with `/` between its parts.
    pub fn relative(&self, root: &Path) -> String {
        relative(&self.path, root)
    }
}

/// The state of a listing.
struct Walk<'a> {
    /// The folders that were entered, by their real paths, with the paths by which they were.
    entered: HashMap<PathBuf, PathBuf>,
    problems: &'a mut Vec<Error>,
}

impl Walk<'_> {
    fn read(&mut self, path: PathBuf, real: &Path, name: String, owner: String) -> Result<Folder> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&path).map_err(|e| Error::io(&path, e))? {
            let entry = entry.map_err(|e| Error::io(&path, e))?;
            match entry.file_name().into_string() {
                Ok(own) if own.starts_with('.') => {}
                Ok(own) => entries.push((own, entry)),
                Err(name) => self.problems.push(Error::file(
                    path.join(name),
                    "has a name that is not UTF-8, so it cannot be an id; rename it",
                )),
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let mut folder = Folder { path, name, owner, folders: Vec::new(), files: Vec::new() };
        for (own, entry) in entries {
            let path = entry.path();
            match self.real_folder(&path, &entry, real) {
                Ok(None) => folder.files.extend(ImageFile::at(path, &own)),
                Ok(Some(inner)) => match self.read(path, &inner, own, folder.name.clone()) {
                    Ok(inner) if inner.is_series() => {
                        folder.files.push(ImageFile { path: inner.path, stem: inner.name });
                    }
                    Ok(inner) => folder.folders.push(inner),
                    Err(fault) => self.problems.push(fault),
                },
                Err(fault) => self.problems.push(fault),
            }
        }
        Ok(folder)
    }

    /// The real path of an entry that is a folder; one that was entered before is refused.
    fn real_folder(&mut self, path: &Path, entry: &fs::DirEntry, around: &Path) -> Result<Option<PathBuf>> {
        let kind = entry.file_type().map_err(|e| Error::io(path, e))?;
        let is_folder = match kind.is_symlink() {
            true => fs::metadata(path).map_err(|e| Error::io(path, e))?.is_dir(),
            false => kind.is_dir(),
        };
        if !is_folder {
            return Ok(None);
        }
        let real = match kind.is_symlink() {
            true => fs::canonicalize(path).map_err(|e| Error::io(path, e))?,
            false => around.join(entry.file_name()),
        };
        let first = self.entered.entry(real.clone()).or_insert_with(|| path.to_owned());
        // A folder around this one, or around the whole data set.
        if (first != path && path.starts_with(&*first)) || around.starts_with(&real) {
            return Err(Error::file(path, format!("links back to {}; remove the link", real.display())));
        }
        if first != path {
            let reason = format!("is the same folder as {}; remove the one that is a link", first.display());
            return Err(Error::file(path, reason));
        }
        Ok(Some(real))
    }
}

/// A path inside `root` with `/` between its parts.
pub(super) fn relative(path: &Path, root: &Path) -> String {
    let inner = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = inner.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
