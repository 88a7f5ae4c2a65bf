//! From an outline to the pixels inside.
//!
//! Readers drew the *outer* border: the pixels of the outline are the first ones outside of the nodule, and do not
//! belong to it (TCIA's "LIDC XML file documentation"; Armato et al., Medical Physics 38 (2011), 915-931). So
//! pixels strictly inside of the polygon count, unless the border is asked for, too.

use std::collections::BTreeSet;

/// Column and row.
pub type Pixel = (usize, usize);

/// The pixels inside of a closed polygon, with or without those on it, in an image of that size.
pub fn inside(points: &[[i32; 2]], with_border: bool, [width, height]: [usize; 2]) -> BTreeSet<Pixel> {
    let ends = |axis: usize, most: usize| {
        let values = || points.iter().map(|point| point[axis]);
        // Nothing of it may lie in the image.
        let low = values().min().unwrap_or(0).max(0);
        low..=values().max().unwrap_or(-1).min(most as i32 - 1)
    };
    let edges = || points.iter().zip(points.iter().cycle().skip(1));
    let is_in = |x: i32, y: i32| match edges().any(|(a, b)| is_on([x, y], *a, *b)) {
        true => with_border,
        false => edges().filter(|(a, b)| is_left_of([x, y], **a, **b)).count() % 2 == 1,
    };
    let rows = ends(1, height);
    let pixels = rows.flat_map(|y| ends(0, width).map(move |x| (x, y)));
    pixels.filter(|&(x, y)| is_in(x, y)).map(|(x, y)| (x as usize, y as usize)).collect()
}

fn cross(point: [i32; 2], a: [i32; 2], b: [i32; 2]) -> i64 {
    let [[px, py], [ax, ay], [bx, by]] = [point, a, b].map(|point| point.map(i64::from));
    (bx - ax) * (py - ay) - (by - ay) * (px - ax)
}

/// Whether a point lies on the way from `a` to `b`.
fn is_on(point: [i32; 2], a: [i32; 2], b: [i32; 2]) -> bool {
    let between = |axis: usize| (a[axis].min(b[axis])..=a[axis].max(b[axis])).contains(&point[axis]);
    between(0) && between(1) && cross(point, a, b) == 0
}

/// Whether a ray from a point to the right crosses the way from `a` to `b`. Exact: all numbers are whole.
fn is_left_of(point: [i32; 2], a: [i32; 2], b: [i32; 2]) -> bool {
    let crosses = (a[1] > point[1]) != (b[1] > point[1]);
    crosses && (cross(point, a, b) > 0) == (b[1] > a[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_border_is_outside() {
        // A square of 5x5 border pixels around 3x3.
        let corners = [[2, 3], [6, 3], [6, 7], [2, 7]];
        let found = inside(&corners, false, [16, 16]);
        let wanted: BTreeSet<Pixel> = (3..=5).flat_map(|x| (4..=6).map(move |y| (x, y))).collect();
        assert_eq!(found, wanted);
        assert_eq!(inside(&corners, true, [16, 16]).len(), 25);
        // As the files have it: every border pixel, closed by the first one.
        let mut walked: Vec<[i32; 2]> = (2..6).map(|x| [x, 3]).collect();
        walked.extend((3..7).map(|y| [6, y]));
        walked.extend((3..=6).rev().map(|x| [x, 7]));
        walked.extend((3..=7).rev().map(|y| [2, y]));
        assert_eq!(inside(&walked, false, [16, 16]), wanted);
        // The other way round is the same.
        walked.reverse();
        assert_eq!(inside(&walked, false, [16, 16]), wanted);
    }

    #[test]
    fn slanted_lines_lines_without_inside_and_the_image_s_edge() {
        let diamond = [[5, 1], [9, 5], [5, 9], [1, 5]];
        let found = inside(&diamond, false, [16, 16]);
        assert_eq!(found.len(), 25, "{found:?}");
        assert!(found.iter().all(|&(x, y)| x.abs_diff(5) + y.abs_diff(5) <= 3));
        assert!(inside(&[[1, 1], [4, 1], [1, 1]], false, [16, 16]).is_empty());
        assert!(inside(&[], true, [16, 16]).is_empty());
        assert_eq!(inside(&diamond, false, [16, 5]).len(), 9);
        assert!(inside(&[[-9, -9], [-3, -9], [-3, -3]], true, [16, 16]).is_empty());
    }
}
