//! Polygons and ellipses to masks, row by row: a pixel belongs to a shape where its centre does.

use crate::Mask;

/// A point in pixels; the centre of pixel (x, y) is (x + 0.5, y + 0.5), y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Point {
    /// The point `share` of the way from here to `other`.
    pub(super) fn towards(self, other: Self, share: f64) -> Self {
        Self { x: self.x + share * (other.x - self.x), y: self.y + share * (other.y - self.y) }
    }
}

/// A simple polygon, filled by the even-odd rule.
pub(super) fn polygon(width: usize, height: usize, corners: &[Point]) -> Mask {
    let mut mask = Mask::empty(width, height, 1);
    let top = corners.iter().fold(f64::INFINITY, |least, p| least.min(p.y));
    let bottom = corners.iter().fold(f64::NEG_INFINITY, |most, p| most.max(p.y));
    let mut crossings: Vec<f64> = Vec::with_capacity(8);
    for y in first_centre(top, height)..first_centre(bottom, height) {
        let centre = y as f64 + 0.5;
        crossings.clear();
        for (i, &a) in corners.iter().enumerate() {
            let b = corners[(i + 1) % corners.len()];
            if (a.y <= centre) != (b.y <= centre) {
                crossings.push(a.x + (centre - a.y) / (b.y - a.y) * (b.x - a.x));
            }
        }
        crossings.sort_unstable_by(f64::total_cmp);
        for pair in crossings.chunks_exact(2) {
            mask.fill_row(0, y, first_centre(pair[0], width)..first_centre(pair[1], width));
        }
    }
    mask
}

/// The ellipse `centre + cos(a) * first + sin(a) * second`: `first` and `second` are conjugate
/// half-diameters, as (x, y) offsets.
pub(super) fn ellipse(width: usize, height: usize, centre: Point, first: Point, second: Point) -> Mask {
    let mut mask = Mask::empty(width, height, 1);
    let reach = first.y.hypot(second.y);
    let determinant = first.x * second.y - first.y * second.x;
    if determinant == 0.0 {
        return mask;
    }
    for y in first_centre(centre.y - reach, height)..first_centre(centre.y + reach, height) {
        // A row is the chord on which the conjugate coordinates (p, q) of its points have
        // p² + q² <= 1; both are linear in x, so the chord's ends solve a quadratic.
        let dy = y as f64 + 0.5 - centre.y;
        let (p0, p1) = (-dy * second.x / determinant, second.y / determinant);
        let (q0, q1) = (dy * first.x / determinant, -first.y / determinant);
        let (a, b, c) = (p1 * p1 + q1 * q1, p0 * p1 + q0 * q1, p0 * p0 + q0 * q0 - 1.0);
        let root = (b * b - a * c).max(0.0).sqrt();
        let (left, right) = (centre.x + (-b - root) / a, centre.x + (-b + root) / a);
        mask.fill_row(0, y, first_centre(left, width)..first_centre(right, width));
    }
    mask
}

/// The first pixel whose centre lies at or beyond a coordinate, at most `count`.
fn first_centre(coordinate: f64, count: usize) -> usize {
    ((coordinate - 0.5).ceil().max(0.0) as usize).min(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point((x, y): (f64, f64)) -> Point {
        Point { x, y }
    }

    /// Winding number by summed angles: no code and no rule in common with the scan line.
    fn winds_around(corners: &[Point], p: Point) -> bool {
        let mut angle = 0.0;
        for (i, a) in corners.iter().enumerate() {
            let b = corners[(i + 1) % corners.len()];
            let (ax, ay, bx, by) = (a.x - p.x, a.y - p.y, b.x - p.x, b.y - p.y);
            angle += (ax * by - ay * bx).atan2(ax * bx + ay * by);
        }
        (angle / std::f64::consts::TAU).round() as i64 % 2 != 0
    }

    fn distance_to_edges(corners: &[Point], p: Point) -> f64 {
        (0..corners.len())
            .map(|i| {
                let (a, b) = (corners[i], corners[(i + 1) % corners.len()]);
                let (dx, dy) = (b.x - a.x, b.y - a.y);
                let along = (((p.x - a.x) * dx + (p.y - a.y) * dy) / (dx * dx + dy * dy)).clamp(0.0, 1.0);
                (p.x - a.x - along * dx).hypot(p.y - a.y - along * dy)
            })
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn a_square_covers_the_centres_inside_it() {
        let square = [(1.0, 1.0), (4.0, 1.0), (4.0, 3.0), (1.0, 3.0)].map(point);
        let expected = Mask::from_fn(6, 5, |x, y| (1..4).contains(&x) && (1..3).contains(&y));
        assert_eq!(polygon(6, 5, &square), expected);
    }

    #[test]
    fn neighbours_share_no_pixel_and_leave_none_out() {
        // The common diagonal runs through pixel centres.
        let lower = polygon(8, 8, &[(0.0, 0.0), (8.0, 8.0), (0.0, 8.0)].map(point));
        let upper = polygon(8, 8, &[(0.0, 0.0), (8.0, 8.0), (8.0, 0.0)].map(point));
        assert_eq!(lower.area(0) + upper.area(0), 64);
        assert!(lower.intersection(&upper).is_empty());
    }

    proptest! {
        #[test]
        fn polygons_equal_the_winding_test(
            corners in prop::collection::vec((-4.0..28.0f64, -4.0..22.0f64), 3..8),
        ) {
            let corners: Vec<Point> = corners.into_iter().map(point).collect();
            let mask = polygon(24, 18, &corners);
            for y in 0..18 {
                for x in 0..24 {
                    let centre = Point { x: x as f64 + 0.5, y: y as f64 + 0.5 };
                    if distance_to_edges(&corners, centre) > 1e-6 {
                        prop_assert_eq!(mask.get(0, x, y), winds_around(&corners, centre), "({}, {})", x, y);
                    }
                }
            }
        }

        #[test]
        fn ellipses_equal_their_equation(
            centre in (-2.0..26.0f64, -2.0..20.0f64), axes in (0.5..12.0f64, 0.5..12.0f64),
            turn in 0.0..3.2f64, shear in 0.0..3.2f64,
        ) {
            let (c, s) = (turn.cos(), turn.sin());
            // Any pair of conjugate half-diameters of the same ellipse must give the same mask.
            let (e, f) = (shear.cos(), shear.sin());
            let along = |u: f64, v: f64| {
                let (p, q) = (axes.0 * u, axes.1 * v);
                Point { x: c * p - s * q, y: s * p + c * q }
            };
            let mask = ellipse(24, 18, point(centre), along(e, f), along(-f, e));
            for y in 0..18 {
                for x in 0..24 {
                    let (dx, dy) = (x as f64 + 0.5 - centre.0, y as f64 + 0.5 - centre.1);
                    let level = ((c * dx + s * dy) / axes.0).hypot((c * dy - s * dx) / axes.1);
                    if (level - 1.0).abs() > 1e-6 {
                        prop_assert_eq!(mask.get(0, x, y), level < 1.0, "({}, {})", x, y);
                    }
                }
            }
        }
    }
}
