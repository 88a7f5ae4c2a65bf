//! Which code is responsible for which annotation, and the distances that follow: by outputs (the paper's E_2) or by
//! embeddings (E_3).

use super::schedule::rule;
use super::step::StepContext;
use super::terms::{Losses, Term};
use crate::assignment::{Rule, responsibilities};
use crate::batch::Batch;
use crate::collective::{BATCH_STATISTICS, Ranks, unwind};
use crate::loss::{self, Compared};
use crate::model::{Encoded, Model};
use crate::recipe::Space;
use multivalued_engine::{Tape, Tensor, Var};

/// The losses of a batch as they come from one of the two assignments.
pub(super) struct Assigned {
    /// One number: distances weighted by responsibility, summed over annotations, the mean over images.
    pub reconstruction: Var,
    /// [batch, code_count]: what the classifier should say.
    pub targets: Vec<f32>,
    /// [batch]: the weight of empty annotations, where a head says how probable they are.
    pub empty_targets: Vec<f32>,
    pub commitment: Option<Var>,
    /// Where it counts already.
    pub overlap: Option<Var>,
    /// For the energy score: outputs of these codes for every image.
    pub outputs: Option<(Compared, Vec<usize>)>,
    /// What the codebook's average follows.
    pub followed: Option<Followed>,
}

/// Pairs of image and annotation, as the codebook sees them.
pub(super) struct Followed {
    /// [pairs, code_count]
    pub responsibilities: Vec<f32>,
    /// [pairs, code_dim]
    pub embeddings: Tensor,
}

/// Assigns annotations as the recipe says.
pub(super) fn assign(
    model: &Model,
    tape: &Tape,
    encoded: &Encoded,
    losses: &Losses,
    context: StepContext,
) -> Assigned {
    match context.recipe.assignment.space {
        Space::Output => assign_by_output(model, tape, encoded, losses, context),
        Space::Embedding => assign_by_embedding(model, tape, encoded, losses, context),
    }
}

/// The paper's E_2: an annotation belongs to the code whose output is nearest.
///
/// Summed over annotations, the reconstruction of a code's output needs only the mean of its annotations,
/// since cross-entropy is linear in the target: `Σ_k r_k d(o, y_k) = R · d(o, Σ_k r_k y_k / R)`.
fn assign_by_output(
    model: &Model,
    tape: &Tape,
    encoded: &Encoded,
    losses: &Losses,
    StepContext { recipe, batch, progress, .. }: StepContext,
) -> Assigned {
    let rule = rule(&recipe.assignment, progress);
    let (images, k) = (encoded.batch, batch.per_image);
    let codes = model.active_codes();
    let j = codes.len();
    let logits = model.generate_all(tape, encoded, &codes);
    let size = logits.shape().volume() / (images * j);

    // Annotations are assigned here and not on a GPU: distances and probabilities are a few thousand values,
    // which cross at once, and finding the cheapest pairs is a search, image by image, in microseconds.
    let probabilities = model.probabilities(encoded, &codes);
    let annotated_areas = encoded
        .empty
        .as_ref()
        .map(|_| loss::foreground_annotations(&batch.annotations, model.recipe.output_channels()).sum_rows());
    let mut others = vec![probabilities.tensor(), &batch.areas];
    others.extend(annotated_areas.as_ref().map(Var::tensor));
    let (mut distances, read) = loss::cross_entropy_distances(&logits, &batch.annotations, images, &others);
    let (probabilities, areas) = (&read[0], &read[1]);
    // Codes have no part in empty annotations where a head says how probable those are.
    let is_empty = |row: usize| read.get(2).is_some_and(|annotated_areas| annotated_areas[row] == 0.0);
    let of_codes = |row: usize| if is_empty(row) { 0.0 } else { batch.weights[row] };
    let annotation_weights: Vec<f32> = (0..images * k).map(of_codes).collect();
    let units = loss::units(areas, size);
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
    let compared = (losses.counts(Term::Overlap) || losses.counts(Term::Energy))
        .then(|| compared(model, &logits, batch, images));
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
            .filter(|_| losses.counts(Term::Overlap))
            .map(|compared| compared.overlap(&shares)),
        outputs: compared.map(|compared| (compared, codes)),
        followed: None,
    }
}

