//! The ways data sets lie on disk, found by content or named by the user.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::walk::Folder;
use super::{case_folders, lidc, nnunet};
use crate::{Error, Result};

/// A way for a data set to lie on disk; `docs/dataset-format.md` shows each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A JSONL or CSV file that names every image and annotation.
    Manifest,
    /// `PATIENT/nodule-N/{images,mask-0..}/slice-K.png`.
    LidcSlices,
    /// `images/…/NAME.png` with `gt/…/NAME_l0.png` and so on.
    LidcCrops,
    /// `imagesTr/CASE_0000.ext` with `labelsTr`, `labelsTr_r2` and so on.
    NnUnet,
    /// One folder per case with `image*` and `label*`, `mask*`, `seg*`, `gt*` or `rater*` files.
    CaseFolders,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 5] =
        [Self::Manifest, Self::LidcSlices, Self::LidcCrops, Self::NnUnet, Self::CaseFolders];

    fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::LidcSlices => "lidc-slices",
            Self::LidcCrops => "lidc-crops",
            Self::NnUnet => "nnunet",
            Self::CaseFolders => "case-folders",
        }
    }

    fn shape(self) -> &'static str {
        match self {
            Self::Manifest => "manifest.jsonl or manifest.csv",
            Self::LidcSlices => "PATIENT/nodule-N/images/slice-K.png with mask-0/slice-K.png",
            Self::LidcCrops => "images/NAME.png with gt/NAME_l0.png",
            Self::NnUnet => "imagesTr/CASE_0000.nii.gz with labelsTr/CASE.nii.gz",
            Self::CaseFolders => "CASE/image.png with CASE/label0.png",
        }
    }

    fn fits(self, root: &Folder) -> bool {
        match self {
            Self::Manifest => manifest_in(&root.path).is_some(),
            Self::LidcSlices => lidc::has_slices(root),
            Self::LidcCrops => lidc::has_crops(root),
            Self::NnUnet => nnunet::fits(root),
            Self::CaseFolders => case_folders::fits(root),
        }
    }

    /// The one layout that a folder's content fits.
    pub(super) fn detect(root: &Folder) -> Result<Self> {
        // A manifest is explicit, whatever lies around it.
        if Self::Manifest.fits(root) {
            return Ok(Self::Manifest);
        }
        if root.has_no_files() {
            return Err(Error::dataset(&root.path, "holds no image files; check the path"));
        }
        let fitting: Vec<_> = Self::ALL.into_iter().filter(|layout| layout.fits(root)).collect();
        match fitting[..] {
            [layout] => Ok(layout),
            [] => {
                let looked: Vec<_> =
                    Self::ALL.map(|layout| format!("{layout} ({})", layout.shape())).to_vec();
                let files = root.files.iter().filter_map(|file| file.path.file_name());
                let names = root.folders.iter().map(|folder| folder.name.clone());
                let found: Vec<_> =
                    names.chain(files.map(|name| name.to_string_lossy().into_owned())).collect();
                let shown = found.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
                Err(Error::dataset(
                    &root.path,
                    format!(
                        "has no known layout; looked for {}; found {shown}{}; rearrange the files or write a manifest",
                        looked.join(", "),
                        if found.len() > 5 { ", …" } else { "" }
                    ),
                ))
            }
            _ => {
                let names: Vec<_> = fitting.iter().map(ToString::to_string).collect();
                Err(Error::dataset(
                    &root.path,
                    format!("fits several layouts ({}); name the right one with --layout", names.join(", ")),
                ))
            }
        }
    }
}

/// The manifest in a folder, where there is one.
pub(super) fn manifest_in(root: &Path) -> Option<PathBuf> {
    ["manifest.jsonl", "manifest.csv"].map(|name| root.join(name)).into_iter().find(|path| path.is_file())
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::mismatch("layout", format!("'{text}' is unknown; use one of {names}"))
        })
    }
}
