//! One step of training: Algorithm 1 of the paper, line by line.
//!
//! ```text
//! for a batch of (x, {y_k}):
//!     l, p ← E_θ(x), P_ϕ(E_θ(x))                              encode
//!     s_k ← nearest output, or nearest code of E_φ(x, y_k)    assign
//!     L   ← L_recon(G_θ(x, c_s), y) + α L_CE + β L_commit + L_overlap + λ L_energy
//!     θ, φ, ϕ ← Adam
//!     C   ← moving average of the embeddings, then a covariance step
//! ```
//!
//! Differs: Algorithm 1 adds lr·∂L where it must subtract; the average comes after the optimiser, since a
//! code that moves before the lookup's gradient is used would no longer be the one that was looked up.

#[cfg(test)]
mod parity;
#[cfg(test)]
mod routing;

use super::schedule::{Weights, learning_rate, rule, weights};
use crate::assignment::{Rule, responsibilities};
use crate::batch::Batch;
use crate::loss::{self, Compared};
use crate::model::{Encoded, Model, Update, orthogonality_threshold};
use crate::recipe::{Recipe, Space};
use multivalued_engine::{Adam, Stepped, Tape, Tensor, Var};

/// The terms of one step's loss, before their weights.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct LossTerms {
    /// The sum that was minimised.
    pub total: f32,
    /// L_recon.
    pub reconstruction: f32,
    /// L_CE.
    pub cross_entropy: f32,
    /// L_commit; 0 where the assignment needs no pair encoder.
    pub commitment: f32,
    /// L_cov.
    pub covariance: f32,
    /// Cross-entropy of the head for the empty mask; 0 where there is none.
    #[serde(default)]
    pub emptiness: f32,
    /// Soft Jaccard distance of annotations to their codes' outputs; 0 before it counts.
    #[serde(default)]
    pub overlap: f32,
    /// The energy score; 0 before it counts.
    pub energy: f32,
    /// KL(posterior ‖ prior) of the Probabilistic U-Net; 0 for other methods.
    #[serde(default)]
    pub divergence: f32,
}

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
    /// What a method without codes leaves, before it has moved.
    pub fn without_codes(terms: LossTerms) -> Self {
        let (usage, leading_codes, targets) = (Vec::new(), Vec::new(), Vec::new());
        Self { terms, moved: false, gradient_norm: f32::NAN, h_norm: 0.0, usage, leading_codes, targets }
    }
}

/// The losses of a batch as they come from one of the two assignments.
struct Assigned {
    /// One number: distances weighted by responsibility, summed over annotations, the mean over images.
    reconstruction: Var,
    /// [batch, code_count]: what the classifier should say.
    targets: Vec<f32>,
    /// [batch]: the weight of empty annotations, where a head says how probable they are.
    empty_targets: Vec<f32>,
    commitment: Option<Var>,
    /// Where it counts already.
    overlap: Option<Var>,
    /// For the energy score: outputs of these codes for every image.
    outputs: Option<(Compared, Vec<usize>)>,
    /// What the codebook's average follows: responsibilities [pairs, code_count] and embeddings.
    followed: Option<(Vec<f32>, Tensor)>,
}

/// The terms of a batch's loss, on the tape.
struct Losses {
    encoded: Encoded,
    assigned: Assigned,
    cross_entropy: Var,
    /// Where the model has a head for the empty mask.
    emptiness: Option<Var>,
    /// Where it counts already.
    energy: Option<Var>,
    total: Var,
}

