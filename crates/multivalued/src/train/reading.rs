//! What is read of a step, at its end and at once: a GPU is waited for here, for the assignment's distances, and for
//! the codes' moving average where there is one.

use super::terms::{LossTerms, Losses};
use multivalued_engine::{Adam, Gradients, Parameters, Stepped, Tensor};

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
}

impl StepResult {
    /// What a method without codes leaves.
    pub fn without_codes(read: &Read) -> Self {
        let (usage, leading_codes, targets) = (Vec::new(), Vec::new(), Vec::new());
        let &Read { terms, moved, gradient_norm, .. } = read;
        Self { terms, moved, gradient_norm, h_norm: 0.0, usage, leading_codes, targets }
    }

    /// What a step leaves whose images' codes got `targets` [images, code_count], and whose h was read.
    pub fn with_codes(read: &Read, h_width: usize, targets: Vec<f32>, count: usize) -> Self {
        let leading = |row: &[f32]| (0..count).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
        Self {
            h_norm: mean_length(&read.others[0], h_width),
            usage: usage(&targets, count),
            leading_codes: targets.chunks_exact(count).map(leading).collect(),
            targets,
            ..Self::without_codes(read)
        }
    }
}

/// The values of a step.
pub(crate) struct Read {
    pub terms: LossTerms,
    pub moved: bool,
    pub gradient_norm: f32,
    /// Of the other tensors that were asked for.
    pub others: Vec<Vec<f32>>,
}

/// Moves the parameters, unless the loss or a gradient is not finite, and reads the terms and some other tensors.
pub(crate) fn update_and_read(
    adam: &mut Adam,
    parameters: &mut Parameters,
    gradients: &Gradients,
    rate: f32,
    (total, losses): (&Tensor, Losses),
    others: &[&Tensor],
) -> Read {
    let updated = adam.update(parameters, gradients, rate, total);
    let terms = losses.into_values();
    let mut tensors = vec![updated.norm(), total];
    tensors.extend(terms.iter().map(|(_, value)| value));
    tensors.extend(others);
    let mut read = Tensor::to_vecs(&tensors);
    let others = read.split_off(2 + terms.len());
    let values = terms.iter().zip(&read[2..]).map(|((name, _), value)| (*name, value[0]));
    let terms = LossTerms::new(read[1][0], values);
    let (moved, gradient_norm) = match updated.finish(read[0][0]) {
        Stepped::Moved { gradient_norm } => (true, gradient_norm),
        Stepped::NotFinite => (false, f32::NAN),
    };
    Read { terms, moved, gradient_norm, others }
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
