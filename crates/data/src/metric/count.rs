//! N_x: how many outputs there are, by several readings of "are". Probabilities come sorted, largest
//! first, and sum to one.

/// The paper's ε: an output below it does not count.
pub const PAPER_THRESHOLD: f64 = 1e-5;

/// Outputs with at least this probability.
pub fn at_least(probabilities: &[f64], threshold: f64) -> usize {
    // f32 cannot hold 1e-3 or 1e-2 exactly; what was meant as the threshold reaches it.
    probabilities.iter().filter(|&&p| p >= threshold * (1.0 - super::WEIGHT_NOISE)).count()
}

/// The fewest outputs that together hold this much probability.
pub fn for_mass(probabilities: &[f64], mass: f64) -> usize {
    let mut sum = 0.0;
    let enough = probabilities.iter().position(|p| {
        sum += p;
        sum >= mass - super::WEIGHT_NOISE
    });
    enough.map_or(probabilities.len(), |index| index + 1)
}

/// exp(entropy): the number of equally probable outputs with the same uncertainty.
pub fn effective(probabilities: &[f64]) -> f64 {
    (-probabilities.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_hand() {
        let p = [0.5, 0.25, 0.24, f64::from(0.01f32) - 1e-4, 9e-5, 5e-6, 5e-6];
        assert_eq!(at_least(&p, PAPER_THRESHOLD), 5);
        assert_eq!(at_least(&p, 1e-3), 4);
        assert_eq!(at_least(&p, 1e-2), 3);
        assert_eq!(at_least(&[f64::from(0.01f32)], 1e-2), 1);
        assert_eq!(for_mass(&p, 0.99), 3);
        assert_eq!(for_mass(&p, 0.5), 1);
        assert!((effective(&[0.25; 4]) - 4.0).abs() < 1e-12);
        assert_eq!(effective(&[1.0]), 1.0);
    }
}
