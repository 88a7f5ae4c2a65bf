//! Properties of the chain over random small slices.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Discs of different sizes with their probabilities; two of a slice are never equal.
fn slice() -> impl Strategy<Value = WeightedSlice> {
    (1..5usize, any::<u64>(), proptest::collection::vec(0.02f64..1.0, 5)).prop_map(
        |(count, seed, weights)| {
            let mut masks: Vec<Mask> = Vec::new();
            for k in 0..count as u64 {
                let bits = seed.rotate_left(11 * k as u32);
                let (x0, y0, radius) = (3 + bits % 4, 3 + (bits >> 8) % 4, (bits >> 16) % 5);
                let inside = |x: usize, y: usize| {
                    (x as u64).abs_diff(x0).pow(2) + (y as u64).abs_diff(y0).pow(2) < radius * radius
                };
                let mask = Mask::from_fn(10, 10, inside);
                if !masks.contains(&mask) {
                    masks.push(mask);
                }
            }
            let all: f64 = weights[..masks.len()].iter().sum();
            let weights = weights[..masks.len()].iter().map(|weight| weight / all).collect();
            (masks, weights)
        },
    )
}

fn slices() -> impl Strategy<Value = Vec<WeightedSlice>> {
    proptest::collection::vec(slice(), 1..5)
}

fn volume(slices: &[WeightedSlice]) -> Volume {
    Volume::new(slices.len(), |at| slices[at].clone()).unwrap()
}

