//! Nodules of a scan: what each reader drew as voxels, and which of them are the same nodule.

use std::collections::{BTreeMap, BTreeSet};

use super::outline::{Pixel, inside};
use super::xml::Reading;

/// What a reader drew of a nodule: pixels by slice. A slice that was outlined without a pixel inside is there, empty.
pub type Voxels = BTreeMap<usize, BTreeSet<Pixel>>;

/// A nodule as the readers drew it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodule {
    /// By reader; none who did not mark it.
    pub readers: Vec<Option<Voxels>>,
}

impl Nodule {
    /// All slices from the first to the last that someone drew in.
    pub fn slices(&self) -> std::ops::RangeInclusive<usize> {
        let all = || self.readers.iter().flatten().flat_map(BTreeMap::keys).copied();
        all().min().unwrap_or(0)..=all().max().unwrap_or(0)
    }

    /// The pixel in the middle of all that was drawn.
    pub fn centre(&self) -> Pixel {
        let all = || self.readers.iter().flatten().flat_map(BTreeMap::values).flatten();
        let middle = |of: fn(&Pixel) -> usize| {
            let (low, high) = (all().map(of).min().unwrap_or(0), all().map(of).max().unwrap_or(0));
            (low + high).div_ceil(2)
        };
        (middle(|pixel| pixel.0), middle(|pixel| pixel.1))
    }

    /// What a reader drew in a slice.
    pub fn drawn(&self, reader: usize, slice: usize) -> Option<&BTreeSet<Pixel>> {
        self.readers[reader].as_ref()?.get(&slice)
    }
}

/// The nodules of a reading, and how many outlines are of slices that the scan does not have. `slice` gives the number
/// of an image.
pub fn nodules(
    reading: &Reading,
    size: [usize; 2],
    with_border: bool,
    slice: &dyn Fn(&str) -> Option<usize>,
) -> (Vec<Nodule>, usize) {
    let mut missing = 0;
    // By reader: what was drawn, and the same with its border, by which nodules are compared.
    let mut drawn: Vec<(usize, Voxels, Voxels)> = Vec::new();
    for (reader, nodules) in reading.readers.iter().enumerate() {
        for nodule in nodules {
            let (mut own, mut wide) = (Voxels::new(), Voxels::new());
            // What is cut out is cut out of all that was included.
            let mut outlines: Vec<_> = nodule.outlines.iter().collect();
            outlines.sort_by_key(|outline| !outline.is_included);
            for outline in outlines {
                let Some(at) = slice(&outline.image) else {
                    missing += 1;
                    continue;
                };
                for (voxels, border) in [(&mut own, with_border), (&mut wide, true)] {
                    let slice = voxels.entry(at).or_default();
                    match outline.is_included {
                        true => slice.extend(inside(&outline.points, border, size)),
                        false => {
                            let cut = inside(&outline.points, false, size);
                            slice.retain(|pixel| !cut.contains(pixel));
                        }
                    }
                }
            }
            if own.values().any(|slice| !slice.is_empty()) {
                drawn.push((reader, own, wide));
            }
        }
    }
    (clustered(drawn, reading.readers.len()), missing)
}

