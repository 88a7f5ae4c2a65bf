//! How far, and in what way, annotations of one image differ.
//!
//! Readers who outline the same thing differ by thin bands along its border, or some of them mark nothing. Where
//! several answers are right, parts are there or missing. The thickness of what two annotations do not share
//! tells these apart.

use super::{Spread, share};
use crate::metric::overlap::iou;
use crate::{Case, Mask};
use serde::{Deserialize, Serialize};

/// From this IoU on two annotations are the same answer, drawn twice.
const REPEATED: f64 = 0.97;
/// From this IoU on two annotations are equal.
const EQUAL: f64 = 0.99;
/// Edge of the raster on which thickness is measured.
const RASTER: usize = 64;
/// Pairs of one image that are measured.
const PAIRS: usize = 28;

/// How annotations of one image differ, over all pairs of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disagreement {
    /// IoU of two annotations of an image that both mark something.
    pub iou: Spread,
    /// The smaller area by the larger one of such a pair.
    pub area_ratio: Spread,
    /// Distance of their centres, in diameters of the larger one.
    pub shift: Spread,
    /// Radius of the largest disc inside what the two do not share, in radii of a disc as large as both
    /// together.
    pub thickness: Spread,
    /// Images with two annotations that are the same (IoU at least 0.97, or both empty), as a share of the
    /// images with several annotations.
    pub repeated_share: f32,
    /// Pairs of which one marks something and the other nothing, as a share of all pairs.
    pub presence_share: f32,
}

/// What one pair of annotations adds.
struct Pair {
    iou: f32,
    area_ratio: f32,
    shift: f32,
    thickness: f32,
}

impl Disagreement {
    /// Of the pairs of all cases that have several annotations.
    pub(super) fn of(all: &[&Pairs]) -> Self {
        let spread =
            |of: fn(&Pair) -> f32| Spread::of(all.iter().flat_map(|pairs| &pairs.marked).map(of).collect());
        let sum = |of: fn(&Pairs) -> usize| all.iter().map(|pairs| of(pairs)).sum::<usize>();
        Self {
            iou: spread(|pair| pair.iou),
            area_ratio: spread(|pair| pair.area_ratio),
            shift: spread(|pair| pair.shift),
            thickness: spread(|pair| pair.thickness),
            repeated_share: share(sum(|pairs| usize::from(pairs.repeated)), all.len()),
            presence_share: share(sum(|pairs| pairs.presence), sum(|pairs| pairs.count)),
        }
    }
}

/// Whether all annotations of a case are equal.
fn is_unanimous(case: &Case) -> bool {
    let first = &case.annotations[0].mask;
    case.annotations[1..].iter().all(|other| iou(first, &other.mask).is_ok_and(|iou| iou >= EQUAL))
}

/// The pairs of one case.
#[derive(Default)]
pub(super) struct Pairs {
    /// Whether all annotations are equal.
    pub unanimous: bool,
    /// Those of which both mark something.
    marked: Vec<Pair>,
    /// Whether two annotations are the same.
    repeated: bool,
    /// How many differ in whether they mark anything.
    presence: usize,
    /// All of them.
    count: usize,
}

impl Pairs {
    pub fn of(case: &Case) -> Self {
        let masks: Vec<&Mask> = case.annotations.iter().map(|annotation| &annotation.mask).collect();
        let mut found = Self { unanimous: is_unanimous(case), ..Self::default() };
        for (at, one) in masks.iter().enumerate() {
            for other in &masks[at + 1..] {
                if found.count == PAIRS {
                    return found;
                }
                // Masks of one case have one size; where they do not, loading has refused them.
                let Ok(iou) = iou(one, other) else { continue };
                found.count += 1;
                found.repeated |= iou >= REPEATED;
                match (one.is_empty(), other.is_empty()) {
                    (true, true) => {}
                    (false, false) => found.marked.push(Pair::new(one, other, iou as f32)),
                    _ => found.presence += 1,
                }
            }
        }
        found
    }
}

