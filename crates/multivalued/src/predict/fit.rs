//! What is fitted to cases that were not trained on: how far outlines spread, and probabilities.

use super::{Predictor, predict_cases, predict_list};
use crate::Result;
use crate::recipe::Recipe;
use crate::temperature::{Fit, Temperature};
use multivalued_data::metric::Comparison;
use multivalued_data::metric::ged;
use multivalued_data::{Case, CaseList};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Spreads that are tried, in logits, the narrowest first. On LIDC a wider one no longer lowers the GED of all validation
/// cases, though it may that of a few, and takes from the matched IoU.
const SPREADS: [f32; 3] = [0.5, 1.0, 2.0];
/// Cases that they are tried on: each case is compared with itself, so that few are enough.
const CASES_FOR_SPREAD: usize = 64;
/// Groups (patients) without which a spread would be fitted to chance.
const FEWEST_GROUPS: usize = 20;
/// The share of the GED that a spread must take away: three times as many hypotheses must be worth it, and a wider one
/// must be better than the one before.
const WORTH: f64 = 0.01;

/// Whether outlines differ as readers' do, by the recipe: annotations share codes, and no code is held to its own.
/// Where annotations are different answers instead, a spread would lower the GED and blur every one of them, and a
/// temperature would move probability from answers with few codes to those with many: of two lung outlines that were
/// drawn equally often, the one with more codes was given 0.53.
fn outlines_are_chance(recipe: &Recipe) -> bool {
    !recipe.assignment.distinct && recipe.loss.overlap == 0.0
}

/// The temperatures that cases ask for, as far as they suit the recipe.
pub(crate) fn fitted_temperature(fit: &Fit, recipe: &Recipe) -> Temperature {
    let fitted = fit.temperature();
    if outlines_are_chance(recipe) {
        return fitted;
    }
    Temperature { masks: Temperature::NEUTRAL.masks, ..fitted }
}

impl Predictor {
    /// The same with outlines as spread as annotations are, and probabilities as often right as they say, on these
    /// cases, which must not be those that it was trained on (`predict.temperature` and the keys beside it).
    pub fn calibrated(mut self, cases: &CaseList) -> Result<Self> {
        self.recipe.predict.forget_fit();
        self.recipe.predict.spread = self.fitted_spread(cases)?;
        let mut fit = Fit::default();
        predict_list(&self.network, &self.recipe, cases, |some, said| fit.add(some, &said))?;
        fitted_temperature(&fit, &self.recipe).write_to(&mut self.recipe.predict);
        Ok(self)
    }

    /// The spread beyond which the GED no longer falls, by one view of each case.
    fn fitted_spread(&self, cases: &CaseList) -> Result<f32> {
        let groups = cases.groups().collect::<BTreeSet<_>>().len();
        let can_spread = self.network.model().is_some() && self.recipe.model.classes == 1;
        if !can_spread || !outlines_are_chance(&self.recipe) || groups < FEWEST_GROUPS {
            return Ok(0.0);
        }
        let step = cases.len().div_ceil(CASES_FOR_SPREAD);
        let some = cases.get_all((0..cases.len()).step_by(step))?;
        let mut recipe = self.recipe.clone();
        recipe.predict.views = 1;
        let mut ged_with = |spread: f32| {
            recipe.predict.spread = spread;
            self.mean_ged(&recipe, &some)
        };
        let (mut best, mut least) = (0.0, ged_with(0.0)?);
        for spread in SPREADS {
            let ged = ged_with(spread)?;
            if ged < (1.0 - WORTH) * least {
                (best, least) = (spread, ged);
            }
        }
        Ok(best)
    }

    fn mean_ged(&self, recipe: &Recipe, cases: &[Arc<Case>]) -> Result<f64> {
        let said = predict_cases(&self.network, recipe, cases)?;
        let geds = cases.iter().zip(&said).map(|(case, said)| Ok(ged::exact(&Comparison::new(case, said)?)));
        Ok(geds.sum::<Result<f64>>()? / cases.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_data::{Annotation, Hypothesis, Image, Mask, Prediction};

    #[test]
    fn only_outlines_of_readers_spread() {
        for (name, expected) in [("lidc", true), ("shapes-tiny", false), ("lung-opacity", false)] {
            assert_eq!(outlines_are_chance(&Recipe::named(name).unwrap()), expected, "{name}");
        }
    }
    /// Masks whose probabilities are overstated: drawn equally often, stated as 0.9 and 0.1.
    #[test]
    fn only_probabilities_of_readers_outlines_are_tempered() {
        let columns = |count: usize| Mask::from_fn(8, 8, |x, _| x < count);
        let annotation = |count| Annotation { mask: columns(count), rater: None, weight: 0.5 };
        let one = |(code, probability)| Hypothesis { mask: columns(2 + code), probability, code };
        let said = Prediction::stated([(1, 0.9), (5, 0.1)].map(one).into());
        let mut fit = Fit::default();
        for group in 0..40 {
            let case = Case {
                id: group.to_string(),
                group: group.to_string(),
                image: Image::new(8, 8, 1, vec![0.0; 64]),
                annotations: vec![annotation(3), annotation(7)],
                truth: None,
            };
            fit.add(&[case], std::slice::from_ref(&said)).unwrap();
        }
        for (name, tempered) in [("lidc", true), ("shapes-tiny", false), ("lung-opacity", false)] {
            let masks = fitted_temperature(&fit, &Recipe::named(name).unwrap()).masks;
            assert_eq!(masks > 1.1, tempered, "{name}: {masks}");
            assert_eq!(masks == 1.0, !tempered, "{name}: {masks}");
        }
    }
}
