//! Stated probabilities brought in line with how often things happen, on cases that were not trained on.
//!
//! Networks that are trained for long state probabilities that are too near 0 and 1: they know the training cases
//! better than any others. Temperature scaling (Guo et al., "On Calibration of Modern Neural Networks", ICML 2017)
//! undoes it with one number. Here there are two such questions, whether there is anything at all and which of the
//! masks it is, so there are two temperatures, and a shift for the first:
//!
//! ```text
//! logit p'(∅) = logit p(∅) / T_∅ + b        p'_j = (1 − p'(∅)) · p_j^(1/T) / Σ_i p_i^(1/T),   masks that are not empty
//! ```
//!
//! They are fitted by maximum likelihood: of an empty annotation its probability is p'(∅), of another one that of the
//! hypothesis that overlaps it most. Every case counts alike, as it does in the scores; all of them weigh as much as
//! there are groups (patients), since the cases of a group are no independent evidence, and a prior around "no change"
//! keeps a few groups from saying much.

use crate::Result;
use crate::conformal::{nearest, shares};
use crate::recipe::PredictRecipe;
use multivalued_data::{Case, Prediction};
use std::borrow::Borrow;
use std::collections::BTreeSet;

/// Standard deviation of the prior of ln T and of the shift.
const PRIOR: f64 = 0.5;
/// Probabilities nearer to 0 or 1 than this are taken for it: their logits say nothing.
const NEAREST: f64 = 1e-6;
/// Where the logarithms of temperatures, and the shift, are looked for.
const SEARCHED: f64 = 2.0;

/// How stated probabilities are changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Temperature {
    /// T: above 1 for probabilities that are more alike.
    pub masks: f64,
    /// T_∅.
    pub empty: f64,
    /// b.
    pub shift: f64,
}

impl Temperature {
    /// Changes nothing.
    pub const NEUTRAL: Self = Self { masks: 1.0, empty: 1.0, shift: 0.0 };

    pub fn of(recipe: &PredictRecipe) -> Self {
        let [masks, empty, shift] =
            [recipe.temperature, recipe.empty_temperature, recipe.empty_shift].map(f64::from);
        Self { masks, empty, shift }
    }

    pub fn write_to(self, recipe: &mut PredictRecipe) {
        (recipe.temperature, recipe.empty_temperature, recipe.empty_shift) =
            (self.masks as f32, self.empty as f32, self.shift as f32);
    }

    /// Changes the probabilities of a prediction that states them; counted draws stay as they are.
    pub fn apply(&self, prediction: &mut Prediction) {
        if *self == Self::NEUTRAL || prediction.draws.is_some() {
            return;
        }
        let all = &mut prediction.hypotheses;
        let empty: f64 =
            all.iter().filter(|one| one.mask.is_empty()).map(|one| f64::from(one.probability)).sum();
        let wanted = tempered(empty, self.empty, self.shift);
        let raised = |probability: f32| f64::from(probability).powf(1.0 / self.masks);
        let total: f64 =
            all.iter().filter(|one| !one.mask.is_empty()).map(|one| raised(one.probability)).sum();
        for one in all.iter_mut() {
            one.probability = match one.mask.is_empty() {
                true => f64::from(one.probability) / empty * wanted,
                false => raised(one.probability) / total * (1.0 - wanted),
            } as f32;
        }
        all.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.code.cmp(&b.code)));
    }
}

/// What cases say of their predictions, gathered a few at a time.
#[derive(Default)]
pub(crate) struct Fit {
    evidence: Vec<Evidence>,
    groups: BTreeSet<String>,
}

impl Fit {
    /// Adds cases and their predictions.
    pub fn add(&mut self, cases: &[impl Borrow<Case>], predictions: &[Prediction]) -> Result<()> {
        let stated = cases.iter().zip(predictions).filter(|(_, said)| said.draws.is_none());
        for (case, prediction) in stated.map(|(case, said)| (case.borrow(), said)) {
            // A case of which no annotation counts says nothing.
            if shares(case).next().is_some() {
                self.evidence.push(Evidence::of(case, prediction)?);
                self.groups.insert(case.group.clone());
            }
        }
        Ok(())
    }

