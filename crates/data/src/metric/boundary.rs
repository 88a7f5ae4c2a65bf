//! How far the boundaries of two masks lie apart: HD95 and the normalised surface distance.
//!
//! A boundary pixel is one of the mask's that has a neighbour outside it, above, below, left or right; what lies
//! beyond the image is outside. Distances are between centres of pixels, exact.

use super::window::Window;
use super::{WeightedMasks, distance};
use crate::Mask;

/// How far apart two boundaries may lie to count as one in the normalised surface distance, in millimetres, or in
/// pixels where the spacing is not known.
pub const TOLERANCE: f64 = 2.0;

/// What is said of two masks, the mean over classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// The larger of the two directed 95th percentiles of the distance from one boundary to the other, over the
    /// classes that both masks have; none where there is no such class.
    pub hd95: Option<f64>,
    /// The share of both boundaries that lies within the tolerance of the other one. 1 where neither mask has the
    /// class, 0 where one has.
    pub nsd: f64,
}

/// The boundary of a class of a mask: its pixels inside the window.
fn boundary(mask: &Mask, class: usize, window: Window) -> Vec<usize> {
    let inside = window.of(mask, class);
    let (width, height) = (window.width, window.height);
    let at_edge = |at: usize| {
        let (x, y) = (at % width, at / width);
        x == 0
            || y == 0
            || x + 1 == width
            || y + 1 == height
            || !(inside[at - 1] && inside[at + 1] && inside[at - width] && inside[at + width])
    };
    (0..inside.len()).filter(|&at| inside[at] && at_edge(at)).collect()
}

/// How far one boundary is from another: the 95th percentile over its pixels, and how many are within the tolerance.
#[derive(Clone, Copy, Default)]
struct Directed {
    high: f64,
    within: usize,
}

/// From each of some boundaries to one that is not empty.
fn to_one(
    one: &[usize],
    from: &[Vec<usize>],
    window: Window,
    spacing: [f64; 2],
    tolerance: f64,
) -> Vec<Directed> {
    let mut marked = vec![false; window.width * window.height];
    one.iter().for_each(|&at| marked[at] = true);
    let distance = distance::to_nearest(&marked, window.width, spacing);
    let directed = |from: &Vec<usize>| {
        let mut distances: Vec<f64> = from.iter().map(|&at| distance[at]).collect();
        if distances.is_empty() {
            return Directed::default();
        }
        distances.sort_unstable_by(f64::total_cmp);
        // The rounding of a root must not decide whether 2 is within 2.
        let within = distances.partition_point(|&distance| distance <= tolerance * (1.0 + 1e-9));
        Directed { high: super::percentile(&distances, 0.95), within }
    };
    from.iter().map(directed).collect()
}

/// Every label with every output, by label: all pairs of their masks.
pub fn between(
    labels: &WeightedMasks,
    outputs: &[&Mask],
    spacing: [f64; 2],
    tolerance: f64,
) -> Vec<Vec<Agreement>> {
    let classes = labels.masks()[0].classes();
    let mut sums = vec![vec![(0.0, 0usize, 0.0); outputs.len()]; labels.masks().len()];
    for class in 0..classes {
        let window = Window::around(labels.masks().iter().chain(outputs).copied(), class);
        let boundaries = |masks: &[&Mask]| -> Vec<Vec<usize>> {
            masks.iter().map(|mask| boundary(mask, class, window)).collect()
        };
        let (of_labels, of_outputs) = (boundaries(labels.masks()), boundaries(outputs));
        // One map of distances at a time, since those of a large image are large.
        let to_each = |to: &[Vec<usize>], from: &[Vec<usize>]| -> Vec<Vec<Directed>> {
            let to_one = |one: &Vec<usize>| match one.is_empty() {
                true => vec![Directed::default(); from.len()],
                false => to_one(one, from, window, spacing, tolerance),
            };
            to.iter().map(to_one).collect()
        };
        let (to_labels, to_outputs) = (to_each(&of_labels, &of_outputs), to_each(&of_outputs, &of_labels));
        for (i, label) in of_labels.iter().enumerate() {
            for (j, output) in of_outputs.iter().enumerate() {
                let (hd95, known, nsd) = &mut sums[i][j];
                match (label.len(), output.len()) {
                    (0, 0) => *nsd += 1.0,
                    (0, _) | (_, 0) => {}
                    (here, there) => {
                        let (to, back) = (to_labels[i][j], to_outputs[j][i]);
                        *hd95 += to.high.max(back.high);
                        *known += 1;
                        *nsd += (to.within + back.within) as f64 / (here + there) as f64;
                    }
                }
            }
        }
    }
    let mean = |&(hd95, known, nsd): &(f64, usize, f64)| Agreement {
        hd95: (known > 0).then(|| hd95 / known as f64),
        nsd: nsd / classes as f64,
    };
    sums.iter().map(|row| row.iter().map(mean).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Annotation, Case, Image};

    fn between_two(label: Mask, output: &Mask, spacing: [f64; 2]) -> Agreement {
        let case = Case {
            id: "a".into(),
            group: "a".into(),
            image: Image::new(1, 1, 1, vec![0.0]),
            annotations: vec![Annotation { mask: label, rater: None, weight: 1.0 }],
            truth: None,
        };
        between(&WeightedMasks::annotations(&case).unwrap(), &[output], spacing, TOLERANCE)[0][0]
    }

    fn square(left: usize) -> Mask {
        Mask::from_fn(20, 12, |x, y| (left..left + 5).contains(&x) && (3..8).contains(&y))
    }

    #[test]
    fn a_moved_square_by_hand() {
        // Both boundaries have 16 pixels. Moved by three, the far side (5 pixels) is three away; so both directed
        // percentiles are 3, and the pixels within two are those of the overlapping columns and one beside them.
        let moved = between_two(square(4), &square(7), [1.0, 1.0]);
        assert_eq!(moved.hd95, Some(3.0));
        // Of the label's 16: column 4 (5 pixels) is 3 away, all others at most 2.
        assert_eq!(moved.nsd, 22.0 / 32.0);
        let same = between_two(square(4), &square(4), [1.0, 1.0]);
        assert_eq!((same.hd95, same.nsd), (Some(0.0), 1.0));
        let millimetres = between_two(square(4), &square(7), [0.5, 0.5]);
        assert_eq!((millimetres.hd95, millimetres.nsd), (Some(1.5), 1.0));
    }

    #[test]
    fn empty_masks_follow_the_convention() {
        let empty = Mask::empty(20, 12, 1);
        let both = between_two(empty.clone(), &empty, [1.0, 1.0]);
        assert_eq!((both.hd95, both.nsd), (None, 1.0));
        let one = between_two(square(4), &empty, [1.0, 1.0]);
        assert_eq!((one.hd95, one.nsd), (None, 0.0));
        let other = between_two(empty, &square(4), [1.0, 1.0]);
        assert_eq!((other.hd95, other.nsd), (None, 0.0));
    }

    #[test]
    fn classes_are_averaged_each_under_the_same_rule() {
        let (mut label, mut output) = (Mask::empty(9, 1, 3), Mask::empty(9, 1, 3));
        label.set(0, 0, 0, true);
        output.set(0, 4, 0, true);
        label.set(1, 2, 0, true);
        // The first class is four apart, the second one missed, the third absent on both sides.
        let found = between_two(label, &output, [1.0, 1.0]);
        assert_eq!((found.hd95, found.nsd), (Some(4.0), 1.0 / 3.0));
    }
}
