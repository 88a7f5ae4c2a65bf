//! Training cases that stay on a GPU, which augments them and puts them into batches.
//!
//! The same is drawn and done as on the processor, but for two things: noise comes from a generator of the
//! GPU's own, and annotations that are the same output are gathered before augmentation, not after it.

use super::{Annotations, Batch, Frame, TrainingSet, interleaved, write_targets};
use crate::Result;
use crate::loss::foreground_annotations;
use multivalued_data::Case;
use multivalued_data::augment::{self, Placement};
use multivalued_data::normalise::Normalisation;
use multivalued_engine::{Device, Intensity, Pick, Rescale, ResidentImages, Tensor, Var};
use rayon::prelude::*;
use std::sync::Arc;

/// The share of a GPU's free memory that training cases may take.
const SHARE: usize = 4;

/// All cases, of one size, on a GPU.
pub(super) struct Resident {
    images: ResidentImages,
    /// What becomes of an image's values after augmentation; none where they were normalised once for all,
    /// since flips and turns alone change none.
    rescale: Option<Rescale>,
    /// The distinct annotations of all cases, one after the other.
    annotations: ResidentImages,
    /// Which of them is a case's first.
    first: Vec<usize>,
    /// The same annotations by case in this machine's memory, for their weights.
    cases: Vec<Annotations>,
    /// Width and height of all images.
    size: [usize; 2],
    output_channels: usize,
}

impl Resident {
    /// Copies cases of one size to a GPU, where they fit.
    pub fn new(set: &TrainingSet, cases: &[Arc<Case>], device: &Device, free: usize) -> Result<Option<Self>> {
        let (width, height) = (cases[0].image.width(), cases[0].image.height());
        let (channels, outputs) = (set.recipe.model.input_channels, set.recipe.model.output_channels());
        let annotations: Vec<Annotations> =
            cases.par_iter().map(|case| set.distinct(case.annotations.clone())).collect::<Result<_>>()?;
        let count: usize = annotations.iter().map(Vec::len).sum();
        let bytes = width * height * (cases.len() * channels * 4 + count * outputs);
        if bytes > free / SHARE {
            return Ok(None);
        }
        let normalise = set.recipe.data.normalise;
        let rescale = (!set.recipe.augment.only_turns()).then_some(match normalise {
            Normalisation::MinMax => Rescale::MinMax,
            Normalisation::Range { low, high } => Rescale::Range { low, high },
            Normalisation::ZScore => Rescale::ZScore,
        });
        let values = |case: &Arc<Case>| {
            if rescale.is_some() {
                return interleaved(&case.image);
            }
            let mut image = case.image.clone();
            normalise.apply(&mut image);
            interleaved(&image)
        };
        let values: Vec<f32> = cases.par_iter().flat_map_iter(values).collect();
        let size = width * height * outputs;
        let mut targets = vec![0u8; count * size];
        let masks = annotations.iter().flatten().map(|(mask, _)| mask);
        masks.zip(targets.chunks_exact_mut(size)).for_each(|(mask, out)| write_targets(mask, outputs, out));
        let first = annotations.iter().scan(0, |next, case| {
            *next += case.len();
            Some(*next - case.len())
        });
        let shape = |images, channels| [images, height, width, channels];
        Ok(Some(Self {
            images: ResidentImages::of_values(device, shape(cases.len(), channels), &values),
            rescale,
            annotations: ResidentImages::of_bytes(device, shape(count, outputs), &targets),
            first: first.collect(),
            cases: annotations,
            size: [width, height],
            output_channels: outputs,
        }))
    }

    /// The batch of a step.
    pub fn batch(&self, set: &TrainingSet, step: u64) -> Batch {
        let (order, own) = set.of_step(step);
        let changes: Vec<_> = own.clone().map(|place| set.drawn(step, place)).collect();
        let own_cases = order[own.clone()].to_vec();
        let chosen: Vec<&Annotations> = own_cases.iter().map(|&case| &self.cases[case]).collect();
        let (frame, drawn) = set.frame(step, &chosen, order, own);
        let placements: Vec<Placement> = changes.iter().map(|change| change.placement(self.size)).collect();
        let [width, height] = placements[0].size;
        let pick = |image: Option<usize>, placement: &Placement| {
            let &Placement { from, matrix, .. } = placement;
            Pick { image, from, matrix }
        };
        let images: Vec<Pick> =
            own_cases.iter().zip(&placements).map(|(&case, place)| pick(Some(case), place)).collect();
        let annotations: Vec<Pick> = (own_cases.iter().zip(&placements).zip(&drawn))
            .flat_map(|((&case, placement), drawn)| {
                let image = move |k| drawn.get(k).map(|(i, _)| self.first[case] + i);
                (0..frame.per_image).map(move |k| pick(image(k), placement))
            })
            .collect();
        let rows = annotations.len();
        let annotations = self.annotations.gather(&annotations, [height, width]);
        let annotations = annotations.reshaped([rows, width * height * self.output_channels]);
        let areas = self.areas(&annotations, &frame);
        let images = match self.rescale {
            None => self.images.gather(&images, [height, width]),
            Some(rescale) => {
                let intensities: Vec<Intensity> = changes
                    .iter()
                    .map(|change| {
                        let augment::Intensity { gain, offset, noise, stream } = change.intensity();
                        Intensity { gain, offset, noise, stream }
                    })
                    .collect();
                self.images.gather_adjusted(&images, [height, width], &intensities, rescale)
            }
        };
        frame.with(images, annotations, areas)
    }

    /// The mean annotated pixels of each image, as augmentation has left them.
    fn areas(&self, annotations: &Tensor, frame: &Frame) -> Tensor {
        let rows = frame.weights.len();
        let weights = Tensor::from_slice(&annotations.device(), [rows], &frame.weights);
        let annotated = foreground_annotations(annotations, self.output_channels).sum_rows();
        let weighted = annotated.mul(&Var::constant(weights));
        weighted.reshape([rows / frame.per_image, frame.per_image]).sum_rows().into_tensor()
    }
}