/// All paths with their probabilities.
fn all_paths(volume: &Volume, slices: &[WeightedSlice]) -> Vec<(Vec<usize>, f64)> {
    let mut paths: Vec<Vec<usize>> = vec![Vec::new()];
    for (masks, _) in slices {
        paths = paths
            .into_iter()
            .flat_map(|path| (0..masks.len()).map(move |member| [&path[..], &[member]].concat()))
            .collect();
    }
    let known = paths.into_iter().map(|path| (volume.chain().probability(&path), path));
    known
        .filter(|(probability, _)| *probability > 0.0)
        .map(|(probability, path)| (path, probability))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_slice_keeps_its_probabilities(slices in slices()) {
        let volume = volume(&slices);
        let paths = all_paths(&volume, &slices);
        let all: f64 = paths.iter().map(|(_, probability)| probability).sum();
        prop_assert!((all - 1.0).abs() < 1e-9, "{all}");
        for (at, (_, weights)) in slices.iter().enumerate() {
            for (member, weight) in weights.iter().enumerate() {
                let own = paths.iter().filter(|(path, _)| path[at] == member);
                let found: f64 = own.map(|(_, probability)| probability).sum();
                prop_assert!((found - weight).abs() < 1e-6, "slice {at}, member {member}: {found}, not {weight}");
            }
        }
    }

    #[test]
    fn neighbours_overlap_as_much_as_any_coupling_can(slices in slices()) {
        let volume = volume(&slices);
        for (at, pair) in slices.windows(2).enumerate() {
            let iou = |i: usize, j: usize| crate::metric::iou(&pair[0].0[i], &pair[1].0[j]).unwrap();
            let best = transport::largest_gain(&pair[0].1, &pair[1].1, iou);
            let ways = volume.chain().steps(at).iter().zip(&pair[0].1).enumerate();
            let found: f64 = ways.map(|(i, (ways, weight))| {
                ways.iter().map(|way| weight * way.probability * iou(i, way.to)).sum::<f64>()
            }).sum();
            prop_assert!((best - found).abs() < 1e-9);
        }
    }

    #[test]
    fn equal_slices_are_coupled_member_by_member(slice in slice()) {
        let volume = volume(&[slice.clone(), slice.clone()]);
        for (member, ways) in volume.chain().steps(0).iter().enumerate() {
            prop_assert!(ways.len() == 1 && ways[0].to == member, "{ways:?}");
        }
        let best = volume.hypotheses(slice.0.len(), 1.0);
        prop_assert!(best.iter().all(|one| one.members[0] == one.members[1]));
    }

    #[test]
    fn a_volume_read_from_its_other_end_is_the_same(slices in slices()) {
        let turned: Vec<WeightedSlice> = slices.iter().rev().cloned().collect();
        let (one, other) = (volume(&slices), volume(&turned));
        for (path, probability) in all_paths(&one, &slices) {
            let back: Vec<usize> = path.iter().rev().copied().collect();
            prop_assert!((other.chain().probability(&back) - probability).abs() < 1e-9, "{path:?}");
        }
    }

    #[test]
    fn the_best_volumes_are_those_that_counting_all_paths_finds(slices in slices(), count in 1..6usize) {
        let volume = volume(&slices);
        // Different paths are different volumes, since no two masks of a slice are equal.
        let mut paths = all_paths(&volume, &slices);
        paths.sort_by(|a, b| b.1.total_cmp(&a.1));
        let found = volume.hypotheses(count, 1.0);
        prop_assert_eq!(found.len(), count.min(paths.len()));
        for (one, (_, probability)) in found.iter().zip(&paths) {
            prop_assert!((one.probability - probability).abs() < 1e-9, "{found:?} {paths:?}");
            prop_assert!((volume.chain().probability(&one.members) - probability).abs() < 1e-9);
        }
    }

    #[test]
    fn a_merged_volume_counts_only_volumes_that_overlap_it_enough(slices in slices(), iou in 0.3..0.95f64) {
        let volume = volume(&slices);
        let paths = all_paths(&volume, &slices);
        let found = volume.hypotheses(100, iou);
        let sum: f64 = found.iter().map(|one| one.probability).sum();
        // The beam holds all of so few paths, so nothing is lost.
        prop_assert!(paths.len() > 16 || (sum - 1.0).abs() < 1e-9, "{sum}");
        prop_assert!(sum < 1.0 + 1e-9);
        for one in &found {
            let near = paths.iter().filter(|(path, _)| volume.tables.iou(&one.members, path) >= iou - 1e-9);
            let bound: f64 = near.map(|(_, probability)| probability).sum();
            prop_assert!(one.probability <= bound + 1e-9, "{} of {bound}", one.probability);
        }
    }

    #[test]
    fn sizes_are_those_of_all_paths(slices in slices()) {
        let volume = volume(&slices);
        let paths = all_paths(&volume, &slices);
        let size = volume.size(0);
        prop_assert_eq!(size.step(), 1);
        let mut by_pixels: BTreeMap<u64, f64> = BTreeMap::new();
        for (path, probability) in &paths {
            *by_pixels.entry(volume.pixels(0, path)).or_default() += probability;
        }
        let mean: f64 = by_pixels.iter().map(|(pixels, share)| *pixels as f64 * share).sum();
        prop_assert!((size.mean() - mean).abs() < 1e-6);
        for level in [0.05, 0.5, 0.95] {
            let mut below = 0.0;
            let reached = by_pixels.iter().find(|(_, share)| { below += *share; below >= level - 1e-9 });
            let expected = reached.map_or(0, |(pixels, _)| *pixels) as f64;
            prop_assert_eq!(size.quantile(level), expected, "{}", level);
        }
    }
}

