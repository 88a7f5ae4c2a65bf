//! Random numbers, the one source for the whole toolkit: synthetic cases, augmentation, splits, sampled
//! metrics, bootstrap, and training.
//!
//! A stream belongs to one thing, such as a case, and is addressed by (seed, names, index): its numbers
//! are the same whatever is drawn before it, beside it or on how many threads, and nothing of it has to
//! be saved to go on later. Behind it is PCG XSL RR 128/64; a change of its numbers is a change of
//! everyone's results.
//!
//! ```
//! use multivalued_data::draw::Draw;
//! let mut shuffle = Draw::new(1, &["train", "order"], 7); // epoch 7 of seed 1
//! let mut order = [0, 1, 2, 3];
//! shuffle.shuffle(&mut order);
//! assert_eq!(Draw::new(1, &["a"], 0).unit(), Draw::new(1, &["a"], 0).unit());
//! ```

use rand_pcg::{Pcg64, rand_core::Rng};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Draw(Pcg64);

impl Draw {
    /// The stream that belongs to a seed and the words and number that name a thing.
    pub fn new(seed: u64, names: &[&str], index: u64) -> Self {
        let mut state = mixed(seed);
        for name in names {
            // The length goes in first, so that ("ab", "c") and ("a", "bc") differ.
            state = mixed(state ^ name.len() as u64);
            for &byte in name.as_bytes() {
                state = mixed(state ^ u64::from(byte));
            }
        }
        state = mixed(state ^ index);
        let (high, low) = (mixed(state), mixed(state ^ u64::MAX));
        Self(Pcg64::new(u128::from(high) << 64 | u128::from(low), u128::from(state)))
    }

    /// Uniform in 0..1, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in low..high.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform among 0..count; the bias of at most count / 2^53 is of no matter here.
    pub fn index(&mut self, count: usize) -> usize {
        (self.unit() * count as f64) as usize
    }

    /// `count` independent indices, each drawn with its weight as probability. The weights are not
    /// negative and sum to one.
    pub fn weighted(&mut self, weights: &[f64], count: usize) -> Vec<usize> {
        let cumulative: Vec<f64> = weights
            .iter()
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let mut one = || {
            let uniform = self.unit();
            cumulative.partition_point(|&sum| sum <= uniform).min(weights.len() - 1)
        };
        (0..count).map(|_| one()).collect()
    }

    /// A random order, all equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// True with a probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Mean 0, variance 1: twelve uniforms summed, which needs no transcendental function.
    pub fn bell(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// The finaliser of SplitMix64: every input bit moves every output bit.
fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_apart_by_every_part_of_their_name() {
        let first = |seed, names: &[&str], index| Draw::new(seed, names, index).unit();
        let base = first(1, &["shapes", "train"], 0);
        assert_eq!(base, first(1, &["shapes", "train"], 0));
        for other in [
            first(2, &["shapes", "train"], 0),
            first(1, &["shapest", "rain"], 0),
            first(1, &["shapes", "test"], 0),
            first(1, &["shapes", "train"], 1),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn moments_are_right() {
        let mut draw = Draw::new(7, &["moments"], 0);
        let n = 100_000;
        let uniform: Vec<f64> = (0..n).map(|_| draw.uniform(2.0, 4.0)).collect();
        let mean = uniform.iter().sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.01 && uniform.iter().all(|u| (2.0..4.0).contains(u)), "mean {mean}");
        let bell: Vec<f64> = (0..n).map(|_| draw.bell()).collect();
        let variance = bell.iter().map(|b| b * b).sum::<f64>() / f64::from(n);
        assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
        let mut counts = [0; 5];
        (0..n).for_each(|_| counts[draw.index(5)] += 1);
        assert!(counts.iter().all(|&c| (19_000..21_000).contains(&c)), "{counts:?}");
    }

    #[test]
    fn weights_are_met_and_zero_is_never_drawn() {
        let mut counts = [0; 4];
        let drawn = Draw::new(7, &["weighted"], 0).weighted(&[0.5, 0.0, 0.3, 0.2], 100_000);
        drawn.iter().for_each(|&index| counts[index] += 1);
        for (count, expected) in counts.into_iter().zip([50_000, 0, 30_000, 20_000i32]) {
            assert!((count - expected).abs() < 600, "{counts:?}");
        }
        assert_eq!(counts[1], 0);
        assert_eq!(Draw::new(7, &["weighted"], 0).weighted(&[1.0], 3), [0, 0, 0]);
    }

    #[test]
    fn every_order_is_equally_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for index in 0..6000 {
            let mut order = [0, 1, 2];
            Draw::new(7, &["order"], index).shuffle(&mut order);
            *seen.entry(order).or_insert(0) += 1;
        }
        assert!(seen.len() == 6 && seen.values().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