impl Pair {
    fn new(one: &Mask, other: &Mask, iou: f32) -> Self {
        let (first, second) = (Region::of(one), Region::of(other));
        let (small, large) = (first.area.min(second.area), first.area.max(second.area));
        let shift = f32::hypot(first.centre[0] - second.centre[0], first.centre[1] - second.centre[1]);
        Self {
            iou,
            area_ratio: small / large,
            shift: shift / (2.0 * (large / std::f32::consts::PI).sqrt()),
            thickness: thickness(one, other),
        }
    }
}

/// Area and centre of all that a mask marks, whatever the class.
pub(super) struct Region {
    pub area: f32,
    /// Column and row.
    pub centre: [f32; 2],
}

impl Region {
    pub fn of(mask: &Mask) -> Self {
        let (mut area, mut sum) = (0.0f64, [0.0f64; 2]);
        let width = mask.width();
        for class in 0..mask.classes() {
            for (at, &word) in mask.plane(class).iter().enumerate() {
                let mut rest = word;
                while rest != 0 {
                    let pixel = at * 64 + rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    area += 1.0;
                    sum[0] += (pixel % width) as f64;
                    sum[1] += (pixel / width) as f64;
                }
            }
        }
        Self { area: area as f32, centre: sum.map(|sum| (sum / area.max(1.0)) as f32) }
    }
}

/// See [`Disagreement::thickness`]; by how often what differs can be eroded.
fn thickness(one: &Mask, other: &Mask) -> f32 {
    let (width, height) = (one.width(), one.height());
    let any = |mask: &Mask, x, y| (0..mask.classes()).any(|class| mask.get(class, x, y));
    let same = |x, y| (0..one.classes()).all(|class| one.get(class, x, y) == other.get(class, x, y));
    let stride = width.max(height).div_ceil(RASTER * 2).max(1);
    let (columns, rows) = (width.div_ceil(stride), height.div_ceil(stride));
    let mut differs = vec![false; columns * rows];
    let mut union = 0;
    for row in 0..rows {
        for column in 0..columns {
            let (x, y) = (column * stride, row * stride);
            differs[row * columns + column] = !same(x, y);
            union += usize::from(any(one, x, y) || any(other, x, y));
        }
    }
    let mut erosions = 0;
    while differs.iter().any(|&inside| inside) {
        erosions += 1;
        let kept = |x: usize, y: usize| {
            let inside = |x: usize, y: usize| x < columns && y < rows && differs[y * columns + x];
            inside(x, y)
                && inside(x.wrapping_sub(1), y)
                && inside(x + 1, y)
                && inside(x, y.wrapping_sub(1))
                && inside(x, y + 1)
        };
        differs = (0..columns * rows).map(|at| kept(at % columns, at / columns)).collect();
    }
    // One erosion takes all that is one or two pixels wide: half a pixel is the radius of what is left to say.
    (erosions as f32 - 0.5).max(0.0) / (union.max(1) as f32 / std::f32::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disc(radius: f32, x0: f32, y0: f32) -> Mask {
        Mask::from_fn(48, 48, |x, y| f32::hypot(x as f32 - x0, y as f32 - y0) <= radius)
    }

    #[test]
    fn bands_are_thin_and_missing_parts_are_thick() {
        let whole = disc(14.0, 24.0, 24.0);
        let band = thickness(&whole, &disc(12.0, 24.0, 24.0));
        let half = Mask::from_fn(48, 48, |x, y| whole.get(0, x, y) && x < 24);
        let part = thickness(&whole, &half);
        assert!(band < 0.13 && part > 0.25, "{band} {part}");
        assert_eq!(thickness(&whole, &whole), 0.0);
    }

    #[test]
    fn pairs_by_hand() {
        let (large, small) = (disc(10.0, 24.0, 24.0), disc(10.0, 27.0, 28.0));
        let pair = Pair::new(&large, &small, 0.6);
        assert!((pair.area_ratio - 1.0).abs() < 1e-3 && (pair.shift - 0.25).abs() < 0.01, "{}", pair.shift);
    }
}
