//! Multi-rater images as first-class data: cases with any number of weighted annotations, data sets
//! and their splits, synthetic tasks with known truth, metrics and reports. Plain Rust: nothing here
//! knows of tensors.
//!
//! | what | what it is for |
//! |---|---|
//! | [`Image`], [`Mask`], [`Case`], [`Annotation`], [`Mode`], [`Hypothesis`], [`Prediction`] | the nouns |
//! | [`CaseList`] | cases by number, in memory or on disk |
//! | [`CompactMask`], [`Predictions`] | a mask, and the predictions of many images, in few bytes |
//! | [`import`], [`export`] | reading PNG, TIFF, JPEG, NPY, NPZ, NIfTI, MetaImage, NRRD and DICOM; writing masks in the input's geometry |
//! | [`dicom`] | DICOM series as volumes, and hypotheses as DICOM segmentations |
//! | [`lidc`] | LIDC-IDRI's scans and XML annotations as crops or volumes |
//! | [`dataset`] | folders and manifests as cases; splits by group, the packed cache, inspection |
//! | [`normalise`], [`augment`] | what training does to a case before the network sees it |
//! | [`fingerprint`] | what a data set is like, in numbers, and whether an image is like it |
//! | [`agreement`] | how far the raters of a study agree |
//! | [`synthetic`] | tasks whose modes and probabilities are known, with the floor that their randomness leaves |
//! | [`metric`] | one file per family: overlap, GED, matching, calibration, truth, … |
//! | [`shares`] | what a weighted set of masks says of single pixels |
//! | [`segments`] | label maps and overlapping segments as files that other programs open beside the image |
//! | [`volume`] | what a model says of slices as a distribution over whole volumes |
//! | [`evaluate`], [`report`] | scores of every case, their summary with intervals, as JSON and as a table |
//! | [`memory`] | how much memory may be taken now |
//! | [`disk`] | where files are read: the file system, or in a browser what the page was given |
//! | [`files`] | writing so that nobody meets half a file, and never through a link |
//! | [`draw`] | random numbers that depend on a seed and a name alone |

// In a browser there are no threads: the same loops run one after the other.
#[cfg(target_arch = "wasm32")]
extern crate multivalued_sequential as rayon;

pub mod agreement;
pub mod augment;
mod case;
mod case_list;
mod compact;
pub mod dataset;
pub mod dicom;
pub mod disk;
pub mod draw;
mod error;
pub mod evaluate;
pub mod export;
pub mod files;
pub mod fingerprint;
mod image;
pub mod import;
pub mod lidc;
mod mask;
pub mod memory;
pub mod metric;
pub mod normalise;
pub mod report;
mod resample;
pub mod segments;
pub mod shares;
pub mod synthetic;
pub mod volume;

pub use case::{Annotation, Case, Hypothesis, Mode, Prediction};
pub use case_list::CaseList;
pub use compact::{CompactMask, Predictions};
pub use error::{Error, Result};
pub use image::{Geometry, Image};
pub use mask::Mask;
pub use resample::Grid;
