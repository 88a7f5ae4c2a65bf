//! Scores of a run's model, and what there is to see of them: report, page and contact sheets.

use std::sync::{Arc, Mutex};

use multivalued::{Recipe, Trained, Verdict};
use multivalued_data::evaluate::volumes::score_volumes;
use multivalued_data::evaluate::{Settings, Unit, score, summarise};
use multivalued_data::report::Report;
use multivalued_data::report::blocks::about_volumes;
use multivalued_data::{Case, CaseList, Prediction, Predictions, files};

use super::RunFolder;
use super::cases::{Cases, TEST};
use super::counting::Counting;
use super::model::RunModel;
use crate::columns::wrapped;
use crate::exit::Outcome;
use crate::folder;
use crate::log::{self, Record};
use crate::page::{Areas, Page, Pictured, groups, pictured};
use crate::picture::{Exhibit, png, sheet, spread};

/// Images on a contact sheet.
const ON_A_SHEET: usize = 8;

/// A run's scores on some cases.
#[derive(Debug)]
pub struct Evaluation {
    /// The scores.
    pub report: Report,
    /// What was left out for a bad file.
    skipped: Vec<String>,
    cases: CaseList,
    predictions: Predictions,
    /// How large things are in each case.
    areas: Vec<Areas>,
    /// How far to trust the model, at the end of a training.
    verdict: Option<Verdict>,
}

impl Evaluation {
    /// Predicts a part's cases, the test part's where none is named, and scores them.
    pub fn of(model: &RunModel, mut cases: Cases, part: Option<&str>) -> Outcome<Self> {
        let (part, parted) = cases.take(part, TEST)?;
        let unit = Unit::of_list(&parted)?;
        let settings = Settings { data_hash: Some(cases.hash.clone()), unit, ..Settings::new(part) };
        let judge = |case: &Case, said: &Prediction| {
            Ok((score(case, said, &settings)?, Areas::of(case, said, settings.unit)))
        };
        let (predictions, judged) = model.judge_part(&cases, &parted, judge)?;
        let (scores, areas): (Vec<_>, Vec<_>) = judged.into_iter().unzip();
        let mut report = summarise(&scores, &settings)?;
        let counting = Mutex::new(Counting::of_volumes());
        let reached = |done, of| counting.lock().expect("nobody panics while counting").reached_of(done, of);
        report.volumes = score_volumes(&parted, &predictions, settings.seed, reached)?;
        Ok(Self {
            report,
            skipped: cases.skipped,
            cases: parted.without_neighbours(),
            predictions,
            areas,
            verdict: None,
        })
    }

    /// The same with a verdict on the training that just ended, or on those of all folds. Of folds no cases are
    /// named: each of the scored ones was trained on by the others.
    pub fn judged(
        mut self,
        run: &RunFolder,
        trained: &[RunFolder],
        training: Option<&CaseList>,
    ) -> Outcome<Self> {
        let recipe = Recipe::read(&run.recipe())?;
        let mut curves = Vec::new();
        for run in trained {
            curves.push(Curve::of(&log::read(&run.log())?));
        }
        let Curve { steps, validations, used_codes } = Curve::mean(&curves);
        let training = training.unwrap_or(&self.cases);
        let trained = Trained { recipe: &recipe, steps, validations: &validations, used_codes, training };
        self.verdict = Some(Verdict::new(&trained, &self.report.split, &self.cases, &self.predictions)?);
        Ok(self)
    }

    /// How far to trust the model.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// What there is to see of some cases.
    fn seen(&self, numbers: &[usize]) -> Outcome<Vec<Seen>> {
        let seen = |&at: &usize| {
            let scores = &self.report.images[at].scores;
            let (ged, spread) = (Some(scores.ged_limit), Some(scores.diversity_labels));
            Ok(Seen {
                number: at,
                case: self.cases.get(at)?,
                prediction: self.predictions.get(at),
                ged,
                spread,
            })
        };
        numbers.iter().map(seen).collect()
    }

    /// Cases from the first to the last, those with the lowest GED, and those with the highest.
    fn shown(&self) -> Outcome<[Vec<Seen>; 3]> {
        let all: Vec<usize> = (0..self.cases.len()).collect();
        let ged = |at: usize| self.report.images[at].scores.ged_limit;
        let mut ranked = all.clone();
        ranked.sort_by(|&a, &b| ged(a).total_cmp(&ged(b)));
        let count = all.len().min(ON_A_SHEET);
        let worst: Vec<usize> = ranked.iter().rev().take(count).copied().collect();
        Ok([self.seen(&spread(&all, count))?, self.seen(&ranked[..count])?, self.seen(&worst)?])
    }

    /// The scores for a terminal.
    pub fn table(&self) -> String {
        let scores = wrapped(self.report.table().trim_end());
        let verdict = self.verdict.as_ref().map(|verdict| format!("\n\n{}", wrapped(&verdict.text())));
        format!("{scores}\ndocs/metrics.md explains every score.{}", verdict.unwrap_or_default())
    }

    /// The page's text.
    pub fn page(&self, run: &RunFolder) -> Outcome<String> {
        let log = if run.log().is_file() { log::read(&run.log())? } else { Vec::new() };
        let recipe = folder::read_text(&run.recipe())?;
        let groups = groups(&self.report.images);
        let seen = self.seen(&pictured(&groups))?;
        let page = Page {
            title: &run.name(),
            report: &self.report,
            log: &log,
            recipe: &recipe,
            facts: &self.facts(&log),
            skipped: &self.skipped,
            areas: &self.areas,
            groups: &groups,
            pictured: &seen.iter().map(Seen::pictured).collect::<Vec<_>>(),
        };
        Ok(page.render())
    }

