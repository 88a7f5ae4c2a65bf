//! The terms of the loss, as functions of tensors.
//!
//! ```text
//! L = L_recon + α L_CE + β L_commit  (+ γ L_cov on the codebook)  + L_overlap + λ L_energy
//! ```
//!
//! Paper: eq. for E_3, §3.2 "Loss Function"; overlap and energy score are ours.

use crate::recipe::Reconstruction;
use multivalued_engine::{Device, Tensor, Var};

/// Keeps ln and divisions finite where masks are empty or the fit is perfect.
const FLOOR: f32 = 1e-3;

/// Pixels that soft Jaccard distances add to both areas. Without them an output of a few pixels beside an
/// empty annotation is at distance 1 whatever its area, and nothing would draw it to nothing.
const SOFTNESS: f32 = 1.0;

/// The units of distances, image by image: the mean annotated area, so that small lesions count as much as large ones,
/// and at least a fiftieth of an output's values.
pub(crate) fn units(areas: &[f32], size: usize) -> Vec<f32> {
    areas.iter().map(|area| area.max(0.02 * size as f32)).collect()
}

/// Outputs as probabilities of each foreground class.
///
/// # Shapes
/// logits [rows, height, width, output channels] → [rows, height·width·output channels]; the
/// background's share is 0
pub(crate) fn foreground(logits: &Var) -> Var {
    let [rows, height, width, channels] = *logits.shape() else { unreachable!("outputs are images") };
    let size = height * width * channels;
    if channels == 1 {
        return logits.sigmoid().reshape([rows, size]);
    }
    let pixels = logits.reshape([rows * height * width, channels]).softmax();
    pixels
        .mul(&Var::constant(foreground_mask(&logits.device(), rows * height * width, channels)))
        .reshape([rows, size])
}

/// Outputs as the masks that a prediction makes of them: [`foreground`] of logits so large that each share
/// is 0 or 1.
pub(crate) fn masks(logits: &Var) -> Var {
    foreground(&logits.stop_gradient().scale(1e6))
}

/// 1 for foreground channels, 0 for the background, which comes first.
fn foreground_mask(device: &Device, pixels: usize, channels: usize) -> Tensor {
    let row: Vec<f32> = (0..channels).map(|channel| f32::from(channel > 0)).collect();
    let row = Var::constant(Tensor::from_slice(device, [1, channels], &row));
    repeated(&row, pixels).into_tensor()
}

/// Annotations with the background's channel set to 0, to be compared with [`foreground`].
pub(crate) fn foreground_annotations(annotations: &Tensor, channels: usize) -> Var {
    let annotations = Var::constant(annotations.clone());
    if channels == 1 {
        return annotations;
    }
    let shape = annotations.shape();
    let pixels = shape.volume() / channels;
    let mask = foreground_mask(&annotations.device(), pixels, channels);
    annotations.reshape([pixels, channels]).mul(&Var::constant(mask)).reshape(shape)
}

/// Cross-entropy of each output with its soft target, summed over pixels.
///
/// # Shapes
/// logits [rows, height, width, channels], targets [rows, height·width·channels] → [rows]
pub(crate) fn cross_entropy_sum(logits: &Var, targets: &Tensor) -> Var {
    let [rows, height, width, channels] = *logits.shape() else { unreachable!("outputs are images") };
    let pixels = height * width;
    if channels == 1 {
        let targets = targets.reshaped([rows, height, width, 1]);
        return logits.bce_with_logits(&targets).scale(pixels as f32);
    }
    let targets = targets.reshaped([rows * pixels, channels]);
    logits.reshape([rows * pixels, channels]).cross_entropy_soft(&targets).reshape([rows, pixels]).sum_rows()
}

