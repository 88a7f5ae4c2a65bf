//! Images, masks and cases in another size: what the network sees where images are too large or differ in
//! size, and the way back.

use crate::{Annotation, Case, Image, Mask, Mode};

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
    /// The case with image, annotations and truth in another size.
    pub fn resampled(&self, size: [usize; 2]) -> Self {
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
