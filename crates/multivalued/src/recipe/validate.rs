//! The rules that a recipe's values keep.

use super::{CodeEntry, MethodKind, ModelRecipe, Recipe, Space};
use crate::{Error, Result};
use multivalued_data::normalise::Normalisation;

impl Recipe {
    /// Refuses values that break a rule, naming the key and the rule, before anything is computed.
    pub fn validate(&self) -> Result<()> {
        let rule = |holds: bool, key: &str, reason: String| {
            if holds { Ok(()) } else { Err(Error::recipe(key, reason)) }
        };
        let ModelRecipe { channels, code_count: n, code_dim: m, .. } = &self.model;
        let (n, m) = (*n, *m);
        rule(
            self.data.task.is_empty() != self.data.path.is_empty() || self.data.task.is_empty(),
            "data.task",
            "a recipe names a synthetic task or a data set (data.path), not both".into(),
        )?;
        rule(self.method.latent_dim >= 1, "method.latent_dim", "at least one dimension".into())?;
        rule(
            self.method.kind == MethodKind::Multivalued || self.model.code_entry == CodeEntry::Head,
            "model.code_entry",
            "a baseline's head is 1x1 convolutions: leave it at \"head\"".into(),
        )?;
        rule(self.predict.samples >= 1, "predict.samples", "at least one sample".into())?;
        rule(
            (1..=16).contains(&self.predict.views),
            "predict.views",
            format!("{} is outside 1 to 16", self.predict.views),
        )?;
        rule(
            self.method.kind == MethodKind::Multivalued || self.predict.views == 1,
            "predict.views",
            "a baseline looks at an image once: leave it at 1".into(),
        )?;
        rule(
            (16..=4096).contains(&self.data.size),
            "data.size",
            format!("{} is outside 16 to 4096", self.data.size),
        )?;
        rule(
            self.data.resize.is_none_or(|size| size.iter().all(|side| (8..=4096).contains(side))),
            "data.resize",
            format!("{:?} is outside 8 to 4096", self.data.resize.unwrap_or_default()),
        )?;
        for (key, share) in
            [("data.validation_share", self.data.validation_share), ("data.test_share", self.data.test_share)]
        {
            rule((0.0..1.0).contains(&share), key, format!("{share} is outside 0 to 1"))?;
        }
        rule(
            self.data.validation_share + self.data.test_share < 1.0,
            "data.test_share",
            "with data.validation_share nothing is left to train on".into(),
        )?;
        if let Normalisation::Range { low, high } = self.data.normalise {
            rule(
                low < high && low.is_finite() && high.is_finite(),
                "data.normalise",
                format!("low {low} must be below high {high}"),
            )?;
        }
        self.augment.validate().map_err(|error| Error::recipe("augment", error.to_string()))?;
        rule(
            !channels.is_empty() && channels.iter().all(|&c| c > 0),
            "model.channels",
            format!("{channels:?}: at least one level, each with channels"),
        )?;
        rule(
            (1..=4).contains(&self.model.input_channels),
            "model.input_channels",
            format!("{} is outside 1 to 4", self.model.input_channels),
        )?;
        rule(self.model.classes >= 1, "model.classes", "at least one foreground class".into())?;
        rule(n >= 2, "model.code_count", format!("{n}: a codebook has at least 2 codes"))?;
        rule(
            m + 1 >= n,
            "model.code_dim",
            format!("{m}: {n} equiangular vectors (the simplex frame) need at least {} dimensions", n - 1),
        )?;
        rule(
            n < 2 * m,
            "model.code_count",
            format!(
                "{n}: must be below 2·code_dim = {}, since no more vectors are pairwise nearly orthogonal (paper §3.2)",
                2 * m
            ),
        )?;
        rule(self.model.head_width > 0, "model.head_width", "at least one channel".into())?;
        let a = &self.assignment;
        rule(a.active_codes <= n, "assignment.active_codes", format!("{} of {n} codes", a.active_codes))?;
        rule(a.active_codes != 1, "assignment.active_codes", "1: at least 2 codes, or 0 for all".into())?;
        for (key, value) in [
            ("assignment.temperature_start", a.temperature_start),
            ("assignment.temperature_end", a.temperature_end),
        ] {
            rule(value > 0.0 && value.is_finite(), key, format!("{value} must be positive"))?;
        }
        let shares = [
            ("assignment.anneal_until", a.anneal_until),
            ("assignment.same_iou", a.same_iou),
            ("assignment.min_usage", a.min_usage),
            ("loss.cross_entropy_from", self.loss.cross_entropy_from),
            ("loss.energy_from", self.loss.energy_from),
            ("loss.average_decay", self.loss.average_decay),
            ("train.final_rate", self.train.final_rate),
            ("predict.merge_iou", self.predict.merge_iou),
        ];
        for (key, value) in shares {
            rule((0.0..=1.0).contains(&value), key, format!("{value} is outside 0 to 1"))?;
        }
        let weights = [
            ("assignment.prior", a.prior),
            ("loss.cross_entropy", self.loss.cross_entropy),
            ("loss.commitment", self.loss.commitment),
            ("loss.covariance", self.loss.covariance),
            ("loss.overlap", self.loss.overlap),
            ("loss.energy", self.loss.energy),
            ("loss.reconstruction_with_energy", self.loss.reconstruction_with_energy),
            ("train.weight_decay", self.train.weight_decay),
            ("train.clip_norm", self.train.clip_norm),
            ("model.code_scale", self.model.code_scale),
            ("method.divergence", self.method.divergence),
        ];
        for (key, value) in weights {
            rule(value >= 0.0 && value.is_finite(), key, format!("{value} must not be negative"))?;
        }
        let t = &self.train;
        rule(t.batch >= 1, "train.batch", "at least one image".into())?;
        rule(
            a.space == Space::Output || t.batch * t.annotations.max(1) >= 2,
            "train.batch",
            "1: the embedding's batch normalisation needs at least 2 pairs".into(),
        )?;
        rule(
            t.minutes >= 0.0 && t.minutes.is_finite(),
            "train.minutes",
            format!("{} must not be negative", t.minutes),
        )?;
        let budgets = usize::from(t.steps > 0) + usize::from(t.epochs > 0) + usize::from(t.minutes > 0.0);
        rule(
            budgets == 1,
            "train.steps",
            format!(
                "exactly one of train.steps ({}), train.epochs ({}) and train.minutes ({}) is above 0; set the \
                 others to 0",
                t.steps, t.epochs, t.minutes
            ),
        )?;
        rule(
            t.steps == 0 || t.steps >= t.warmup_steps,
            "train.steps",
            format!(
                "{} steps end before the learning rate has risen (train.warmup_steps = {}); train longer",
                t.steps, t.warmup_steps
            ),
        )?;
        rule(
            t.learning_rate > 0.0 && t.learning_rate.is_finite(),
            "train.learning_rate",
            format!("{} must be positive", t.learning_rate),
        )?;
        rule((0.0..1.0).contains(&t.beta2), "train.beta2", format!("{} is outside 0 to 1", t.beta2))?;
        rule(
            (0.0..1.0).contains(&t.weight_average),
            "train.weight_average",
            format!("{} is outside 0 to 1", t.weight_average),
        )?;
        rule(t.validate_every >= 1, "train.validate_every", "at least every epoch".into())?;
        rule(
            (0.0..1.0).contains(&self.predict.min_probability),
            "predict.min_probability",
            format!("{} is outside 0 to 1", self.predict.min_probability),
        )
    }
}
