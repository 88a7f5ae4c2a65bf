//! What is fitted to cases that were not trained on: how far outlines spread, and probabilities.

use super::{Predictor, predict_cases, predict_list};
use crate::Result;
use crate::recipe::Recipe;
use crate::temperature::Fit;
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
/// Where annotations are different answers instead, a spread would lower the GED and blur every one of them.
fn outlines_are_chance(recipe: &Recipe) -> bool {
    !recipe.assignment.distinct && recipe.loss.overlap == 0.0
}

impl Predictor {
    /// The same with outlines as spread as annotations are, and probabilities as often right as they say, on these
    /// cases, which must not be those that it was trained on (`predict.temperature` and the keys beside it).
    pub fn calibrated(mut self, cases: &CaseList) -> Result<Self> {
        self.recipe.predict.forget_fit();
        self.recipe.predict.spread = self.fitted_spread(cases)?;
        let mut fit = Fit::default();
        predict_list(&self.network, &self.recipe, cases, |some, said| fit.add(some, &said))?;
        fit.temperature().write_to(&mut self.recipe.predict);
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

    #[test]
    fn only_outlines_of_readers_spread() {
        for (name, expected) in [("lidc", true), ("shapes-tiny", false), ("lung-opacity", false)] {
            assert_eq!(outlines_are_chance(&Recipe::named(name).unwrap()), expected, "{name}");
        }
    }
}
