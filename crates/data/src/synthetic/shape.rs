//! The shapes that follow from a triangle, and which member of a shape with a hidden fraction stands
//! for all of them.

use super::raster::{Point, ellipse, polygon};
use crate::{Mask, draw::Draw};
use std::ops::Range;

/// A triangle whose corners are ordered by x - y, smallest first: `a` is the lower left one, so that
/// the parallelogram's fourth corner b + c - a is the upper right one, and all that follows from the
/// triangle is known from its picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Triangle {
    a: Point,
    b: Point,
    c: Point,
    /// The parallelogram's fourth corner.
    d: Point,
}

impl Triangle {
    /// A random triangle whose parallelogram lies within the picture. Its area is at least 4 % of the
    /// picture and 24 pixels, so that its shapes remain apart at 16x16; no other corner comes within
    /// 4 % of the edge length of being the lower left one, or the choice could not be seen.
    pub(super) fn random(draw: &mut Draw, size: usize) -> Self {
        let size = size as f64;
        let least_area = (0.04 * size * size).max(24.0);
        loop {
            let mut corner =
                || Point { x: draw.uniform(0.08, 0.92) * size, y: draw.uniform(0.08, 0.92) * size };
            let mut corners = [corner(), corner(), corner()];
            corners.sort_by(|p, q| (p.x - p.y).total_cmp(&(q.x - q.y)));
            let [a, b, c] = corners;
            let d = Point { x: b.x + c.x - a.x, y: b.y + c.y - a.y };
            let area = ((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)).abs() / 2.0;
            let margin = (b.x - b.y) - (a.x - a.y);
            let inside = |value: f64| (0.02 * size..=0.98 * size).contains(&value);
            if area >= least_area && margin >= 0.04 * size && inside(d.x) && inside(d.y) {
                return Self { a, b, c, d };
            }
        }
    }

    /// The mask of one of its shapes; `fraction` matters to those that have a range of it.
    pub(super) fn mask(&self, shape: Shape, fraction: f64, size: usize) -> Mask {
        let Self { a, b, c, d } = *self;
        let fill = |corners: &[Point]| polygon(size, size, corners);
        match shape {
            Shape::CroppedTriangle => fill(&[a, a.towards(b, fraction), a.towards(c, fraction)]),
            Shape::Triangle => fill(&[a, b, c]),
            Shape::Pentagon | Shape::DeepPentagon => {
                fill(&[a, b, b.towards(d, fraction), c.towards(d, fraction), c])
            }
            Shape::Parallelogram => fill(&[a, b, d, c]),
            Shape::FarHalf => fill(&[b, d, c]),
            Shape::Frame => {
                let middle = [a.towards(b, 0.5), b.towards(c, 0.5), c.towards(a, 0.5)];
                fill(&[a, b, c]).difference(&fill(&middle))
            }
            Shape::Diamond => {
                fill(&[a.towards(b, 0.5), b.towards(d, 0.5), d.towards(c, 0.5), c.towards(a, 0.5)])
            }
            Shape::Inellipse => {
                let centre = Point { x: (a.x + b.x + c.x) / 3.0, y: (a.y + b.y + c.y) / 3.0 };
                let first = Point { x: (c.x - centre.x) / 2.0, y: (c.y - centre.y) / 2.0 };
                let narrow = 0.5 / 3f64.sqrt();
                let second = Point { x: (a.x - b.x) * narrow, y: (a.y - b.y) * narrow };
                ellipse(size, size, centre, first, second)
            }
        }
    }
}

/// A shape that follows from a triangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The lower left corner's part, shrunk towards that corner; the fraction is hidden.
    CroppedTriangle,
    /// The triangle itself.
    Triangle,
    /// The parallelogram without its upper right corner; the fraction is hidden.
    Pentagon,
    /// The triangle and its reflection in the side opposite the lower left corner.
    Parallelogram,
    /// The reflection alone.
    FarHalf,
    /// The triangle without the triangle of its sides' midpoints.
    Frame,
    /// The midpoints of the parallelogram's sides, joined.
    Diamond,
    /// The largest ellipse in the triangle.
    Inellipse,
    /// A pentagon cut so deep that it is told from the parallelogram; the fraction is hidden.
    DeepPentagon,
}

impl Shape {
    /// Where the hidden fraction is drawn from, uniformly; none where nothing is hidden.
    pub(super) fn hidden(self) -> Option<Range<f64>> {
        match self {
            Self::CroppedTriangle | Self::Pentagon => Some(0.4..0.7),
            Self::DeepPentagon => Some(0.1..0.4),
            _ => None,
        }
    }

    /// The fraction that maximises the expected IoU with the drawn one. The members of a shape are
    /// nested, so IoU is a ratio of areas, which do not depend on the triangle.
    pub(super) fn best_fraction(self) -> f64 {
        match self {
            Self::CroppedTriangle => 0.5543,
            Self::Pentagon => 0.5508,
            Self::DeepPentagon => 0.2515,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_fractions_maximise_the_expected_iou() {
        for shape in [Shape::CroppedTriangle, Shape::Pentagon, Shape::DeepPentagon] {
            let area = |fraction: f64| match shape {
                Shape::CroppedTriangle => fraction * fraction,
                _ => 2.0 - (1.0 - fraction) * (1.0 - fraction),
            };
            let range = shape.hidden().unwrap();
            let at = |steps: u32, k: u32| {
                range.start + (range.end - range.start) * (f64::from(k) + 0.5) / f64::from(steps)
            };
            let expected = |fraction: f64| -> f64 {
                let own = area(fraction);
                (0..2000).map(|k| area(at(2000, k))).map(|other| own.min(other) / own.max(other)).sum()
            };
            let best = (0..3000).map(|k| at(3000, k)).max_by(|a, b| expected(*a).total_cmp(&expected(*b)));
            let best = best.unwrap();
            assert!((best - shape.best_fraction()).abs() < 3e-4, "{shape:?}: {best}");
        }
    }

    #[test]
    fn areas_are_those_of_the_geometry() {
        // Areas in triangles, exact in the plane; the raster comes within its boundary pixels.
        let table = [
            (Shape::CroppedTriangle, 0.5, 0.25),
            (Shape::Triangle, 0.0, 1.0),
            (Shape::Pentagon, 0.5, 1.75),
            (Shape::Parallelogram, 0.0, 2.0),
            (Shape::FarHalf, 0.0, 1.0),
            (Shape::Frame, 0.0, 0.75),
            (Shape::Diamond, 0.0, 1.0),
            (Shape::Inellipse, 0.0, std::f64::consts::PI / 27f64.sqrt()),
            (Shape::DeepPentagon, 0.25, 1.4375),
        ];
        for index in 0..20 {
            let triangle = Triangle::random(&mut Draw::new(3, &["areas"], index), 1024);
            let unit = triangle.mask(Shape::Triangle, 0.0, 1024).area(0) as f64;
            for (shape, fraction, expected) in table {
                let area = triangle.mask(shape, fraction, 1024).area(0) as f64 / unit;
                assert!((area - expected).abs() < 0.02, "{shape:?}: {area}, expected {expected}");
            }
        }
    }
}
