//! IoU and Dice by population counts over packed masks.
//!
//! The convention, one for the whole crate: two empty masks agree, IoU(∅, ∅) = Dice(∅, ∅) = 1; one empty
//! mask and one that is not share nothing, 0. Masks of several classes score the mean over their
//! foreground classes, each class under the same rule (a class absent on both sides counts 1).

use std::ops::Range;

use multiversion::multiversion;

use crate::{Error, Mask, Result};

/// |A ∩ B| / |A ∪ B|, the mean over classes.
pub fn iou(a: &Mask, b: &Mask) -> Result<f64> {
    Ok(Overlaps::among("IoU", &[a, b])?.iou(0, 1))
}

/// 2 |A ∩ B| / (|A| + |B|), the mean over classes.
pub fn dice(a: &Mask, b: &Mask) -> Result<f64> {
    Ok(Overlaps::among("Dice", &[a, b])?.dice(0, 1))
}

/// The share of `part` in `whole`, where nothing out of nothing is everything.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 1.0 } else { part / whole }
}

/// The overlap of every mask of a list with every other.
#[derive(Debug, Clone)]
pub struct Overlaps {
    /// Per class, row by row of the lower triangle: |A_i ∩ A_j| for j <= i, so |A_i| on the diagonal.
    intersections: Vec<Vec<u32>>,
    /// The lower triangle of the IoU, the mean over classes.
    iou: Vec<f64>,
}

impl Overlaps {
    /// Counts all overlaps among the masks; they must agree in size and classes. `what` is named in the
    /// error where they do not.
    pub fn among(what: &str, masks: &[&Mask]) -> Result<Self> {
        let Some(first) = masks.first() else {
            return Ok(Self { intersections: Vec::new(), iou: Vec::new() });
        };
        let shape = |mask: &Mask| (mask.width(), mask.height(), mask.classes());
        if let Some(other) = masks.iter().find(|mask| shape(mask) != shape(first)) {
            let words =
                |mask: &Mask| format!("{}x{} with {} class(es)", mask.width(), mask.height(), mask.classes());
            return Err(Error::mismatch(
                what,
                format!(
                    "one mask is {}, another {}; all masks of a case must agree",
                    words(first),
                    words(other)
                ),
            ));
        }
        let intersections: Vec<_> = (0..first.classes()).map(|class| intersect_all(masks, class)).collect();
        let mut iou = vec![0.0; row_start(masks.len())];
        for counts in &intersections {
            let area = |i: usize| counts[row_start(i) + i];
            let areas: Vec<u32> = (0..masks.len()).map(area).collect();
            for i in 0..masks.len() {
                let row = row_start(i)..row_start(i) + i + 1;
                for ((iou, &both), &area) in iou[row.clone()].iter_mut().zip(&counts[row]).zip(&areas) {
                    *iou += share(f64::from(both), f64::from(areas[i] + area - both));
                }
            }
        }
        if intersections.len() > 1 {
            iou.iter_mut().for_each(|iou| *iou /= intersections.len() as f64);
        }
        Ok(Self { intersections, iou })
    }

    /// IoU of two masks of the list, the mean over classes.
    pub fn iou(&self, i: usize, j: usize) -> f64 {
        self.iou[row_start(i.max(j)) + i.min(j)]
    }

    /// IoU of mask i with the masks before it.
    pub(crate) fn iou_before(&self, i: usize) -> &[f64] {
        &self.iou[row_start(i)..row_start(i) + i]
    }

    /// Pixels of a class that two masks of the list share; those of one mask with itself are its area.
    pub(crate) fn shared(&self, class: usize, i: usize, j: usize) -> u32 {
        self.intersections[class][row_start(i.max(j)) + i.min(j)]
    }

    /// Foreground classes; none of an empty list.
    pub(crate) fn classes(&self) -> usize {
        self.intersections.len()
    }

    /// Dice of two masks of the list, the mean over classes.
    pub fn dice(&self, i: usize, j: usize) -> f64 {
        let of_class = |class: usize| {
            let count = |i: usize, j: usize| f64::from(self.shared(class, i, j));
            share(2.0 * count(i, j), count(i, i) + count(j, j))
        };
        (0..self.classes()).map(of_class).sum::<f64>() / self.classes() as f64
    }
}

