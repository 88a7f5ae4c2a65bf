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
        // First, so that nothing below overflows.
        self.check_bounds()?;
        let ModelRecipe { code_count: n, code_dim: m, .. } = self.model;
        rule(
            self.data.task.is_empty() != self.data.path.is_empty() || self.data.task.is_empty(),
            "data.task",
            "a recipe names a synthetic task or a data set (data.path), not both".into(),
        )?;
        rule(
            self.method.kind == MethodKind::Multivalued || self.model.code_entry == CodeEntry::Head,
            "model.code_entry",
            "a baseline's head is 1x1 convolutions: leave it at \"head\"".into(),
        )?;
        rule(
            self.method.kind == MethodKind::Multivalued || self.predict.views == 1,
            "predict.views",
            "a baseline looks at an image once: leave it at 1".into(),
        )?;
        rule(
            !self.model.empty_head
                || self.method.kind == MethodKind::Multivalued
                    && self.model.code_entry == CodeEntry::Head
                    && self.assignment.space == Space::Output,
            "model.empty_head",
            "needs method.kind = \"multivalued\", model.code_entry = \"head\" and assignment.space = \"output\"".into(),
        )?;
        rule(
            self.data.validation_share + self.data.test_share < 1.0,
            "data.test_share",
            "with data.validation_share nothing is left to train on".into(),
        )?;
        rule(
            self.data.folds != 1,
            "data.folds",
            "1: a cross-validation has at least 2 folds, or 0 for none".into(),
        )?;
        rule(
            self.data.fold <= self.data.folds,
            "data.fold",
            format!("{} of data.folds = {}", self.data.fold, self.data.folds),
        )?;
        if let Normalisation::Range { low, high } = self.data.normalise {
            rule(low < high, "data.normalise", format!("low {low} must be below high {high}"))?;
        }
        rule(
            self.data.spacing == 0.0 || self.data.resize.is_none(),
            "data.spacing",
            "images are brought to one spacing or to one size (data.resize), not to both; remove one".into(),
        )?;
        let together = self.data.slices_per_input();
        rule(
            together == 1 || self.model.input_channels == together,
            "model.input_channels",
            format!(
                "{}: with data.context = {} the network sees {together} slices of one channel; set it to {together}",
                self.model.input_channels, self.data.context
            ),
        )?;
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
        let a = &self.assignment;
        rule(a.active_codes <= n, "assignment.active_codes", format!("{} of {n} codes", a.active_codes))?;
        rule(a.active_codes != 1, "assignment.active_codes", "1: at least 2 codes, or 0 for all".into())?;
        let t = &self.train;
        rule(
            a.space == Space::Output || t.batch * t.annotations.max(1) >= 2,
            "train.batch",
            "1: the embedding's batch normalisation needs at least 2 pairs".into(),
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
        )
    }
}
