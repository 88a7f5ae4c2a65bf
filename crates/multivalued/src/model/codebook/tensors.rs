//! The codebook's lookup, moving average and covariance step as tensor operations, for a device where codes
//! and embeddings need not leave: with N = m = 256 the processor would take longer over the covariance than a
//! GPU over the rest of the step. The formulas are those of the methods of [`Codebook`](super::Codebook);
//! only rounding differs.

use super::{Covariance, MIN_USAGE, Update};
use multivalued_engine::{Tensor, Var};

/// ‖c_j‖² of every code, and its product with every embedding: what distances are made of.
///
/// # Shapes
/// codes [code_count, code_dim], embeddings [batch, code_dim] → [code_count], [batch, code_count]
pub(super) fn compared(codes: &Tensor, embeddings: &Tensor) -> [Tensor; 2] {
    let (codes, z) = (Var::constant(codes.clone()), Var::constant(embeddings.clone()));
    [codes.mul(&codes).sum_rows().into_tensor(), z.batched_inner_products(&codes, 1).into_tensor()]
}

/// The moving average: codes and usage as they become.
///
/// # Shapes
/// codes [code_count, code_dim], usage [code_count], responsibilities [batch, code_count], embeddings
/// [batch, code_dim]
pub(super) fn follow(
    [codes, usage]: [Var; 2],
    responsibilities: &[f32],
    embeddings: &Tensor,
    decay: f32,
    unit_length: bool,
) -> [Var; 2] {
    let (device, n) = (codes.device(), codes.shape()[0]);
    let mut hits = vec![0.0f32; n];
    responsibilities.chunks_exact(n).for_each(|row| hits.iter_mut().zip(row).for_each(|(hit, r)| *hit += r));
    let hits = Var::constant(Tensor::from_slice(&device, [n], &hits));
    let r = Tensor::from_slice(&device, [responsibilities.len() / n, n], responsibilities);
    let sums = Var::constant(r).transpose().matmul(&Var::constant(embeddings.clone()));
    let usage = usage.scale(decay).add(&hits.scale(1.0 - decay));
    // (1 − κ) / max(n_j, 1e-3). A code without a hit has neither sum nor hits, and stays.
    let most = usage.add_scalar(-1e-3).relu().add_scalar(1e-3);
    let step = Var::constant(Tensor::full(&device, [n], 1.0 - decay)).div(&most);
    let codes = codes.add(&by_row(&step, &sums.sub(&by_row(&hits, &codes))));
    [if unit_length { codes.l2_normalise() } else { codes }, usage]
}

/// The covariance step: codes as they become, and the loss before. Waits for the device, since the step's
/// length depends on how many pairs are too near.
///
/// # Shapes
/// codes [code_count, code_dim], usage [code_count]
pub(super) fn separate(codes: &Var, usage: &Var, rule: &Update, unit_length: bool) -> (Var, Covariance) {
    let n = codes.shape()[0];
    let unit = codes.l2_normalise();
    let gram = unit.batched_inner_products(&unit, 1);
    let near = gram.exceeds(rule.threshold);
    // T(G) with the diagonal, where G is 1: it adds N to either sum, and to the pull on a code only what lies
    // along the code, which is taken off below.
    let kept = gram.mul(&near);
    let sums = [kept.mul(&kept).sum().into_tensor(), near.sum().into_tensor()];
    let sums = Tensor::to_vecs(&[&sums[0], &sums[1]]);
    let violating = (sums[1][0] as usize).saturating_sub(n);
    if violating == 0 {
        return (codes.clone(), Covariance { loss: 0.0, violating });
    }
    let covariance = Covariance { loss: (sums[0][0] - n as f32) / violating as f32, violating };
    if rule.step <= 0.0 {
        return (codes.clone(), covariance);
    }
    let pull = kept.matmul(&unit);
    let along = pull.mul(&unit).sum_rows();
    let across = pull.sub(&by_row(&along, &unit));
    let lengths = codes.mul(&unit).sum_rows();
    let rates = usage.exceeds(MIN_USAGE).scale(rule.step * 4.0 / violating as f32).div(&lengths);
    let codes = codes.sub(&by_row(&rates, &across));
    (if unit_length { codes.l2_normalise() } else { codes }, covariance)
}

/// Each row times its factor.
fn by_row(factors: &Var, rows: &Var) -> Var {
    let [count, width] = *rows.shape() else { unreachable!("rows are a matrix") };
    let ones = Var::constant(Tensor::full(&rows.device(), [1, width], 1.0));
    factors.reshape([count, 1]).matmul(&ones).mul(rows)
}
