//! C: the codebook. Lookup of the nearest code, the moving average that follows the embeddings, and the
//! covariance step that keeps codes apart.

#[cfg(test)]
mod tests;

use super::blocks::Init;
use super::simplex_etf::orthonormal_rows;
use crate::recipe::{Lookup, ModelRecipe};
use multivalued_data::draw::Draw;
use multivalued_engine::{ParameterId, Parameters, Tape, Tensor, Var};

/// N codes of m dimensions, and how often each was used lately.
pub(crate) struct Codebook {
    codes: ParameterId,
    /// The moving average's count per code: the paper's n.
    usage: ParameterId,
    count: usize,
    dim: usize,
    lookup: Lookup,
}

/// Where a codebook stands: what is logged each epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Covariance {
    /// L_cov.
    pub loss: f32,
    /// Ordered pairs of codes whose inner product exceeds the threshold.
    pub violating: usize,
}

impl Codebook {
    /// Starts as rows of a random rotation: orthonormal for N ≤ m, else several rotations one below the
    /// other.
    ///
    /// Paper: §4.1 "a (256, 256) matrix of i.i.d. random rotation matrices".
    pub fn new(init: &mut Init, recipe: &ModelRecipe) -> Self {
        let (count, dim) = (recipe.code_count, recipe.code_dim);
        let mut draw = Draw::new(init.seed, &["codebook"], 0);
        let mut codes = Vec::with_capacity(count * dim);
        while codes.len() < count * dim {
            let rows = dim.min(count - codes.len() / dim);
            codes.extend(orthonormal_rows(rows, dim, &mut draw).into_iter().map(|value| value as f32));
        }
        let codes = match recipe.train_codes {
            true => {
                init.parameters.add("codebook.codes", Tensor::from_slice(init.device, [count, dim], &codes))
            }
            false => init.state("codebook.codes", &[count, dim], &codes),
        };
        Self {
            codes,
            usage: init.state("codebook.usage", &[count], &vec![1.0; count]),
            count,
            dim,
            lookup: recipe.lookup,
        }
    }

    /// The codes. They get a gradient only where the recipe trains them (`model.train_codes`).
    ///
    /// # Shapes
    /// [code_count, code_dim]
    pub fn codes(&self, tape: &Tape) -> Var {
        tape.get(self.codes)
    }

    /// The codes' values, row by row.
    pub fn codes_of(&self, parameters: &Parameters) -> Vec<f32> {
        parameters.get(self.codes).tensor().to_vec()
    }

    /// What is compared with codes: embeddings as they are, or scaled to length one.
    pub fn comparable(&self, embedding: &Var) -> Var {
        match self.lookup {
            Lookup::Cosine => embedding.l2_normalise(),
            // Batch-normalised features have length √m: divided by it they meet codes of length one.
            Lookup::Euclidean => embedding.scale(1.0 / (self.dim as f32).sqrt()),
        }
    }

    /// How far each embedding is from each active code, less the embedding's own squared length, which is the same for
    /// all codes. Other tensors are read with it.
    ///
    /// ```text
    /// d_j = ‖z − c_j‖² − ‖z‖²
    /// ```
    ///
    /// Paper: eq. (nearest), §3.2. With `lookup = "cosine"` both have length one, so that no code wins
    /// by being short. Codes in reserve are not looked at.
    ///
    /// # Shapes
    /// embeddings [rows, code_dim] → [rows, active codes]
    pub fn distances(
        &self,
        parameters: &Parameters,
        embeddings: &Tensor,
        active: &[usize],
        others: &[&Tensor],
    ) -> (Vec<f32>, Vec<Vec<f32>>) {
        let codes = Var::constant(parameters.get(self.codes).tensor().clone());
        let lengths = codes.mul(&codes).sum_rows();
        let products = Var::constant(embeddings.clone()).batched_inner_products(&codes, 1);
        let mut read = Tensor::to_vecs(&[&[lengths.tensor(), products.tensor()], others].concat());
        let others = read.split_off(2);
        let rows = read[1].chunks_exact(self.count);
        let of_row = |row: &[f32]| active.iter().map(|&j| read[0][j] - 2.0 * row[j]).collect::<Vec<_>>();
        (rows.flat_map(of_row).collect(), others)
    }

