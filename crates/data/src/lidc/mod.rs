//! LIDC-IDRI from its source: TCIA's DICOM series and XML annotations, as crops around nodules or as whole volumes.
//!
//! | file | what it does |
//! |---|---|
//! | [`xml`] | what readers marked |
//! | [`outline`] | from an outline to pixels; the outline itself lies outside |
//! | [`nodule`] | which drawings are of one nodule |
//! | `write` | crops in the layout `lidc-slices`, volumes with a manifest |

pub mod nodule;
pub mod outline;
mod write;
pub mod xml;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use dicom_dictionary_std::tags;
use rayon::prelude::*;

use crate::dicom::{self, Content, Instance};
use crate::import::Limits;
use crate::{Error, Result};
pub use write::{Written, write_scan};

/// Folders inside of folders that are looked into.
const MOST_DEPTH: usize = 16;

/// How a scan becomes cases.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whole volumes in place of crops.
    pub volumes: bool,
    /// Columns and rows of a crop.
    pub crop: usize,
    /// Whether the pixels of outlines belong to the nodule.
    pub with_border: bool,
    /// How large files may be.
    pub limits: Limits,
}

/// A scan with its annotations.
#[derive(Debug)]
pub struct Scan {
    /// TCIA's name of the patient, or a number where there is none.
    pub patient: String,
    /// The annotation file.
    pub xml: PathBuf,
    pub(crate) reading: xml::Reading,
    pub(crate) instances: Vec<Instance>,
}

/// What is below a folder.
#[derive(Debug, Default)]
pub struct Found {
    /// Scans with annotations, by patient.
    pub scans: Vec<Scan>,
    /// Files that cannot be read.
    pub faults: Vec<Error>,
    /// How many annotation files are of scans that are not here.
    pub without_scan: usize,
}

impl Found {
    /// Finds annotations and the scans they are of, wherever they lie below a folder.
    pub fn find(folder: &Path, limits: &Limits) -> Result<Self> {
        let mut files = Vec::new();
        list(folder, 0, &mut files)?;
        let is_xml = |path: &&PathBuf| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("xml"));
        let (documents, others): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(is_xml);
        let mut found = Self::default();
        // By series; a file that lies in two places counts once.
        let mut readings: BTreeMap<String, (PathBuf, xml::Reading)> = BTreeMap::new();
        let read: Vec<_> = documents.par_iter().map(|path| (path, xml::read(path))).collect();
        for (path, read) in read {
            match read {
                Ok(Some(reading)) => {
                    let first = readings.entry(reading.series.clone());
                    let (other, first) = first.or_insert_with(|| ((*path).clone(), reading.clone()));
                    if *first != reading {
                        let reason =
                            format!("annotates the series of {} otherwise; remove one", other.display());
                        found.faults.push(Error::file(*path, reason));
                    }
                }
                Ok(None) => {}
                Err(fault) => found.faults.push(fault),
            }
        }
        let image = |path: &&PathBuf| match dicom::is_dicom(path).then(|| Content::read(path, limits))? {
            Ok(Content::Image(one)) => readings.contains_key(&one.series).then_some(Ok(*one)),
            Ok(Content::Other) => None,
            Err(fault) => Some(Err(fault)),
        };
        let mut series: HashMap<String, Vec<Instance>> = HashMap::new();
        for one in others.par_iter().filter_map(image).collect::<Vec<_>>() {
            match one {
                Ok(one) => series.entry(one.series.clone()).or_default().push(one),
                Err(fault) => found.faults.push(fault),
            }
        }
        let mut numbers = Numbers::default();
        for (uid, (xml, reading)) in readings {
            match series.remove(&uid) {
                None => found.without_scan += 1,
                Some(instances) => {
                    let patient = numbers.patient(folder, &instances[0], limits)?;
                    found.scans.push(Scan { patient, xml, reading, instances });
                }
            }
        }
        found.scans.sort_by(|a, b| (&a.patient, &a.reading.series).cmp(&(&b.patient, &b.reading.series)));
        Ok(found)
    }
}

/// All files below a folder, by name. Links are not followed: they might lead back.
fn list(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let refused = |e| Error::io(folder, e);
    let mut entries =
        fs::read_dir(folder).map_err(refused)?.collect::<std::io::Result<Vec<_>>>().map_err(refused)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().map_err(refused)?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_file() {
            files.push(entry.path());
        } else if kind.is_dir() && depth < MOST_DEPTH {
            list(&entry.path(), depth + 1, files)?;
        }
    }
    Ok(())
}

/// Numbers of patients whose name must not be told.
#[derive(Default)]
struct Numbers(HashMap<String, usize>);

impl Numbers {
    /// TCIA's name of a patient, which is public: by a folder, or by the files. Other names are replaced by numbers.
    fn patient(&mut self, root: &Path, instance: &Instance, limits: &Limits) -> Result<String> {
        let inner = instance.path.strip_prefix(root).unwrap_or(&instance.path);
        let mut folders = inner.components().filter_map(|part| part.as_os_str().to_str());
        if let Some(folder) = folders.find(|name| is_public(name)) {
            return Ok(folder.to_owned());
        }
        let id = dicom::attribute(&instance.path, tags::PATIENT_ID, limits)?.unwrap_or_default();
        if is_public(&id) {
            return Ok(id);
        }
        let next = self.0.len() + 1;
        Ok(format!("patient-{:04}", self.0.entry(id).or_insert(next)))
    }
}

/// Whether a name is one of TCIA's for this collection.
fn is_public(name: &str) -> bool {
    name.strip_prefix("LIDC-IDRI-")
        .is_some_and(|rest| (1..=8).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_digit()))
}
