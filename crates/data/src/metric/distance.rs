//! Exact Euclidean distance to the nearest of some pixels, for every pixel of a window.
//!
//! Along each column the distance to the nearest marked pixel is found by two sweeps. Along each row the squared
//! distance is then the lower envelope of one parabola per column (Felzenszwalb and Huttenlocher, Distance Transforms
//! of Sampled Functions, 2012). Both passes are linear in the number of pixels.

/// For every pixel, row by row, its distance to the nearest marked one. `spacing` is the distance of two columns and
/// of two rows. Infinite where nothing is marked.
pub fn to_nearest(marked: &[bool], width: usize, spacing: [f64; 2]) -> Vec<f64> {
    if width == 0 {
        return Vec::new();
    }
    // Steps to the nearest marked pixel of the same column: above, then above or below.
    let mut squared: Vec<f64> =
        marked.iter().map(|&marked| if marked { 0.0 } else { f64::INFINITY }).collect();
    let rows = marked.len() / width;
    for y in 1..rows {
        let (before, row) = squared[(y - 1) * width..(y + 1) * width].split_at_mut(width);
        row.iter_mut().zip(before).for_each(|(steps, above)| *steps = steps.min(*above + 1.0));
    }
    for y in (1..rows).rev() {
        let (row, after) = squared[(y - 1) * width..(y + 1) * width].split_at_mut(width);
        row.iter_mut().zip(after).for_each(|(steps, below)| *steps = steps.min(*below + 1.0));
    }
    squared.iter_mut().for_each(|steps| *steps = (*steps * spacing[1]).powi(2));
    let mut envelope = Envelope::default();
    for row in squared.chunks_exact_mut(width) {
        envelope.replace(row, spacing[0]);
    }
    squared.iter_mut().for_each(|value| *value = value.sqrt());
    squared
}

/// The parabolas of a row that are lowest somewhere.
#[derive(Default)]
struct Envelope {
    /// Their columns and heights, from left to right.
    lowest: Vec<(f64, f64)>,
    /// From where each of them is the lowest.
    from: Vec<f64>,
}

impl Envelope {
    /// Puts min over k of (step (x − k))² + heights[k] in the place of each height.
    fn replace(&mut self, heights: &mut [f64], step: f64) {
        self.lowest.clear();
        self.from.clear();
        for (column, &height) in heights.iter().enumerate().filter(|(_, height)| height.is_finite()) {
            let at = column as f64 * step;
            let mut from = f64::NEG_INFINITY;
            while let (Some(&(other, low)), Some(&start)) = (self.lowest.last(), self.from.last()) {
                // Where the new parabola, which lies further right, comes below the last one.
                from = ((height + at * at) - (low + other * other)) / (2.0 * (at - other));
                if from > start {
                    break;
                }
                self.lowest.pop();
                self.from.pop();
                from = f64::NEG_INFINITY;
            }
            self.lowest.push((at, height));
            self.from.push(from);
        }
        if self.lowest.is_empty() {
            return;
        }
        let mut current = 0;
        for (column, height) in heights.iter_mut().enumerate() {
            let at = column as f64 * step;
            while self.from.get(current + 1).is_some_and(|&from| from < at) {
                current += 1;
            }
            let (centre, low) = self.lowest[current];
            *height = (at - centre).powi(2) + low;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_trying_all(marked: &[bool], width: usize, spacing: [f64; 2]) -> Vec<f64> {
        let place = |at: usize| ((at % width) as f64 * spacing[0], (at / width) as f64 * spacing[1]);
        let distance = |a: usize, b: usize| {
            let ((ax, ay), (bx, by)) = (place(a), place(b));
            (ax - bx).hypot(ay - by)
        };
        let all = 0..marked.len();
        let nearest = |at: usize| {
            let to = all.clone().filter(|&to| marked[to]).map(|to| distance(at, to));
            to.fold(f64::INFINITY, f64::min)
        };
        all.clone().map(nearest).collect()
    }

    #[test]
    fn distances_by_hand() {
        let mut marked = [false; 12];
        marked[0] = true;
        let found = to_nearest(&marked, 4, [1.0, 1.0]);
        assert_eq!((found[0], found[3], found[8]), (0.0, 3.0, 2.0));
        assert!((found[5] - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(to_nearest(&marked, 4, [3.0, 4.0])[5], 5.0);
        assert!(to_nearest(&[false; 6], 3, [1.0, 1.0]).iter().all(|distance| distance.is_infinite()));
        assert!(to_nearest(&[], 0, [1.0, 1.0]).is_empty());
    }

    proptest! {
        #[test]
        fn they_are_those_of_trying_all(
            marked in proptest::collection::vec(proptest::bool::weighted(0.1), 7 * 9),
            columns in 0.2f64..3.0,
            rows in 0.2f64..3.0,
        ) {
            for width in [7, 9, 63, 1] {
                let (fast, slow) =
                    (to_nearest(&marked, width, [columns, rows]), by_trying_all(&marked, width, [columns, rows]));
                for (fast, slow) in fast.iter().zip(&slow) {
                    prop_assert!(fast == slow || (fast - slow).abs() < 1e-9, "{fast} {slow}");
                }
            }
        }
    }
}