pub(crate) fn step(
    model: &mut Model,
    adam: &mut Adam,
    recipe: &Recipe,
    batch: &Batch,
    step: u64,
    progress: f32,
) -> StepResult {
    let count = model.recipe.code_count;
    let tape = Tape::recording(&model.parameters);
    let Losses { encoded, assigned, cross_entropy, emptiness, energy, total } =
        losses(model, &tape, recipe, batch, progress);

    let Assigned { reconstruction, targets, commitment, overlap, outputs, followed, .. } = assigned;
    let h = encoded.h.tensor().clone();
    drop((encoded, outputs));
    let gradients = tape.backward(&total);
    let total = total.into_tensor();
    let terms = [reconstruction, cross_entropy].map(Var::into_tensor);
    let some_terms = [commitment, emptiness, overlap, energy].map(|term| term.map(Var::into_tensor));
    // All that a step is watched by is read with the norm, at its end: a GPU is waited for here, for the
    // assignment's distances, and for the codes' moving average where there is one.
    let rate = learning_rate(&recipe.train, step, progress);
    let updated = adam.update(&mut model.parameters, &gradients, rate, &total);
    let mut read = vec![updated.norm(), &total, &h, &terms[0], &terms[1]];
    read.extend(some_terms.iter().flatten());
    let mut read = Tensor::to_vecs(&read);
    let stepped = updated.finish(read.remove(0)[0]);
    drop(gradients);
    let h_norm = mean_length(&read[1], h.shape().last());
    let mut some_read = read[4..].iter();
    let [commitment, emptiness, overlap, energy] = some_terms
        .map(|term| term.map_or(0.0, |_| some_read.next().expect("every term that is there was read")[0]));
    let mut terms = LossTerms {
        total: read[0][0],
        reconstruction: read[2][0],
        cross_entropy: read[3][0],
        commitment,
        covariance: 0.0,
        emptiness,
        overlap,
        energy,
        divergence: 0.0,
    };
    let (moved, gradient_norm) = match stepped {
        Stepped::Moved { gradient_norm } => (true, gradient_norm),
        Stepped::NotFinite => (false, f32::NAN),
    };
    if moved && let Some((responsibilities, embeddings)) = followed {
        terms.covariance = update_codebook(model, recipe, &responsibilities, &embeddings);
    }
    let leading_codes = targets
        .chunks_exact(count)
        .map(|row| (0..count).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0))
        .collect();
    let usage = usage(&targets, count);
    StepResult { terms, moved, gradient_norm, h_norm, usage, leading_codes, targets }
}

/// Encodes, assigns, and computes every term.
fn losses(model: &Model, tape: &Tape, recipe: &Recipe, batch: &Batch, progress: f32) -> Losses {
    let weights = weights(recipe, progress);
    let images = Var::constant(batch.images.clone());
    let encoded = model.encode(tape, &images);
    let assigned = match recipe.assignment.space {
        Space::Output => {
            let rule = rule(&recipe.assignment, progress);
            assign_by_output(model, tape, recipe, &encoded, batch, rule, weights)
        }
        Space::Embedding => assign_by_embedding(model, tape, recipe, &encoded, &images, batch, weights),
    };
    let shape = [encoded.batch, model.recipe.code_count];
    let targets = Tensor::from_slice(model.device(), shape, &assigned.targets);
    let cross_entropy = encoded.logits.cross_entropy_soft(&targets).mean();
    let emptiness = encoded.empty.as_ref().map(|empty| {
        let targets = Tensor::from_slice(model.device(), [encoded.batch, 1], &assigned.empty_targets);
        empty.bce_with_logits(&targets).mean()
    });
    let energy = (weights.energy > 0.0).then(|| energy(model, tape, recipe, &encoded, &assigned, batch));
    let total = total(weights, &assigned, &cross_entropy, emptiness.as_ref(), energy.as_ref());
    Losses { encoded, assigned, cross_entropy, emptiness, energy, total }
}

fn total(
    weights: Weights,
    assigned: &Assigned,
    cross_entropy: &Var,
    emptiness: Option<&Var>,
    energy: Option<&Var>,
) -> Var {
    let mut total = assigned.reconstruction.scale(weights.reconstruction);
    if weights.cross_entropy > 0.0 {
        total = total.add(&cross_entropy.scale(weights.cross_entropy));
    }
    if let Some(emptiness) = emptiness {
        total = total.add(&emptiness.scale(weights.emptiness));
    }
    if let Some(commitment) = &assigned.commitment {
        total = total.add(&commitment.scale(weights.commitment));
    }
    if let Some(overlap) = &assigned.overlap {
        total = total.add(&overlap.scale(weights.overlap));
    }
    if let Some(energy) = energy {
        total = total.add(&energy.scale(weights.energy));
    }
    total
}

