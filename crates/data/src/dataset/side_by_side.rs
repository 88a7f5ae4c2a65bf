//! Images and masks in one folder: `NAME.nii.gz` with `NAME_seg01.nii.gz`, `NAME_seg02.nii.gz` and so on.

use super::names::{Pictures, says_label};
use super::walk::{Folder, ImageFile};
use super::{Label, Source, split_name};
use crate::Error;

fn masks_and_images(folder: &Folder) -> (Vec<&ImageFile>, Vec<&ImageFile>) {
    folder.files.iter().partition(|file| says_label(&file.stem))
}

fn here<'a>(images: &[&'a ImageFile]) -> impl Iterator<Item = (String, &'a ImageFile)> {
    images.iter().map(|&file| (String::new(), file)).collect::<Vec<_>>().into_iter()
}

/// The images of a folder by the way of naming that gives every mask its image; one file each where none does.
fn pictures(masks: &[&ImageFile], images: &[&ImageFile]) -> (Pictures, bool) {
    let all_found = |pictures: &Pictures| masks.iter().all(|mask| pictures.of_mask("", &mask.stem).is_some());
    let plain = Pictures::one_each(here(images));
    if all_found(&plain) {
        return (plain, true);
    }
    match Pictures::of_channels(here(images)).filter(all_found) {
        Some(channels) => (channels, true),
        None => (plain, false),
    }
}

/// Whether a folder holds several images, each with masks of its name. One image alone is a case's folder.
pub(super) fn is_shared(folder: &Folder) -> bool {
    let (masks, images) = masks_and_images(folder);
    if masks.is_empty() {
        return false;
    }
    // Up to four files named "image…" are the channels of one.
    if images.len() <= 4 && images.iter().any(|file| super::case_folders::is_image(file)) {
        return false;
    }
    let (pictures, all_found) = pictures(&masks, &images);
    all_found && pictures.all.len() > 1
}

pub(super) fn fits(root: &Folder) -> bool {
    root.all().into_iter().any(is_shared)
}

/// The id is the image's path without its extension; its folder is the group where there are several.
pub(super) fn sources(root: &Folder, problems: &mut Vec<Error>) -> Vec<Source> {
    let folders: Vec<_> = root.all().into_iter().filter(|folder| !folder.files.is_empty()).collect();
    let several = folders.len() > 1;
    let mut sources = Vec::new();
    for folder in folders {
        let (masks, images) = masks_and_images(folder);
        let (pictures, _) = pictures(&masks, &images);
        let mut labels: Vec<Vec<Label>> = pictures.all.iter().map(|_| Vec::new()).collect();
        for mask in masks {
            match pictures.of_mask("", &mask.stem) {
                Some(found) => {
                    labels[found.picture].push(Label { rater: found.rater, ..Label::unnamed(&mask.path) });
                }
                None => problems.push(Error::file(
                    &mask.path,
                    "is a mask without an image of that name; remove or rename it",
                )),
            }
        }
        let place = folder.relative(&root.path);
        for (picture, labels) in pictures.all.into_iter().zip(labels) {
            let id = if place.is_empty() { picture.stem } else { format!("{place}/{}", picture.stem) };
            let is_patient =
                several && !place.is_empty() && place.split('/').next_back().and_then(split_name).is_none();
            sources.push(Source {
                group: if is_patient { place.clone() } else { id.clone() },
                split: place.split('/').find_map(split_name),
                ..Source::new(id, picture.files, labels)
            });
        }
    }
    sources
}
