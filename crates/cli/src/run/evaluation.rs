//! Scores of a run's model, and what there is to see of them: report, page and contact sheets.

use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_data::report::Report;
use multivalued_data::{Case, Prediction, files};

use super::RunFolder;
use super::cases::{Cases, TEST};
use super::model::RunModel;
use crate::exit::Outcome;
use crate::folder;
use crate::log::{self, Record};
use crate::page::Page;
use crate::picture::{Exhibit, png, sheet, spread};
use crate::terminal::wrapped;

/// Images on a contact sheet.
const ON_A_SHEET: usize = 8;

/// A run's scores on some cases.
#[derive(Debug)]
pub struct Evaluation {
    /// The scores.
    pub report: Report,
    /// What was left out for a bad file.
    skipped: Vec<String>,
    cases: Vec<Case>,
    predictions: Vec<Prediction>,
}

impl Evaluation {
    /// Predicts a part's cases, the test part's where none is named, and scores them.
    pub fn of(model: &RunModel, mut cases: Cases, part: Option<&str>) -> Outcome<Self> {
        let (part, parted) = cases.take(part, TEST)?;
        let predictions = model.predict_cases(&parted)?;
        let settings = Settings { data_hash: Some(cases.hash), ..Settings::new(part) };
        let (skipped, cases) = (cases.skipped, parted);
        let report = evaluate(&cases, &predictions, &settings)?;
        Ok(Self { report, skipped, cases, predictions })
    }

    fn exhibits(&self) -> Vec<Exhibit<'_>> {
        let scored = self.cases.iter().zip(&self.predictions).zip(&self.report.images);
        scored
            .map(|((case, prediction), row)| Exhibit {
                ged: Some(row.scores.ged_exact),
                ..Exhibit::new(case, prediction)
            })
            .collect()
    }

    /// The scores for a terminal.
    pub fn table(&self) -> String {
        format!("{}\ndocs/metrics.md explains every score.", wrapped(self.report.table().trim_end()))
    }

    /// The page's text.
    pub fn page(&self, run: &RunFolder) -> Outcome<String> {
        let log = if run.log().is_file() { log::read(&run.log())? } else { Vec::new() };
        let recipe = folder::read_text(&run.recipe())?;
        let page = Page {
            title: &run.name(),
            report: &self.report,
            log: &log,
            recipe: &recipe,
            facts: &facts(&log),
            skipped: &self.skipped,
            exhibits: &self.exhibits(),
        };
        Ok(page.render())
    }

    /// Writes report, page and sheets into the run's folder.
    pub fn publish(&self, run: &RunFolder) -> Outcome {
        folder::write(&run.report(), (self.report.to_json() + "\n").as_bytes())?;
        folder::write(&run.page(), self.page(run)?.as_bytes())?;
        self.write_sheets(run)
    }

    fn write_sheets(&self, run: &RunFolder) -> Outcome {
        files::make_folder(&run.sheets())?;
        let exhibits = self.exhibits();
        let mut ranked = exhibits.clone();
        ranked.sort_by(|a, b| a.ged.unwrap_or(0.0).total_cmp(&b.ged.unwrap_or(0.0)));
        let count = exhibits.len().min(ON_A_SHEET);
        let worst: Vec<_> = ranked.iter().rev().take(count).copied().collect();
        let examples = spread(&exhibits, count);
        for (name, shown) in [("examples", &examples[..]), ("best", &ranked[..count]), ("worst", &worst)] {
            folder::write(&run.sheet(name), &png(&sheet(shown)))?;
        }
        Ok(())
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