    /// The temperatures at which the predictions explain the cases best.
    pub fn temperature(&self) -> Temperature {
        let weight = self.groups.len() as f64 / self.evidence.len().max(1) as f64;
        let surprise =
            |of: &dyn Fn(&Evidence) -> f64| -> f64 { weight * self.evidence.iter().map(of).sum::<f64>() };
        let prior = |value: f64| value * value / (2.0 * PRIOR * PRIOR);
        let masks = least(|ln_t| surprise(&|one| one.of_masks(ln_t.exp())) + prior(ln_t));
        // One after the other: the sum is convex in 1/T and the shift, and they are nearly independent.
        let (mut empty, mut shift) = (0.0f64, 0.0);
        for _ in 0..8 {
            empty = least(|ln_t| surprise(&|one| one.of_empty(ln_t.exp(), shift)) + prior(ln_t));
            shift = least(|shift| surprise(&|one| one.of_empty(empty.exp(), shift)) + prior(shift));
        }
        Temperature { masks: masks.exp(), empty: empty.exp(), shift }
    }
}

/// The probability of nothing at a temperature. What was stated as certain stays so: there is no other hypothesis
/// that could take or give.
fn tempered(empty: f64, temperature: f64, shift: f64) -> f64 {
    if !(NEAREST..=1.0 - NEAREST).contains(&empty) {
        return empty;
    }
    let logit = (empty / (1.0 - empty)).ln() / temperature + shift;
    1.0 / (1.0 + (-logit).exp())
}

/// What one case says of its prediction.
struct Evidence {
    /// The stated probability of nothing, and the share of annotations that are empty.
    empty: f64,
    drawn_empty: f64,
    /// The logarithms of the probabilities of masks that are not empty.
    logs: Vec<f64>,
    /// The share of annotations that each of them overlaps most.
    drawn: Vec<f64>,
}

impl Evidence {
    fn of(case: &Case, prediction: &Prediction) -> Result<Self> {
        let masks: Vec<_> = prediction.hypotheses.iter().filter(|one| !one.mask.is_empty()).collect();
        let empty = 1.0 - masks.iter().map(|one| f64::from(one.probability)).sum::<f64>();
        let (mut drawn_empty, mut drawn) = (0.0, vec![0.0; masks.len()]);
        for (mask, share) in shares(case) {
            if mask.is_empty() {
                drawn_empty += share;
            } else if !masks.is_empty() {
                drawn[nearest(masks.iter().copied(), mask)?] += share;
            }
        }
        let logs = masks.iter().map(|one| f64::from(one.probability).max(1e-12).ln()).collect();
        Ok(Self { empty: empty.clamp(0.0, 1.0), drawn_empty, logs, drawn })
    }

    /// −ln of the probability of what was drawn, given that it is not empty.
    fn of_masks(&self, temperature: f64) -> f64 {
        let most = self.logs.iter().copied().fold(f64::MIN, f64::max);
        let total: f64 = self.logs.iter().map(|log| ((log - most) / temperature).exp()).sum();
        let surprise = |(log, share): (&f64, &f64)| share * (total.ln() - (log - most) / temperature);
        self.logs.iter().zip(&self.drawn).map(surprise).sum()
    }

    /// −ln of the probability of whether it is empty.
    fn of_empty(&self, temperature: f64, shift: f64) -> f64 {
        if !(NEAREST..=1.0 - NEAREST).contains(&self.empty) {
            return 0.0;
        }
        let stated = tempered(self.empty, temperature, shift).clamp(NEAREST, 1.0 - NEAREST);
        -self.drawn_empty * stated.ln() - (1.0 - self.drawn_empty) * (1.0 - stated).ln()
    }
}

