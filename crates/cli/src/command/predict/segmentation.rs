//! Hypotheses as one DICOM segmentation: a segment for each, or, where there are several classes, for each class of
//! each.

use std::path::{Path, PathBuf};

use multivalued::answer::Answer;
use multivalued_data::dicom::{self, seg};
use multivalued_data::import::Limits;

use super::inputs::Input;
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

/// Writes hypotheses of `source`, of which `joined` slices each are channels of one that was predicted.
pub fn write(
    source: &Path,
    folder: &Path,
    answers: &[Answer],
    joined: usize,
    limits: &Limits,
) -> Outcome<PathBuf> {
    let path = folder.join(FILE);
    let [_, _, classes] = answers[0].slices[0].mask.size();
    let segments =
        (0..answers.len() * classes).map(|at| segment(answers, at / classes, at % classes, classes));
    let segments: Vec<seg::Segment> = segments.collect();
    let part = |at: usize, slice: usize| seg::Part {
        mask: answers[at / classes].slices[slice / joined].mask.mask(),
        class: at % classes,
    };
    seg::write(&path, source, PROGRAM, &segments, &part, limits)?;
    Ok(path)
}

/// Label and description of a class of a hypothesis, with its probability.
fn segment(answers: &[Answer], rank: usize, class: usize, classes: usize) -> seg::Segment {
    let Answer { probability, slices } = &answers[rank];
    let name = match classes {
        1 => format!("hypothesis {}", rank + 1),
        _ => format!("hypothesis {}, class {}", rank + 1, class + 1),
    };
    let is_empty = slices.iter().all(|one| one.mask.mask().area(class) == 0);
    let empty = if is_empty { " It is empty: nothing is there." } else { "" };
    seg::Segment {
        label: format!("{name}, p = {probability:.2}"),
        description: format!("Plausible answer {} with probability {probability:.4}.{empty}", rank + 1),
    }
}
