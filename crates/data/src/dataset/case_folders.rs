//! One folder per case: an `image*` file (or several, one per channel) among its annotations.

use super::walk::{Folder, ImageFile};
use super::{Label, Source, split_name};
use crate::Error;

const IMAGE_NAMES: [&str; 2] = ["image", "img"];
const LABEL_NAMES: [&str; 6] = ["label", "mask", "seg", "gt", "annotation", "rater"];

fn begins_with(file: &ImageFile, names: &[&str]) -> bool {
    let stem = file.stem.to_ascii_lowercase();
    names.iter().any(|name| stem.starts_with(name))
}

pub(super) fn fits(root: &Folder) -> bool {
    root.all().iter().any(|folder| {
        folder.files.iter().any(|file| begins_with(file, &IMAGE_NAMES))
            && folder.files.iter().any(|file| begins_with(file, &LABEL_NAMES))
    })
}

/// The id is the folder's path; so is the group, since nothing says which cases belong together.
pub(super) fn sources(root: &Folder, problems: &mut Vec<Error>) -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in root.all() {
        if folder.files.is_empty() {
            continue;
        }
        let (images, others): (Vec<_>, Vec<_>) =
            folder.files.iter().partition(|file| begins_with(file, &IMAGE_NAMES));
        let (labels, strange): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|file| begins_with(file, &LABEL_NAMES));
        for file in strange {
            problems.push(Error::file(
                &file.path,
                format!(
                    "is neither an image ({}…) nor an annotation ({}…) of its case; rename or remove it",
                    IMAGE_NAMES.join("…, "),
                    LABEL_NAMES.join("…, ")
                ),
            ));
        }
        if images.is_empty() {
            problems.push(Error::dataset(&folder.path, "has annotations but no image* file; add it"));
            continue;
        }
        let relative = folder.relative(&root.path);
        let id = if relative.is_empty() { folder.name.clone() } else { relative };
        let split = id.split('/').find_map(split_name);
        let images = images.iter().map(|file| file.path.clone()).collect();
        let labels = labels.iter().map(|file| label(file)).collect();
        sources.push(Source { split, ..Source::new(id, images, labels) });
    }
    sources
}

/// `rater-anna.png` is by anna; other names number annotations without saying whose they are.
fn label(file: &ImageFile) -> Label {
    let rater = file.stem.strip_prefix("rater").map(|name| name.trim_start_matches(['-', '_']));
    let rater = rater.filter(|name| !name.is_empty()).map(str::to_owned);
    Label { rater, ..Label::unnamed(&file.path) }
}
