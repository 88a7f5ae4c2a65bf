//! One case's annotations, outputs and true modes, with the overlap of each mask with each other one.

use super::{Overlaps, WeightedMasks};
use crate::{Case, Prediction, Result};

/// What every metric reads.
#[derive(Debug, Clone)]
pub struct Comparison<'a> {
    labels: WeightedMasks<'a>,
    outputs: WeightedMasks<'a>,
    modes: Option<WeightedMasks<'a>>,
    overlaps: Overlaps,
}

/// One weighted set inside a list of masks: where it begins, and its weights.
#[derive(Debug, Clone, Copy)]
pub struct Side<'w> {
    /// The list's index of the set's first mask.
    pub first: usize,
    /// The weights of its masks.
    pub weights: &'w [f64],
}

impl<'a> Comparison<'a> {
    /// Checks the weights and sizes of a case and of what was predicted for it, and counts the overlaps.
    pub fn new(case: &'a Case, prediction: &'a Prediction) -> Result<Self> {
        let modes = case.truth.as_deref().map(|modes| WeightedMasks::modes(&case.id, modes)).transpose()?;
        let labels = WeightedMasks::annotations(case)?;
        let outputs = WeightedMasks::outputs(&case.id, prediction)?;
        Self::of_sets(&case.id, labels, outputs, modes)
    }

    /// The same from weighted sets of any origin; `case` names them in errors.
    pub fn of_sets(
        case: &str,
        labels: WeightedMasks<'a>,
        outputs: WeightedMasks<'a>,
        modes: Option<WeightedMasks<'a>>,
    ) -> Result<Self> {
        let mut masks = [labels.masks(), outputs.masks()].concat();
        masks.extend(modes.iter().flat_map(WeightedMasks::masks));
        let overlaps = Overlaps::among(&format!("case {case}"), &masks)?;
        Ok(Self { labels, outputs, modes, overlaps })
    }

    /// The annotations.
    pub fn labels(&self) -> &WeightedMasks<'a> {
        &self.labels
    }

    /// The outputs, most probable first.
    pub fn outputs(&self) -> &WeightedMasks<'a> {
        &self.outputs
    }

    /// The true modes, where known.
    pub fn modes(&self) -> Option<&WeightedMasks<'a>> {
        self.modes.as_ref()
    }

    /// All pairwise overlaps: first the labels, then the outputs, then the modes.
    pub fn overlaps(&self) -> &Overlaps {
        &self.overlaps
    }

    /// The annotations as a side of the overlaps.
    pub(crate) fn label_side(&self) -> Side<'_> {
        Side { first: 0, weights: self.labels.weights() }
    }

    /// The outputs as a side of the overlaps.
    pub(crate) fn output_side(&self) -> Side<'_> {
        self.outputs_weighing(self.outputs.weights())
    }

    /// The same outputs under other weights.
    pub(crate) fn outputs_weighing<'w>(&self, weights: &'w [f64]) -> Side<'w> {
        assert_eq!(weights.len(), self.outputs.weights().len(), "one weight per output");
        Side { first: self.labels.masks().len(), weights }
    }

    /// The true modes as a side of the overlaps.
    pub(crate) fn mode_side(&self) -> Option<Side<'_>> {
        let first = self.labels.masks().len() + self.outputs.masks().len();
        self.modes.as_ref().map(|modes| Side { first, weights: modes.weights() })
    }

    /// IoU of a label with an output.
    pub fn iou(&self, label: usize, output: usize) -> f64 {
        self.overlaps.iou(label, self.labels.masks().len() + output)
    }

    /// Dice of a label with an output.
    pub fn dice(&self, label: usize, output: usize) -> f64 {
        self.overlaps.dice(label, self.labels.masks().len() + output)
    }
}
