//! The bins of every calibration error: of one image, of a group, of all, or of a simulated evaluation.

use super::scores::PooledScores;
use super::statistics::take;
use crate::metric::area;
use crate::metric::calibration::{self, BinSum, PixelBins};

/// The pooled bins of some set of images.
#[derive(Clone)]
pub(super) struct PooledBins {
    pub modes: Vec<BinSum>,
    pub empty: Vec<BinSum>,
    pub pixels: PixelBins,
    /// Of "larger than A", by area.
    pub larger: Vec<Vec<BinSum>>,
    /// The annotations' weight by the probability integral transform of their area.
    pub pit: Vec<f64>,
}

impl PooledBins {
    fn bins(&self) -> impl Iterator<Item = &BinSum> {
        let images = self.modes.iter().chain(&self.empty).chain(self.larger.iter().flatten());
        images.chain(&self.pixels.bins).chain([&self.pixels.zero])
    }

    fn bins_mut(&mut self) -> impl Iterator<Item = &mut BinSum> {
        let images = self.modes.iter_mut().chain(&mut self.empty).chain(self.larger.iter_mut().flatten());
        images.chain(&mut self.pixels.bins).chain([&mut self.pixels.zero])
    }

    /// Appends everything to a row.
    pub fn write(&self, row: &mut Vec<f64>) {
        row.extend(self.bins().flat_map(|bin| [bin.count, bin.probability, bin.frequency]));
        row.push(self.pixels.missed);
        row.extend(&self.pit);
    }

    /// The same bins from what was written.
    pub fn read(mut self, next: &mut impl Iterator<Item = f64>) -> Self {
        for bin in self.bins_mut() {
            *bin = BinSum { count: take(next), probability: take(next), frequency: take(next) };
        }
        self.pixels.missed = take(next);
        self.pit.iter_mut().for_each(|mass| *mass = take(next));
        self
    }

    /// The scores that every report has.
    pub fn scores(&self) -> PooledScores {
        PooledScores {
            mode_ece: calibration::expected_error(&self.modes),
            empty_ece: calibration::expected_error(&self.empty),
            pixel_ece: self.pixels.error_of_positive(),
            pixel_ece_zero_bin: self.pixels.error_with_zero_bin(),
            pixel_ece_union: self.pixels.error_on_union(),
        }
    }

    /// The errors of "larger than A", not a number where there is no A.
    pub fn larger_errors(&self) -> [f64; 3] {
        std::array::from_fn(|at| {
            self.larger.get(at).map_or(f64::NAN, |bins| calibration::expected_error(bins))
        })
    }

    /// How uneven the histogram of areas is, not a number where there is none.
    pub fn pit_error(&self) -> f64 {
        if self.pit.is_empty() { f64::NAN } else { area::unevenness(&self.pit) }
    }

    /// Every calibration error by its name in the summary.
    pub fn errors(&self) -> Vec<(&'static str, f64)> {
        let mut errors: Vec<_> = PooledScores::KEYS.iter().copied().zip(self.scores().values()).collect();
        errors.extend(
            ["larger_q25_ece", "larger_q50_ece", "larger_q75_ece"].into_iter().zip(self.larger_errors()),
        );
        errors.push(("area_pit_error", self.pit_error()));
        errors.retain(|(_, error)| !error.is_nan());
        errors
    }

    /// What each bin of an error, by its name in the summary, was made of.
    fn masses(&self, key: &str) -> Vec<f64> {
        let bins: &[BinSum] = match key {
            "mode_ece" => &self.modes,
            "empty_ece" => &self.empty,
            "larger_q25_ece" => &self.larger[0],
            "larger_q50_ece" => &self.larger[1],
            "larger_q75_ece" => &self.larger[2],
            // The histogram of areas is made by all groups alike.
            "area_pit_error" => return vec![self.pit.iter().sum()],
            _ => &self.pixels.bins,
        };
        bins.iter().map(|bin| bin.count).collect()
    }

    /// How many groups a bin of an error holds, in the mean over what the bins are made of. Groups that have more in
    /// a bin than others count as so many equal ones as would leave the same chance.
    pub fn groups_in_a_bin(groups: &[Self], key: &str) -> f64 {
        let masses: Vec<Vec<f64>> = groups.iter().map(|group| group.masses(key)).collect();
        let (mut mass, mut weighted) = (0.0, 0.0);
        for bin in 0..masses.first().map_or(0, Vec::len) {
            let of_bin = || masses.iter().map(|of_group| of_group[bin]);
            let (sum, squares): (f64, f64) = (of_bin().sum(), of_bin().map(|mass| mass * mass).sum());
            if sum > 0.0 {
                mass += sum;
                weighted += sum * (sum * sum / squares);
            }
        }
        if mass > 0.0 { weighted / mass } else { 0.0 }
    }

    /// The same bins before any reader was asked.
    pub fn unobserved(&self) -> Self {
        let mut bins = self.clone();
        bins.bins_mut().for_each(|bin| bin.frequency = 0.0);
        bins.pixels.missed = 0.0;
        bins.pit.fill(0.0);
        bins
    }

    /// The same bins where everything happens exactly as often as it was said to.
    pub fn expected(&self) -> Self {
        let mut bins = self.clone();
        bins.bins_mut().for_each(|bin| bin.frequency = bin.probability);
        let even = self.pit.iter().sum::<f64>() / self.pit.len() as f64;
        bins.pit.fill(even);
        bins
    }

    /// For each bin, and last for the histogram of areas, what the gaps of groups are to be multiplied by once they are
    /// freed of their mean: it has taken one of n degrees of freedom. Zero where one group has the bin to itself, since
    /// nothing is known of its spread.
    pub fn corrections(groups: &[Self], found: &Self) -> Vec<f64> {
        let mut counts = vec![0.0; found.bins().count()];
        for group in groups {
            counts
                .iter_mut()
                .zip(group.bins())
                .for_each(|(n, bin)| *n += f64::from(u8::from(bin.count > 0.0)));
        }
        counts.push(groups.iter().filter(|group| group.pit.iter().sum::<f64>() > 0.0).count() as f64);
        counts.into_iter().map(|n: f64| if n > 1.0 { (n / (n - 1.0)).sqrt() } else { 0.0 }).collect()
    }

    /// Adds a group's gaps, freed of the mean gap of all groups, with a sign.
    pub fn add_gaps(&mut self, group: &Self, all: &Self, corrections: &[f64], sign: f64) {
        let bins = self.bins_mut().zip(group.bins()).zip(all.bins()).zip(corrections);
        for (((bin, group), all), correction) in bins {
            if group.count > 0.0 {
                let mean = (all.frequency - all.probability) / all.count;
                bin.frequency +=
                    sign * correction * (group.frequency - group.probability - mean * group.count);
            }
        }
        let share = group.pit.iter().sum::<f64>() / all.pit.iter().sum::<f64>();
        let correction = corrections[corrections.len() - 1];
        for ((mass, group), all) in self.pit.iter_mut().zip(&group.pit).zip(&all.pit) {
            *mass += sign * correction * (group - share * all);
        }
    }
}