    /// Writes report, page and sheets into the run's folder.
    pub fn publish(&self, run: &RunFolder) -> Outcome {
        folder::write(&run.report(), (self.report.to_json() + "\n").as_bytes())?;
        folder::write(&run.page(), self.page(run)?.as_bytes())?;
        if let Some(verdict) = &self.verdict {
            let text = serde_json::to_string_pretty(verdict).expect("a verdict is plain values");
            folder::write(&run.verdict(), (text + "\n").as_bytes())?;
        }
        self.write_sheets(run)
    }

    /// What the page says of the run besides scores: the verdict first, then where it comes from.
    fn facts(&self, log: &[Record]) -> Vec<(String, String)> {
        let findings = self.verdict.iter().flat_map(|verdict| &verdict.findings);
        let findings = findings.map(|finding| ("verdict".to_owned(), finding.clone()));
        let volumes = self.report.volumes.iter().map(|found| {
            let scores = found.numbers().map(|(key, value)| format!("{key} {value:.4}"));
            ("whole volumes".to_owned(), format!("{}. {}", scores.join(", "), about_volumes(found)))
        });
        findings.chain(volumes).chain(facts(log)).collect()
    }

    fn write_sheets(&self, run: &RunFolder) -> Outcome {
        files::make_folder(&run.sheets())?;
        for (name, seen) in ["examples", "best", "worst"].into_iter().zip(&self.shown()?) {
            folder::write(
                &run.sheet(name),
                &png(&sheet(&seen.iter().map(Seen::exhibit).collect::<Vec<_>>())),
            )?;
        }
        Ok(())
    }
}

/// A case that is shown, with what the model says of it.
struct Seen {
    number: usize,
    case: Arc<Case>,
    prediction: Prediction,
    ged: Option<f64>,
    spread: Option<f64>,
}

impl Seen {
    fn pictured(&self) -> Pictured<'_> {
        Pictured { number: self.number, case: &self.case, prediction: &self.prediction }
    }

    fn exhibit(&self) -> Exhibit<'_> {
        Exhibit { ged: self.ged, spread: self.spread, ..Exhibit::new(&self.case, &self.prediction) }
    }
}

/// What a verdict asks of a training's log.
struct Curve {
    steps: u64,
    /// Step and GED.
    validations: Vec<(u64, f64)>,
    used_codes: Option<usize>,
}

impl Curve {
    fn of(log: &[Record]) -> Self {
        let (mut steps, mut validations, mut used_codes) = (0, Vec::new(), None);
        for record in log {
            if let Record::Epoch { step, numbers, .. } = record {
                steps = *step;
                validations.extend(numbers.get("validation.ged_limit").map(|ged| (*step, *ged)));
                used_codes = numbers.get("used_codes").map(|codes| *codes as usize);
            }
        }
        Self { steps, validations, used_codes }
    }

    /// Validations as far as all trainings came, and the fewest codes: one that collapsed is one too many.
    fn mean(curves: &[Self]) -> Self {
        let shortest = curves.iter().map(|one| one.validations.len()).min().unwrap_or(0);
        let mean = |at: usize| {
            let sum: f64 = curves.iter().map(|one| one.validations[at].1).sum();
            (curves[0].validations[at].0, sum / curves.len() as f64)
        };
        Self {
            steps: curves.iter().map(|one| one.steps).max().unwrap_or(0),
            validations: (0..shortest).map(mean).collect(),
            used_codes: curves.iter().filter_map(|one| one.used_codes).min(),
        }
    }
}

/// Where a run comes from, as its log tells.
fn facts(log: &[Record]) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for record in log {
        if let Record::Start { step, version, commit, device, seed, .. } = record {
            let what = format!("version {version}, commit {commit}, {device}, seed {seed}");
            facts.push((format!("trained from step {step}"), what));
        }
        if let Record::End { step, seconds, reason } = record {
            facts.push((format!("ended at step {step}"), format!("{reason}, {seconds:.0} s of training")));
        }
    }
    facts.push((
        "evaluated by".into(),
        format!("version {}, commit {}", env!("CARGO_PKG_VERSION"), env!("MULTIVALUED_COMMIT")),
    ));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(geds: &[f64], used_codes: f64) -> Vec<Record> {
        let epoch = |(at, ged): (usize, &f64)| Record::Epoch {
            step: 10 * (at as u64 + 1),
            epoch: at as u64 + 1,
            seconds: 1.0,
            // The names under which docs/run-folder.md lists them.
            numbers: [("used_codes".to_owned(), used_codes), ("validation.ged_limit".to_owned(), *ged)]
                .into(),
        };
        geds.iter().enumerate().map(epoch).collect()
    }

    #[test]
    fn a_verdict_hears_of_validations_and_of_codes_that_collapsed() {
        let one = Curve::of(&log(&[0.5, 0.3, 0.2], 4.0));
        assert_eq!((one.steps, one.used_codes), (30, Some(4)));
        let collapsed = Curve::of(&log(&[0.7, 0.5], 1.0));
        let mean = Curve::mean(&[one, collapsed]);
        assert_eq!((mean.steps, mean.used_codes), (30, Some(1)));
        assert_eq!(mean.validations, [(10, 0.6), (20, 0.4)]);
        let none = Curve::of(&[]);
        assert_eq!((none.steps, none.validations.len(), none.used_codes), (0, 0, None));
    }
}