/// The paper's E_2: an annotation belongs to the code whose output is nearest.
///
/// Summed over annotations, the reconstruction of a code's output needs only the mean of its annotations,
/// since cross-entropy is linear in the target: `Σ_k r_k d(o, y_k) = R · d(o, Σ_k r_k y_k / R)`.
fn assign_by_output(
    model: &Model,
    tape: &Tape,
    recipe: &Recipe,
    encoded: &Encoded,
    batch: &Batch,
    rule: Rule,
    weights: Weights,
) -> Assigned {
    let (images, k) = (encoded.batch, batch.per_image);
    let codes = model.active_codes();
    let j = codes.len();
    let logits = model.generate_all(tape, encoded, &codes);
    let size = logits.shape().volume() / (images * j);

    // Annotations are assigned here and not on a GPU: distances and probabilities are a few thousand values,
    // which cross at once, and finding the cheapest pairs is a search, image by image, in microseconds.
    let probabilities = model.probabilities(encoded, &codes);
    let drawn = encoded
        .empty
        .as_ref()
        .map(|_| loss::foreground_annotations(&batch.annotations, model.recipe.output_channels()).sum_rows());
    let mut others = vec![probabilities.tensor(), &batch.areas];
    others.extend(drawn.as_ref().map(Var::tensor));
    let (mut distances, read) = loss::cross_entropy_distances(&logits, &batch.annotations, images, &others);
    let (probabilities, areas) = (&read[0], &read[1]);
    // Codes have no part in empty annotations where a head says how probable those are.
    let is_empty = |row: usize| read.get(2).is_some_and(|drawn| drawn[row] == 0.0);
    let of_codes = |row: usize| if is_empty(row) { 0.0 } else { batch.weights[row] };
    let annotation_weights: Vec<f32> = (0..images * k).map(of_codes).collect();
    // Distances in units of the image's mean annotated area, so that small lesions count as much.
    let units: Vec<f32> = areas.iter().map(|area| area.max(0.02 * size as f32)).collect();
    for (image, distances) in distances.chunks_exact_mut(k * j).enumerate() {
        distances.iter_mut().for_each(|d| *d /= units[image]);
    }
    let mut shares = vec![0.0f32; images * k * j]; // [images·K, J]: weight · responsibility
    let mut parts = vec![0.0f32; images * j * k]; // [images·J, K]: an annotation's part in a code's target
    let mut masses = vec![0.0f32; images * j];
    let mut targets = vec![0.0f32; images * model.recipe.code_count];
    for image in 0..images {
        let annotation_weights = &annotation_weights[image * k..][..k];
        let log_p: Vec<f32> = probabilities[image * j..][..j].iter().map(|p| p.max(1e-9).ln()).collect();
        let r = responsibilities(rule, &distances[image * k * j..][..k * j], &log_p, annotation_weights);
        for annotation in 0..k {
            for code in 0..j {
                let share = annotation_weights[annotation] * r[annotation * j + code];
                shares[(image * k + annotation) * j + code] = share;
                parts[(image * j + code) * k + annotation] = share;
                masses[image * j + code] += share;
                targets[image * model.recipe.code_count + codes[code]] += share;
            }
        }
    }
    for (row, parts) in parts.chunks_exact_mut(k).enumerate() {
        parts.iter_mut().for_each(|part| *part /= masses[row].max(1e-12));
    }
    let device = model.device();
    let parts = Var::constant(Tensor::from_slice(device, [images * j, k], &parts));
    let means = parts.batched_matmul(&Var::constant(batch.annotations.clone()), images); // [images·J, size]

    let row_units: Vec<f32> = (0..images * j).map(|row| units[row / j]).collect();
    let distance = loss::reconstruction(recipe.loss.reconstruction, &logits, means.tensor(), &row_units);
    let masses: Vec<f32> = masses.iter().map(|mass| mass / images as f32).collect();
    let masses = Var::constant(Tensor::from_slice(device, [images * j], &masses));
    let compared =
        (weights.overlap > 0.0 || weights.energy > 0.0).then(|| compared(model, &logits, batch, images));
    Assigned {
        reconstruction: distance.mul(&masses).sum(),
        targets,
        empty_targets: (0..images)
            .map(|image| {
                (image * k..(image + 1) * k).filter(|&row| is_empty(row)).map(|row| batch.weights[row]).sum()
            })
            .collect(),
        commitment: None,
        overlap: compared
            .as_ref()
            .filter(|_| weights.overlap > 0.0)
            .map(|compared| compared.overlap(&shares)),
        outputs: compared.map(|compared| (compared, codes)),
        followed: None,
    }
}

