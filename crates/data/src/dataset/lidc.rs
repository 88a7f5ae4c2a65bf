//! The two LIDC-IDRI arrangements in use: slices per nodule, and the crops of the hierarchical
//! Probabilistic U-Net release. In both the k-th mask is not a fixed person, so raters stay unnamed.

use std::collections::{BTreeMap, BTreeSet};

use super::walk::{Folder, relative};
use super::{Label, Source, split_name};
use crate::Error;

fn is_mask_folder(folder: &&Folder) -> bool {
    folder.name.starts_with("mask-")
}

pub(super) fn has_slices(root: &Folder) -> bool {
    root.all()
        .iter()
        .any(|folder| folder.child("images").is_some() && folder.folders.iter().any(|f| is_mask_folder(&f)))
}

/// `PATIENT/nodule-N/{images,mask-0..}/slice-K.png` at any depth; the patient is the group.
pub(super) fn slices(root: &Folder, problems: &mut Vec<Error>) -> Vec<Source> {
    let mut sources = Vec::new();
    for nodule in root.all() {
        let Some(images) = nodule.child("images") else { continue };
        let masks: Vec<_> = nodule.folders.iter().filter(is_mask_folder).collect();
        let known: BTreeSet<_> = images.files.iter().map(|file| &file.stem).collect();
        for stray in masks.iter().flat_map(|folder| &folder.files).filter(|file| !known.contains(&file.stem))
        {
            problems.push(Error::file(
                &stray.path,
                "is a mask without an image of that name; remove or rename it",
            ));
        }
        let patient = &nodule.owner;
        for image in &images.files {
            let labels =
                masks.iter().filter_map(|folder| folder.files.iter().find(|file| file.stem == image.stem));
            let labels = labels.map(|file| Label::unnamed(&file.path)).collect();
            let id = format!("{patient}/{}/{}", nodule.name, image.stem);
            sources
                .push(Source { group: patient.clone(), ..Source::new(id, vec![image.path.clone()], labels) });
        }
    }
    sources
}

pub(super) fn has_crops(root: &Folder) -> bool {
    let is_crop = |folder: &Folder| folder.files.iter().any(|file| without_reader(&file.stem).is_some());
    root.all().iter().any(|folder| {
        let truths = folder.child("images").and_then(|_| folder.child("gt"));
        truths.is_some_and(|truths| truths.all().into_iter().any(is_crop))
    })
}

/// NAME of `NAME_l0`.
fn without_reader(stem: &str) -> Option<&str> {
    let (name, reader) = stem.rsplit_once("_l")?;
    (!reader.is_empty() && reader.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

/// `[SPLIT/]images/[PATIENT/]NAME.png` with `[SPLIT/]gt/[PATIENT/]NAME_l0.png` and so on.
pub(super) fn crops(root: &Folder, problems: &mut Vec<Error>) -> Vec<Source> {
    let mut sources = Vec::new();
    for outer in root.all() {
        let (Some(images), Some(truths)) = (outer.child("images"), outer.child("gt")) else { continue };
        let mut masks: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for file in truths.all().into_iter().flat_map(|folder| &folder.files) {
            match without_reader(&file.stem) {
                Some(stem) => {
                    let folder =
                        file.path.parent().map_or(String::new(), |path| relative(path, &truths.path));
                    masks.entry(format!("{folder}/{stem}")).or_default().push(file.path.as_path());
                }
                _ => problems.push(Error::file(
                    &file.path,
                    "lies in gt/ but its name does not end in _l0, _l1, …; rename or remove it",
                )),
            }
        }
        let prefix = outer.relative(&root.path);
        for folder in images.all() {
            let inner = folder.relative(&images.path);
            for image in &folder.files {
                let labels = masks.remove(&format!("{inner}/{}", image.stem)).unwrap_or_default();
                let id = [&prefix, &inner, &image.stem].map(String::as_str);
                let id = id.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/");
                let group = patient(&id).or_else(|| inner.split('/').next().filter(|name| !name.is_empty()));
                let labels = labels.into_iter().map(Label::unnamed).collect();
                sources.push(Source {
                    group: group.unwrap_or(&id).to_owned(),
                    split: prefix.split('/').find_map(split_name),
                    ..Source::new(id.clone(), vec![image.path.clone()], labels)
                });
            }
        }
        for stray in masks.values().flatten() {
            problems
                .push(Error::file(*stray, "is a mask without an image of that name; remove or rename it"));
        }
    }
    sources
}

/// The `LIDC-IDRI-0123` in a path, where there is one.
fn patient(id: &str) -> Option<&str> {
    let start = id.find("LIDC-IDRI-")?;
    let digits = id[start + 10..].bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| &id[start..start + 10 + digits])
}

#[cfg(test)]
mod tests {
    #[test]
    fn patients_are_found_in_paths() {
        assert_eq!(super::patient("train/LIDC-IDRI-0012/z3"), Some("LIDC-IDRI-0012"));
        assert_eq!(super::patient("LIDC-IDRI-0012_z3_c0"), Some("LIDC-IDRI-0012"));
        assert_eq!(super::patient("train/p7/z3"), None);
        assert_eq!(super::patient("LIDC-IDRI-x"), None);
    }
}