/// Joins what different readers drew of one nodule: those that overlap most first, and never two of one reader.
fn clustered(drawn: Vec<(usize, Voxels, Voxels)>, readers: usize) -> Vec<Nodule> {
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for (second, (reader, _, voxels)) in drawn.iter().enumerate() {
        for (first, (other, _, others)) in drawn[..second].iter().enumerate() {
            let likeness = if reader == other { None } else { likeness(voxels, others) };
            pairs.extend(likeness.map(|likeness| (likeness, first, second)));
        }
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    // The cluster of each, and the readers of each cluster.
    let mut cluster: Vec<usize> = (0..drawn.len()).collect();
    let mut of: Vec<BTreeSet<usize>> = drawn.iter().map(|(reader, ..)| BTreeSet::from([*reader])).collect();
    for (_, first, second) in pairs {
        let (one, other) = (cluster[first], cluster[second]);
        if one != other && of[one].is_disjoint(&of[other]) {
            let joined = std::mem::take(&mut of[other]);
            of[one].extend(joined);
            cluster.iter_mut().filter(|at| **at == other).for_each(|at| *at = one);
        }
    }
    let mut nodules: BTreeMap<usize, Nodule> = BTreeMap::new();
    for ((reader, voxels, _), at) in drawn.into_iter().zip(cluster) {
        let nodule = nodules.entry(at).or_insert_with(|| Nodule { readers: vec![None; readers] });
        nodule.readers[reader] = Some(voxels);
    }
    let mut nodules: Vec<Nodule> = nodules.into_values().collect();
    // From the first slice on, so that numbers do not depend on who came first in the file.
    nodules.sort_by_key(|nodule| (*nodule.slices().start(), nodule.centre()));
    nodules
}

/// How much two drawings are the same nodule: 1 and their IoU where they share voxels; their IoU as seen from above
/// where they only end in neighbouring slices; none where they are apart.
fn likeness(one: &Voxels, other: &Voxels) -> Option<f64> {
    let count = |voxels: &Voxels| voxels.values().map(BTreeSet::len).sum::<usize>();
    let shared: usize =
        one.iter().filter_map(|(at, slice)| Some(slice.intersection(other.get(at)?).count())).sum();
    if shared > 0 {
        return Some(1.0 + shared as f64 / (count(one) + count(other) - shared) as f64);
    }
    let ends = |voxels: &Voxels| Some((*voxels.keys().next()?, *voxels.keys().next_back()?));
    let ((a, b), (c, d)) = (ends(one)?, ends(other)?);
    let are_neighbours = a <= d + 1 && c <= b + 1;
    let above = |voxels: &Voxels| voxels.values().flatten().copied().collect::<BTreeSet<Pixel>>();
    let (one, other) = (above(one), above(other));
    let shared = one.intersection(&other).count();
    (are_neighbours && shared > 0).then(|| shared as f64 / (one.len() + other.len() - shared) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(slices: std::ops::Range<usize>, x: usize, y: usize, side: usize) -> Voxels {
        let pixels: BTreeSet<Pixel> =
            (x..x + side).flat_map(|x| (y..y + side).map(move |y| (x, y))).collect();
        slices.map(|at| (at, pixels.clone())).collect()
    }

    fn joined(drawn: Vec<(usize, Voxels)>) -> Vec<Vec<usize>> {
        let both = drawn.into_iter().map(|(reader, voxels)| (reader, voxels.clone(), voxels)).collect();
        let of = |nodule: &Nodule| (0..4).filter(|reader| nodule.readers[*reader].is_some()).collect();
        clustered(both, 4).iter().map(of).collect()
    }

    #[test]
    fn readers_meet_where_they_overlap() {
        let far = square(0..3, 100, 100, 5);
        assert_eq!(
            joined(vec![(0, square(2..5, 10, 10, 6)), (1, square(3..6, 12, 11, 6)), (3, far.clone())]),
            [vec![3], vec![0, 1]]
        );
        // Neighbouring slices at the same place; not two slices apart, and not beside each other.
        assert_eq!(joined(vec![(0, square(2..4, 10, 10, 6)), (1, square(4..5, 10, 10, 6))]), [vec![0, 1]]);
        assert_eq!(joined(vec![(0, square(2..4, 10, 10, 6)), (1, square(5..6, 10, 10, 6))]).len(), 2);
        assert_eq!(joined(vec![(0, square(2..4, 10, 10, 6)), (1, square(2..4, 17, 10, 6))]).len(), 2);
    }

    #[test]
    fn two_nodules_of_one_reader_stay_two() {
        // Reader 1 saw one large nodule where reader 0 saw two; it goes with the one that it overlaps more.
        let found = joined(vec![
            (0, square(0..2, 10, 10, 4)),
            (0, square(0..2, 15, 10, 6)),
            (1, square(0..2, 10, 10, 11)),
        ]);
        assert_eq!(found, [vec![0], vec![0, 1]]);
    }

    #[test]
    fn middle_and_slices() {
        let nodule =
            Nodule { readers: vec![Some(square(4..6, 10, 20, 5)), None, Some(square(7..8, 12, 20, 5))] };
        assert_eq!(nodule.slices(), 4..=7);
        assert_eq!(nodule.centre(), (13, 22));
        assert!(nodule.drawn(0, 6).is_none() && nodule.drawn(1, 4).is_none());
    }
}
