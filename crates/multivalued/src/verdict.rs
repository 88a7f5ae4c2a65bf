//! How far to trust a trained model: is it better than answers that need no training, has it settled, and how
//! sure are its scores?

use crate::recipe::{MethodKind, Recipe};
use multivalued_data::evaluate::mean_interval;
use multivalued_data::fingerprint::Fingerprint;
use multivalued_data::metric::{Comparison, WeightedMasks, ged, soft};
use multivalued_data::{CaseList, Error, Hypothesis, Mask, Prediction, Predictions, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Edge of the raster on which training annotations are averaged.
const RASTER: usize = 64;
/// A fall of the validation GED by this share over the last fifth of a training is more than noise.
const STILL_FALLING: f64 = 0.03;

/// What a training ends with, besides its scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Mean GED of the model on the scored cases.
    pub ged: f64,
    /// Answers that need no training, or one answer only, and their mean GED.
    pub trivial: Vec<Trivial>,
    /// How much lower the model's GED is than the best of these, and a 95 % interval over groups; no interval
    /// where there is one group.
    pub gain: f64,
    /// The interval of `gain`.
    pub gain_interval: Option<[f64; 2]>,
    /// Whether the model is worth using: better than every trivial answer and not collapsed.
    pub useful: bool,
    /// Each finding as a sentence.
    pub findings: Vec<String>,
}

/// An answer that needs no training, or one mask for all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trivial {
    /// What it answers.
    pub name: String,
    /// Its mean GED.
    pub ged: f64,
}

/// What is known of a training when it ends.
#[derive(Debug)]
pub struct Trained<'a> {
    /// The recipe.
    pub recipe: &'a Recipe,
    /// Steps that were taken.
    pub steps: u64,
    /// Validations: step and GED.
    pub validations: &'a [(u64, f64)],
    /// Codes that the last epoch used, where there are codes.
    pub used_codes: Option<usize>,
    /// The cases that were trained on.
    pub training: &'a CaseList,
}

impl Verdict {
    /// Judges predictions of cases that were not trained on. `part` names them.
    pub fn new(trained: &Trained, part: &str, cases: &CaseList, predictions: &Predictions) -> Result<Self> {
        let prior = MeanMask::of(trained.training)?;
        let classes = trained.recipe.model.classes;
        let mut names = vec!["always nothing", "the mean of all training masks"];
        if trained.recipe.method.kind != MethodKind::Unet {
            names.push("this model's mean as one mask");
        }
        // Of each case the model's GED, then that of each trivial answer.
        let scores = cases.map(|at, case| {
            let ged = |prediction: &Prediction| Ok(ged::limit(&Comparison::new(&case, prediction)?));
            let (own, size) = (predictions.get(at), [case.image.width(), case.image.height()]);
            let mut scores = vec![ged(&own)?, ged(&certain(Mask::empty(size[0], size[1], classes)))?];
            scores.push(ged(&certain(prior.mask(size)))?);
            if names.len() > 2 {
                scores.push(ged(&certain(mean_mask(&WeightedMasks::outputs(&case.id, &own)?)))?);
            }
            Ok::<_, Error>(scores)
        })?;
        let of = |column: usize| scores.iter().map(|row| row[column]).collect::<Vec<f64>>();
        let own = of(0);
        let ged = mean(&own);
        let mut trivial = Vec::new();
        let mut best: Option<Vec<f64>> = None;
        for (at, name) in names.into_iter().enumerate() {
            let scores = of(at + 1);
            trivial.push(Trivial { name: name.into(), ged: mean(&scores) });
            if best.as_ref().is_none_or(|best| mean(&scores) < mean(best)) {
                best = Some(scores);
            }
        }
        let best = best.expect("there are trivial answers");
        let gains: Vec<f64> = best.iter().zip(&own).map(|(best, own)| best - own).collect();
        let (gain, gain_interval) = (mean(&gains), mean_interval(&gains, cases.groups()));
        let mut verdict = Self { ged, trivial, gain, gain_interval, useful: true, findings: Vec::new() };
        verdict.judge(trained, part, cases)?;
        Ok(verdict)
    }