    /// What a batch says of each code: its hits, and the sum of the embeddings assigned to it.
    ///
    /// # Shapes
    /// responsibilities [batch, code_count], embeddings [batch, code_dim] → [code_count], [code_count, code_dim]
    pub fn statistics(&self, responsibilities: &[f32], embeddings: &Tensor) -> [Tensor; 2] {
        let (device, n) = (embeddings.device(), self.count);
        let mut hits = vec![0.0f32; n];
        let rows = responsibilities.chunks_exact(n);
        rows.for_each(|row| hits.iter_mut().zip(row).for_each(|(hit, r)| *hit += r));
        let hits = Tensor::from_slice(&device, [n], &hits);
        let r = Tensor::from_slice(&device, [responsibilities.len() / n, n], responsibilities);
        let sums = Var::constant(r).transpose().matmul(&Var::constant(embeddings.clone()));
        [hits, sums.into_tensor()]
    }

    /// What becomes of the codes after a step: they follow the batch's statistics where an average is wanted, then make
    /// a covariance step. Nothing moves yet, so that a step whose parameters have moved needs no more memory.
    pub fn update(&self, parameters: &Parameters, statistics: Option<[Tensor; 2]>, rule: &Update) -> Updated {
        let [mut codes, mut usage] =
            [self.codes, self.usage].map(|id| Var::constant(parameters.get(id).tensor().clone()));
        if let Some((decay, statistics)) = rule.decay.zip(statistics) {
            [codes, usage] = self.follow([codes, usage], statistics, decay);
        }
        let (codes, covariance) = self.separate(&codes, &usage, rule);
        Updated { codes: codes.into_tensor(), usage: usage.into_tensor(), covariance }
    }

    /// Takes the values of an update; returns L_cov before it.
    pub fn set(&self, parameters: &mut Parameters, updated: Updated) -> Covariance {
        parameters.set(self.codes, updated.codes);
        parameters.set(self.usage, updated.usage);
        updated.covariance
    }

    /// Moves codes towards the mean of the embeddings assigned to them.
    ///
    /// ```text
    /// n_j ← κ n_j + (1 − κ) Σ_i r_ij        c_j ← c_j + (1 − κ) Σ_i r_ij (z_i − c_j) / n_j
    /// ```
    ///
    /// Paper: Algorithm 1, the exponential moving average. Differs: the paper recomputes c = m / n from
    /// two buffers, which undoes the covariance step at the next hit; this form keeps C as the only
    /// state, is the same algebra for m = n c, and leaves codes without a hit alone.
    fn follow(&self, [codes, usage]: [Var; 2], statistics: [Tensor; 2], decay: f32) -> [Var; 2] {
        let (device, n) = (codes.device(), self.count);
        let [hits, sums] = statistics.map(Var::constant);
        let usage = usage.scale(decay).add(&hits.scale(1.0 - decay));
        // (1 − κ) / max(n_j, 1e-3). A code without a hit has neither sum nor hits, and stays.
        let counts = usage.add_scalar(-1e-3).relu().add_scalar(1e-3);
        let step = Var::constant(Tensor::full(&device, [n], 1.0 - decay)).div(&counts);
        let codes = codes.add(&by_row(&step, &sums.sub(&by_row(&hits, &codes))));
        [self.of_length_one(codes), usage]
    }

    /// One descent step on the covariance loss of the codes in use, and its value before.
    fn separate(&self, codes: &Var, usage: &Var, rule: &Update) -> (Var, Covariance) {
        let (covariance, gradient) = covariance_loss(codes, rule.threshold);
        let Some(gradient) = gradient.filter(|_| rule.step > 0.0) else { return (codes.clone(), covariance) };
        let rates = usage.exceeds(MIN_USAGE).scale(rule.step);
        (self.of_length_one(codes.sub(&by_row(&rates, &gradient))), covariance)
    }

