//! Lesions found, missed and invented: connected components of two masks matched with each other.
//!
//! A lesion is a component of one class, pixels touching at a side or a corner. A label's lesion and an output's
//! match where their IoU is at least [`MATCH_IOU`]; pairs are taken in falling order of IoU, and each lesion once.

use super::WeightedMasks;
use super::window::Window;
use crate::Mask;

/// Two components with at least this IoU may be the same lesion.
pub const MATCH_IOU: f64 = 0.1;

/// What matching two masks gives, over all classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Matched {
    /// Lesions of the label.
    pub lesions: usize,
    /// Those among them that the output has too.
    pub found: usize,
    /// Lesions of the output that the label has not.
    pub invented: usize,
}

/// The components of one class of one mask.
struct Components {
    /// For every pixel of the window its component from 1 on, 0 outside.
    number: Vec<u32>,
    /// Pixels of each component.
    areas: Vec<u32>,
    /// The pixels of all components.
    pixels: Vec<u32>,
}

impl Components {
    fn of(mask: &Mask, class: usize, window: Window) -> Self {
        let inside = window.of(mask, class);
        let pixels: Vec<u32> = (0..inside.len()).filter(|&at| inside[at]).map(|at| at as u32).collect();
        let mut number = vec![0; inside.len()];
        let mut areas = Vec::new();
        let mut open = Vec::new();
        for first in pixels.iter().map(|&at| at as usize) {
            if number[first] > 0 {
                continue;
            }
            let this = areas.len() as u32 + 1;
            areas.push(0);
            number[first] = this;
            open.push(first);
            while let Some(at) = open.pop() {
                areas[this as usize - 1] += 1;
                let (x, y) = (at % window.width, at / window.width);
                for row in y.saturating_sub(1)..(y + 2).min(window.height) {
                    for column in x.saturating_sub(1)..(x + 2).min(window.width) {
                        let beside = row * window.width + column;
                        if inside[beside] && number[beside] == 0 {
                            number[beside] = this;
                            open.push(beside);
                        }
                    }
                }
            }
        }
        Self { number, areas, pixels }
    }

    /// How many components are matched with one of the other mask's.
    fn matched(&self, other: &Self) -> usize {
        // Runs of pixels that lie in the same two components; a row of a region is one.
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for at in self.pixels.iter().map(|&at| at as usize) {
            let (here, there) = (self.number[at], other.number[at]);
            match runs.last_mut() {
                Some(last) if (last.0, last.1) == (here, there) => last.2 += 1,
                _ => runs.push((here, there, 1)),
            }
        }
        runs.retain(|&(_, there, _)| there > 0);
        runs.sort_unstable();
        let mut pairs: Vec<(f64, u32, u32)> = runs
            .chunk_by(|a, b| (a.0, a.1) == (b.0, b.1))
            .map(|same| {
                let (here, there, _) = same[0];
                let both: u32 = same.iter().map(|run| run.2).sum();
                let either = self.areas[here as usize - 1] + other.areas[there as usize - 1] - both;
                (f64::from(both) / f64::from(either), here, there)
            })
            .filter(|&(iou, ..)| iou >= MATCH_IOU)
            .collect();
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let (mut taken_here, mut taken_there) =
            (vec![false; self.areas.len() + 1], vec![false; other.areas.len() + 1]);
        let mut matched = 0;
        for (_, here, there) in pairs {
            let (here, there) = (&mut taken_here[here as usize], &mut taken_there[there as usize]);
            if !*here && !*there {
                (*here, *there) = (true, true);
                matched += 1;
            }
        }
        matched
    }
}

/// Every label with every output, by label.
pub fn between(labels: &WeightedMasks, outputs: &[&Mask]) -> Vec<Vec<Matched>> {
    let mut sums = vec![vec![Matched::default(); outputs.len()]; labels.masks().len()];
    for class in 0..labels.masks()[0].classes() {
        let window = Window::around(labels.masks().iter().chain(outputs).copied(), class);
        let of_labels: Vec<Components> =
            labels.masks().iter().map(|mask| Components::of(mask, class, window)).collect();
        for (j, output) in outputs.iter().enumerate() {
            // One output at a time, since the components of a large image are large.
            let output = Components::of(output, class, window);
            for (label, row) in of_labels.iter().zip(&mut sums) {
                let found = label.matched(&output);
                row[j].lesions += label.areas.len();
                row[j].found += found;
                row[j].invented += output.areas.len() - found;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Annotation, Case, Image};

    fn drawn(rows: &[&str]) -> Mask {
        Mask::from_fn(rows[0].len(), rows.len(), |x, y| rows[y].as_bytes()[x] == b'#')
    }

    fn between_two(label: &[&str], output: &[&str]) -> [usize; 3] {
        let case = Case {
            id: "a".into(),
            group: "a".into(),
            image: Image::new(1, 1, 1, vec![0.0]),
            annotations: vec![Annotation { mask: drawn(label), rater: None, weight: 1.0 }],
            truth: None,
        };
        let found = between(&WeightedMasks::annotations(&case).unwrap(), &[&drawn(output)])[0][0];
        [found.lesions, found.found, found.invented]
    }

    #[test]
    fn found_missed_and_invented_by_hand() {
        let readers = ["##....", "##...#", ".....#"];
        assert_eq!(between_two(&readers, &readers), [2, 2, 0]);
        assert_eq!(between_two(&readers, &[".#....", "......", "#....."]), [2, 1, 1]);
        assert_eq!(between_two(&readers, &["......", "......", "......"]), [2, 0, 0]);
        assert_eq!(between_two(&["......", "......", "......"], &readers), [0, 0, 2]);
        assert_eq!(between_two(&["......"], &["......"]), [0, 0, 0]);
    }

    #[test]
    fn corners_connect() {
        assert_eq!(between_two(&["#..", ".#.", "..#"], &["...", "...", "..#"]), [1, 1, 0]);
    }

    #[test]
    fn a_lesion_is_matched_once_and_by_the_larger_overlap() {
        // One label over two output components: the larger one is it, the smaller one is too many.
        assert_eq!(between_two(&["######"], &["####.#"]), [1, 1, 1]);
        // An overlap of one pixel in eleven is too little, one in ten is enough.
        assert_eq!(between_two(&["#.........."], &["###########"]), [1, 0, 1]);
        assert_eq!(between_two(&["#.........."], &["##########."]), [1, 1, 0]);
    }
}
