//! Percentile bootstrap over images or over groups. Slices of one patient are not independent: where
//! groups hold several images, the interval over groups is the honest one.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::Settings;
use crate::draw::Draw;
use crate::metric::percentile;
use crate::report::Intervals;

/// The share of resamples that lie inside an interval.
pub(crate) const LEVEL: f64 = 0.95;

/// Column sums.
pub(super) fn sum(rows: &[Vec<f64>]) -> Vec<f64> {
    let mut totals = vec![0.0; rows[0].len()];
    rows.iter().for_each(|row| add(&mut totals, row, 1.0));
    totals
}

/// One row of sums per group, groups in the order of their first image.
pub(super) fn sum_by<'a>(rows: &[Vec<f64>], groups: impl Iterator<Item = &'a str>) -> Vec<Vec<f64>> {
    let mut place = BTreeMap::new();
    let mut sums: Vec<Vec<f64>> = Vec::new();
    for (row, group) in rows.iter().zip(groups) {
        let at = *place.entry(group).or_insert(sums.len());
        if at == sums.len() {
            sums.push(vec![0.0; row.len()]);
        }
        add(&mut sums[at], row, 1.0);
    }
    sums
}

fn add(totals: &mut [f64], row: &[f64], times: f64) {
    for (total, value) in totals.iter_mut().zip(row) {
        *total += times * value;
    }
}

/// For each number of the summary the interval that holds 95 % of its values over resamples of the
/// units; none where there is one unit, whose resamples are all the same and say nothing of its spread.
/// Each resample has its own stream, so threads do not matter.
pub(super) fn intervals(
    units: &[Vec<f64>],
    settings: &Settings,
    summary: impl Fn(&[f64]) -> Vec<(&'static str, f64)> + Sync,
) -> Intervals {
    if let [one] = units {
        return summary(one).into_iter().map(|(key, _)| (key.to_owned(), None)).collect();
    }
    let resampled: Vec<Vec<(&str, f64)>> = (0..settings.resamples)
        .into_par_iter()
        .map(|resample| {
            let mut random = Draw::new(settings.seed, &["bootstrap"], resample as u64);
            let mut times = vec![0.0; units.len()];
            for _ in units {
                times[random.index(units.len())] += 1.0;
            }
            let mut totals = vec![0.0; units[0].len()];
            for (unit, times) in units.iter().zip(times).filter(|(_, times)| *times > 0.0) {
                add(&mut totals, unit, times);
            }
            summary(&totals)
        })
        .collect();
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (key, value) in resampled.into_iter().flatten() {
        values.entry(key.to_owned()).or_default().push(value);
    }
    values.into_iter().map(|(key, values)| (key, Some(interval(values)))).collect()
}

fn interval(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0].map(|share| percentile(&values, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_has_its_textbook_width() {
        // 400 values of standard deviation 1: the mean's 95 % interval is 2 * 1.96 / 20 wide.
        let units: Vec<Vec<f64>> = (0..400).map(|k| vec![1.0, if k % 2 == 0 { 1.0 } else { -1.0 }]).collect();
        let settings = Settings { resamples: 2000, ..Settings::new("test") };
        let found = intervals(&units, &settings, |totals| vec![("mean", totals[1] / totals[0])]);
        let [low, high] = found["mean"].unwrap();
        assert!(low < 0.0 && high > 0.0);
        assert!((high - low - 0.196).abs() < 0.02, "{low} {high}");
    }

    #[test]
    fn the_interval_from_one_unit_is_not_known() {
        let found = intervals(&[vec![1.0, 5.0]], &Settings::new("test"), |totals| vec![("mean", totals[1])]);
        assert_eq!(found["mean"], None);
    }

    #[test]
    fn interpolated_percentiles() {
        let [low, high] = interval((0..=40).rev().map(f64::from).collect());
        assert!((low - 1.0).abs() < 1e-9 && (high - 39.0).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn groups_are_summed_in_order_of_appearance() {
        let rows = vec![vec![1.0, 2.0], vec![1.0, 3.0], vec![1.0, 5.0]];
        assert_eq!(sum_by(&rows, ["b", "a", "b"].into_iter()), [[2.0, 7.0], [1.0, 3.0]]);
    }
}
