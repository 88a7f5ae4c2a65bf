//! Raw values to the range that training expects. Images keep their raw values until then, so that
//! the choice belongs to the recipe and not to the files.

use serde::{Deserialize, Serialize};

use crate::Image;

/// How raw values become network input; each plane by itself, since channels may be different
/// quantities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Normalisation {
    /// The plane's smallest value becomes 0, its largest 1; a constant plane becomes 0.
    MinMax,
    /// `low` becomes 0 and `high` 1, values beyond are cut off: for units that mean the same in every
    /// image, such as Hounsfield's.
    Range {
        /// What becomes 0.
        low: f32,
        /// What becomes 1.
        high: f32,
    },
    /// Mean 0 and variance 1; a constant plane becomes 0.
    ZScore,
}

impl Normalisation {
    /// Replaces an image's values.
    pub fn apply(&self, image: &mut Image) {
        let size = image.width() * image.height();
        if size == 0 {
            return;
        }
        for plane in image.pixels_mut().chunks_mut(size) {
            match *self {
                Self::MinMax => {
                    let low = plane.iter().copied().fold(f32::INFINITY, f32::min);
                    let high = plane.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    rescale(plane, f64::from(low), f64::from(high) - f64::from(low));
                }
                Self::Range { low, high } => {
                    rescale(plane, f64::from(low), f64::from(high) - f64::from(low));
                    plane.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
                }
                Self::ZScore => {
                    let count = plane.len() as f64;
                    let mean = plane.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
                    let variance =
                        plane.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
                    rescale(plane, mean, variance.sqrt());
                }
            }
        }
    }
}

/// `(value - origin) / unit`, or 0 where the unit is 0.
fn rescale(plane: &mut [f32], origin: f64, unit: f64) {
    let factor = if unit == 0.0 { 0.0 } else { unit.recip() };
    plane.iter_mut().for_each(|value| *value = ((f64::from(*value) - origin) * factor) as f32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_by_hand() {
        for (rule, expected) in [
            (Normalisation::MinMax, [0.0, 0.25, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0]),
            (Normalisation::Range { low: 0.0, high: 4.0 }, [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ] {
            let mut image = Image::new(4, 1, 2, vec![2.0, 4.0, 6.0, 10.0, 7.0, 7.0, 7.0, 7.0]);
            rule.apply(&mut image);
            assert_eq!(image.pixels(), expected, "{rule:?}");
        }
        let mut image = Image::new(4, 1, 1, vec![1.0, 1.0, 3.0, 3.0]);
        Normalisation::ZScore.apply(&mut image);
        assert_eq!(image.pixels(), [-1.0, -1.0, 1.0, 1.0]);
        let mut flat = Image::new(2, 1, 1, vec![5.0, 5.0]);
        Normalisation::ZScore.apply(&mut flat);
        assert_eq!(flat.pixels(), [0.0, 0.0]);
    }
}
