//! Whether directions mean something: what decides which flips and turns a training may use.
//!
//! A flip does harm where the flipped image could be a real one, but its annotations could not. Two things are
//! looked at, each along x and y, as the mean over cases in units of their standard deviation:
//!
//! - *the rule*: where an image's smallest annotation lies as seen from its largest. Readers' noise has no
//!   direction; an answer that is always cut on the same side has one.
//! - *the scene*: where bright pixels and annotations lie in the image. Radiographs have an up and a down.

use super::disagreement::Region;
use crate::{Case, Image};
use serde::{Deserialize, Serialize};

/// Cases without which nothing can be said.
const FEWEST: usize = 12;

/// How strongly x and y are directed, each as |mean| / standard deviation over cases.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orientation {
    /// Of the way from the largest to the smallest annotation of an image.
    pub rule: [f32; 2],
    /// Of the place of bright pixels, or of annotations, in the image: the stronger of both.
    pub scene: [f32; 2],
}

impl Orientation {
    /// Of what each case says.
    pub(super) fn of(cases: &[&Directions]) -> Self {
        let among: Vec<[f32; 2]> = cases.iter().filter_map(|case| case.within).collect();
        let bright: Vec<[f32; 2]> = cases.iter().map(|case| case.bright).collect();
        let marked: Vec<[f32; 2]> = cases.iter().filter_map(|case| case.marked).collect();
        let (bright, marked) = (strength(&bright), strength(&marked));
        Self { rule: strength(&among), scene: [0, 1].map(|axis: usize| f32::max(bright[axis], marked[axis])) }
    }
}

/// What one case says of directions.
pub(super) struct Directions {
    within: Option<[f32; 2]>,
    bright: [f32; 2],
    marked: Option<[f32; 2]>,
}

impl Directions {
    pub fn of(case: &Case) -> Self {
        Self { within: within(case), bright: brightness_centre(&case.image), marked: marked_centre(case) }
    }
}

/// |mean| / standard deviation along x and y; 0 where there are too few cases to say, or no spread and no mean.
fn strength(vectors: &[[f32; 2]]) -> [f32; 2] {
    let count = vectors.len() as f64;
    [0, 1].map(|axis: usize| {
        if vectors.len() < FEWEST {
            return 0.0;
        }
        let mean = vectors.iter().map(|vector| f64::from(vector[axis])).sum::<f64>() / count;
        let variance =
            vectors.iter().map(|vector| (f64::from(vector[axis]) - mean).powi(2)).sum::<f64>() / count;
        // What rounding to pixels alone leaves is no direction.
        (mean.abs() / (variance.sqrt() + 1e-3)) as f32
    })
}

/// From the largest annotation's centre to the smallest one's, in diameters of the largest.
fn within(case: &Case) -> Option<[f32; 2]> {
    let mut regions: Vec<Region> = case
        .annotations
        .iter()
        .map(|annotation| Region::of(&annotation.mask))
        .filter(|r| r.area > 0.0)
        .collect();
    regions.sort_by(|a, b| a.area.total_cmp(&b.area));
    let (small, large) = (regions.first()?, regions.last()?);
    if small.area == large.area {
        return None;
    }
    let diameter = 2.0 * (large.area / std::f32::consts::PI).sqrt();
    Some([0, 1].map(|axis: usize| (small.centre[axis] - large.centre[axis]) / diameter))
}

/// Where an image is bright, from -1 to 1 along each side.
fn brightness_centre(image: &Image) -> [f32; 2] {
    let (width, height) = (image.width(), image.height());
    let low = image.plane(0).iter().copied().fold(f32::INFINITY, f32::min);
    let (mut total, mut sum) = (0.0f64, [0.0f64; 2]);
    for (at, &value) in image.plane(0).iter().enumerate() {
        let weight = f64::from(value - low);
        total += weight;
        sum[0] += weight * (at % width) as f64;
        sum[1] += weight * (at / width) as f64;
    }
    if total <= 0.0 {
        return [0.0; 2];
    }
    let place = |sum: f64, side: usize| (2.0 * (sum / total + 0.5) / side as f64 - 1.0) as f32;
    [place(sum[0], width), place(sum[1], height)]
}

/// Where the annotations of a case lie, from -1 to 1 along each side.
fn marked_centre(case: &Case) -> Option<[f32; 2]> {
    let regions: Vec<Region> = case
        .annotations
        .iter()
        .map(|annotation| Region::of(&annotation.mask))
        .filter(|r| r.area > 0.0)
        .collect();
    let sides = [case.image.width(), case.image.height()];
    (!regions.is_empty()).then(|| {
        [0, 1].map(|axis: usize| {
            let mean = regions.iter().map(|region| region.centre[axis]).sum::<f32>() / regions.len() as f32;
            2.0 * (mean + 0.5) / sides[axis] as f32 - 1.0
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::{Annotation, Mask};

    /// Discs, and the same discs without a part: of the lower half, or of any half.
    fn cases(directed: bool) -> Vec<Case> {
        (0..60)
            .map(|index| {
                let mut draw = Draw::new(7, &["orientation"], index);
                let (x0, y0, radius) =
                    (draw.uniform(20.0, 44.0), draw.uniform(20.0, 44.0), draw.uniform(8.0, 14.0));
                let (side, upright) = (draw.chance(0.5), draw.chance(0.5));
                let disc = move |x: usize, y: usize| f64::hypot(x as f64 - x0, y as f64 - y0) <= radius;
                let cut = move |x: usize, y: usize| {
                    let (away, centre) = if upright || directed { (y as f64, y0) } else { (x as f64, x0) };
                    disc(x, y) && if side || directed { away < centre } else { away > centre }
                };
                let annotation = |mask| Annotation { mask, rater: None, weight: 1.0 };
                Case {
                    id: index.to_string(),
                    group: index.to_string(),
                    image: Image::new(
                        64,
                        64,
                        1,
                        (0..4096).map(|at| f32::from(u8::from(disc(at % 64, at / 64)))).collect(),
                    ),
                    annotations: vec![
                        annotation(Mask::from_fn(64, 64, disc)),
                        annotation(Mask::from_fn(64, 64, cut)),
                    ],
                    truth: None,
                }
            })
            .collect()
    }

    #[test]
    fn an_answer_that_is_cut_on_one_side_has_a_direction() {
        let [directed, random] = [true, false].map(|directed| {
            let said: Vec<Directions> = cases(directed).iter().map(Directions::of).collect();
            Orientation::of(&said.iter().collect::<Vec<_>>())
        });
        assert!(directed.rule[1] > 2.0 && directed.rule[0] < 0.5, "{directed:?}");
        assert!(random.rule[0] < 0.4 && random.rule[1] < 0.4, "{random:?}");
        assert!(random.scene[0] < 0.5 && random.scene[1] < 0.5, "{random:?}");
    }
}
