//! Whether directions mean something: what decides which flips and turns a training may use.
//!
//! A flip does harm where the flipped image could be a real one, but its annotations could not. Two things are
//! looked at, each as the mean over cases in units of their standard deviation:
//!
//! - *the rule*: where an image's smallest annotation lies as seen from its largest. Readers' noise has no
//!   direction; an answer that is always cut on the same side has one.
//! - *the scene*: how much better an image, or where its annotations lie, is explained by the mean of all others than
//!   by that mean mirrored. Radiographs have an up and a down, and lungs lie side by side; crops around a lesion have
//!   neither.

use super::disagreement::Region;
use crate::{Annotation, Case};
use serde::{Deserialize, Serialize};

/// Cases without which nothing can be said.
const FEWEST: usize = 12;

/// How strongly directions mean something, each as mean / standard deviation over cases.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orientation {
    /// Of the way from the largest to the smallest annotation of an image.
    pub rule: [f32; 2],
    /// What is lost by mirroring along x and along y, of images or of where annotations lie: the stronger of both.
    pub scene: [f32; 2],
    /// The same of swapping x and y.
    #[serde(default)]
    pub turn: f32,
}

impl Orientation {
    /// Of what each case says.
    pub(super) fn of(cases: &[&Directions]) -> Self {
        let among: Vec<[f32; 2]> = cases.iter().filter_map(|case| case.within).collect();
        let seen: Vec<Thumbnail> = cases.iter().filter_map(|case| case.seen).collect();
        let marked: Vec<Thumbnail> = cases.iter().filter_map(|case| case.marked).collect();
        let lost = |mirror: fn(usize, usize) -> usize| directed(&seen, mirror).max(directed(&marked, mirror));
        Self {
            rule: [0, 1].map(|axis: usize| strength(among.iter().map(|way| f64::from(way[axis]))).abs()),
            scene: [lost(|x, y| SIDE - 1 - x + SIDE * y), lost(|x, y| x + SIDE * (SIDE - 1 - y))],
            turn: lost(|x, y| y + SIDE * x),
        }
    }
}

/// Cells along each side of what is kept of an image.
const SIDE: usize = 8;
/// An image in so few cells, with mean 0 and length 1.
type Thumbnail = [f32; SIDE * SIDE];

/// What one case says of directions.
pub(super) struct Directions {
    within: Option<[f32; 2]>,
    seen: Option<Thumbnail>,
    marked: Option<Thumbnail>,
}

impl Directions {
    pub fn of(case: &Case) -> Self {
        let size = [case.image.width(), case.image.height()];
        let image = case.image.plane(0);
        Self {
            within: within(case),
            seen: thumbnail(size, |x, y| image[x + size[0] * y]),
            marked: thumbnail(size, |x, y| {
                let drawn =
                    |one: &&Annotation| (0..one.mask.classes()).any(|class| one.mask.get(class, x, y));
                case.annotations.iter().filter(drawn).count() as f32
            }),
        }
    }
}

/// The means of an image's cells, from at most some hundred pixels along each side; none where they are all alike.
fn thumbnail([width, height]: [usize; 2], value: impl Fn(usize, usize) -> f32) -> Option<Thumbnail> {
    let (mut sums, mut counts) = ([0.0f64; SIDE * SIDE], [0.0f64; SIDE * SIDE]);
    let step = |side: usize| (side / 64).max(1);
    for y in (0..height).step_by(step(height)) {
        for x in (0..width).step_by(step(width)) {
            let cell = x * SIDE / width + SIDE * (y * SIDE / height);
            sums[cell] += f64::from(value(x, y));
            counts[cell] += 1.0;
        }
    }
    let means: Vec<f64> = sums.iter().zip(counts).map(|(sum, count)| sum / f64::max(count, 1.0)).collect();
    normalised(&means)
}

/// With mean 0 and length 1; none where all values are alike.
fn normalised(values: &[f64]) -> Option<Thumbnail> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let length = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>().sqrt();
    let alike = length <= 1e-6 * (1.0 + mean.abs());
    (!alike).then(|| std::array::from_fn(|at| ((values[at] - mean) / length) as f32))
}

/// How much more the images correlate with the mean of the others than with that mean mirrored.
fn directed(images: &[Thumbnail], mirror: fn(usize, usize) -> usize) -> f32 {
    let mut sum = [0.0f64; SIDE * SIDE];
    for image in images {
        sum.iter_mut().zip(image).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    let lost = images.iter().filter_map(|image| {
        let others: Vec<f64> = sum.iter().zip(image).map(|(sum, &value)| sum - f64::from(value)).collect();
        let others = normalised(&others)?;
        let (mut as_is, mut mirrored) = (0.0, 0.0);
        for y in 0..SIDE {
            for x in 0..SIDE {
                let value = f64::from(image[x + SIDE * y]);
                as_is += value * f64::from(others[x + SIDE * y]);
                mirrored += value * f64::from(others[mirror(x, y)]);
            }
        }
        Some(as_is - mirrored)
    });
    strength(lost).max(0.0)
}

/// mean / standard deviation; 0 where there are too few to say, or no spread and no mean.
fn strength(values: impl Iterator<Item = f64>) -> f32 {
    let values: Vec<f64> = values.collect();
    if values.len() < FEWEST {
        return 0.0;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    // What rounding to pixels alone leaves is no direction.
    (mean / (variance.sqrt() + 1e-3)) as f32
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::{Image, Mask};

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

    /// Scenes of two blobs, side by side or one above the other, of which one is the brighter, where they are wanted.
    fn scenes(apart: [f64; 2], brighter: f64) -> Orientation {
        let cases: Vec<Case> = (0..40)
            .map(|index| {
                let mut draw = Draw::new(9, &["scenes"], index);
                let [x0, y0] = [32.0 + draw.uniform(-4.0, 4.0), 32.0 + draw.uniform(-4.0, 4.0)];
                let image = (0..4096).map(|at| {
                    let [x, y] = [(at % 64) as f64 - x0, (at / 64) as f64 - y0];
                    let blob = |x: f64, y: f64| (-(x * x + y * y) / 100.0).exp();
                    let near = blob(x - apart[0], y - apart[1]) + brighter * blob(x + apart[0], y + apart[1]);
                    (near + draw.uniform(0.0, 0.3)) as f32
                });
                let mask = Mask::from_fn(64, 64, |x, y| f64::hypot(x as f64 - x0, y as f64 - y0) < 3.0);
                Case {
                    id: index.to_string(),
                    group: index.to_string(),
                    image: Image::new(64, 64, 1, image.collect()),
                    annotations: vec![Annotation { mask, rater: None, weight: 1.0 }],
                    truth: None,
                }
            })
            .collect();
        let said: Vec<Directions> = cases.iter().map(Directions::of).collect();
        Orientation::of(&said.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_scene_has_the_directions_that_its_images_share() {
        let beside = scenes([16.0, 0.0], 1.0);
        assert!(beside.scene.iter().all(|&lost| lost < 1.0) && beside.turn > 2.0, "{beside:?}");
        let above = scenes([0.0, 16.0], 0.4);
        assert!(above.scene[1] > 2.0 && above.scene[0] < 1.0, "{above:?}");
        let none = scenes([0.0, 0.0], 1.0);
        assert!(none.scene.iter().chain([&none.turn]).all(|&lost| lost < 1.0), "{none:?}");
    }
}
