//! The ways data sets lie on disk, found by content or named by the user.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::walk::{Folder, relative};
use super::{case_folders, image_folders, lidc, nnunet, side_by_side};
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
    /// `images/NAME.ext` with `masks/NAME.ext`, or with one folder per rater.
    ImageFolders,
    /// `NAME.ext` with `NAME_seg01.ext` and so on in the same folder.
    SideBySide,
    /// One folder per case with its image or channels and `label*`, `mask*`, `seg*`, `gt*` or `rater*` files.
    CaseFolders,
}

impl Layout {
    /// All layouts, the more specific before the more general.
    pub const ALL: [Self; 7] = [
        Self::Manifest,
        Self::LidcSlices,
        Self::LidcCrops,
        Self::NnUnet,
        Self::ImageFolders,
        Self::SideBySide,
        Self::CaseFolders,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::LidcSlices => "lidc-slices",
            Self::LidcCrops => "lidc-crops",
            Self::NnUnet => "nnunet",
            Self::ImageFolders => "image-folders",
            Self::SideBySide => "side-by-side",
            Self::CaseFolders => "case-folders",
        }
    }

    fn shape(self) -> &'static str {
        match self {
            Self::Manifest => "manifest.jsonl or manifest.csv",
            Self::LidcSlices => "PATIENT/nodule-N/images/slice-K.png with mask-0/slice-K.png",
            Self::LidcCrops => "images/NAME.png with gt/NAME_l0.png",
            Self::NnUnet => "imagesTr/CASE_0000.nii.gz with labelsTr/CASE.nii.gz",
            Self::ImageFolders => {
                "images/NAME.png with masks/NAME.png, or with rater1/NAME.png, rater2/NAME.png"
            }
            Self::SideBySide => "NAME.nii.gz with NAME_seg01.nii.gz",
            Self::CaseFolders => {
                "CASE/image.png with CASE/label0.png, or CASE/t1.nii.gz with CASE/seg01.nii.gz"
            }
        }
    }

    fn fits(self, root: &Folder) -> bool {
        match self {
            Self::Manifest => manifest_in(&root.path).is_some(),
            Self::LidcSlices => lidc::has_slices(root),
            Self::LidcCrops => lidc::has_crops(root),
            Self::NnUnet => nnunet::fits(root),
            Self::ImageFolders => image_folders::fits(root),
            Self::SideBySide => side_by_side::fits(root),
            Self::CaseFolders => case_folders::fits(root),
        }
    }

    /// The layout that a folder's content fits; the most specific where there are several, which is noted.
    pub(super) fn detect(root: &Folder, notes: &mut Vec<String>) -> Result<Self> {
        // A manifest is explicit, whatever lies around it.
        if Self::Manifest.fits(root) {
            return Ok(Self::Manifest);
        }
        if root.has_no_files() {
            return Err(Error::dataset(&root.path, "holds no image files; check the path"));
        }
        let fitting: Vec<_> = Self::ALL.into_iter().filter(|layout| layout.fits(root)).collect();
        let Some(&taken) = fitting.first() else { return Err(unknown(root)) };
        // LIDC's folders of images and masks are folders of images and masks, too.
        let is_lidc = matches!(taken, Self::LidcSlices | Self::LidcCrops);
        let others = fitting[1..].iter().filter(|&&other| !(is_lidc && other == Self::ImageFolders));
        let others: Vec<_> = others.map(ToString::to_string).collect();
        if !others.is_empty() {
            notes.push(format!(
                "the layout {taken} was taken, though {} would fit, too; --layout names another",
                others.join(" and ")
            ));
        }
        Ok(taken)
    }
}

/// Says what was looked for and what is there.
fn unknown(root: &Folder) -> Error {
    const SHOWN: usize = 6;
    let looked = Layout::ALL.map(|layout| format!("  {layout}: {}", layout.shape())).join("\n");
    let files: Vec<_> = root
        .all()
        .into_iter()
        .flat_map(|folder| folder.files.iter().map(|file| relative(&file.path, &root.path)))
        .collect();
    let shown = files.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let more = if files.len() > SHOWN { format!(" and {} more", files.len() - SHOWN) } else { String::new() };
    Error::dataset(
        &root.path,
        format!(
            "has no known layout; found {shown}{more}; looked for\n{looked}\nrearrange the files or write a manifest (docs/dataset-format.md shows each)"
        ),
    )
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