/// The paper's E_3: an annotation belongs to the code nearest to the pair's embedding; the generator sees
/// the code, the embedding gets its gradient (straight through).
///
/// Paper: eq. (nearest) and E_zreg, §3.2. Differs: the commitment is a mean over dimensions, not a sum,
/// which would pin the encoder to its first codes.
fn assign_by_embedding(
    model: &Model,
    tape: &Tape,
    recipe: &Recipe,
    encoded: &Encoded,
    images: &Var,
    batch: &Batch,
    weights: Weights,
) -> Assigned {
    let pair_encoder = model.pair_encoder.as_ref().expect("the recipe's assignment made a pair encoder");
    let (count, k) = (model.recipe.code_count, batch.per_image);
    let rows = encoded.batch * k;
    let [_, height, width, _] = *images.shape() else { unreachable!("images have four axes") };
    let channels = model.recipe.output_channels();

    // Rows that only pad stay out of the embedding's batch statistics; their weight is 0, so that any
    // embedding will do for them.
    let real: Vec<usize> = (0..rows).filter(|&row| batch.weights[row] > 0.0).collect();
    let place: Vec<usize> =
        (0..rows).map(|row| real.partition_point(|&other| other <= row).saturating_sub(1)).collect();
    let image_of: Vec<usize> = real.iter().map(|row| row / k).collect();
    let annotations = Var::constant(batch.annotations.clone()).gather_rows(&real);
    let annotations = annotations.reshape([real.len(), height, width, channels]);
    let embedding = pair_encoder.forward(tape, &images.gather_rows(&image_of), &annotations);
    let z = model.codebook.comparable(&embedding).gather_rows(&place);
    let others = [&batch.areas];
    let (nearest, read) =
        model.codebook.nearest(&model.parameters, z.tensor(), &model.active_codes(), &others);
    let c = model.codebook.codes(tape).stop_gradient().gather_rows(&nearest);
    let logits = model.generate(tape, encoded, &z.straight_through(&c));

    let size = logits.shape().volume() / rows;
    let units: Vec<f32> = (0..rows).map(|row| read[0][row / k].max(0.02 * size as f32)).collect();
    let distance = loss::reconstruction(recipe.loss.reconstruction, &logits, &batch.annotations, &units);
    let overlap = (weights.overlap > 0.0).then(|| compared(model, &logits, batch, rows));
    let overlap = overlap.map(|compared| compared.overlap(&batch.weights).scale(k as f32));
    let shares: Vec<f32> = batch.weights.iter().map(|weight| weight / encoded.batch as f32).collect();
    let shares = Var::constant(Tensor::from_slice(model.device(), [rows], &shares));

    let mut targets = vec![0.0f32; encoded.batch * count];
    let mut responsibilities = vec![0.0f32; rows * count];
    for (row, &code) in nearest.iter().enumerate() {
        targets[row / k * count + code] += batch.weights[row];
        responsibilities[row * count + code] = batch.weights[row] * k as f32;
    }
    Assigned {
        reconstruction: distance.mul(&shares).sum(),
        targets,
        empty_targets: Vec::new(),
        commitment: Some(z.squared_error(&c).mul(&shares).sum()),
        overlap,
        outputs: None,
        followed: Some((responsibilities, z.into_tensor())),
    }
}

/// Outputs beside the annotations of the same image; `images` counts groups of rows that belong together.
fn compared(model: &Model, logits: &Var, batch: &Batch, images: usize) -> Compared {
    let annotations = loss::foreground_annotations(&batch.annotations, model.recipe.output_channels());
    Compared::new(loss::foreground(logits), loss::masks(logits), annotations, images)
}

/// The energy score of the most probable codes' outputs.
///
/// It moves the probabilities only where annotations may share a code. Where each takes its own, the
/// cross-entropy knows how often a code is meant, and the score would trade that against what cannot be seen: a
/// mode whose masks scatter costs more than one whose masks do not, and was given 0.242 instead of 0.25.
fn energy(
    model: &Model,
    tape: &Tape,
    recipe: &Recipe,
    encoded: &Encoded,
    assigned: &Assigned,
    batch: &Batch,
) -> Var {
    let generated;
    let (compared, codes) = match &assigned.outputs {
        Some((compared, codes)) => (compared, codes.clone()),
        None => {
            // The codes that matter for this batch: those the classifier thinks of, at most sixteen.
            let mut mean = vec![0.0f32; model.recipe.code_count];
            let p = encoded.logits.stop_gradient().softmax().tensor().to_vec();
            p.chunks_exact(mean.len()).for_each(|row| mean.iter_mut().zip(row).for_each(|(m, p)| *m += p));
            let mut codes = model.active_codes();
            codes.sort_by(|&a, &b| mean[b].total_cmp(&mean[a]));
            codes.truncate(16);
            let logits = model.generate_all(tape, encoded, &codes);
            generated = compared(model, &logits, batch, encoded.batch);
            (&generated, codes)
        }
    };
    let mut probabilities = model.probabilities(encoded, &codes);
    let mut empty = encoded.empty.as_ref().map(Var::sigmoid);
    if recipe.assignment.is_distinct() {
        probabilities = probabilities.stop_gradient();
        empty = empty.map(|empty| empty.stop_gradient());
    }
    compared.energy_score(&probabilities, empty.as_ref(), &batch.weights).mean()
}

/// The moving average, then the covariance step; returns L_cov.
fn update_codebook(model: &mut Model, recipe: &Recipe, responsibilities: &[f32], embeddings: &Tensor) -> f32 {
    let Model { codebook, parameters, .. } = model;
    let fixed = recipe.loss.average_decay >= 1.0;
    let rule = Update {
        decay: (!fixed).then_some(recipe.loss.average_decay),
        threshold: orthogonality_threshold(model.recipe.code_dim),
        step: if fixed { 0.0 } else { recipe.loss.covariance },
    };
    codebook.update(parameters, responsibilities, embeddings, &rule).loss
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
