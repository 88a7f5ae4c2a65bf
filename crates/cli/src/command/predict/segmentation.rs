//! Hypotheses as one DICOM segmentation: a segment for each, or, where there are several classes, for each class of
//! each.

use std::path::{Path, PathBuf};

use multivalued_data::dicom::{self, seg};
use multivalued_data::import::Limits;

use super::inputs::Input;
use super::predicted::Predicted;
use crate::exit::{Failure, Outcome};

/// The file's name.
pub const FILE: &str = "segmentation.dcm";
/// What the segmentation says it was made by.
const PROGRAM: &str = concat!("multivalued ", env!("CARGO_PKG_VERSION"));

/// Refuses inputs that no DICOM segmentation can refer to.
pub fn refuse_others(inputs: &[Input]) -> Outcome {
    let other = inputs.iter().find(|input| !dicom::is_named_by(&input.files[0]));
    other.map_or(Ok(()), |input| {
        Err(Failure::user(
            input.files[0].display(),
            "is no DICOM file or series, which --format dicom writes a segmentation for; leave --format out",
        ))
    })
}

/// Writes the hypotheses of the slices of `source`, of which `joined` slices each are channels of one that was
/// predicted.
pub fn write(
    source: &Path,
    folder: &Path,
    slices: &[Predicted],
    joined: usize,
    limits: &Limits,
) -> Outcome<PathBuf> {
    let path = folder.join(FILE);
    let [_, _, classes] = slices[0].all[0].mask.size();
    let most = slices.iter().map(|slice| slice.kept().len()).max().unwrap_or(0);
    let segments = (0..most * classes).map(|at| segment(slices, at / classes, at % classes, classes));
    let segments: Vec<seg::Segment> = segments.collect();
    let part = |at: usize, slice: usize| {
        let (rank, class) = (at / classes, at % classes);
        let slice = &slices[slice / joined];
        let comment =
            slice.kept().get(rank).map_or(String::new(), |one| format!("p = {:.4}", one.probability));
        seg::Part { mask: slice.mask_at(rank), class, comment }
    };
    seg::write(&path, source, PROGRAM, &segments, &part, limits)?;
    Ok(path)
}

/// Label and description of a hypothesis: its probability, or, where each slice has its own, what they are between.
fn segment(slices: &[Predicted], rank: usize, class: usize, classes: usize) -> seg::Segment {
    let kept = || slices.iter().filter_map(|slice| slice.kept().get(rank));
    let probabilities = || kept().map(|one| one.probability);
    let low = probabilities().fold(f32::INFINITY, f32::min);
    let high = probabilities().fold(0.0, f32::max);
    let name = match classes {
        1 => format!("hypothesis {}", rank + 1),
        _ => format!("hypothesis {}, class {}", rank + 1, class + 1),
    };
    let is_empty = kept().all(|one| one.mask.mask().area(class) == 0);
    let empty = if is_empty { " It is empty: nothing is there." } else { "" };
    match high - low < 5e-5 {
        true => seg::Segment {
            label: format!("{name}, p = {high:.2}"),
            description: format!(
                "Plausible answer {} of this image with probability {high:.4}.{empty}",
                rank + 1
            ),
        },
        // Frames have the probabilities of their slices.
        false => seg::Segment {
            label: format!("{name}, p = {low:.2} to {high:.2}"),
            description: format!(
                "In each slice its plausible answer {} in the order of probability, which is {low:.4} to {high:.4}; each \
                 frame's comment has its own.{empty}",
                rank + 1
            ),
        },
    }
}