/// Distances of K annotations to J outputs of the same image: cross-entropy summed over pixels; and the values
/// of other tensors, which are read with them.
///
/// ```text
/// d_kj = Σ_p ln(1 + e^{o_j}) − y_k · o_j
/// ```
///
/// # Shapes
/// logits [batch·J, height, width, channels], annotations [batch·K, size] → [batch·K, J], row by row
pub(crate) fn cross_entropy_distances(
    logits: &Var,
    annotations: &Tensor,
    batch: usize,
    others: &[&Tensor],
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let logits = logits.stop_gradient();
    let rows = logits.shape()[0];
    let size = logits.shape().volume() / rows;
    let zeros = Tensor::zeros(&logits.device(), [rows, size]);
    let channels = logits.shape()[3];
    let normaliser = if channels == 1 {
        cross_entropy_sum(&logits, &zeros)
    } else {
        // Σ_p ln Σ_c e^{o_c}: the cross-entropy with the first class, plus that class's logits.
        let pixels = rows * size / channels;
        let flat = logits.reshape([pixels, channels]);
        let first: Vec<f32> = (0..channels).map(|channel| f32::from(channel == 0)).collect();
        let first = Var::constant(Tensor::from_slice(&logits.device(), [1, channels], &first));
        let to_first = flat.cross_entropy_soft(repeated(&first, pixels).tensor());
        let first = flat.matmul(&first.reshape([channels, 1]));
        to_first.add(&first.reshape([pixels])).reshape([rows, size / channels]).sum_rows()
    };
    let annotations = Var::constant(annotations.clone());
    let products = annotations.batched_inner_products(&logits.reshape([rows, size]), batch);
    let mut read = Tensor::to_vecs(&[&[normaliser.tensor(), products.tensor()], others].concat());
    let others = read.split_off(2);
    let (normaliser, products) = (&read[0], &read[1]);
    let (j, k) = (rows / batch, annotations.shape()[0] / batch);
    let distance = |(i, product): (usize, &f32)| normaliser[i / (j * k) * j + i % j] - product;
    (products.iter().enumerate().map(distance).collect(), others)
}

/// The reconstruction loss of each row against a soft target, in the recipe's distance.
///
/// # Shapes
/// logits [rows, height, width, channels], targets [rows, size], one unit of cross-entropy per row → [rows]
pub(crate) fn reconstruction(kind: Reconstruction, logits: &Var, targets: &Tensor, units: &[f32]) -> Var {
    let rows = logits.shape()[0];
    let channels = logits.shape()[3];
    let device = logits.device();
    let constant = |values: &[f32]| Var::constant(Tensor::from_slice(&device, [rows], values));
    match kind {
        Reconstruction::Bce | Reconstruction::LogBce => {
            let inverse: Vec<f32> = units.iter().map(|unit| 1.0 / unit).collect();
            let bce = cross_entropy_sum(logits, targets).mul(&constant(&inverse));
            if kind == Reconstruction::Bce { bce } else { bce.add_scalar(FLOOR).ln() }
        }
        Reconstruction::SoftDice | Reconstruction::SoftJaccard => {
            let probabilities = foreground(logits);
            let targets = foreground_annotations(targets, channels);
            let common = probabilities.mul(&targets).sum_rows();
            let total = probabilities.sum_rows().add(&targets.sum_rows());
            let (part, whole) = match kind {
                Reconstruction::SoftDice => (common.scale(2.0), total),
                _ => (common.clone(), total.sub(&common)),
            };
            let ratio = part.add_scalar(FLOOR).div(&whole.add_scalar(FLOOR));
            ratio.scale(-1.0).add_scalar(1.0)
        }
    }
}

/// Outputs beside the annotations of the same image, by their Jaccard distance.
pub(crate) struct Compared {
    /// [batch·J, size] in 0..1.
    outputs: Var,
    /// [batch·J, size]: the masks that a prediction would make of them, 0 or 1.
    masks: Var,
    /// [batch·K, size]
    annotations: Var,
    /// [batch·K, J]: of outputs, not of their masks.
    to_annotations: Var,
    batch: usize,
}

impl Compared {
    /// # Shapes
    /// outputs [batch·J, size] in 0..1, masks the same, annotations [batch·K, size]
    pub fn new(outputs: Var, masks: Var, annotations: Var, batch: usize) -> Self {
        let to_annotations = jaccard_distances(&annotations, &outputs, batch, SOFTNESS);
        Self { outputs, masks, annotations, to_annotations, batch }
    }

    /// The mean distance of annotations to the outputs of their own codes.
    ///
    /// # Shapes
    /// shares [batch·K, J]: weight · responsibility, 1 in all for each image → a single value
    pub fn overlap(&self, shares: &[f32]) -> Var {
        let shares = Tensor::from_slice(&self.outputs.device(), self.to_annotations.shape(), shares);
        self.to_annotations.mul(&Var::constant(shares)).sum().scale(1.0 / self.batch as f32)
    }

