//! nnU-Net's raw folders, with one sibling label folder per further rater: the same folder stays a
//! valid nnU-Net data set, which reads `labelsTr` alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::walk::Folder;
use super::{Label, Source};
use crate::import::mask::{MOST_CLASSES, MaskRule};
use crate::{Error, Result};

pub(super) fn fits(root: &Folder) -> bool {
    root.child("imagesTr").is_some()
}

/// The sources, and the mask rule that `dataset.json` implies.
pub(super) fn sources(root: &Folder, problems: &mut Vec<Error>) -> Result<(Vec<Source>, Option<MaskRule>)> {
    let description = Description::read(root)?;
    let mut sources = Vec::new();
    let labelled_test = root.child("labelsTs").is_some();
    for (part, split) in [("Tr", "train"), ("Ts", "test")] {
        // Unlabelled test images are nnU-Net's custom, not an omission.
        if part == "Ts" && !labelled_test {
            continue;
        }
        let Some(images) = root.child(&format!("images{part}")) else { continue };
        let raters = label_folders(root, part);
        let mut channels: BTreeMap<&str, BTreeMap<usize, PathBuf>> = BTreeMap::new();
        for file in &images.files {
            match file.stem.rsplit_once('_') {
                Some((case, number))
                    if number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()) =>
                {
                    let channel = number.parse().unwrap_or_default();
                    channels.entry(case).or_default().insert(channel, file.path.clone());
                }
                _ => problems
                    .push(Error::file(&file.path, "lacks a channel number; name it CASE_0000, CASE_0001, …")),
            }
        }
        for (_, folder) in &raters {
            for file in folder.files.iter().filter(|file| !channels.contains_key(file.stem.as_str())) {
                let reason = format!(
                    "is a mask without an image images{part}/{}_0000; remove or rename it",
                    file.stem
                );
                problems.push(Error::file(&file.path, reason));
            }
        }
        for (case, files) in channels {
            let wanted = description.channels.unwrap_or(files.len());
            if !files.keys().copied().eq(0..wanted) {
                let found: Vec<_> = files.keys().map(|channel| format!("{channel:04}")).collect();
                problems.push(Error::dataset(
                    &images.path,
                    format!(
                        "case {case} has the channels {}, not 0000 to {:04}",
                        found.join(", "),
                        wanted - 1
                    ),
                ));
                continue;
            }
            let labels = raters.iter().filter_map(|(rater, folder)| {
                let file = folder.files.iter().find(|file| file.stem == case)?;
                Some(Label { rater: Some(rater.clone()), ..Label::unnamed(&file.path) })
            });
            sources.push(Source {
                split: labelled_test.then(|| split.to_owned()),
                ..Source::new(case.to_owned(), files.into_values().collect(), labels.collect())
            });
        }
    }
    Ok((sources, description.rule))
}

/// `labelsTr` is the rater r1, `labelsTr_r2` the rater r2.
fn label_folders<'a>(root: &'a Folder, part: &str) -> Vec<(String, &'a Folder)> {
    let stem = format!("labels{part}");
    let rater = |name: &str| match name.strip_prefix(&stem)? {
        "" => Some("r1".to_owned()),
        rest => rest.strip_prefix('_').map(str::to_owned),
    };
    root.folders.iter().filter_map(|folder| Some((rater(&folder.name)?, folder))).collect()
}

/// What `dataset.json` says, as far as it concerns reading.
struct Description {
    channels: Option<usize>,
    rule: Option<MaskRule>,
}

impl Description {
    fn read(root: &Folder) -> Result<Self> {
        let path = root.path.join("dataset.json");
        if !path.is_file() {
            return Ok(Self { channels: None, rule: None });
        }
        let text = fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
        let json: Value =
            serde_json::from_str(&text).map_err(|e| Error::file(&path, format!("is not valid JSON: {e}")))?;
        let channels = json.get("channel_names").or_else(|| json.get("modality")).and_then(Value::as_object);
        let channels = channels.map(serde_json::Map::len);
        if channels.is_some_and(|count| !(1..=4).contains(&count)) {
            return Err(Error::file(&path, "names no channels or more than 4; an image has 1 to 4"));
        }
        let Some(labels) = json.get("labels").and_then(Value::as_object) else {
            return Ok(Self { channels, rule: None });
        };
        let mut classes = 0;
        for (name, value) in labels {
            // Version 1 maps numbers to names, version 2 names to numbers.
            let number = value.as_u64().or_else(|| value.as_str().and_then(|_| name.parse().ok()));
            match number {
                _ if name == "ignore" => {}
                Some(number) => classes = classes.max(number as usize),
                None => {
                    return Err(Error::file(
                        &path,
                        format!(
                            "gives the label '{name}' no single number; region-based labels are not read, list plain classes"
                        ),
                    ));
                }
            }
        }
        if !(1..=MOST_CLASSES).contains(&classes) {
            return Err(Error::file(&path, format!("labels go up to {classes}, not 1 to {MOST_CLASSES}")));
        }
        Ok(Self {
            channels,
            rule: Some(if classes == 1 { MaskRule::Binary } else { MaskRule::Labels(classes) }),
        })
    }
}