/// Where a function with one minimum is least, by golden sections.
fn least(value: impl Fn(f64) -> f64) -> f64 {
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (-SEARCHED, SEARCHED);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (value(left), value(right));
    for _ in 0..32 {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = value(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = value(right);
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_data::draw::Draw;
    use multivalued_data::{Annotation, Hypothesis, Image, Mask};

    fn temperature_of(cases: &[Case], predictions: &[Prediction]) -> Temperature {
        let mut fit = Fit::default();
        fit.add(cases, predictions).unwrap();
        fit.temperature()
    }

    /// A mask of so many columns of four; 0 is the empty one.
    fn columns(count: usize) -> Mask {
        Mask::from_fn(4, 4, |x, _| x < count)
    }

    fn prediction(probabilities: [f32; 3]) -> Prediction {
        let one = |(code, &probability): (usize, &f32)| Hypothesis { mask: columns(code), probability, code };
        let mut hypotheses: Vec<_> = probabilities.iter().enumerate().map(one).collect();
        hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        Prediction::stated(hypotheses)
    }

    fn probabilities(prediction: &Prediction) -> [f32; 3] {
        let of = |code| prediction.hypotheses.iter().find(|one| one.code == code).map(|one| one.probability);
        [0, 1, 2].map(|code| of(code).unwrap_or(0.0))
    }

    /// Cases whose readers draw by some probabilities, and what a model says that knows them, but for a temperature
    /// and a shift of its own.
    fn world(groups: usize, stated: Temperature) -> (Vec<Case>, Vec<Prediction>) {
        let mut cases = Vec::new();
        let mut predictions = Vec::new();
        for group in 0..groups {
            let mut draw = Draw::new(7, &["temperature"], group as u64);
            let empty = draw.uniform(0.1, 0.9) as f32;
            let first = draw.uniform(0.1, 0.9) as f32;
            let truth = [empty, (1.0 - empty) * first, (1.0 - empty) * (1.0 - first)];
            let annotations = (0..4)
                .map(|_| {
                    let at = draw.uniform(0.0, 1.0) as f32;
                    let code = usize::from(at >= truth[0]) + usize::from(at >= truth[0] + truth[1]);
                    Annotation { mask: columns(code), rater: None, weight: 1.0 }
                })
                .collect();
            let name = format!("{group}");
            let image = Image::new(4, 4, 1, vec![0.0; 16]);
            cases.push(Case { id: name.clone(), group: name, image, annotations, truth: None });
            let mut said = prediction(truth);
            stated.apply(&mut said);
            predictions.push(said);
        }
        (cases, predictions)
    }

    #[test]
    fn what_overstates_is_brought_back() {
        // Half the temperature, and a shift after it: to be undone by twice the temperature and half of the shift.
        let (cases, predictions) = world(2000, Temperature { masks: 0.5, empty: 0.5, shift: 0.6 });
        let fitted = temperature_of(&cases, &predictions);
        assert!((fitted.masks - 2.0).abs() < 0.25, "{fitted:?}");
        assert!((fitted.empty - 2.0).abs() < 0.25, "{fitted:?}");
        assert!((fitted.shift + 0.3).abs() < 0.1, "{fitted:?}");
    }

    #[test]
    fn honest_probabilities_stay_as_they_are() {
        let (cases, predictions) = world(2000, Temperature::NEUTRAL);
        let fitted = temperature_of(&cases, &predictions);
        assert!((fitted.masks - 1.0).abs() < 0.1 && (fitted.empty - 1.0).abs() < 0.1, "{fitted:?}");
        assert!(fitted.shift.abs() < 0.05, "{fitted:?}");
    }

    #[test]
    fn few_groups_say_little() {
        let (cases, predictions) = world(1, Temperature { masks: 0.2, empty: 0.2, shift: 0.0 });
        let fitted = temperature_of(&cases, &predictions);
        let moderate = 0.4..2.5;
        assert!(moderate.contains(&fitted.masks) && moderate.contains(&fitted.empty), "{fitted:?}");
        let nobody = temperature_of(&[], &[]);
        assert!((nobody.masks - 1.0).abs() < 1e-5 && nobody.shift.abs() < 1e-5, "{nobody:?}");
        // Many cases of one group are one group.
        let (mut cases, predictions) = world(400, Temperature { masks: 0.2, empty: 0.2, shift: 0.0 });
        let apart = temperature_of(&cases, &predictions);
        cases.iter_mut().for_each(|case| case.group = "one".into());
        let together = temperature_of(&cases, &predictions);
        assert!(together.masks < apart.masks && together.empty < apart.empty, "{together:?} {apart:?}");
    }

    #[test]
    fn probabilities_sum_to_one_and_certainty_stays() {
        let flat = Temperature { masks: 2.0, empty: 2.0, shift: 0.0 };
        let mut said = prediction([0.8, 0.16, 0.04]);
        flat.apply(&mut said);
        // Odds of 4 become 2; the two masks' odds of 4 too.
        let expected = [2.0 / 3.0, 2.0 / 9.0, 1.0 / 9.0];
        for (found, expected) in probabilities(&said).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{said:?}");
        }
        let shifted = Temperature { shift: -5.0, ..flat };
        let mut said = prediction([0.8, 0.16, 0.04]);
        shifted.apply(&mut said);
        assert_eq!(said.hypotheses[0].code, 1, "sorted anew: {said:?}");
        for certain in [[1.0, 0.0, 0.0], [0.0, 0.6, 0.4]] {
            let mut said = prediction(certain);
            said.hypotheses.retain(|one| one.probability > 0.0);
            shifted.apply(&mut said);
            assert_eq!(probabilities(&said)[0], certain[0], "{said:?}");
            assert!((said.hypotheses.iter().map(|one| one.probability).sum::<f32>() - 1.0).abs() < 1e-6);
        }
        let mut drawn = Prediction { draws: Some(10), ..prediction([0.8, 0.16, 0.04]) };
        shifted.apply(&mut drawn);
        assert_eq!(probabilities(&drawn), [0.8, 0.16, 0.04]);
    }
}
