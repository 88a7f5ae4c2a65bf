//! What kind of masks a data set has, found by the values that its mask files hold.

use std::path::Path;

use rayon::prelude::*;

use super::Source;
use crate::Result;
use crate::import::mask::{MaskRule, grey};
use crate::import::{self, Limits};

/// Most classes that are taken for a label map's; larger values are rather grey levels.
const MOST_LABELS: f32 = 31.0;
/// More different values than this are not listed.
const MOST_LISTED: usize = 64;

/// The values of some mask files.
#[derive(Debug, Clone, Default)]
struct Values {
    /// Different values, rising; the first [`MOST_LISTED`] that were met.
    distinct: Vec<f32>,
    /// Files that mark anything and are binary masks, each for itself.
    binary: usize,
    /// Files that are not.
    other: usize,
    lowest: f32,
    highest: f32,
    whole: bool,
}

impl Values {
    fn of_file(path: &Path, limits: &Limits) -> Result<Option<Self>> {
        let samples = import::read(path, limits)?;
        let mut values = Self { whole: true, ..Self::default() };
        let mut previous = None;
        for z in 0..samples.size.depth {
            let planes = samples.slice(path, z)?;
            for &value in grey(path, &samples, &planes)? {
                // Most pixels repeat their neighbour.
                if previous.replace(value) == Some(value) || values.distinct.contains(&value) {
                    continue;
                }
                if !value.is_finite() {
                    return Ok(None);
                }
                values.whole &= value.fract() == 0.0;
                values.lowest = values.lowest.min(value);
                values.highest = values.highest.max(value);
                if values.distinct.len() < MOST_LISTED {
                    values.distinct.push(value);
                }
            }
        }
        let foreground: Vec<_> = values.distinct.iter().filter(|&&value| value != 0.0).collect();
        match foreground[..] {
            [] => {}
            [&one] if one == 1.0 || one == 255.0 || Some(one) == samples.full_scale() => values.binary = 1,
            _ => values.other = 1,
        }
        Ok(Some(values))
    }

    fn join(mut self, other: Self) -> Self {
        for value in other.distinct {
            if self.distinct.len() < MOST_LISTED && !self.distinct.contains(&value) {
                self.distinct.push(value);
            }
        }
        self.distinct.sort_by(f32::total_cmp);
        Self {
            distinct: self.distinct,
            binary: self.binary + other.binary,
            other: self.other + other.other,
            lowest: self.lowest.min(other.lowest),
            highest: self.highest.max(other.highest),
            whole: self.whole && other.whole,
        }
    }

    /// The rule, and a sentence where it is not the plain one.
    fn rule(&self) -> (MaskRule, Option<String>) {
        let shown: Vec<_> = self.distinct.iter().take(5).map(ToString::to_string).collect();
        let shown = shown.join(", ") + if self.distinct.len() > 5 { ", …" } else { "" };
        let noted = |rule: MaskRule, what: &str| {
            (
                rule,
                Some(format!(
                    "the masks hold the values {shown}: {what} ({rule}; --masks states another rule)"
                )),
            )
        };
        match self.distinct[..] {
            _ if self.other == 0 => (MaskRule::Binary, None),
            [_, higher] => noted(MaskRule::Threshold(higher), "the higher one is taken for foreground"),
            _ if self.whole && self.lowest >= 0.0 && self.highest <= MOST_LABELS => {
                noted(MaskRule::Labels(self.highest as usize), "they are read as label maps")
            }
            _ => match [1.0, 255.0, 65_535.0].into_iter().find(|&full| self.highest <= full) {
                // Where most masks are binary, the others are faults, and the plain rule names them.
                Some(full) if self.lowest >= 0.0 && self.other >= self.binary => noted(
                    MaskRule::Threshold(full / 2.0),
                    "they are read as soft masks, foreground from half of the full value on",
                ),
                // No rule fits, so the plain one says which file and value are at fault.
                _ => (MaskRule::Binary, None),
            },
        }
    }
}

/// The rule that all masks of a data set fit, and a sentence to tell where it is not the plain one. Files
/// that cannot be read have no say: whoever loads them tells why.
pub(super) fn infer(sources: &[Source], limits: &Limits) -> (MaskRule, Option<String>) {
    let values = sources.par_iter().filter_map(|source| {
        let masks =
            source.labels.iter().map(|label| &label.path).chain(source.truth.iter().map(|mode| &mode.path));
        masks.filter_map(|path| Values::of_file(path, limits).ok().flatten()).reduce(Values::join)
    });
    values.reduce_with(Values::join).map_or((MaskRule::Binary, None), |all| all.rule())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_by_values() {
        let values = |distinct: &[f32], binary: bool| Values {
            distinct: distinct.to_vec(),
            binary: usize::from(binary),
            other: usize::from(!binary),
            lowest: distinct.iter().copied().fold(0.0, f32::min),
            highest: distinct.iter().copied().fold(0.0, f32::max),
            whole: distinct.iter().all(|value| value.fract() == 0.0),
        };
        for (found, expected) in [
            (values(&[0.0, 1.0], true), MaskRule::Binary),
            (values(&[0.0, 1.0, 255.0], true), MaskRule::Binary),
            (values(&[0.0, 2.0], false), MaskRule::Threshold(2.0)),
            (values(&[0.0, 1.0, 2.0], false), MaskRule::Labels(2)),
            (values(&[0.0, 1.0, 2.0, 4.0], false), MaskRule::Labels(4)),
            (values(&[0.0, 128.0, 255.0], false), MaskRule::Threshold(127.5)),
            (values(&[0.0, 0.3, 1.0], false), MaskRule::Threshold(0.5)),
            (values(&[0.0, 100.0, 40_000.0], false), MaskRule::Threshold(32_767.5)),
            (values(&[-1.0, 0.0, 1.0], false), MaskRule::Binary),
        ] {
            let (rule, note) = found.rule();
            assert_eq!(rule, expected, "{:?}", found.distinct);
            assert_eq!(note.is_none(), rule == MaskRule::Binary, "{note:?}");
        }
        // A few grey masks among binary ones are faults; a rare class is none.
        let mixed = |distinct: &[f32]| Values { binary: 3, ..values(distinct, false) }.rule().0;
        assert_eq!(mixed(&[0.0, 7.0, 9.0, 255.0]), MaskRule::Binary);
        assert_eq!(mixed(&[0.0, 1.0, 2.0]), MaskRule::Labels(2));
    }
}