    fn judge(&mut self, trained: &Trained, part: &str, cases: &CaseList) -> Result<()> {
        let best =
            self.trivial.iter().min_by(|a, b| a.ged.total_cmp(&b.ged)).expect("there are some").clone();
        let [several, disputed] = disputed(trained.training)?;
        // One mask is right where all agree: being no better than one is then no fault.
        let may_fail = trained.recipe.method.kind != MethodKind::Unet && several && disputed;
        if self.gain > 0.0 {
            let sure = self.gain_interval.is_some_and(|[low, _]| low > 0.0);
            self.findings.push(format!(
                "GED {:.4} on the {part} cases is lower than that of {} ({:.4}){}",
                self.ged,
                best.name,
                best.ged,
                if sure { "" } else { ", but not by more than chance: more cases would tell" }
            ));
        } else {
            self.useful &= !may_fail;
            self.findings.push(format!(
                "GED {:.4} on the {part} cases is no better than {} ({:.4}){}",
                self.ged,
                best.name,
                best.ged,
                if may_fail { ": the model is of no use yet" } else { "" }
            ));
        }
        // With a head for the empty mask there are two answers with one code.
        if let Some(1) = trained.used_codes
            && may_fail
            && !trained.recipe.model.empty_head
        {
            self.useful = false;
            // First, since it is why the model is not to be used, however good its scores are.
            let collapsed = "all annotations take one code although raters differ: the codebook has collapsed; train \
                             longer, or with more data";
            self.findings.insert(0, collapsed.into());
        }
        self.findings.push(settled(trained));
        let groups = cases.groups().collect::<BTreeSet<_>>().len();
        match self.gain_interval {
            None => self.findings.push(format!(
                "the scores come from one group ({} cases): how sure they are is not known",
                cases.len()
            )),
            Some([low, high]) => self.findings.push(format!(
                "the gain is {:.4}, 95 % interval {low:.4} to {high:.4} over {groups} groups{}",
                self.gain,
                if groups < 20 && trained.recipe.data.folds == 0 {
                    "; --folds 5 would score every case"
                } else {
                    ""
                }
            )),
        }
        Ok(())
    }

    /// The findings as lines, most important first.
    pub fn text(&self) -> String {
        let word = if self.useful { "verdict" } else { "verdict: do not use this model" };
        let lines: Vec<String> = self.findings.iter().map(|finding| format!("  - {finding}.")).collect();
        format!("{word}\n{}", lines.join("\n"))
    }
}

/// Whether the validation GED has flattened out.
fn settled(trained: &Trained) -> String {
    let last = trained.validations.last();
    let Some(&(_, end)) = last.filter(|_| trained.validations.len() >= 4) else {
        return "too few validations to say whether a longer training would help".into();
    };
    let best = trained.validations.iter().map(|(_, ged)| *ged).fold(f64::INFINITY, f64::min);
    let late = trained.steps * 4 / 5;
    let before = trained.validations.iter().filter(|(step, _)| *step <= late).map(|(_, ged)| *ged);
    let before = before.fold(f64::INFINITY, f64::min);
    if before.is_finite() && best < before * (1.0 - STILL_FALLING) {
        return format!(
            "validation GED still fell in the last fifth of the training ({before:.4} to {best:.4}): a longer one would \
             help"
        );
    }
    if end > best * (1.0 + 3.0 * STILL_FALLING) {
        return format!(
            "validation GED rose again from {best:.4} to {end:.4}: the model began to learn its training cases by \
             heart; the best state was kept"
        );
    }
    format!("validation GED has flattened out at {best:.4}")
}