#[test]
fn draws_are_as_frequent_as_the_slices_say() {
    let disc = |radius: usize| {
        Mask::from_fn(12, 12, |x, y| x.abs_diff(6).pow(2) + y.abs_diff(6).pow(2) < radius * radius)
    };
    let slices: Vec<WeightedSlice> = vec![
        (vec![disc(2), disc(4), disc(0)], vec![0.5, 0.3, 0.2]),
        (vec![disc(3), disc(5), disc(0)], vec![0.45, 0.45, 0.1]),
        (vec![disc(4), disc(0)], vec![0.4, 0.6]),
    ];
    let volume = volume(&slices);
    let draws = volume.draws(20_000, &mut Draw::new(3, &["test"], 0));
    for (at, (_, weights)) in slices.iter().enumerate() {
        for (member, weight) in weights.iter().enumerate() {
            let share = draws.iter().filter(|path| path[at] == member).count() as f64 / 20_000.0;
            assert!((share - weight).abs() < 0.012, "slice {at}, member {member}: {share}, not {weight}");
        }
    }
    // Who saw nothing in the first slice saw nothing in the second, as far as that has room.
    assert!(
        (volume.chain().steps(0)[2][..].iter().find(|way| way.to == 2).unwrap().probability - 0.5).abs()
            < 1e-9
    );
    let shares = volume.nearest_shares(&volume.hypotheses(3, 0.9), &draws[..500]);
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    // The same seed draws the same volumes.
    assert_eq!(volume.draws(5, &mut Draw::new(3, &["test"], 0)), draws[..5]);
}

#[test]
fn a_long_volume_of_readers_with_habits_has_few_hypotheses() {
    // A narrow and a wide reader in 60 slices whose probabilities differ a little from slice to slice.
    let slice = |at: usize| -> WeightedSlice {
        let bump = 0.02 * (at as f64).sin();
        let disc = |radius: f64| {
            Mask::from_fn(40, 40, move |x, y| (x as f64 - 20.0).hypot(y as f64 - 20.0) < radius)
        };
        let size = (at as f64 / 59.0 * std::f64::consts::PI).sin();
        (vec![disc(14.0 * size), disc(9.0 * size)], vec![0.6 + bump, 0.4 - bump])
    };
    let volume = Volume::new(60, slice).unwrap();
    let best = volume.hypotheses(10, 0.8);
    let sum: f64 = best.iter().map(|one| one.probability).sum();
    assert!(
        best[0].probability > 0.3 && best[0].probability < 0.7 && sum > 0.75,
        "{:?}",
        best[0].probability
    );
    // By draws, which lose nothing to the paths that were not followed.
    let draws = volume.draws(500, &mut Draw::new(1, &["test"], 0));
    let candidates: Vec<Vec<usize>> =
        best.iter().map(|one| one.members.clone()).chain(draws[..50].to_vec()).collect();
    let covering = volume.covering(&candidates, &draws, 5, 0.8);
    let shares: Vec<f64> = covering.iter().map(|one| one.probability).collect();
    assert!(shares.is_sorted_by(|a, b| a >= b) && shares.iter().sum::<f64>() > 0.95, "{shares:?}");
    for one in &covering {
        let near = draws.iter().filter(|draw| volume.tables.iou(draw, &one.members) >= 0.8).count();
        assert!(one.probability <= near as f64 / 500.0 + 1e-9);
    }
    let size = volume.size(0);
    let independent: f64 = (0..60)
        .map(|at| {
            let (masks, p) = slice(at);
            p[0] * masks[0].area(0) as f64 + p[1] * masks[1].area(0) as f64
        })
        .sum();
    assert!((size.mean() - independent).abs() < 1.0, "the mean needs no coupling");
    assert!(size.quantile(0.95) > 1.5 * size.quantile(0.05), "readers stay who they are");
}

#[test]
fn sums_beyond_the_steps_keep_their_mean() {
    let chain = Chain::new(vec![0.25, 0.75], &[2, 1], &[vec![(0, 0, 0.25), (1, 0, 0.75)]]);
    let sum = chain.sum(&[vec![100_000, 300_001], vec![77_777]]);
    assert!(sum.step() > 1);
    let mean = 0.25 * 100_000.0 + 0.75 * 300_001.0 + 77_777.0;
    assert!((sum.mean() - mean).abs() < 1e-3, "{}", sum.mean());
    assert!((sum.quantile(0.9) - 377_778.0).abs() <= 2.0 * sum.step() as f64);
}