    /// The energy score of a weighted set of outputs against weighted annotations, per image.
    ///
    /// ```text
    /// ES = Σ_k q_k Σ_j p_j d(y_k, s_j) − ½ Σ_ij p_i p_j d(s_i, s_j)          d = 1 − Jaccard
    /// ```
    ///
    /// A proper score: its expectation is least when (s, p) is the distribution of annotations, and twice
    /// it plus a constant is the GED itself. One annotation per step suffices.
    ///
    /// Distances are those of the masks, so that probabilities learn from what a prediction will be judged
    /// by (a faint output is the empty mask, at distance 0 from an empty annotation); the outputs' gradient
    /// is that of the soft distances, since a mask has none.
    ///
    /// With a probability p∅ of the empty mask beside the outputs, which have 1 − p∅ between them:
    ///
    /// ```text
    /// ES = p∅ Σ_k q_k d(y_k, ∅) + (1 − p∅) fit − ½ ((1 − p∅)² spread + 2 p∅ (1 − p∅) Σ_j p_j d(s_j, ∅))
    /// ```
    ///
    /// # Shapes
    /// probabilities [batch, J], p∅ [batch, 1], weights [batch·K] → [batch]
    pub fn energy_score(&self, probabilities: &Var, empty: Option<&Var>, weights: &[f32]) -> Var {
        let [batch, j] = *probabilities.shape() else { unreachable!("probabilities are a matrix") };
        let k = weights.len() / batch;
        let device = self.outputs.device();
        let weights = Var::constant(Tensor::from_slice(&device, [batch * k], weights));
        let exact = |left, right| jaccard_distances(left, right, batch, FLOOR);
        let to_annotations = self.to_annotations.straight_through(&exact(&self.annotations, &self.masks));
        let among = jaccard_distances(&self.outputs, &self.outputs, batch, SOFTNESS)
            .straight_through(&exact(&self.masks, &self.masks));
        let fit =
            to_annotations.mul(&repeated(probabilities, k)).mul(&weights.broadcast_rows([batch * k, j]));
        // A soft output is not at distance 0 from itself and must not be drawn to be.
        let different: Vec<f32> = (0..j * j).map(|i| f32::from(i / j != i % j)).collect();
        let different = Var::constant(Tensor::from_slice(&device, [1, j * j], &different));
        let different = repeated(&different, batch).reshape([batch * j, j]);
        let column = probabilities.reshape([batch * j]).broadcast_rows([batch * j, j]);
        let pairs = column.mul(&repeated(probabilities, j));
        let spread = among.mul(&different).mul(&pairs);

        let (fit, spread) =
            (fit.reshape([batch, k * j]).sum_rows(), spread.reshape([batch, j * j]).sum_rows());
        let Some(empty) = empty else { return fit.sub(&spread.scale(0.5)) };
        let empty = empty.reshape([batch]);
        let something = empty.scale(-1.0).add_scalar(1.0);
        let drawn = distance_to_nothing(&self.annotations, FLOOR).mul(&weights);
        let drawn = drawn.reshape([batch, k]).sum_rows();
        let shown = distance_to_nothing(&self.outputs, SOFTNESS)
            .straight_through(&distance_to_nothing(&self.masks, FLOOR));
        let shown = shown.reshape([batch, j]).mul(probabilities).sum_rows();
        let fit = empty.mul(&drawn).add(&something.mul(&fit));
        let spread =
            something.mul(&something).mul(&spread).add(&empty.mul(&something).mul(&shown).scale(2.0));
        fit.sub(&spread.scale(0.5))
    }
}

/// The Jaccard distance of each row to the empty mask: 1 but for rows of (nearly) no area.
///
/// # Shapes
/// [rows, size] → [rows]
fn distance_to_nothing(rows: &Var, epsilon: f32) -> Var {
    let areas = rows.sum_rows();
    areas.div(&areas.add_scalar(epsilon))
}

/// `1 − (|a ∩ b| + ε) / (|a ∪ b| + ε)` of each of K rows with each of J rows of the same image.
///
/// # Shapes
/// [batch·K, size], [batch·J, size] → [batch·K, J]
fn jaccard_distances(left: &Var, right: &Var, batch: usize, epsilon: f32) -> Var {
    let (k, j) = (left.shape()[0] / batch, right.shape()[0] / batch);
    let common = left.batched_inner_products(right, batch);
    let rows = left.sum_rows().broadcast_rows([batch * k, j]);
    let areas = rows.add(&repeated(&right.sum_rows().reshape([batch, j]), k));
    let union = areas.sub(&common);
    common.add_scalar(epsilon).div(&union.add_scalar(epsilon)).scale(-1.0).add_scalar(1.0)
}

/// Each row `times` times.
fn repeated(matrix: &Var, times: usize) -> Var {
    let [rows, width] = *matrix.shape() else { unreachable!("rows are a matrix") };
    matrix.broadcast_pixels(times, 1).reshape([rows * times, width])
}