    /// Codes scaled to length one where the lookup wants them so.
    fn of_length_one(&self, codes: Var) -> Var {
        match self.lookup {
            Lookup::Cosine => codes.l2_normalise(),
            Lookup::Euclidean => codes,
        }
    }
}

/// How a codebook moves after a step.
pub(crate) struct Update {
    /// κ of the moving average; none where codes do not follow the embeddings.
    pub decay: Option<f32>,
    /// τ of the covariance loss.
    pub threshold: f32,
    /// The rate of the covariance step.
    pub step: f32,
}

/// A codebook's values after a step.
pub(crate) struct Updated {
    codes: Tensor,
    usage: Tensor,
    covariance: Covariance,
}

/// A code counts as used while its moving count is above this: never-used ones decay below it.
const MIN_USAGE: f32 = 1e-2;

/// Each row times its factor.
fn by_row(factors: &Var, rows: &Var) -> Var {
    factors.broadcast_rows(rows.shape()).mul(rows)
}

/// The covariance loss of normalised codes, and its gradient with respect to the codes as they are; none where it is
/// zero. Waits for the device, since the gradient depends on how many pairs are too near.
///
/// ```text
/// G = C̃ C̃ᵀ − I,   T(G)_ij = G_ij if |G_ij| > τ else 0,   L = ‖T(G)‖² / #{T(G) ≠ 0}
/// ∂L/∂c̃_i = 4/K Σ_j T(G)_ij c̃_j,        ∂L/∂c_i = (I − c̃_i c̃_iᵀ) ∂L/∂c̃_i / |c_i|
/// ```
///
/// Paper: definition of the covariance loss, §3.2. The count K is piecewise constant and gets no
/// gradient; with no pair above the threshold the loss is 0.
///
/// # Shapes
/// codes [code_count, code_dim] → gradient of the same shape
pub(crate) fn covariance_loss(codes: &Var, threshold: f32) -> (Covariance, Option<Var>) {
    let n = codes.shape()[0];
    let unit = codes.l2_normalise();
    let gram = unit.batched_inner_products(&unit, 1);
    let near = gram.exceeds(threshold);
    // T(G), its diagonal included. There G is 1, which adds N to both sums; they are corrected below. To a code's pull it
    // adds a multiple of the code itself, which is taken off with all else that lies along the code.
    let kept = gram.mul(&near);
    let sums = [kept.mul(&kept).sum().into_tensor(), near.sum().into_tensor()];
    let sums = Tensor::to_vecs(&[&sums[0], &sums[1]]);
    let violating = (sums[1][0] as usize).saturating_sub(n);
    if violating == 0 {
        return (Covariance { loss: 0.0, violating }, None);
    }
    let pull = kept.matmul(&unit);
    let along = pull.mul(&unit).sum_rows();
    let lengths = codes.mul(&unit).sum_rows();
    let factors = Var::constant(Tensor::full(&codes.device(), [n], 4.0 / violating as f32)).div(&lengths);
    let gradient = by_row(&factors, &pull.sub(&by_row(&along, &unit)));
    (Covariance { loss: (sums[0][0] - n as f32) / violating as f32, violating }, Some(gradient))
}

/// τ = 1 / (2 √m): below it, fewer than 2m unit vectors exist (paper §3.2, after Tao).
pub(crate) fn orthogonality_threshold(code_dim: usize) -> f32 {
    0.5 / (code_dim as f32).sqrt()
}

/// The mean inner product of all pairs among some codes; 0 for fewer than two.
pub(crate) fn mean_inner_product(codes: &[f32], dim: usize, chosen: &[usize]) -> f32 {
    let pairs = chosen.len() * chosen.len().saturating_sub(1) / 2;
    if pairs == 0 {
        return 0.0;
    }
    let row = |i: usize| &codes[i * dim..][..dim];
    let length = |i: usize| row(i).iter().map(|c| c * c).sum::<f32>().sqrt().max(1e-12);
    let mut total = 0.0;
    for (n, &i) in chosen.iter().enumerate() {
        for &j in &chosen[..n] {
            total += row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum::<f32>() / (length(i) * length(j));
        }
    }
    total / pairs as f32
}