/// Where row i of a lower triangle begins.
fn row_start(i: usize) -> usize {
    i * (i + 1) / 2
}

/// Masks counted together: four keep the wide accumulators in registers and read each row once.
const TILE: usize = 4;

/// |A_i ∩ A_j| for all j <= i of one class.
///
/// Words in which all masks agree add the same number to every pair; they are counted once and left out
/// of the pairs. That is the background, and the inside on which nobody disagrees.
fn intersect_all(masks: &[&Mask], class: usize) -> Vec<u32> {
    let planes: Vec<&[u64]> = masks.iter().map(|mask| mask.plane(class)).collect();
    let mut every = planes[0].to_vec();
    let mut any = every.clone();
    for plane in &planes[1..] {
        for ((every, any), &word) in every.iter_mut().zip(&mut any).zip(*plane) {
            *every &= word;
            *any |= word;
        }
    }
    let differing: Vec<usize> = (0..every.len()).filter(|&w| every[w] != any[w]).collect();
    let agreed: u32 = every.iter().zip(&any).filter(|(e, a)| e == a).map(|(e, _)| e.count_ones()).sum();

    // Whole vectors of eight words and whole tiles of masks, padded with nothing.
    let words = differing.len().next_multiple_of(8);
    let rows = planes.len().next_multiple_of(TILE);
    let mut packed = vec![0u64; rows * words];
    for (row, plane) in packed.chunks_exact_mut(words.max(1)).zip(&planes) {
        for (to, &from) in row.iter_mut().zip(&differing) {
            *to = plane[from];
        }
    }
    let mut counts = vec![agreed; row_start(planes.len())];
    if words == 0 {
        return counts;
    }
    let spans: Vec<Range<usize>> = packed.chunks_exact(words).map(span).collect();
    let mut tile_counts = vec![[0u64; TILE]; rows];
    for tile in (0..rows).step_by(TILE) {
        let until = tile + TILE;
        count_tile(&packed[..until * words], words, &spans[..until], &mut tile_counts[..until]);
        for (k, i) in (tile..until.min(planes.len())).enumerate() {
            let row = &mut counts[row_start(i)..row_start(i) + i + 1];
            for (count, in_tile) in row.iter_mut().zip(&tile_counts) {
                *count += in_tile[k] as u32;
            }
        }
    }
    counts
}

/// The whole vectors of eight words outside which a mask has nothing: most masks are one region, so two
/// of them need not be compared from end to end.
fn span(row: &[u64]) -> Range<usize> {
    let first = row.iter().position(|&word| word != 0).unwrap_or(row.len());
    let end = row.iter().rposition(|&word| word != 0).map_or(first, |last| last + 1);
    first / 8 * 8..end.next_multiple_of(8)
}

/// Intersections of the last four rows, the tile, with every row.
///
/// The versions differ only in how the compiler may count bits (VPOPCNTQ, vector shuffles, POPCNT, and
/// what the baseline of the target has), so the counts are the same on every processor.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512vpopcntdq+popcnt",
    "x86_64+avx2+popcnt",
    "x86_64+popcnt"
))]
fn count_tile(rows: &[u64], words: usize, spans: &[Range<usize>], counts: &mut [[u64; TILE]]) {
    count_tile_with_what_there_is(rows, words, spans, counts);
}

