//! Images, masks and cases in another size: what the network sees where images are too large or differ in
//! size, and the way back.

use std::fmt;

use crate::{Annotation, Case, Image, Mask, Mode};

/// The longest side of an image that is brought to a spacing.
const MOST_SIDE: f64 = 4096.0;

/// The pixels that images are brought to before the network sees them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Grid {
    /// So many columns and rows.
    Size([usize; 2]),
    /// Columns and rows at this distance, in the files' unit; an image that states none stays as it is.
    Spacing(f32),
}

impl Grid {
    /// Columns and rows of an image there.
    pub fn of(&self, image: &Image) -> [usize; 2] {
        let own = [image.width(), image.height()];
        match (self, &image.geometry) {
            (Self::Size(size), _) => *size,
            (Self::Spacing(wanted), Some(geometry)) => std::array::from_fn(|axis| {
                let pixels = own[axis] as f64 * f64::from(geometry.spacing[axis]) / f64::from(*wanted);
                if pixels.is_finite() { pixels.round().clamp(1.0, MOST_SIDE) as usize } else { own[axis] }
            }),
            (Self::Spacing(_), None) => own,
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size([width, height]) => write!(f, "{width}x{height}"),
            Self::Spacing(distance) => write!(f, "{distance}mm"),
        }
    }
}

/// For each place of a resampled line, the first source pixel and the weights from there on; they sum to one.
///
/// A triangle as wide as the larger of both pixels: linear interpolation where the line grows, a mean over
/// what a pixel covers where it shrinks.
fn weights(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let scale = from as f64 / to as f64;
    let reach = scale.max(1.0);
    let of_place = |place: usize| {
        let centre = (place as f64 + 0.5) * scale - 0.5;
        let first = ((centre - reach).ceil().max(0.0)) as usize;
        let last = ((centre + reach).floor().max(0.0) as usize).min(from - 1);
        let raw: Vec<f64> =
            (first..=last).map(|source| (1.0 - (source as f64 - centre).abs() / reach).max(0.0)).collect();
        let total: f64 = raw.iter().sum();
        (first, raw.iter().map(|weight| (weight / total) as f32).collect())
    };
    (0..to).map(of_place).collect()
}

/// One plane in another size.
fn plane(values: &[f32], [width, height]: [usize; 2], [columns, rows]: [usize; 2]) -> Vec<f32> {
    let along_x = weights(width, columns);
    let mut narrow = Vec::with_capacity(columns * height);
    for row in values.chunks_exact(width) {
        narrow.extend(along_x.iter().map(|(first, weights)| {
            weights.iter().zip(&row[*first..]).map(|(weight, value)| weight * value).sum::<f32>()
        }));
    }
    let mut out = vec![0.0; columns * rows];
    for (out, (first, weights)) in out.chunks_exact_mut(columns).zip(weights(height, rows)) {
        for (offset, weight) in weights.iter().enumerate() {
            let row = &narrow[(first + offset) * columns..][..columns];
            out.iter_mut().zip(row).for_each(|(out, value)| *out += weight * value);
        }
    }
    out
}

impl Image {
    /// The image with another width and height; without its geometry, which would no longer be true.
    pub fn resampled(&self, [columns, rows]: [usize; 2]) -> Self {
        let size = [self.width(), self.height()];
        if size == [columns, rows] {
            return self.clone();
        }
        let planes =
            (0..self.channels()).flat_map(|channel| plane(self.plane(channel), size, [columns, rows]));
        Self::new(columns, rows, self.channels(), planes.collect())
    }
}

