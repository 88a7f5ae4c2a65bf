//! A case: one image, any number of annotations of it, and for synthetic tasks the truth behind them;
//! and what a model says of it.

use crate::{Image, Mask};

/// One reader's mask of one image. Equal annotations are kept: repetition is information.
#[derive(Debug, Clone, PartialEq)]
pub struct Annotation {
    /// What was drawn; an empty mask is a vote for "nothing there".
    pub mask: Mask,
    /// Who drew it, where known.
    pub rater: Option<String>,
    /// How much it counts against the case's other annotations; 1 unless stated.
    pub weight: f32,
}

/// One plausible output of a synthetic task and its true probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Mode {
    /// The output.
    pub mask: Mask,
    /// Its probability given the image.
    pub probability: f32,
}

/// An image with its annotations.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Unique in its data set.
    pub id: String,
    /// What must not be torn apart by a split: the patient, the nodule's owner. The id where unknown.
    pub group: String,
    /// The input.
    pub image: Image,
    /// All annotations, never de-duplicated.
    pub annotations: Vec<Annotation>,
    /// For synthetic tasks: the modes and their probabilities.
    pub truth: Option<Vec<Mode>>,
}

impl Case {
    /// Bytes of its pixels: those of the image, of all annotations and of the truth.
    pub fn bytes(&self) -> u64 {
        let annotations = self.annotations.iter().map(|annotation| &annotation.mask);
        let masks = annotations.chain(self.truth.iter().flatten().map(|mode| &mode.mask));
        let words: usize = masks.map(|mask| mask.words().len()).sum();
        (size_of_val(self.image.pixels()) + words * size_of::<u64>()) as u64
    }
}

/// One predicted output.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// The output.
    pub mask: Mask,
    /// Its probability given the image.
    pub probability: f32,
    /// The code that produced it (the most probable one where several were merged), or the number of the
    /// first draw that shows it.
    pub code: usize,
}

/// The weighted set of outputs for one image, most probable first; probabilities sum to one.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The hypotheses, sorted by falling probability.
    pub hypotheses: Vec<Hypothesis>,
    /// How many draws the probabilities were counted from; none where the model states them itself.
    pub draws: Option<usize>,
}

impl Prediction {
    /// A set whose probabilities the model states itself.
    pub fn stated(hypotheses: Vec<Hypothesis>) -> Self {
        Self { hypotheses, draws: None }
    }

    /// How many hypotheses there are (the paper's N_x).
    pub fn len(&self) -> usize {
        self.hypotheses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hypotheses.is_empty()
    }
}