#[inline(always)]
fn count_tile_with_what_there_is(
    rows: &[u64],
    words: usize,
    spans: &[Range<usize>],
    counts: &mut [[u64; TILE]],
) {
    let tile = spans.len() - TILE;
    let [a, b, c, d] = std::array::from_fn(|k| &rows[(tile + k) * words..(tile + k + 1) * words]);
    let start = spans[tile..].iter().map(|span| span.start).min().unwrap_or(0);
    let end = spans[tile..].iter().map(|span| span.end).max().unwrap_or(0);
    for ((row, span), counts) in rows.chunks_exact(words).zip(spans).zip(counts) {
        let first = span.start.max(start);
        let both = first..span.end.min(end).max(first);
        let (a, b, c, d) = (&a[both.clone()], &b[both.clone()], &c[both.clone()], &d[both.clone()]);
        let mut sums = [0u64; TILE];
        for ((((&word, &a), &b), &c), &d) in row[both].iter().zip(a).zip(b).zip(c).zip(d) {
            sums[0] += u64::from((word & a).count_ones());
            sums[1] += u64::from((word & b).count_ones());
            sums[2] += u64::from((word & c).count_ones());
            sums[3] += u64::from((word & d).count_ones());
        }
        *counts = sums;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> Mask {
        let pixels: Vec<bool> = text.chars().map(|c| c == '1').collect();
        Mask::from_fn(pixels.len(), 1, |x, _| pixels[x])
    }

    #[test]
    fn overlaps_of_small_masks() {
        for (a, b, expected_iou, expected_dice) in [
            ("0000", "0000", 1.0, 1.0),
            ("0000", "0100", 0.0, 0.0),
            ("1100", "1100", 1.0, 1.0),
            ("1100", "0011", 0.0, 0.0),
            ("1100", "0110", 1.0 / 3.0, 0.5),
            ("1111", "1000", 0.25, 0.4),
        ] {
            assert_eq!(iou(&bits(a), &bits(b)).unwrap(), expected_iou, "{a} {b}");
            assert_eq!(dice(&bits(b), &bits(a)).unwrap(), expected_dice, "{a} {b}");
        }
    }

    #[test]
    fn a_class_absent_on_both_sides_counts_one() {
        let (mut a, mut b) = (Mask::empty(4, 1, 3), Mask::empty(4, 1, 3));
        a.set(0, 0, 0, true);
        a.set(0, 1, 0, true);
        b.set(0, 1, 0, true);
        a.set(1, 3, 0, true);
        assert_eq!(iou(&a, &b).unwrap(), (0.5 + 0.0 + 1.0) / 3.0);
        assert_eq!(dice(&a, &b).unwrap(), (2.0 / 3.0 + 0.0 + 1.0) / 3.0);
    }

    #[test]
    fn masks_of_another_size_or_class_count_are_refused() {
        let error = iou(&Mask::empty(4, 4, 1), &Mask::empty(4, 5, 1)).unwrap_err().to_string();
        assert!(error.contains("4x4") && error.contains("4x5"), "{error}");
        assert!(dice(&Mask::empty(4, 4, 1), &Mask::empty(4, 4, 2)).is_err());
    }

    #[test]
    fn every_instruction_set_counts_the_same() {
        let words = 24;
        // Rows of all lengths of span: empty, one word, the whole row.
        let rows: Vec<u64> = (0..12 * words as u64)
            .map(|at| {
                let (row, word) = (at / words as u64, at % words as u64);
                if word < row || word > 2 * row { 0 } else { at.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
            })
            .collect();
        let spans: Vec<Range<usize>> = rows.chunks_exact(words).map(span).collect();
        let [mut chosen, mut baseline] = [vec![[0; TILE]; 12], vec![[1; TILE]; 12]];
        count_tile(&rows, words, &spans, &mut chosen);
        count_tile_with_what_there_is(&rows, words, &spans, &mut baseline);
        assert_eq!(chosen, baseline);
        assert!(chosen[11].iter().all(|&count| count > 0) && chosen[0] == [0; TILE]);
    }

    #[test]
    fn counting_by_tiles_is_counting_by_pixels() {
        // 21 masks of 37x29: neither whole words, whole vectors nor whole tiles.
        let masks: Vec<Mask> = (0..21usize)
            .map(|k| Mask::from_fn(37, 29, |x, y| (x * 7 + y * 13 + k * k * 5) % 11 < 2 + k % 7))
            .collect();
        let all: Vec<&Mask> = masks.iter().collect();
        let overlaps = Overlaps::among("test", &all).unwrap();
        for i in 0..21 {
            for j in 0..21 {
                let (mut both, mut either) = (0, 0);
                for (x, y) in (0..29).flat_map(|y| (0..37).map(move |x| (x, y))) {
                    let (a, b) = (masks[i].get(0, x, y), masks[j].get(0, x, y));
                    both += usize::from(a && b);
                    either += usize::from(a || b);
                }
                assert_eq!(overlaps.iou(i, j), both as f64 / either as f64, "{i} {j}");
            }
        }
    }
}
