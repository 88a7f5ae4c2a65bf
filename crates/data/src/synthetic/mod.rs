//! Synthetic tasks with known truth: the modes that each image has, their probabilities, and the floor
//! that the task's own randomness leaves under any model with one output per mode.
//!
//! ```
//! use multivalued_data::synthetic::{Task, oracle_ged};
//! let task = Task::new("shapes".parse()?, 32, 1)?;
//! for case in task.generate("train", 3) {
//!     let truth = case.truth.as_ref().unwrap();
//!     assert_eq!((truth.len(), truth[0].probability), (4, 0.25));
//!     assert!(oracle_ged(&case)? < 0.2);
//! }
//! # Ok::<(), multivalued_data::Error>(())
//! ```
//!
//! # Annotations, truth, oracle
//!
//! A mode may hold a draw that nobody can see in the image: how much of the triangle is cropped, how
//! much of an opacity is left out, which reader overlooks the nodule today.
//! - The **annotations** hold the draws, as a study would.
//! - The **truth** holds what can be known from the image: each mode's probability, and as its mask the
//!   mode's *representative*, the mask that maximises the expected IoU with that mode's annotations
//!   (the median of the mode under the distance 1 - IoU). A mode without hidden draw is its own
//!   representative.
//! - The **oracle** knows the generator but not the draw, and says one output per mode: its prediction
//!   *is* the truth, so that its exact GED against the annotations ([`oracle_ged`]) can be had from any
//!   case that carries its truth.
//!
//! # Randomness
//!
//! PCG XSL RR 128/64, seeded by (seed, task, split, index): the same on any number of threads, and the
//! first cases of a split do not depend on how many follow. Shapes use nothing but IEEE-exact
//! arithmetic and square roots; the grey values of the other tasks may differ in the last bits between
//! platforms' `exp` and `sin`.

mod films;
mod lung_opacity;
mod lungs;
mod oracle;
mod raster;
mod raters;
mod shape;
mod shapes;
mod texture;
mod write;

use crate::draw::Draw;
use crate::{Annotation, Case, Error, Image, Mask, Mode, Result};
use rayon::prelude::*;
use std::{fmt, str::FromStr};

pub use films::{parse_split_list, read_films};
pub use lung_opacity::{Radiograph, lung_opacity_over};
pub use oracle::{oracle_ged, oracle_prediction};
pub use write::write_dataset;

/// The name of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskName {
    /// A triangle and four shapes that follow from it, equally likely (paper §4.2).
    Shapes,
    /// The same with probabilities 0.1, 0.4, 0.1, 0.4.
    ShapesUnbalanced,
    /// One to eight equally likely shapes; the triangle's grey level says how many.
    ShapesVarying,
    /// Eight shapes with probabilities 0.5, 0.25, … 1/128, 1/128.
    ShapesLongTail,
    /// Lungs behind an opacity, drawn with and without it, equally likely (paper §4.3).
    LungOpacity,
    /// A nodule and four readers who differ in margin and threshold and may overlook it.
    Raters,
}

impl TaskName {
    /// All tasks.
    pub const ALL: [Self; 6] = [
        Self::Shapes,
        Self::ShapesUnbalanced,
        Self::ShapesVarying,
        Self::ShapesLongTail,
        Self::LungOpacity,
        Self::Raters,
    ];

    /// The name that a recipe or a command line uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shapes => "shapes",
            Self::ShapesUnbalanced => "shapes-unbalanced",
            Self::ShapesVarying => "shapes-varying",
            Self::ShapesLongTail => "shapes-long-tail",
            Self::LungOpacity => "lung-opacity",
            Self::Raters => "raters",
        }
    }

    /// The edge length at which the task is meant to be reported: the paper's, or LIDC's.
    pub fn usual_size(self) -> usize {
        match self {
            Self::LungOpacity => 180,
            Self::Raters => 128,
            _ => 160,
        }
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TaskName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Error::mismatch(format!("synthetic task '{text}'"), format!("unknown; choose one of {known}"))
        })
    }
}

/// A task at a size and a seed: everything that its cases depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    name: TaskName,
    size: usize,
    seed: u64,
}

impl Task {
    /// A task whose images are `size` x `size`; an error unless 16 <= size <= 4096.
    pub fn new(name: TaskName, size: usize, seed: u64) -> Result<Self> {
        if !(16..=4096).contains(&size) {
            return Err(Error::mismatch(
                format!("size of synthetic task '{name}'"),
                format!("{size} pixels; choose 16 to 4096"),
            ));
        }
        Ok(Self { name, size, seed })
    }

    /// Which task this is.
    pub fn name(&self) -> TaskName {
        self.name
    }

    /// Width and height of its images.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The seed of all its splits.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The first `count` cases of a split, in order, generated in parallel.
    pub fn generate(&self, split: &str, count: usize) -> Vec<Case> {
        (0..count).into_par_iter().map(|index| self.case(split, index)).collect()
    }

    /// Case `index` of a split.
    pub fn case(&self, split: &str, index: usize) -> Case {
        let draw = &mut Draw::new(self.seed, &[self.name.as_str(), split], index as u64);
        let scene = match self.name {
            TaskName::Shapes => shapes::balanced(draw, self.size),
            TaskName::ShapesUnbalanced => shapes::unbalanced(draw, self.size),
            TaskName::ShapesVarying => shapes::varying(draw, self.size),
            TaskName::ShapesLongTail => shapes::long_tail(draw, self.size),
            TaskName::LungOpacity => lung_opacity::procedural(draw, self.size),
            TaskName::Raters => raters::scene(draw, self.size),
        };
        scene.into_case(format!("{}-{split}-{index:05}", self.name))
    }
}

/// A case before it has its name.
struct Scene {
    image: Image,
    annotations: Vec<Annotation>,
    truth: Vec<Mode>,
}

impl Scene {
    /// A scene of which each mode is annotated once, with its probability as its weight.
    fn of_modes(image: Image, modes: impl IntoIterator<Item = DrawnMode>) -> Self {
        let (mut annotations, mut truth) = (Vec::new(), Vec::new());
        for mode in modes {
            annotations.push(Annotation {
                mask: mode.drawn,
                rater: mode.rater.map(str::to_owned),
                weight: mode.probability,
            });
            truth.push(Mode { mask: mode.representative, probability: mode.probability });
        }
        Self { image, annotations, truth }
    }

    fn into_case(self, id: String) -> Case {
        let Self { image, annotations, truth } = self;
        Case { group: id.clone(), id, image, annotations, truth: Some(truth) }
    }
}

/// One mode of a scene: the mask that was drawn and the one that stands for the mode.
struct DrawnMode {
    drawn: Mask,
    representative: Mask,
    probability: f32,
    rater: Option<&'static str>,
}

#[cfg(test)]
mod tests;
