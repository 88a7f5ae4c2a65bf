//! What is read of a step, at its end and at once: a GPU is waited for here, for the assignment's distances, and for
//! the codes' moving average where there is one. An energy score beside a pair encoder is told the codes it compares.

use super::exchange::{RankSignal, Targets, Whole};
use super::terms::LossTerms;
use crate::collective::{BATCH_STATISTICS, Ranks, unwind};
use crate::model::{Encoded, Model};
use multivalued_engine::{Adam, Parameters, Stepped, Tensor};

/// What a step leaves behind.
pub(crate) struct StepResult {
    pub terms: LossTerms,
    /// Whether loss and gradients were finite, so that the parameters moved.
    pub moved: bool,
    pub gradient_norm: f32,
    /// Mean length of h.
    pub h_norm: f32,
    /// The weight of annotations that each code was responsible for; sums to one, less what a head for the empty
    /// mask is responsible for.
    pub usage: Vec<f32>,
    /// The code of each image that is responsible for most of its annotations' weight.
    pub leading_codes: Vec<usize>,
    /// [images, code_count]: the weight of annotations that each code is responsible for.
    pub targets: Vec<f32>,
    /// What the ranks wanted all to know.
    pub signal: RankSignal,
}

impl StepResult {
    /// What a method without codes leaves.
    pub fn without_codes(read: &Read) -> Self {
        let (usage, leading_codes, targets) = (Vec::new(), Vec::new(), Vec::new());
        let &Read { terms, moved, gradient_norm, signal, .. } = read;
        Self { terms, moved, gradient_norm, h_norm: 0.0, usage, leading_codes, targets, signal }
    }

    /// What a step leaves whose images' codes got targets [images, code_count], and whose h was read.
    pub fn with_codes(mut read: Read, h_width: usize, count: usize) -> Self {
        let leading = |row: &[f32]| (0..count).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
        let targets = std::mem::take(&mut read.targets);
        Self {
            h_norm: mean_length(&read.h, h_width),
            usage: usage(&targets, count),
            leading_codes: targets.chunks_exact(count).map(leading).collect(),
            targets,
            ..Self::without_codes(&read)
        }
    }
}

/// Most codes that the energy score compares where the assignment made no outputs for it.
const MOST_COMPARED: usize = 16;

/// The codes that the classifier thinks most probable for the batch, of all ranks.
pub(super) fn likeliest_codes(model: &Model, encoded: &Encoded, ranks: &Ranks) -> Vec<usize> {
    let mut sums = vec![0.0f32; model.recipe.code_count];
    let probabilities = encoded.logits.stop_gradient().softmax().tensor().to_vec();
    for row in probabilities.chunks_exact(sums.len()) {
        sums.iter_mut().zip(row).for_each(|(sum, probability)| *sum += probability);
    }
    ranks.sum(BATCH_STATISTICS, &mut sums).unwrap_or_else(|error| unwind(error));
    let mut codes = model.active_codes();
    codes.sort_by(|&a, &b| sums[b].total_cmp(&sums[a]));
    codes.truncate(MOST_COMPARED);
    codes
}

/// The values of a step.
pub(crate) struct Read {
    pub terms: LossTerms,
    pub moved: bool,
    pub gradient_norm: f32,
    h: Vec<f32>,
    targets: Vec<f32>,
    signal: RankSignal,
}

/// Moves the parameters, unless the loss or a gradient is not finite, and reads what is watched.
pub(crate) fn update_and_read(adam: &mut Adam, parameters: &mut Parameters, whole: Whole, rate: f32) -> Read {
    let Whole { gradients, loss, terms, values, shares, h, targets, signal, .. } = whole;
    let updated = adam.update(parameters, &gradients, rate, &loss);
    let mut tensors = vec![updated.norm()];
    tensors.extend(&values);
    tensors.extend(&h);
    tensors.extend(&signal);
    if let Targets::Gathered(gathered) = &targets {
        tensors.push(gathered);
    }
    let mut read = Tensor::to_vecs(&tensors).into_iter();
    let norm = read.next().unwrap_or_default();
    // The mean over images of what each rank has the mean of.
    let mean = |values: &[f32]| match values {
        [alone] => *alone,
        several => several.iter().zip(&shares).map(|(value, share)| value * share).sum(),
    };
    let values: Vec<f32> = read.by_ref().take(values.len()).map(|values| mean(&values)).collect();
    let terms = LossTerms::new(values[0], terms.into_iter().zip(values[1..].iter().copied()));
    let h = h.and_then(|_| read.next()).unwrap_or_default();
    let signal = signal
        .and_then(|_| read.next())
        .map_or_else(RankSignal::default, |values| RankSignal { stop: values[0] > 0.0, seconds: values[1] });
    let targets = match targets {
        Targets::Known(targets) => targets,
        Targets::Gathered(_) => read.next().unwrap_or_default(),
    };
    let (moved, gradient_norm) = match updated.finish(norm[0]) {
        Stepped::Moved { gradient_norm } => (true, gradient_norm),
        Stepped::NotFinite => (false, f32::NAN),
    };
    Read { terms, moved, gradient_norm, h, targets, signal }
}

/// Of rows of some width.
fn mean_length(values: &[f32], width: usize) -> f32 {
    let lengths = values.chunks_exact(width).map(|row| row.iter().map(|v| v * v).sum::<f32>().sqrt());
    lengths.sum::<f32>() / (values.len() / width) as f32
}

/// The share of annotations that each code served.
fn usage(targets: &[f32], count: usize) -> Vec<f32> {
    let mut usage = vec![0.0; count];
    for row in targets.chunks_exact(count) {
        usage.iter_mut().zip(row).for_each(|(usage, target)| *usage += target);
    }
    let images = (targets.len() / count) as f32;
    usage.iter_mut().for_each(|usage| *usage /= images);
    usage
}
