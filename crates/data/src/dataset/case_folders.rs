//! One folder per case: an `image*` file (or several, one per channel) among its annotations. Where no file
//! is named so, every file that is no annotation is a channel, as in `t1.nii.gz`, `t2.nii.gz`, `seg.nii.gz`.

use std::collections::BTreeSet;

use super::names::{is_label_part, parts, rater, says_label};
use super::side_by_side::is_shared;
use super::walk::{Folder, ImageFile};
use super::{Label, Source, split_name};
use crate::Error;

const IMAGE_NAMES: [&str; 2] = ["image", "img"];
const LABEL_NAMES: [&str; 6] = ["label", "mask", "seg", "gt", "annotation", "rater"];

fn begins_with(file: &ImageFile, names: &[&str]) -> bool {
    let stem = file.stem.to_ascii_lowercase();
    names.iter().any(|name| stem.starts_with(name))
}

fn is_label(file: &ImageFile) -> bool {
    begins_with(file, &LABEL_NAMES) || says_label(&file.stem)
}

/// Whether a file's name begins as an image's does.
pub(super) fn is_image(file: &ImageFile) -> bool {
    begins_with(file, &IMAGE_NAMES) && !is_label(file)
}

pub(super) fn fits(root: &Folder) -> bool {
    root.all().into_iter().any(|folder| {
        let labels = folder.files.iter().filter(|file| is_label(file)).count();
        labels > 0 && labels < folder.files.len() && !is_shared(folder)
    })
}

/// The id is the folder's path; so is the group, since nothing says which cases belong together.
pub(super) fn sources(root: &Folder, problems: &mut Vec<Error>, notes: &mut Vec<String>) -> Vec<Source> {
    let mut sources = Vec::new();
    let folders: Vec<_> = root.all().into_iter().filter(|folder| !folder.files.is_empty()).collect();
    let task = chosen_task(&folders, notes);
    for folder in folders {
        let (labels, others): (Vec<_>, Vec<_>) = folder.files.iter().partition(|file| is_label(file));
        let (mut images, mut strange): (Vec<_>, Vec<_>) = others.into_iter().partition(|file| is_image(file));
        if images.is_empty() && !labels.is_empty() {
            images = std::mem::take(&mut strange);
        }
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
            if !labels.is_empty() {
                problems.push(Error::dataset(&folder.path, "has annotations but no image* file; add it"));
            }
            continue;
        }
        let relative = folder.relative(&root.path);
        let id = if relative.is_empty() { folder.name.clone() } else { relative };
        let split = id.split('/').find_map(split_name);
        let images = images.iter().map(|file| file.path.clone()).collect();
        let of_task = labels.into_iter().filter(|file| task.is_none() || task_of(file) == task.as_deref());
        let labels = of_task.map(label).collect();
        sources.push(Source { split, ..Source::new(id, images, labels) });
    }
    sources
}

/// `rater-anna.png` is by anna and `task01_seg03.nii.gz` by seg03; `label0.png` numbers annotations without
/// saying whose they are.
fn label(file: &ImageFile) -> Label {
    let rater = match file.stem.strip_prefix("rater") {
        Some(name) => Some(name.trim_start_matches(['-', '_']).to_owned()).filter(|name| !name.is_empty()),
        None if begins_with(file, &LABEL_NAMES) => None,
        None => rater(parts(&file.stem).skip_while(|part| !is_label_part(part))),
    };
    Label { rater, ..Label::unnamed(&file.path) }
}

/// The `task01` that a file's name begins with: one of several structures that were drawn in the same images.
fn task_of(file: &ImageFile) -> Option<&str> {
    let first = parts(&file.stem).next()?;
    let number = first.strip_prefix("task")?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(first)
}

/// Masks of different tasks are no different answers to one question, so only the first task's are read.
fn chosen_task(folders: &[&Folder], notes: &mut Vec<String>) -> Option<String> {
    let files = folders.iter().flat_map(|folder| &folder.files);
    let tasks: BTreeSet<&str> = files.filter_map(task_of).collect();
    let first = tasks.first().filter(|_| tasks.len() > 1)?;
    let all: Vec<_> = tasks.iter().copied().collect();
    notes.push(format!(
        "the masks are of the tasks {}; those of {first} are read: copy another task's files with their images to read them",
        all.join(", ")
    ));
    Some((*first).to_owned())
}
