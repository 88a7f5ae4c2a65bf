//! Generalized energy distance between annotations and outputs, the squared form that papers report:
//!
//! ```text
//! GED² = 2 Σ_ij q_i p_j d(y_i, s_j) − Σ_ii' q_i q_i' d(y_i, y_i') − Σ_jj' p_j p_j' d(s_j, s_j'),   d = 1 − IoU
//! ```
//!
//! over all pairs, a mask with itself included. IoU is a positive semi-definite kernel, so this is never
//! negative beyond rounding.
//!
//! Computed from n draws instead of the probabilities it is too high by D/n on average, where D is the
//! diversity of the outputs: the n draws' pairs with themselves have distance 0. Compare a sampler and
//! an explicit model at the same n, or both in the [`limit`].

use super::{Comparison, Overlaps, Side, diversity};
use crate::draw::Draw;

/// Sample counts that publications use.
pub const SAMPLE_COUNTS: [usize; 5] = [4, 16, 32, 50, 100];

/// Why the limit is the number to compare, as tables and pages say it.
pub const WHY_THE_LIMIT: &str = "GED from n draws is too high by the outputs' diversity / n, since each draw \
is at distance 0 from itself; ged_limit is free of that, so compare methods by it (where a model states its \
probabilities it is ged_exact)";

/// GED² from the outputs' exact probabilities.
pub fn exact(comparison: &Comparison) -> f64 {
    energy(comparison.overlaps(), comparison.label_side(), comparison.output_side())
}

/// GED² between any two weighted sets of one list of masks.
pub fn energy(overlaps: &Overlaps, a: Side, b: Side) -> f64 {
    2.0 * diversity::between(overlaps, a, b) - diversity::within(overlaps, a) - diversity::within(overlaps, b)
}

/// GED² without the diagonals: each set's diversity is divided by the weight of the pairs of different
/// members, as listed. Where labels and outputs are draws this estimates the GED² of their distributions
/// without bias, and may fall below zero. For explicit probabilities [`exact`] is the number to read.
pub fn unbiased(comparison: &Comparison) -> f64 {
    let overlaps = comparison.overlaps();
    let spread = |side: Side, pairs: f64| {
        if pairs > 0.0 { diversity::within(overlaps, side) / pairs } else { 0.0 }
    };
    let (labels, outputs) = (comparison.label_side(), comparison.output_side());
    2.0 * diversity::between(overlaps, labels, outputs)
        - spread(labels, comparison.labels().pair_weight())
        - spread(outputs, comparison.outputs().pair_weight())
}

/// GED² in the limit of infinitely many draws: what a sampler and a model that states its probabilities
/// are compared by.
///
/// ```text
/// 2 Σ_ij q_i p_j d(y_i, s_j) − Σ_ii' q_i q_i' d(y_i, y_i') − Σ_{j≠j'} d(s_j, s_j') / (n (n − 1))
/// ```
///
/// Only pairs of different draws count, so the D/n by which n draws inflate the distance is gone, while the
/// labels are treated as [`exact`] treats them. Without draws the limit is [`exact`] itself. A single draw
/// has no pair: its diversity is taken for zero.
pub fn limit(comparison: &Comparison) -> f64 {
    let inflated = match comparison.outputs().draws() {
        Some(draws) if draws > 1 => diversity::of_outputs(comparison) / (draws - 1) as f64,
        _ => 0.0,
    };
    exact(comparison) - inflated
}

/// GED² of given draws (indices of outputs), each weighing 1/n.
pub fn of_draws(comparison: &Comparison, draws: &[usize]) -> f64 {
    let weights = draw_weights(comparison, draws);
    energy(comparison.overlaps(), comparison.label_side(), comparison.outputs_weighing(&weights))
}

/// GED² from `n` draws of the outputs by their probability.
pub fn sampled(comparison: &Comparison, n: usize, random: &mut Draw) -> f64 {
    of_draws(comparison, &comparison.outputs().draw(n, random))
}

/// The share of each output among the draws.
pub(crate) fn draw_weights(comparison: &Comparison, draws: &[usize]) -> Vec<f64> {
    let mut weights = vec![0.0; comparison.outputs().weights().len()];
    for &index in draws {
        weights[index] += 1.0 / draws.len() as f64;
    }
    weights
}
