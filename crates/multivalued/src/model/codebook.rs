//! C: the codebook. Lookup of the nearest code, the moving average that follows the embeddings, and the
//! covariance step that keeps codes apart.

mod tensors;
#[cfg(test)]
mod tests;

use super::blocks::Init;
use super::simplex_etf::orthonormal_rows;
use crate::recipe::{Lookup, ModelRecipe};
use multivalued_data::draw::Draw;
use multivalued_engine::{Device, ParameterId, Parameters, Tape, Tensor, Var};

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

    /// The nearest code of each embedding; ties go to the lower index. Other tensors are read with it.
    ///
    /// ```text
    /// s = argmin_j ‖z − c_j‖²
    /// ```
    ///
    /// Paper: eq. (nearest), §3.2. With `lookup = "cosine"` both have length one, so that no code wins
    /// by being short. Codes in reserve are not looked at.
    pub fn nearest(
        &self,
        parameters: &Parameters,
        embeddings: &Tensor,
        active: &[usize],
        others: &[&Tensor],
    ) -> (Vec<usize>, Vec<Vec<f32>>) {
        let (n, m) = (self.count, self.dim);
        let codes = parameters.get(self.codes).tensor();
        let rows = embeddings.shape()[0];
        let least = |distance: &dyn Fn(usize, usize) -> f32| {
            let of_row = |row| {
                let start = (active[0], distance(row, active[0]));
                active[1..]
                    .iter()
                    .map(|&j| (j, distance(row, j)))
                    .fold(start, |best, next| if next.1 < best.1 { next } else { best })
                    .0
            };
            (0..rows).map(of_row).collect()
        };
        if let Device::Cuda(_) = embeddings.device() {
            let [lengths, products] = tensors::compared(codes, embeddings);
            let mut read = Tensor::to_vecs(&[&[&lengths, &products], others].concat());
            let others = read.split_off(2);
            return (least(&|row, j| read[0][j] - 2.0 * read[1][row * n + j]), others);
        }
        let mut read = Tensor::to_vecs(&[&[codes, embeddings], others].concat());
        let others = read.split_off(2);
        let row = |of: usize, at: usize| &read[of][at * m..][..m];
        let lengths: Vec<f32> = (0..n).map(|j| row(0, j).iter().map(|c| c * c).sum()).collect();
        let product = |i: usize, j: usize| row(1, i).iter().zip(row(0, j)).map(|(z, c)| z * c).sum::<f32>();
        (least(&|i, j| lengths[j] - 2.0 * product(i, j)), others)
    }

    /// Follows the embeddings where an average is wanted, then makes a covariance step.
    ///
    /// # Shapes
    /// responsibilities [batch, code_count], embeddings [batch, code_dim]
    pub fn update(
        &self,
        parameters: &mut Parameters,
        responsibilities: &[f32],
        embeddings: &Tensor,
        rule: &Update,
    ) -> Covariance {
        if let Device::Cuda(_) = embeddings.device() {
            let [codes, usage] = [self.codes, self.usage].map(|id| parameters.get(id).tensor().clone());
            let (codes, usage, covariance) =
                self.updated_tensors(codes, usage, responsibilities, embeddings, rule);
            parameters.set(self.codes, codes);
            parameters.set(self.usage, usage);
            return covariance;
        }
        let [codes, usage] = [self.codes, self.usage].map(|id| parameters.get(id).tensor());
        let (codes, usage, covariance) = self.updated(codes, usage, responsibilities, embeddings, rule);
        // In their place: a step whose parameters have moved must not fail for want of memory.
        parameters.modify(self.codes, |values| values.copy_from_slice(&codes));
        parameters.modify(self.usage, |values| values.copy_from_slice(&usage));
        covariance
    }

    /// What [`update`](Self::update) makes of codes and usage, on this machine's processor.
    fn updated(
        &self,
        codes: &Tensor,
        usage: &Tensor,
        responsibilities: &[f32],
        embeddings: &Tensor,
        rule: &Update,
    ) -> (Vec<f32>, Vec<f32>, Covariance) {
        let [mut codes, mut usage] = [codes, usage].map(Tensor::to_vec);
        if let Some(decay) = rule.decay {
            self.follow(&mut codes, &mut usage, responsibilities, &embeddings.to_vec(), decay);
        }
        let covariance = self.separate(&mut codes, &usage, rule.threshold, rule.step);
        (codes, usage, covariance)
    }

    /// The same where the tensors are.
    fn updated_tensors(
        &self,
        codes: Tensor,
        usage: Tensor,
        responsibilities: &[f32],
        embeddings: &Tensor,
        rule: &Update,
    ) -> (Tensor, Tensor, Covariance) {
        let unit_length = self.lookup == Lookup::Cosine;
        let [mut codes, mut usage] = [codes, usage].map(Var::constant);
        if let Some(decay) = rule.decay {
            [codes, usage] =
                tensors::follow([codes, usage], responsibilities, embeddings, decay, unit_length);
        }
        let (codes, covariance) = tensors::separate(&codes, &usage, rule, unit_length);
        (codes.into_tensor(), usage.into_tensor(), covariance)
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
    fn follow(
        &self,
        codes: &mut [f32],
        usage: &mut [f32],
        responsibilities: &[f32],
        embeddings: &[f32],
        decay: f32,
    ) {
        let (n, m) = (self.count, self.dim);
        let mut hits = vec![0.0f32; n];
        let mut sums = vec![0.0f32; n * m];
        for (r, z) in responsibilities.chunks_exact(n).zip(embeddings.chunks_exact(m)) {
            for j in (0..n).filter(|&j| r[j] > 0.0) {
                hits[j] += r[j];
                sums[j * m..][..m].iter_mut().zip(z).for_each(|(sum, z)| *sum += r[j] * z);
            }
        }
        for (usage, hit) in usage.iter_mut().zip(&hits) {
            *usage = decay * *usage + (1.0 - decay) * hit;
        }
        for j in (0..n).filter(|&j| hits[j] > 0.0) {
            let code = &mut codes[j * m..][..m];
            let step = (1.0 - decay) / usage[j].max(1e-3);
            for (c, sum) in code.iter_mut().zip(&sums[j * m..]) {
                *c += step * (sum - hits[j] * *c);
            }
            if self.lookup == Lookup::Cosine {
                to_unit_length(code);
            }
        }
    }

    /// One descent step on the covariance loss of the codes in use, and its value before.
    fn separate(&self, codes: &mut [f32], usage: &[f32], threshold: f32, step: f32) -> Covariance {
        let (covariance, gradient) = covariance_loss(codes, self.dim, threshold);
        if step > 0.0 && covariance.violating > 0 {
            let used = |j: &usize| usage[*j] > MIN_USAGE;
            for (j, code) in codes.chunks_exact_mut(self.dim).enumerate().filter(|(j, _)| used(j)) {
                code.iter_mut().zip(&gradient[j * self.dim..]).for_each(|(c, g)| *c -= step * g);
                if self.lookup == Lookup::Cosine {
                    to_unit_length(code);
                }
            }
        }
        covariance
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

/// A code counts as used while its moving count is above this: never-used ones decay below it.
const MIN_USAGE: f32 = 1e-2;

fn to_unit_length(code: &mut [f32]) {
    let length = code.iter().map(|c| c * c).sum::<f32>().sqrt().max(1e-12);
    code.iter_mut().for_each(|c| *c /= length);
}

/// The covariance loss of normalised codes, and its gradient with respect to the codes as they are.
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
pub(crate) fn covariance_loss(codes: &[f32], dim: usize, threshold: f32) -> (Covariance, Vec<f32>) {
    let count = codes.len() / dim;
    let lengths: Vec<f32> = codes
        .chunks_exact(dim)
        .map(|code| code.iter().map(|c| c * c).sum::<f32>().sqrt().max(1e-12))
        .collect();
    let unit: Vec<f32> = codes
        .chunks_exact(dim)
        .zip(&lengths)
        .flat_map(|(code, length)| code.iter().map(move |c| c / length))
        .collect();
    let row = |i: usize| &unit[i * dim..][..dim];
    let mut pull = vec![0.0f32; codes.len()];
    let (mut total, mut violating) = (0.0f64, 0usize);
    for i in 0..count {
        for j in 0..i {
            let product: f32 = row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum();
            if product.abs() > threshold {
                total += 2.0 * f64::from(product).powi(2);
                violating += 2;
                for k in 0..dim {
                    pull[i * dim + k] += product * unit[j * dim + k];
                    pull[j * dim + k] += product * unit[i * dim + k];
                }
            }
        }
    }
    if violating == 0 {
        return (Covariance { loss: 0.0, violating }, pull);
    }
    let factor = 4.0 / violating as f32;
    for i in 0..count {
        let pull = &mut pull[i * dim..][..dim];
        let along: f32 = pull.iter().zip(row(i)).map(|(p, u)| p * u).sum();
        for (p, u) in pull.iter_mut().zip(row(i)) {
            *p = factor * (*p - along * u) / lengths[i];
        }
    }
    (Covariance { loss: (total / violating as f64) as f32, violating }, pull)
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
