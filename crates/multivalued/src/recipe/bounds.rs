//! The range of every number in a recipe. Bounds are far beyond what any experiment needs: they keep a slip
//! or a hostile file from asking for years, terabytes or numbers that overflow.

use super::Recipe;
use crate::{Error, Result};
use multivalued_data::augment;
use multivalued_data::normalise::Normalisation;

/// A key's range, both ends included, and its values: one, or those of a list.
struct Range {
    key: &'static str,
    low: f64,
    high: f64,
    values: fn(&Recipe) -> Vec<f64>,
}

/// Where 1 itself would mean that nothing ever changes, or that nothing is left.
const BELOW_ONE: f64 = 0.999_999;
/// Weights of the loss.
const MOST_WEIGHT: f64 = 1e6;
/// TOML has no number above 2⁶³.
const MOST_SEED: f64 = 9.2e18;

macro_rules! ranges {
    ($($table:ident . $key:ident $(($each:tt))? : $low:expr, $high:expr;)*) => {
        &[$(Range {
            key: concat!(stringify!($table), ".", stringify!($key)),
            low: $low as f64,
            high: $high as f64,
            values: |recipe| ranges!(@values recipe.$table.$key $(, $each)?),
        }),*]
    };
    (@values $value:expr, list) => { $value.iter().map(|&value| value as f64).collect() };
    (@values $value:expr, pair) => { $value.iter().flatten().map(|&value| value as f64).collect() };
    (@values $value:expr) => { vec![$value as f64] };
}

const RANGES: &[Range] = ranges! {
    method.latent_dim: 1, 1024;
    method.divergence: 0, MOST_WEIGHT;
    data.size: 16, 4096;
    data.train_count: 0, 1_000_000;
    data.validation_count: 0, 1_000_000;
    data.test_count: 0, 1_000_000;
    data.validation_share: 0, BELOW_ONE;
    data.test_share: 0, BELOW_ONE;
    data.folds: 0, 64;
    data.fold: 0, 64;
    data.seed: 0, MOST_SEED;
    data.resize (pair): 8, 4096;
    data.spacing: 0, 1000;
    data.context: 0, 1;
    model.channels (list): 1, 4096;
    model.input_channels: 1, 4;
    model.classes: 1, 255;
    model.norm_group: 0, 4096;
    model.code_count: 2, 1024;
    model.code_dim: 1, 1024;
    model.head_width: 1, 4096;
    model.head_hidden: 0, 64;
    model.code_scale: 0, 1000;
    model.classifier_hidden: 0, 4096;
    assignment.active_codes: 0, 1024;
    assignment.temperature_start: 1e-6, 1000;
    assignment.temperature_end: 1e-6, 1000;
    assignment.anneal_until: 0, 1;
    assignment.prior: 0, 1000;
    assignment.same_iou: 0, 1;
    assignment.min_usage: 0, 1;
    loss.cross_entropy: 0, MOST_WEIGHT;
    loss.cross_entropy_from: 0, 1;
    loss.emptiness: 0, MOST_WEIGHT;
    loss.commitment: 0, MOST_WEIGHT;
    loss.covariance: 0, 1000;
    loss.average_decay: 0, 1;
    loss.overlap: 0, MOST_WEIGHT;
    loss.energy: 0, MOST_WEIGHT;
    loss.energy_from: 0, 1;
    loss.reconstruction_with_energy: 0, MOST_WEIGHT;
    loss.probability_gradient: 0, 1;
    train.batch: 1, 65_536;
    train.annotations: 0, 1024;
    train.steps: 0, 1_000_000_000;
    train.epochs: 0, 1_000_000;
    train.minutes: 0, 1_000_000;
    train.learning_rate: 1e-12, 10;
    train.warmup_steps: 0, 1_000_000_000;
    train.final_rate: 0, 1;
    train.beta2: 0, BELOW_ONE;
    train.weight_decay: 0, 100;
    train.clip_norm: 0, 1e9;
    train.weight_average: 0, BELOW_ONE;
    train.validate_every: 1, 1_000_000;
    train.patience: 0, 1_000_000;
    train.seed: 0, MOST_SEED;
    train.teacher_share: 0, BELOW_ONE;
    predict.min_probability: 0, BELOW_ONE;
    predict.merge_iou: 0, 1;
    predict.samples: 1, 10_000;
    predict.views: 1, 16;
    predict.temperature: 0.01, 100;
    predict.empty_temperature: 0.01, 100;
    predict.empty_shift: -20, 20;
    predict.spread: 0, 20;
};

/// Most levels of the encoder: an image of the largest side has one pixel at the last.
const MOST_LEVELS: usize = 15;
/// Largest end of `data.normalise`'s range, of either sign.
const MOST_PIXEL: f32 = 1e30;

impl Recipe {
    /// Refuses numbers outside their range, NaN and infinity among them.
    pub(super) fn check_bounds(&self) -> Result<()> {
        for Range { key, low, high, values } in RANGES {
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
    let own = RANGES.iter().find(|range| range.key == key).map(|range| (range.low, range.high));
    let augmentation = || {
        let name = key.strip_prefix("augment.")?;
        let (.., most) = augment::RANGES.iter().find(|(known, ..)| *known == name)?;
        Some((0.0, f64::from(*most)))
    };
    let crop = (key == "augment.crop").then_some((1.0, augment::MOST_CROP as f64));
    let (low, high) = own.or_else(augmentation).or(crop)?;
    Some(format!("{} to {}", plain(low), plain(high)))
}
