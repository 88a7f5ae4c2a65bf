//! What makes stored values a mask. Values that fit no rule are refused, never rounded.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::{Samples, Size};
use crate::memory::claim;
use crate::{Error, Mask, Result};

/// How stored values become a mask.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum MaskRule {
    /// 0 is background; 1, 255 or the stored type's largest value is foreground; one of them per file.
    #[default]
    Binary,
    /// Foreground where the value is at least this.
    Threshold(f32),
    /// 0 is background, 1 to this number are the foreground classes.
    Labels(usize),
}

/// Most classes a label map may have: NIfTI and PNG masks are written with 8 bits.
pub(crate) const MOST_CLASSES: usize = 255;

impl MaskRule {
    /// Foreground classes of the masks it makes.
    pub fn classes(self) -> usize {
        match self {
            Self::Binary | Self::Threshold(_) => 1,
            Self::Labels(classes) => classes,
        }
    }
}

impl fmt::Display for MaskRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binary => write!(f, "binary"),
            Self::Threshold(value) => write!(f, "threshold:{value}"),
            Self::Labels(classes) => write!(f, "labels:{classes}"),
        }
    }
}

impl FromStr for MaskRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::mismatch(
                "mask rule",
                format!(
                    "'{text}' is none of binary, threshold:VALUE, labels:COUNT (1 to {MOST_CLASSES}), as in threshold:128"
                ),
            )
        };
        match text.split_once(':') {
            None if text == "binary" => Ok(Self::Binary),
            Some(("threshold", value)) => match value.parse::<f32>() {
                Ok(value) if value.is_finite() => Ok(Self::Threshold(value)),
                _ => Err(wrong()),
            },
            Some(("labels", count)) => match count.parse() {
                Ok(count) if (1..=MOST_CLASSES).contains(&count) => Ok(Self::Labels(count)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

/// The mask of one slice of a file.
pub(crate) fn slice_mask(path: &Path, samples: &Samples, z: usize, rule: MaskRule) -> Result<Mask> {
    let Size { width, height, .. } = samples.size;
    let planes = samples.slice(path, z)?;
    let values = grey(path, samples, &planes)?;
    let full_scale = samples.full_scale();
    let plane_bytes = (width * height).div_ceil(64) * size_of::<u64>();
    let _room = claim(path, (plane_bytes * rule.classes()) as u64)?;
    let mut mask = Mask::empty(width, height, rule.classes());
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).zip(values);
    match rule {
        MaskRule::Binary => {
            let mut foreground = None;
            for ((x, y), &value) in pixels {
                if value == 0.0 {
                    continue;
                }
                if value != 1.0 && value != 255.0 && Some(value) != full_scale {
                    return Err(not_binary(path, value, x, y));
                }
                if *foreground.get_or_insert(value) != value {
                    return Err(not_binary(path, value, x, y));
                }
                mask.set(0, x, y, true);
            }
        }
        MaskRule::Threshold(threshold) => {
            for ((x, y), &value) in pixels {
                if value.is_nan() {
                    return Err(Error::file(
                        path,
                        format!("has no number at pixel ({x}, {y}); repair the mask"),
                    ));
                }
                if value >= threshold {
                    mask.set(0, x, y, true);
                }
            }
        }
        MaskRule::Labels(classes) => {
            for ((x, y), &value) in pixels {
                if value == 0.0 {
                    continue;
                }
                if value.fract() != 0.0 || !(1.0..=classes as f32).contains(&value) {
                    return Err(Error::file(
                        path,
                        format!(
                            "has the label {value} at pixel ({x}, {y}), outside 0 to {classes}; correct the mask or the number of classes"
                        ),
                    ));
                }
                mask.set(value as usize - 1, x, y, true);
            }
        }
    }
    Ok(mask)
}

fn not_binary(path: &Path, value: f32, x: usize, y: usize) -> Error {
    Error::file(
        path,
        format!(
            "is not a binary mask: the value {value} at pixel ({x}, {y}) is neither background (0) nor the file's one foreground value (1, 255 or full scale); read it as threshold:VALUE or labels:COUNT (--masks)"
        ),
    )
}

/// One plane of a mask file: colour is accepted where it is grey, alpha where it is opaque.
pub(crate) fn grey<'a>(path: &Path, samples: &Samples, planes: &'a [f32]) -> Result<&'a [f32]> {
    let length = samples.size.width * samples.size.height;
    let (first, others) = planes.split_at(length);
    let (colours, alpha) = match samples.size.channels {
        1 => return Ok(first),
        2 => others.split_at(0),
        3 => others.split_at(2 * length),
        _ => others.split_at(2 * length),
    };
    let is_grey = colours.chunks(length).all(|plane| plane == first);
    if !is_grey || alpha.iter().any(|&value| Some(value) != samples.full_scale()) {
        return Err(Error::file(
            path,
            "is a coloured or transparent mask; save the label numbers as grey values",
        ));
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::sample::{Sample, Steps};

    fn samples(channels: usize, values: &[f32]) -> Samples {
        let size = Size { width: values.len() / channels, height: 1, depth: 1, channels };
        let steps = Steps::planar(size);
        // Stored as 16-bit numbers where they are such, else as f32, which has no full scale.
        let (sample, bytes) = match values.iter().all(|value| value.fract() == 0.0 && *value >= 0.0) {
            true => (Sample::U16, values.iter().flat_map(|value| (*value as u16).to_le_bytes()).collect()),
            false => (Sample::F32, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        };
        Samples { size, bytes, sample, big_endian: false, steps, scale: None, geometry: None }
    }

    fn bits(rule: MaskRule, channels: usize, values: &[f32]) -> std::result::Result<Vec<u64>, String> {
        slice_mask(Path::new("m.png"), &samples(channels, values), 0, rule)
            .map(|mask| mask.words().to_vec())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn accepted_values() {
        for (rule, channels, values, expected) in [
            (MaskRule::Binary, 1, &[0., 1., 1.][..], vec![0b110]),
            (MaskRule::Binary, 1, &[0., 255., 0.], vec![0b010]),
            (MaskRule::Binary, 1, &[65_535., 0., 0.], vec![0b001]),
            (MaskRule::Binary, 1, &[0., 0., 0.], vec![0]),
            (MaskRule::Threshold(128.), 1, &[127.9, 128., 255.], vec![0b110]),
            (MaskRule::Labels(3), 1, &[0., 2., 3.], vec![0, 0b010, 0b100]),
            (MaskRule::Binary, 3, &[0., 255., 0., 255., 0., 255.], vec![0b10]),
            (MaskRule::Binary, 4, &[1., 0., 1., 0., 1., 0., 65_535., 65_535.], vec![0b01]),
            (MaskRule::Binary, 2, &[1., 0., 65_535., 65_535.], vec![0b01]),
        ] {
            assert_eq!(bits(rule, channels, values).unwrap(), expected, "{rule} {values:?}");
        }
    }

    #[test]
    fn refused_values() {
        for (rule, channels, values, cause) in [
            (MaskRule::Binary, 1, &[0., 1., 255.][..], "value 255 at pixel (2, 0)"),
            (MaskRule::Binary, 1, &[0., 2., 0.], "value 2 at pixel (1, 0)"),
            (MaskRule::Binary, 1, &[0., 0.5, 0.], "threshold"),
            (MaskRule::Binary, 1, &[0., f32::NAN, 0.], "NaN"),
            (MaskRule::Threshold(0.5), 1, &[0., f32::NAN, 0.], "no number"),
            (MaskRule::Labels(3), 1, &[0., 4., 0.], "label 4"),
            (MaskRule::Labels(3), 1, &[0., 1.5, 0.], "label 1.5"),
            (MaskRule::Labels(3), 1, &[0., -1., 0.], "label -1"),
            (MaskRule::Binary, 3, &[0., 255., 0.], "coloured"),
            (MaskRule::Binary, 2, &[1., 0., 0., 65_535.], "transparent"),
        ] {
            let message = bits(rule, channels, values).unwrap_err();
            assert!(message.starts_with("m.png: ") && message.contains(cause), "{message} lacks {cause}");
        }
    }

    #[test]
    fn rules_are_read_back() {
        for rule in [MaskRule::Binary, MaskRule::Threshold(127.5), MaskRule::Labels(4)] {
            assert_eq!(rule.to_string().parse::<MaskRule>().unwrap(), rule);
        }
        for text in ["", "labels:0", "labels:256", "threshold:x", "threshold:nan", "otsu"] {
            assert!(text.parse::<MaskRule>().unwrap_err().to_string().contains("threshold:VALUE"), "{text}");
        }
    }
}
