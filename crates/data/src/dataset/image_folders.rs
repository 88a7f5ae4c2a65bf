//! A folder of images beside folders of masks: `masks/`, or one folder per rater, beside it or inside `masks/`.

use std::collections::BTreeSet;

use super::names::{Match, Pictures, parts, rater, says_label};
use super::walk::{Folder, ImageFile, relative};
use super::{Label, Source, split_name};
use crate::Error;

/// What a folder of images is called, the likeliest first.
const IMAGE_FOLDERS: [&str; 9] =
    ["images", "image", "imgs", "img", "scans", "inputs", "input", "photos", "pictures"];

/// Images and the folders of their masks, side by side.
struct Pair<'a> {
    outer: &'a Folder,
    pictures: Pictures,
    masks: Vec<&'a Folder>,
}

pub(super) fn fits(root: &Folder) -> bool {
    root.all().into_iter().any(|outer| Pair::find(outer).is_some())
}

/// All files below a folder, each with its folder's path in it.
fn files_below(folder: &Folder) -> impl Iterator<Item = (String, &ImageFile)> {
    let inner = |one: &Folder| one.relative(&folder.path);
    folder.all().into_iter().flat_map(move |one| one.files.iter().map(move |file| (inner(one), file)))
}

impl<'a> Pair<'a> {
    fn find(outer: &'a Folder) -> Option<Self> {
        let named = |name: &str| outer.folders.iter().find(|folder| folder.name.eq_ignore_ascii_case(name));
        let images = IMAGE_FOLDERS.into_iter().find_map(named)?;
        let others: Vec<_> = outer.folders.iter().filter(|folder| folder.name != images.name).collect();
        let plain = Pictures::one_each(files_below(images));
        // Files of one image's channels bear more than the mask's name.
        let candidates = [Some(plain), Pictures::of_channels(files_below(images))];
        candidates.into_iter().flatten().find_map(|pictures| {
            let holds_masks = |folder: &&Folder| {
                files_below(folder).any(|(inner, file)| find_image(&pictures, &inner, file).is_some())
            };
            let matching: Vec<_> = others.iter().copied().filter(holds_masks).collect();
            // Named ones say what they are; a folder of other pictures beside them is none.
            let (named, unnamed): (Vec<_>, Vec<_>) =
                matching.into_iter().partition(|folder| says_label(&folder.name));
            let masks = if named.is_empty() { unnamed } else { named };
            (!masks.is_empty()).then_some(Self { outer, pictures, masks })
        })
    }
}

/// The image of a mask file, and the folder inside that names its rater: a folder that images lie in, too,
/// is none.
fn find_image(pictures: &Pictures, inner: &str, file: &ImageFile) -> Option<(Match, Option<String>)> {
    if let Some(found) = pictures.of_mask(inner, &file.stem) {
        return Some((found, None));
    }
    let folders: Vec<_> = inner.split('/').collect();
    (0..folders.len()).find_map(|at| {
        let others = folders.iter().enumerate().filter(|&(other, _)| other != at);
        let rest = others.map(|(_, name)| *name).collect::<Vec<_>>().join("/");
        Some((pictures.of_mask(&rest, &file.stem)?, Some(folders[at].to_owned())))
    })
}

pub(super) fn sources(root: &Folder, problems: &mut Vec<Error>, notes: &mut Vec<String>) -> Vec<Source> {
    let pairs: Vec<_> = root.all().into_iter().filter_map(Pair::find).collect();
    let own = |path: &str| {
        path.split('/')
            .filter(|name| !name.is_empty() && split_name(name).is_none())
            .collect::<Vec<_>>()
            .join("/")
    };
    let owners: BTreeSet<String> = pairs.iter().map(|pair| own(&pair.outer.relative(&root.path))).collect();
    let mut sources = Vec::new();
    for pair in pairs {
        let mut labels: Vec<Vec<Label>> = pair.pictures.all.iter().map(|_| Vec::new()).collect();
        for folder in &pair.masks {
            for (inner, file) in files_below(folder) {
                let Some((found, rater_folder)) = find_image(&pair.pictures, &inner, file) else {
                    problems.push(Error::file(
                        &file.path,
                        "is a mask without an image of that name; remove or rename it",
                    ));
                    continue;
                };
                let folder_name =
                    rater_folder.as_deref().or(Some(folder.name.as_str())
                        .filter(|_| pair.masks.len() > 1 || says_label(&folder.name)));
                let rater = folder_name.and_then(|name| rater(parts(name))).or(found.rater);
                labels[found.picture].push(Label { rater, ..Label::unnamed(&file.path) });
            }
        }
        let prefix = pair.outer.relative(&root.path);
        let read: Vec<_> = pair.masks.iter().map(|folder| folder.name.as_str()).collect();
        for other in pair.outer.folders.iter().filter(|folder| !folder.has_no_files()) {
            let is_images = IMAGE_FOLDERS.iter().any(|name| other.name.eq_ignore_ascii_case(name));
            if !is_images && !read.contains(&other.name.as_str()) {
                notes.push(format!(
                    "the folder {} is not read: masks are taken from {}",
                    relative(&other.path, &root.path),
                    read.join(", ")
                ));
            }
        }
        for (picture, labels) in pair.pictures.all.into_iter().zip(labels) {
            let id = [prefix.as_str(), &picture.folder, &picture.stem];
            let id = id.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
            // A folder among the images is a patient's; so are several folders of images and masks.
            let inside = own(&picture.folder);
            let group = match inside.split('/').next().filter(|name| !name.is_empty()) {
                Some(patient) => Some(patient.to_owned()),
                None => Some(own(&prefix)).filter(|owner| owners.len() > 1 && !owner.is_empty()),
            };
            sources.push(Source {
                group: group.unwrap_or_else(|| id.clone()),
                split: id.split('/').rev().skip(1).find_map(split_name),
                ..Source::new(id, picture.files, labels)
            });
        }
    }
    sources
}