/// Whether some case has several annotations, and whether raters ever differ.
fn disputed(cases: &CaseList) -> Result<[bool; 2]> {
    if cases.is_empty() {
        return Ok([false; 2]);
    }
    let found = Fingerprint::of(cases)?;
    Ok([found.disputed_share > 0.0, found.disputed_share > 0.0 && found.unanimous_share < 0.99])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn certain(mask: Mask) -> Prediction {
    Prediction::stated(vec![Hypothesis { mask, probability: 1.0, code: 0 }])
}

/// The pixels that more than half of an image's probability marks.
fn mean_mask(outputs: &WeightedMasks) -> Mask {
    let first = outputs.masks()[0];
    let mut mask = Mask::empty(first.width(), first.height(), first.classes());
    for class in 0..first.classes() {
        for (at, &share) in soft::marginal(outputs, class).iter().enumerate() {
            if share > 0.5 {
                mask.set(class, at % first.width(), at / first.width(), true);
            }
        }
    }
    mask
}

/// The mean of the training annotations, on a raster that is stretched over every image.
struct MeanMask {
    classes: usize,
    shares: Vec<Vec<f32>>,
}

impl MeanMask {
    /// Of at most 500 cases, evenly spaced.
    fn of(cases: &CaseList) -> Result<Self> {
        let step = cases.len().div_ceil(500).max(1);
        let mut shares: Vec<Vec<f32>> = Vec::new();
        let mut total = 0.0;
        for case in cases.select((0..cases.len()).step_by(step)).iter() {
            for annotation in &case?.annotations {
                let mask = annotation.mask.resampled([RASTER, RASTER]);
                total += annotation.weight;
                if shares.len() < mask.classes() {
                    shares.resize(mask.classes(), vec![0.0; RASTER * RASTER]);
                }
                for (class, shares) in shares.iter_mut().enumerate().take(mask.classes()) {
                    for (at, share) in shares.iter_mut().enumerate() {
                        let marked = mask.get(class, at % RASTER, at / RASTER);
                        *share += annotation.weight * f32::from(u8::from(marked));
                    }
                }
            }
        }
        if shares.is_empty() {
            shares.push(vec![0.0; RASTER * RASTER]);
        }
        shares.iter_mut().flatten().for_each(|share| *share /= total.max(1e-6));
        Ok(Self { classes: shares.len(), shares })
    }

    /// Above half of its peak, since a mean of scattered masks nowhere reaches a half.
    fn mask(&self, size: [usize; 2]) -> Mask {
        let peak = self.shares.iter().flatten().copied().fold(0.0, f32::max);
        let mut mask = Mask::empty(RASTER, RASTER, self.classes);
        for (class, shares) in self.shares.iter().enumerate() {
            for (at, &share) in shares.iter().enumerate() {
                if share > (0.5 * peak).max(1e-6) {
                    mask.set(class, at % RASTER, at / RASTER, true);
                }
            }
        }
        mask.resampled(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, tiny_recipe};
    use crate::recipe::Space;
    use multivalued_data::Case;

    fn judged(predictions: &[Prediction], cases: &[Case], codes: usize) -> Verdict {
        let recipe = tiny_recipe(Space::Output, &[]);
        let validations = [(10, 0.5), (20, 0.4), (30, 0.35), (40, 0.348)];
        let trained = Trained {
            recipe: &recipe,
            steps: 40,
            validations: &validations,
            used_codes: Some(codes),
            training: &cases.into(),
        };
        Verdict::new(&trained, "test", &cases.into(), &predictions.into()).unwrap()
    }

    /// What the annotations themselves say.
    fn oracle(case: &Case) -> Prediction {
        let total: f32 = case.annotations.iter().map(|annotation| annotation.weight).sum();
        let hypotheses = case.annotations.iter().enumerate().map(|(code, annotation)| Hypothesis {
            mask: annotation.mask.clone(),
            probability: annotation.weight / total,
            code,
        });
        Prediction::stated(hypotheses.collect())
    }

    #[test]
    fn the_truth_is_useful_and_an_empty_answer_is_not() {
        let cases = cases(12, [16, 16], 1, 1);
        let truth: Vec<_> = cases.iter().map(oracle).collect();
        let verdict = judged(&truth, &cases, 3);
        assert!(verdict.useful && verdict.ged < 1e-9 && verdict.gain > 0.0, "{verdict:?}");
        assert!(verdict.findings.iter().any(|finding| finding.contains("flattened out")), "{verdict:?}");
        let empty: Vec<_> = cases.iter().map(|_| certain(Mask::empty(16, 16, 1))).collect();
        let verdict = judged(&empty, &cases, 3);
        assert!(!verdict.useful && verdict.text().contains("no better than"), "{}", verdict.text());
        assert!(!judged(&truth, &cases, 1).useful, "one code is a collapse where raters differ");
    }

    #[test]
    fn what_still_falls_or_rises_again_is_told() {
        let recipe = tiny_recipe(Space::Output, &[]);
        let said = |validations: &[(u64, f64)]| {
            settled(&Trained {
                recipe: &recipe,
                steps: 100,
                validations,
                used_codes: None,
                training: &CaseList::default(),
            })
        };
        assert!(said(&[(20, 0.5), (50, 0.4), (80, 0.3), (100, 0.2)]).contains("still fell"));
        assert!(said(&[(20, 0.5), (50, 0.2), (80, 0.3), (100, 0.3)]).contains("rose again"));
        assert!(said(&[(20, 0.5), (50, 0.2), (80, 0.199), (100, 0.198)]).contains("flattened"));
        assert!(said(&[(100, 0.2)]).contains("too few"));
    }
}
