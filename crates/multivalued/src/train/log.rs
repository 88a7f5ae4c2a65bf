//! What an epoch leaves in the log.

use super::reading::StepResult;
use super::terms::LossTerms;
use serde::{Deserialize, Serialize};

/// Scores on the validation cases, by the averaged weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Exact GED.
    pub ged_exact: f64,
    /// The same in the limit of many draws: what the best model is chosen by.
    pub ged_limit: f64,
    /// Matched IoU.
    pub hm_iou: f64,
    /// Outputs of at least 1 %.
    pub n_x_1pct: f64,
    /// The GED of some training cases, as `ged_limit`: what it is lower by was memorised. None in a log of a version
    /// before it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub training_ged: Option<f64>,
    /// Whether no earlier validation was better.
    pub best: bool,
}

/// How an epoch used the codes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CodeUse {
    /// Codes that served at least one annotation in a thousand.
    pub used_codes: usize,
    /// exp of the entropy of the codes' use.
    pub perplexity: f32,
    /// Mean inner product of all pairs of used codes.
    pub mean_inner_product: f32,
    /// Codes that take part in the assignment.
    pub active_codes: usize,
    /// Mean length of the classifier's h.
    pub h_norm: f32,
    /// Share of images whose leading code, the one of most of its annotations' weight, is another than an
    /// epoch before.
    pub changed_assignments: f32,
}

/// One epoch, in one line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochLog {
    /// Its number, from 1.
    pub epoch: u64,
    /// Steps taken by its end.
    pub step: u64,
    /// How far the training is, 0 to 1.
    pub progress: f32,
    /// The learning rate at its end.
    pub learning_rate: f32,
    /// Mean of each loss term.
    pub loss: LossTerms,
    /// How the codes were used; none for a method without codes.
    #[serde(flatten)]
    pub codes: Option<CodeUse>,
    /// Mean norm of the gradients.
    pub gradient_norm: f32,
    /// Steps whose loss was not finite, since the start.
    pub skipped_steps: u64,
    /// Seconds of training since the start.
    pub seconds: f64,
    /// Scores on the validation cases, where they were due.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation: Option<Validation>,
}

/// Sums over the steps of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EpochSums {
    steps: u64,
    terms: LossTerms,
    usage: Vec<f32>,
    h_norm: f32,
    gradient_norm: f32,
    changed: usize,
    images: usize,
    skipped: u64,
}

/// A code counts as used from this share of the annotations on.
const USED: f32 = 1e-3;

impl EpochSums {
    pub fn new(code_count: usize) -> Self {
        Self {
            steps: 0,
            terms: LossTerms::default(),
            usage: vec![0.0; code_count],
            h_norm: 0.0,
            gradient_norm: 0.0,
            changed: 0,
            images: 0,
            skipped: 0,
        }
    }

    /// The first field of a loaded state that contradicts so many codes and steps: its name, a backtick, and the reason.
    pub fn fault(&self, codes: usize, step: u64) -> Option<String> {
        if self.usage.len() != codes {
            return Some(format!("usage` has {} entries for {codes} codes", self.usage.len()));
        }
        if self.steps > step || self.skipped > step {
            return Some(format!(
                "steps` is {} and `sums.skipped` {} of {step} steps",
                self.steps, self.skipped
            ));
        }
        let all = self.images;
        (self.changed > all || all > u32::MAX as usize)
            .then(|| format!("changed` is {} of {all} `sums.images`", self.changed))
    }

    pub fn add(&mut self, result: &StepResult, changed: usize, images: usize) {
        if !result.moved {
            self.skipped += 1;
            return;
        }
        self.steps += 1;
        self.terms.add(&result.terms);
        self.usage.iter_mut().zip(&result.usage).for_each(|(sum, usage)| *sum += usage);
        self.h_norm += result.h_norm;
        self.gradient_norm += result.gradient_norm;
        self.changed += changed;
        self.images += images;
    }

    /// The share of annotations that each code served in this epoch.
    pub fn usage(&self) -> Vec<f32> {
        let steps = self.steps.max(1) as f32;
        self.usage.iter().map(|usage| usage / steps).collect()
    }

    pub fn used_codes(&self) -> Vec<usize> {
        let usage = self.usage();
        (0..usage.len()).filter(|&j| usage[j] >= USED).collect()
    }

    /// How the codes were used in this epoch.
    pub fn code_use(&self, mean_inner_product: f32, active_codes: usize) -> CodeUse {
        let entropy: f32 = self.usage().iter().filter(|&&p| p > 0.0).map(|p| -p * p.ln()).sum();
        CodeUse {
            used_codes: self.used_codes().len(),
            perplexity: entropy.exp(),
            mean_inner_product,
            active_codes,
            h_norm: self.h_norm / self.steps.max(1) as f32,
            changed_assignments: self.changed as f32 / self.images.max(1) as f32,
        }
    }

    /// The epoch's log; the sums start anew.
    pub fn close(
        &mut self,
        epoch: u64,
        step: u64,
        progress: f32,
        learning_rate: f32,
        codes: Option<CodeUse>,
        seconds: f64,
        validation: Option<Validation>,
    ) -> EpochLog {
        let n = self.steps.max(1) as f32;
        let log = EpochLog {
            epoch,
            step,
            progress,
            learning_rate,
            loss: self.terms.mean(n),
            codes,
            gradient_norm: self.gradient_norm / n,
            skipped_steps: self.skipped,
            seconds,
            validation,
        };
        let skipped = self.skipped;
        *self = Self { skipped, ..Self::new(self.usage.len()) };
        log
    }
}
