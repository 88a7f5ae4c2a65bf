//! Probabilities of sizes: "larger than A", and where a reader's area lies among those that the model expects.
//!
//! The area of a mask is the number of its pixels, those of all classes together; an empty mask has area 0.

use super::WEIGHT_NOISE;
use crate::Mask;

/// Bins of the histogram.
pub const PIT_BINS: usize = 10;

/// Pixels of any class.
pub fn of(mask: &Mask) -> usize {
    match mask.classes() {
        1 => mask.area(0),
        classes => {
            let any = |word: usize| (0..classes).fold(0, |any, class| any | mask.plane(class)[word]);
            (0..mask.plane(0).len()).map(|word| any(word).count_ones() as usize).sum()
        }
    }
}

/// The smallest area that is not exceeded with this probability, of areas in rising order with probabilities that sum
/// to one.
pub fn quantile(sorted: &[(usize, f64)], level: f64) -> f64 {
    let mut below = 0.0;
    let reached = sorted.iter().find(|(_, share)| {
        below += share;
        // They sum to one but for rounding.
        below >= level - 1e-9
    });
    reached.or(sorted.last()).map_or(0.0, |(area, _)| *area as f64)
}

/// The probability integral transform of an area, as a histogram that sums to one.
///
/// With F the distribution function of the outputs' areas, the area's mass is spread evenly from the probability of
/// less, F(a−), to that of as much or less, F(a). For an area that is a draw from the outputs the expected histogram is
/// then flat, ties or not, and nothing is random (Czado, Gneiting and Held, 2009).
pub fn pit(area: usize, areas: &[usize], probabilities: &[f64]) -> [f64; PIT_BINS] {
    let below = |area: usize| -> f64 {
        areas.iter().zip(probabilities).filter(|(other, _)| **other < area).map(|(_, p)| p).sum()
    };
    let (low, high) = (below(area), below(area + 1).min(1.0));
    let mut bins = [0.0; PIT_BINS];
    if high - low < WEIGHT_NOISE {
        bins[((low * PIT_BINS as f64) as usize).min(PIT_BINS - 1)] = 1.0;
        return bins;
    }
    for (bin, mass) in bins.iter_mut().enumerate() {
        let (from, to) = (bin as f64 / PIT_BINS as f64, (bin + 1) as f64 / PIT_BINS as f64);
        *mass = (to.min(high) - from.max(low)).max(0.0) / (high - low);
    }
    bins
}

/// How far a histogram of some mass is from a flat one: half the sum of |share − 1/bins|, 0 to 0.9.
pub fn unevenness(bins: &[f64]) -> f64 {
    let all: f64 = bins.iter().sum();
    let even = 1.0 / bins.len() as f64;
    bins.iter().map(|mass| (mass / all - even).abs()).sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_of_several_classes_count_once() {
        let mut mask = Mask::empty(70, 1, 2);
        mask.set(0, 3, 0, true);
        mask.set(1, 3, 0, true);
        mask.set(1, 69, 0, true);
        assert_eq!(of(&mask), 2);
        assert_eq!(of(&Mask::from_fn(4, 1, |x, _| x > 0)), 3);
    }

    #[test]
    fn a_quantile_is_the_first_area_that_reaches_it() {
        let areas = [(0, 0.05), (10, 0.5), (20, 0.4), (50, 0.05)];
        assert_eq!(
            [0.05, 0.06, 0.5, 0.95, 1.0].map(|level| quantile(&areas, level)),
            [0.0, 10.0, 10.0, 20.0, 50.0]
        );
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn histograms_by_hand() {
        let (areas, p) = ([0, 10, 20], [0.2, 0.5, 0.3]);
        let close = |found: [f64; PIT_BINS], expected: [f64; PIT_BINS]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        };
        close(pit(0, &areas, &p), [0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        close(pit(10, &areas, &p), [0.0, 0.0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.0, 0.0, 0.0]);
        // Between two outputs, and beyond the last one.
        close(pit(15, &areas, &p), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        close(pit(21, &areas, &p), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn draws_from_the_outputs_are_flat_on_average() {
        let (areas, p) = ([0, 7, 9, 9, 30], [0.37, 0.05, 0.11, 0.06, 0.41]);
        let mut mean = [0.0; PIT_BINS];
        for (area, p_of_it) in areas.iter().zip(p) {
            for (sum, mass) in mean.iter_mut().zip(pit(*area, &areas, &p)) {
                *sum += p_of_it * mass;
            }
        }
        assert!(unevenness(&mean) < 1e-12, "{mean:?}");
        assert_eq!(unevenness(&[2.0, 0.0]), 0.5);
    }
}