/// The paper's E_3: an annotation belongs to the code nearest to the pair's embedding; the generator sees
/// the code, the embedding gets its gradient (straight through).
///
/// Paper: eq. (nearest) and E_zreg, §3.2. Differs: the commitment is a mean over dimensions, not a sum, so that
/// its weight means the same for codes of any length.
fn assign_by_embedding(
    model: &Model,
    tape: &Tape,
    encoded: &Encoded,
    losses: &Losses,
    StepContext { recipe, batch, ranks, .. }: StepContext,
) -> Assigned {
    let pair_encoder = model.pair_encoder.as_ref().expect("the recipe's assignment made a pair encoder");
    let (count, k) = (model.recipe.code_count, batch.per_image);
    let rows = encoded.batch * k;
    let images = Var::constant(batch.images.clone());
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
    let (per_image, all_rows) = of_all_ranks(ranks, k, real.len());
    let images_of_rows = images.gather_rows(&image_of);
    let embedding = pair_encoder.forward(tape, &images_of_rows, &annotations, all_rows, ranks);
    let z = model.codebook.comparable(&embedding).gather_rows(&place);
    let codes = model.active_codes();
    let (distances, read) = model.codebook.distances(&model.parameters, z.tensor(), &codes, &[&batch.areas]);
    let nearest = nearest(&distances, &codes, &batch.weights, k, recipe.assignment.distinct);
    let c = model.codebook.codes(tape).stop_gradient().gather_rows(&nearest);
    let logits = model.generate(tape, encoded, &z.straight_through(&c));

    let size = logits.shape().volume() / rows;
    let of_images = loss::units(&read[0], size);
    let units: Vec<f32> = (0..rows).map(|row| of_images[row / k]).collect();
    let distance = loss::reconstruction(recipe.loss.reconstruction, &logits, &batch.annotations, &units);
    let overlap = losses.counts(Term::Overlap).then(|| compared(model, &logits, batch, rows));
    let overlap = overlap.map(|compared| compared.overlap(&batch.weights).scale(k as f32));
    let shares: Vec<f32> = batch.weights.iter().map(|weight| weight / encoded.batch as f32).collect();
    let shares = Var::constant(Tensor::from_slice(model.device(), [rows], &shares));

    let mut targets = vec![0.0f32; encoded.batch * count];
    let mut responsibilities = vec![0.0f32; rows * count];
    for (row, &code) in nearest.iter().enumerate() {
        targets[row / k * count + code] += batch.weights[row];
        responsibilities[row * count + code] = batch.weights[row] * per_image as f32;
    }
    Assigned {
        reconstruction: distance.mul(&shares).sum(),
        targets,
        empty_targets: Vec::new(),
        commitment: Some(z.squared_error(&c).mul(&shares).sum()),
        overlap,
        outputs: None,
        followed: Some(Followed { responsibilities, embeddings: z.into_tensor() }),
    }
}

/// The code of each annotation by the distances of its embedding, k annotations an image; ties go to the lower index.
/// Rows that only pad, whose weight is 0, take any.
fn nearest(distances: &[f32], codes: &[usize], weights: &[f32], k: usize, distinct: bool) -> Vec<usize> {
    let (rule, even) = (Rule::Hard { prior: 0.0, distinct }, vec![0.0; codes.len()]);
    let images = distances.chunks_exact(k * codes.len()).zip(weights.chunks_exact(k));
    let shares = images.flat_map(|(distances, weights)| responsibilities(rule, distances, &even, weights));
    let chosen = |row: &[f32]| codes[row.iter().position(|&share| share > 0.0).unwrap_or(0)];
    shares.collect::<Vec<_>>().chunks_exact(codes.len()).map(chosen).collect()
}

/// Annotations per image of the rank that has most, and the rows of all ranks that are no padding: what one rank
/// would find in the whole batch.
pub(crate) fn of_all_ranks(ranks: &Ranks, per_image: usize, rows: usize) -> (usize, usize) {
    if ranks.are_alone() {
        return (per_image, rows);
    }
    let mut values = vec![0.0; ranks.size() + 1];
    (values[ranks.rank()], values[ranks.size()]) = (per_image as f32, rows as f32);
    ranks.sum(BATCH_STATISTICS, &mut values).unwrap_or_else(|error| unwind(error));
    let rows = values.pop().unwrap_or_default();
    (values.into_iter().fold(0.0, f32::max) as usize, rows as usize)
}

/// Outputs beside the annotations of the same image; `images` counts the groups of rows that are of one image.
pub(super) fn compared(model: &Model, logits: &Var, batch: &Batch, images: usize) -> Compared {
    let annotations = loss::foreground_annotations(&batch.annotations, model.recipe.output_channels());
    Compared::new(loss::foreground(logits), loss::masks(logits), annotations, images)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_of_one_image_take_different_codes_where_the_recipe_asks() {
        // Two images of two annotations; the last one only pads. Codes 3, 5 and 9 are active.
        let distances = [0.1, 0.2, 0.9, 0.1, 0.15, 0.9, 0.7, 0.3, 0.3, 0.0, 0.0, 0.0];
        let of = |distinct| nearest(&distances, &[3, 5, 9], &[0.5, 0.5, 1.0, 0.0], 2, distinct);
        assert_eq!(of(false), [3, 3, 5, 3]);
        assert_eq!(of(true), [3, 5, 5, 3]);
    }
}
