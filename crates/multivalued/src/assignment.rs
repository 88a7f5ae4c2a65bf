//! Which code each annotation belongs to: by the distance of the codes' outputs (the paper's E_2), soft
//! at first and hard later.

use multivalued_data::metric::assignment::cheapest;

/// How distances become responsibilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// `r_kj ∝ exp(−d_kj / T)`: every code learns from every annotation, the nearer the more.
    Soft {
        /// T.
        temperature: f32,
    },
    /// One code each: the least `d_kj − prior · ln p_j`, with different codes for different annotations
    /// where `distinct`.
    Hard {
        /// Distance that one unit of −ln p weighs.
        prior: f32,
        /// Whether two annotations of one image must take different codes.
        distinct: bool,
    },
}

/// The responsibilities of J codes for K annotations of one image.
///
/// # Shapes
/// distances [K, J], ln p [J], weights [K] (0 for padding, which no code is responsible for) → [K, J]
pub(crate) fn responsibilities(
    rule: Rule,
    distances: &[f32],
    log_probabilities: &[f32],
    weights: &[f32],
) -> Vec<f32> {
    let codes = log_probabilities.len();
    let mut out = vec![0.0; distances.len()];
    match rule {
        Rule::Soft { temperature } => {
            for ((out, d), _) in out
                .chunks_exact_mut(codes)
                .zip(distances.chunks_exact(codes))
                .zip(weights)
                .filter(|(_, w)| **w > 0.0)
            {
                let least = d.iter().copied().fold(f32::INFINITY, f32::min);
                out.iter_mut().zip(d).for_each(|(r, d)| *r = ((least - d) / temperature).exp());
                let total: f32 = out.iter().sum();
                out.iter_mut().for_each(|r| *r /= total);
            }
        }
        Rule::Hard { prior, distinct } => {
            let rows: Vec<usize> = (0..weights.len()).filter(|&k| weights[k] > 0.0).collect();
            let cost =
                |k: usize, j: usize| f64::from(distances[k * codes + j] - prior * log_probabilities[j]);
            if distinct && rows.len() <= codes {
                let chosen = cheapest(rows.len(), codes, |row, j| cost(rows[row], j));
                rows.iter().zip(chosen).for_each(|(&k, j)| out[k * codes + j] = 1.0);
            } else {
                for k in rows {
                    let best = (0..codes).min_by(|&a, &b| cost(k, a).total_cmp(&cost(k, b)));
                    out[k * codes + best.expect("at least one code")] = 1.0;
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVEN: [f32; 3] = [-1.0986123; 3];

    #[test]
    fn soft_responsibilities_sum_to_one_and_follow_the_distance() {
        let r = responsibilities(
            Rule::Soft { temperature: 0.5 },
            &[0.0, 0.5, 1.0, 9.0, 9.0, 9.0],
            &EVEN,
            &[1.0, 0.0],
        );
        assert!((r[..3].iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!((r[0] / r[1] - 1f32.exp()).abs() < 1e-4, "{r:?}");
        assert_eq!(r[3..], [0.0; 3], "padding belongs to no code");
    }

    #[test]
    fn different_annotations_take_different_codes() {
        let distances = [0.1, 0.2, 0.9, 0.1, 0.15, 0.9];
        let hard =
            |distinct| responsibilities(Rule::Hard { prior: 0.0, distinct }, &distances, &EVEN, &[0.5, 0.5]);
        assert_eq!(hard(false), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(hard(true), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn the_prior_gathers_what_distances_scatter() {
        let (distances, likely_second) = ([0.1, 0.15, 0.9], [-5.0, -0.1, -5.0]);
        let hard = |prior| {
            responsibilities(Rule::Hard { prior, distinct: true }, &distances, &likely_second, &[1.0])
        };
        assert_eq!(hard(0.0), [1.0, 0.0, 0.0]);
        assert_eq!(hard(0.1), [0.0, 1.0, 0.0]);
    }
}
