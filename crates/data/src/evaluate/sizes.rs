//! How large the masks of a case are, and which pixels of the reliability diagram each output has.

use crate::metric::calibration::{BINS, PixelBins};
use crate::metric::{WeightedMasks, area};

/// Of one case; without members where no details are asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Sizes {
    /// One for each annotation.
    pub label_weights: Vec<f64>,
    /// Pixels of each annotation.
    pub labels: Vec<usize>,
    /// Pixels of each output.
    pub outputs: Vec<usize>,
    /// For each output how many of its pixels are in each bin, by the probability that all outputs give them.
    pub pixel_bins: Vec<[u32; BINS]>,
    /// In the unit's square.
    pixel_area: f64,
}

impl Sizes {
    /// Measures labels and outputs; `spacing` is that of columns and rows.
    pub fn of(labels: &WeightedMasks, outputs: &WeightedMasks, spacing: [f64; 2]) -> Self {
        let areas = |set: &WeightedMasks| set.masks().iter().map(|mask| area::of(mask)).collect();
        Self {
            label_weights: labels.weights().to_vec(),
            labels: areas(labels),
            outputs: areas(outputs),
            pixel_bins: vec![[0; BINS]; outputs.masks().len()],
            pixel_area: spacing[0] * spacing[1],
        }
    }

    /// Adds one class, given the marginal map of the outputs.
    pub fn add_class(&mut self, outputs: &WeightedMasks, class: usize, marginal: &[f64]) {
        for (mask, bins) in outputs.masks().iter().zip(&mut self.pixel_bins) {
            for (pixels, &word) in marginal.chunks(64).zip(mask.plane(class)) {
                let mut rest = word;
                while rest != 0 {
                    bins[PixelBins::bin_of(pixels[rest.trailing_zeros() as usize])] += 1;
                    rest &= rest - 1;
                }
            }
        }
    }

    /// Whether sizes were measured.
    pub fn is_known(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// The areas of the annotations that mark something.
    pub fn drawn_areas(&self) -> impl Iterator<Item = f64> + '_ {
        self.labels.iter().filter(|&&pixels| pixels > 0).map(|&pixels| pixels as f64 * self.pixel_area)
    }

    /// An output's area.
    pub fn output_area(&self, output: usize) -> f64 {
        self.outputs[output] as f64 * self.pixel_area
    }

    /// The weight of the annotations that are larger than an area.
    pub fn labels_larger(&self, than: f64) -> f64 {
        let larger = |pixels: usize| pixels as f64 * self.pixel_area > than;
        let members = self.labels.iter().zip(&self.label_weights);
        members.filter(|(pixels, _)| larger(**pixels)).fold(0.0, |sum, (_, weight)| sum + weight)
    }
}
