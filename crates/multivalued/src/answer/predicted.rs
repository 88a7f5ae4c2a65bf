//! What a model says of a slice, kept until the slices of its volume are all predicted.

use multivalued_data::{CompactMask, Hypothesis, Mask, Prediction};
use serde_json::{Value, json};

/// A slice's hypotheses in few bytes.
pub struct Predicted {
    /// All of them, the most probable first.
    pub all: Vec<PackedHypothesis>,
    /// How many of them, from the first on, are written where no short list stands for all.
    kept: usize,
    /// The short list, where one was asked for.
    short: Option<Vec<PackedHypothesis>>,
    /// GED between all hypotheses and the short list.
    pub loss: Option<f64>,
    /// How many draws the probabilities were counted from; none where the model states them.
    draws: Option<usize>,
}

/// A hypothesis in few bytes.
pub struct PackedHypothesis {
    /// Where it is.
    pub mask: CompactMask,
    /// How probable it is.
    pub probability: f32,
    /// Whose it is among the model's.
    pub code: usize,
}

impl Predicted {
    /// What a model says of a slice, and what is kept of that.
    pub fn new(all: &Prediction, kept: &Prediction, loss: Option<f64>) -> Self {
        let pack = |one: &Hypothesis| PackedHypothesis {
            mask: CompactMask::new(&one.mask),
            probability: one.probability,
            code: one.code,
        };
        Self {
            all: all.hypotheses.iter().map(pack).collect(),
            kept: kept.len(),
            short: loss.map(|_| kept.hypotheses.iter().map(pack).collect()),
            loss,
            draws: all.draws,
        }
    }

    /// What is written.
    pub fn kept(&self) -> &[PackedHypothesis] {
        self.short.as_deref().unwrap_or(&self.all[..self.kept])
    }

    /// What is kept, unpacked.
    pub fn prediction(&self) -> Prediction {
        let unpack = |one: &PackedHypothesis| Hypothesis {
            mask: one.mask.mask(),
            probability: one.probability,
            code: one.code,
        };
        Prediction { hypotheses: self.kept().iter().map(unpack).collect(), draws: self.draws }
    }

    /// All masks with their probabilities.
    pub fn weighted(&self) -> (Vec<Mask>, Vec<f64>) {
        self.all.iter().map(|one| (one.mask.mask(), f64::from(one.probability))).unzip()
    }

    /// What `prediction.json` says of the slice; without files, where these hold whole volumes.
    pub fn json(&self, files: Option<&[String]>) -> Value {
        let row = |(at, one): (usize, &PackedHypothesis)| {
            let file = files.map(|files| &files[at]);
            let mask = one.mask.mask();
            let areas: Vec<usize> = (0..mask.classes()).map(|class| mask.area(class)).collect();
            json!({ "file": file, "probability": one.probability, "code": one.code, "areas": areas })
        };
        // A short list drops nothing: its probabilities are sums over all.
        let dropped = if self.short.is_some() { &[] } else { &self.all[self.kept..] };
        json!({
            "draws": self.draws,
            "hypotheses": self.kept().iter().enumerate().map(row).collect::<Vec<_>>(),
            // A sum over nothing is -0, which looks odd.
            "dropped_probability": 0.0 + dropped.iter().map(|one| f64::from(one.probability)).sum::<f64>(),
            // GED between all hypotheses and those listed here; null where none stands for others.
            "list_loss": self.loss,
        })
    }
}
