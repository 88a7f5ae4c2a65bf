//! The end of an epoch: its sums, and a validation where one is due.

use super::{EpochLog, Trainer, Validation, schedule};
use crate::error::caught;
use crate::model::mean_inner_product;
use crate::predict::{fitted_temperature, predict_list};
use crate::temperature::{Fit, Temperature};
use crate::{Error, Result};
use multivalued_data::evaluate::{Settings, score, summarise};
use multivalued_data::report::Report;
use multivalued_data::{CaseList, Predictions};

impl Trainer {
    /// Closes an epoch: validates where it is due, and sums up.
    pub fn end_epoch(&mut self) -> Result<EpochLog> {
        caught(|| self.close_epoch())
    }

    fn close_epoch(&mut self) -> Result<EpochLog> {
        self.check_ranks()?;
        let progress = self.progress();
        let epoch = self.step.div_ceil(self.steps_per_epoch());
        let due = epoch.is_multiple_of(self.recipe.train.validate_every) || self.is_finished();
        let codes = self.network.model().map(|model| {
            let codes = model.codebook.codes_of(&model.parameters);
            let inner = mean_inner_product(&codes, model.recipe.code_dim, &self.sums.used_codes());
            self.sums.code_use(inner, model.active_codes().len())
        });
        let rate = schedule::learning_rate(&self.recipe.train, self.step, progress);
        // Last, since a validation may be the best so far, and an error must not come after that.
        let validation = if due && !self.validation.is_empty() { Some(self.validate()?) } else { None };
        Ok(self.sums.close(epoch, self.step, progress, rate, codes, self.seconds(), validation))
    }

    /// The reports of the validation cases and of the watched training cases, by the averaged weights. One view of
    /// each: epochs are compared with each other, and more views would take longer than the training of small data
    /// sets. Probabilities are fitted to the validation cases first, as they will be at the end: else the epoch would
    /// win whose probabilities are least overstated, although its masks are not the best.
    fn validation_reports(&mut self) -> Result<[Report; 2]> {
        let (cases, watched) = (self.validation.clone(), self.watched.clone());
        let mut recipe = self.recipe.clone();
        recipe.predict.views = 1;
        let settings = Settings { resamples: 1, details: false, ..Settings::new("validation") };
        let (mut predictions, mut of_watched) = (Predictions::default(), Predictions::default());
        let mut fit = Fit::default();
        self.with_averaged_weights(|network| {
            predict_list(network, &recipe, &cases, |some, said| {
                predictions.extend(&said);
                fit.add(some, &said)
            })?;
            predict_list(network, &recipe, &watched, |_, said| {
                of_watched.extend(&said);
                Ok(())
            })
        })?;
        let fitted =
            if recipe.predict.calibrate { fitted_temperature(&fit, &recipe) } else { Temperature::NEUTRAL };
        let report = |cases: &CaseList, predictions: &Predictions| -> Result<Report> {
            let scores = cases.map(|at, case| {
                let mut said = predictions.get(at);
                fitted.apply(&mut said);
                score(&case, &said, &settings)
            })?;
            Ok(summarise(&scores, &settings)?)
        };
        Ok([report(&cases, &predictions)?, report(&watched, &of_watched)?])
    }

    /// Refuses to go on where ranks have other weights than rank 0: each would train a model of its own.
    fn check_ranks(&self) -> Result<()> {
        if self.ranks.are_alone() {
            return Ok(());
        }
        let weights = self.network.parameters().to_safetensors(Default::default());
        let remedy = "all machines of a training must be of one kind and run one version of this program";
        self.ranks.agree("the weights", &weights, remedy)
    }

    /// Scores the model; of several ranks rank 0 does, and tells the others.
    fn validate(&mut self) -> Result<Validation> {
        let own = self.ranks.leads().then(|| self.validated());
        let said = match &own {
            Some(Ok(validation)) => serde_json::to_vec(validation).expect("plain values"),
            _ => Vec::new(),
        };
        let said = match &own {
            Some(_) if self.ranks.are_alone() => said,
            _ => self.ranks.broadcast("the validation's scores", said)?,
        };
        let validation = match own {
            Some(own) => own?,
            None => serde_json::from_slice(&said).map_err(|_| Error::Ranks {
                reason: "rank 0 could not validate the model; its own message says why".into(),
            })?,
        };
        if validation.best {
            self.best_ged = Some(validation.ged_limit);
        }
        self.validations_since_best = if validation.best { 0 } else { self.validations_since_best + 1 };
        Ok(validation)
    }

    fn validated(&mut self) -> Result<Validation> {
        let [validation, watched] = self.validation_reports()?;
        let summary = validation.summary;
        // What methods are compared by; of stated probabilities the exact GED itself.
        let ged = summary.scores.ged_limit;
        let best = self.best_ged.is_none_or(|best| ged < best);
        Ok(Validation {
            ged_exact: summary.scores.ged_exact,
            ged_limit: ged,
            hm_iou: summary.scores.hm_iou,
            n_x_1pct: summary.scores.n_x_1pct,
            training_ged: Some(watched.summary.scores.ged_limit),
            best,
        })
    }
}
