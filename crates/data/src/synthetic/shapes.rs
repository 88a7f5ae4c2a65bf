//! `shapes` and its relatives (paper §4.2): a triangle in, shapes that follow from it out.
//!
//! Differs from the paper's words: the corners are ordered, or the parallelogram could be completed at
//! any of three of them; crop and cut are given ranges.

use super::{
    DrawnMode, Scene,
    shape::{Shape, Triangle},
};
use crate::{Image, Mask, draw::Draw};

/// The paper's four labels, in its order.
const FOUR: [Shape; 4] = [Shape::CroppedTriangle, Shape::Triangle, Shape::Pentagon, Shape::Parallelogram];

/// Eight labels of which no two come nearer than an IoU of 0.85; `varying` uses the first few.
const EIGHT: [Shape; 8] = [
    Shape::Triangle,
    Shape::Parallelogram,
    Shape::CroppedTriangle,
    Shape::FarHalf,
    Shape::Frame,
    Shape::Diamond,
    Shape::Inellipse,
    Shape::DeepPentagon,
];

/// The four labels, equally likely.
pub(super) fn balanced(draw: &mut Draw, size: usize) -> Scene {
    filled(draw, size, &FOUR, &[0.25; 4])
}

/// The four labels with probabilities 0.1, 0.4, 0.1, 0.4.
pub(super) fn unbalanced(draw: &mut Draw, size: usize) -> Scene {
    filled(draw, size, &FOUR, &[0.1, 0.4, 0.1, 0.4])
}

/// Eight labels, each half as likely as the one before; the last two are alike so that all sum to one.
pub(super) fn long_tail(draw: &mut Draw, size: usize) -> Scene {
    let halves = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 128.0].map(|part: f32| 1.0 / part);
    filled(draw, size, &EIGHT, &halves)
}

/// One to eight labels, equally likely: n of them where the triangle's inside is n tenths as bright as
/// its outline. The outline is white, so that the rule outlives any scaling of the image's intensity.
pub(super) fn varying(draw: &mut Draw, size: usize) -> Scene {
    let count = 1 + draw.index(EIGHT.len());
    let (triangle, mask, inside) = loop {
        let triangle = Triangle::random(draw, size);
        let mask = triangle.mask(Shape::Triangle, 0.0, size);
        let inside = without_outline(&mask);
        // The level must be seen; thin triangles of small pictures are all outline.
        if inside.area(0) >= 3 {
            break (triangle, mask, inside);
        }
    };
    let image = picture(&mask, |x, y| if inside.get(0, x, y) { count as f32 / 10.0 } else { 1.0 });
    let modes = modes(draw, &triangle, size, &EIGHT[..count], &vec![1.0 / count as f32; count]);
    Scene::of_modes(image, modes)
}

/// A white triangle with these labels.
fn filled(draw: &mut Draw, size: usize, shapes: &[Shape], probabilities: &[f32]) -> Scene {
    let triangle = Triangle::random(draw, size);
    let image = picture(&triangle.mask(Shape::Triangle, 0.0, size), |_, _| 1.0);
    let modes = modes(draw, &triangle, size, shapes, probabilities);
    Scene::of_modes(image, modes)
}

fn modes(
    draw: &mut Draw,
    triangle: &Triangle,
    size: usize,
    shapes: &[Shape],
    probabilities: &[f32],
) -> Vec<DrawnMode> {
    let mode = |(&shape, &probability): (&Shape, &f32)| {
        let representative = triangle.mask(shape, shape.best_fraction(), size);
        let drawn = match shape.hidden() {
            Some(range) => triangle.mask(shape, draw.uniform(range.start, range.end), size),
            None => representative.clone(),
        };
        DrawnMode { drawn, representative, probability, rater: None }
    };
    shapes.iter().zip(probabilities).map(mode).collect()
}

/// Black but for the mask's pixels.
fn picture(mask: &Mask, level: impl Fn(usize, usize) -> f32) -> Image {
    let (width, height) = (mask.width(), mask.height());
    let mut pixels = vec![0.0; width * height];
    for y in 0..height {
        for x in 0..width {
            if mask.get(0, x, y) {
                pixels[y * width + x] = level(x, y);
            }
        }
    }
    Image::new(width, height, 1, pixels)
}

/// The pixels whose four neighbours belong to the mask too.
fn without_outline(mask: &Mask) -> Mask {
    let (width, height) = (mask.width(), mask.height());
    Mask::from_fn(width, height, |x, y| {
        let interior = (1..width - 1).contains(&x) && (1..height - 1).contains(&y);
        interior
            && [(x, y), (x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
                .iter()
                .all(|&(x, y)| mask.get(0, x, y))
    })
}
