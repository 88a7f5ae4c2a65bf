//! Random numbers that belong to a seed and an index: PCG XSL RR 128/64, one stream per index, so that
//! what is drawn does not depend on order or threads.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// One stream of random numbers.
pub(crate) struct Random(Pcg64);

impl Random {
    /// The stream of an index under a seed.
    pub fn new(seed: u64, index: u64) -> Self {
        let high = mixed(mixed(seed) ^ index);
        let low = mixed(high ^ seed);
        Self(Pcg64::new(u128::from(high) << 64 | u128::from(low), u128::from(mixed(low))))
    }

    /// Uniform in 0..1, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in -1..1.
    pub fn signed(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }

    /// Uniform among 0..count.
    pub fn index(&mut self, count: usize) -> usize {
        (self.unit() * count as f64) as usize
    }

    /// Mean 0, variance 1, bell-shaped: four 16-bit uniforms of one draw, summed.
    pub fn bell(&mut self) -> f32 {
        let bits = self.0.next_u64();
        let sum: u64 = (0..4).map(|lane| bits >> (16 * lane) & 0xffff).sum();
        (sum as f32 - 131_070.0) * (3f32.sqrt() / 65_536.0)
    }

    /// Fisher and Yates' shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
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
    fn moments_and_streams() {
        let mut random = Random::new(5, 0);
        let n = 100_000;
        let bells: Vec<f32> = (0..n).map(|_| random.bell()).collect();
        let mean = bells.iter().sum::<f32>() / n as f32;
        let variance = bells.iter().map(|b| b * b).sum::<f32>() / n as f32;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        let mean = (0..n).map(|_| random.unit()).sum::<f64>() / f64::from(n);
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        let first = |seed, index| Random::new(seed, index).unit();
        assert_eq!(first(1, 2), first(1, 2));
        assert!(first(1, 2) != first(1, 3) && first(1, 2) != first(2, 2) && first(1, 2) != first(2, 1));
        let mut items: Vec<_> = (0..50).collect();
        random.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
