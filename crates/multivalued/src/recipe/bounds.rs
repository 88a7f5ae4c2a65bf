//! Numbers outside their range: what is refused, and how a range is written.

use super::Recipe;
use super::table::{Range, rows};
use crate::{Error, Result};
use multivalued_data::augment;
use multivalued_data::normalise::Normalisation;

/// Most levels of the encoder: an image of the largest side has one pixel at the last.
const MOST_LEVELS: usize = 15;
/// Largest end of `data.normalise`'s range, of either sign.
const MOST_PIXEL: f32 = 1e30;

impl Recipe {
    /// Refuses numbers outside their range, NaN and infinity among them.
    pub(super) fn check_bounds(&self) -> Result<()> {
        for (key, Range { low, high, values }) in
            rows().filter_map(|row| Some((row.key, row.range.as_ref()?)))
        {
            if let Some(value) = values(self).into_iter().find(|value| !(*low..=*high).contains(value)) {
                let [value, low, high] = [value, *low, *high].map(plain);
                return Err(Error::recipe(key, format!("{value} is outside {low} to {high}")));
            }
        }
        let levels = self.model.channels.len();
        if !(1..=MOST_LEVELS).contains(&levels) {
            let reason = format!("{levels} levels are outside 1 to {MOST_LEVELS}");
            return Err(Error::recipe("model.channels", reason));
        }
        if let Normalisation::Range { low, high } = self.data.normalise
            && let Some(value) =
                [low, high].into_iter().find(|value| !(-MOST_PIXEL..=MOST_PIXEL).contains(value))
        {
            let reason = format!("{value} is outside -{MOST_PIXEL:e} to {MOST_PIXEL:e}");
            return Err(Error::recipe("data.normalise", reason));
        }
        self.augment.validate().map_err(|error| match error {
            multivalued_data::Error::Mismatch { what, reason } => Error::recipe(&what, reason),
            other => other.into(),
        })
    }
}

/// A number in its own few digits: those of f32 where it is one.
fn plain(value: f64) -> String {
    let short = value as f32;
    match value.abs() {
        size if size > 0.0 && !(1e-4..1e15).contains(&size) => format!("{value:e}"),
        _ if f64::from(short) == value && value.fract() != 0.0 => short.to_string(),
        _ => value.to_string(),
    }
}

/// The range of a key in words; none for a key that holds no number.
pub(super) fn range_of(key: &str) -> Option<String> {
    let own = rows().find(|row| row.key == key).and_then(|row| row.range.as_ref());
    let own = own.map(|range| (range.low, range.high));
    let augmentation = || {
        let name = key.strip_prefix("augment.")?;
        let (.., most) = augment::RANGES.iter().find(|(known, ..)| *known == name)?;
        Some((0.0, f64::from(*most)))
    };
    let crop = (key == "augment.crop").then_some((1.0, augment::MOST_CROP as f64));
    let (low, high) = own.or_else(augmentation).or(crop)?;
    Some(format!("{} to {}", plain(low), plain(high)))
}
