//! Which hypotheses of a prediction are kept: all of them, or fewer by one of four rules.

use crate::{Coverage, Result};
use multivalued_data::Prediction;
use multivalued_data::metric::summary::{Summary, merged, short_list};

/// What is kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keep {
    /// The most probable ones, at most so many.
    pub top: Option<usize>,
    /// The set that a level was calibrated for.
    pub coverage: Option<Coverage>,
    /// At most so many that stand for all.
    pub list: Option<usize>,
    /// Those with at least this IoU as one.
    pub merge: Option<f64>,
}

impl Keep {
    /// Whether anything else than all is asked for.
    pub fn is_stated(&self) -> bool {
        self.top.or(self.list).is_some() || self.coverage.is_some() || self.merge.is_some()
    }

    /// What is kept of a volume's single slices: `coverage` was calibrated for such, the others choose whole volumes.
    pub fn of_slices(&self) -> Self {
        Self { coverage: self.coverage, ..Self::default() }
    }

    /// What `coverage` and `top` leave, whose probabilities stay as they were; or the short list that `list` or
    /// `merge` makes, with what it loses.
    pub fn of(&self, prediction: &Prediction) -> Result<(Prediction, Option<f64>)> {
        let short = match (self.list, self.merge) {
            (Some(count), _) => Some(short_list(prediction, count)?),
            (None, Some(iou)) => Some(merged(prediction, iou)?),
            (None, None) => None,
        };
        if let Some(Summary { prediction, loss }) = short {
            return Ok((prediction, Some(loss)));
        }
        let mut kept = self.coverage.map_or_else(|| prediction.clone(), |coverage| coverage.set(prediction));
        kept.hypotheses.truncate(self.top.unwrap_or(usize::MAX));
        Ok((kept, None))
    }
}