impl Mask {
    /// The mask with another width and height: each pixel goes to what covers most of it.
    pub fn resampled(&self, [columns, rows]: [usize; 2]) -> Self {
        let size = [self.width(), self.height()];
        if size == [columns, rows] {
            return self.clone();
        }
        let shares: Vec<Vec<f32>> = (0..self.classes())
            .map(|class| {
                let values: Vec<f32> = (0..size[0] * size[1])
                    .map(|at| f32::from(u8::from(self.get(class, at % size[0], at / size[0]))))
                    .collect();
                plane(&values, size, [columns, rows])
            })
            .collect();
        let mut mask = Self::empty(columns, rows, self.classes());
        for at in 0..columns * rows {
            let background = 1.0 - shares.iter().map(|shares| shares[at]).sum::<f32>();
            let best = (0..self.classes()).max_by(|&a, &b| shares[a][at].total_cmp(&shares[b][at]));
            // A tie belongs to the foreground, so that a line of one pixel does not vanish.
            if let Some(class) = best.filter(|&class| shares[class][at] >= background - 1e-6) {
                mask.set(class, at % columns, at / columns, true);
            }
        }
        mask
    }
}

impl Case {
    /// The case with image, annotations and truth on another grid.
    pub fn resampled(&self, grid: Grid) -> Self {
        let size = grid.of(&self.image);
        Self {
            id: self.id.clone(),
            group: self.group.clone(),
            image: self.image.resampled(size),
            annotations: self
                .annotations
                .iter()
                .map(|annotation| Annotation { mask: annotation.mask.resampled(size), ..annotation.clone() })
                .collect(),
            truth: self.truth.as_ref().map(|modes| {
                modes.iter().map(|mode| Mode { mask: mode.mask.resampled(size), ..mode.clone() }).collect()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::metric::overlap::iou;

    #[test]
    fn a_line_grows_linearly_and_shrinks_to_means() {
        let image = Image::new(2, 1, 1, vec![0.0, 4.0]);
        assert_eq!(image.resampled([4, 1]).pixels(), [0.0, 1.0, 3.0, 4.0]);
        let image = Image::new(4, 2, 1, vec![1.0; 8]);
        assert!(image.resampled([3, 5]).pixels().iter().all(|value| (value - 1.0).abs() < 1e-6));
        let stripes = Image::new(64, 1, 1, (0..64).map(|x| (x % 2) as f32).collect());
        // Every second pixel is bright: what is left is grey, not stripes of another width.
        assert!(stripes.resampled([16, 1]).pixels()[2..14].iter().all(|value| (value - 0.5).abs() < 0.05));
    }

    #[test]
    fn a_spacing_gives_every_image_its_own_size() {
        let mut image = Image::new(100, 60, 1, vec![0.0; 6000]);
        let grid = Grid::Spacing(0.8);
        assert_eq!((grid.of(&image), grid.to_string()), ([100, 60], "0.8mm".into()), "no spacing is stated");
        let geometry = |spacing| Some(Geometry { spacing, affine: None });
        image.geometry = geometry([0.4, 0.8, 5.0]);
        assert_eq!(grid.of(&image), [50, 60]);
        for odd in [0.0, f32::NAN, f32::INFINITY, 1e9] {
            image.geometry = geometry([odd, odd, 1.0]);
            assert!(grid.of(&image).iter().all(|side| (1..=4096).contains(side)), "{odd}");
        }
        assert_eq!(Grid::Size([7, 9]).of(&image), [7, 9]);
    }

    #[test]
    fn masks_come_back_nearly_as_they_were() {
        let disc = Mask::from_fn(90, 60, |x, y| f64::hypot(x as f64 - 40.0, y as f64 - 31.0) < 17.0);
        let back = disc.resampled([64, 64]).resampled([90, 60]);
        assert!(iou(&disc, &back).unwrap() > 0.95);
        assert_eq!(disc.resampled([90, 60]), disc);
        assert!(Mask::empty(9, 7, 2).resampled([20, 3]).is_empty());
        let mut classes = Mask::empty(40, 40, 2);
        (0..40).for_each(|y| classes.fill_row(usize::from(y >= 20), y, 5..30));
        let small = classes.resampled([20, 20]);
        assert_eq!((small.area(0), small.area(1)), (small.area(1), small.area(0)));
        assert!(small.get(0, 8, 4) && small.get(1, 8, 15) && !small.get(1, 8, 4) && !small.get(0, 0, 0));
    }
}
