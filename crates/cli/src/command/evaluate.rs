//! `evaluate`: the scores of a run, on its own test part or on other data.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use multivalued_data::report::Report;

use super::options::Loading;
use crate::device::DeviceChoice;
use crate::document::Document;
use crate::exit::{Failure, Outcome};
use crate::run::RunFolder;
use crate::run::cases::{Cases, TEST};
use crate::run::evaluation::Evaluation;
use crate::run::model::RunModel;
use crate::terminal::{complain, complain_lines, say_lines};

/// Score a run's model and print the table of all scores
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued evaluate runs/lidc\n  multivalued evaluate runs/lidc --data other \
--html other.html\n  multivalued evaluate models/lidc --data data/lidc\n  multivalued evaluate runs/demo \
--require 'ged_exact<=0.08'\n\nData that the run was trained on, wherever they lie, have the run's own parts: \
train, validation (or val) and test. Other data have the parts they state; where they state none, all of them are \
scored and --split is refused. The run's own report.json, report.html and sheets are \
written anew where its own test part is scored with its own views; of a run that may only be read the scores are \
printed alone. Exit code 1 where a --require does not hold."
)]
pub struct Evaluate {
    /// The run's folder, or a model's
    run: PathBuf,
    /// Another data set to score on
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    #[command(flatten)]
    loading: Loading,
    /// The part to score [default: test, or all of other data that state no parts]
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// Views of each image to average [default: the recipe's predict.views]
    #[arg(long, value_name = "N")]
    views: Option<usize>,
    /// Write the report as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report page; - is standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// A bound that a score must keep, as 'ged_exact<=0.1' or 'mode_recall>=0.9'
    #[arg(long, value_name = "BOUND")]
    require: Vec<Bound>,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

/// A score and the value it must not pass.
#[derive(Debug, Clone)]
struct Bound {
    score: String,
    at_least: bool,
    value: f64,
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (at_least, parts) = match (text.split_once(">="), text.split_once("<=")) {
            (Some(parts), None) => (true, parts),
            (None, Some(parts)) => (false, parts),
            _ => return Err("write it as SCORE<=VALUE or SCORE>=VALUE".into()),
        };
        let value = parts.1.trim().parse().map_err(|_| format!("'{}' is no number", parts.1))?;
        Ok(Self { score: parts.0.trim().to_owned(), at_least, value })
    }
}

impl Bound {
    /// Nothing where it holds, else a sentence.
    fn broken(&self, report: &Report) -> Outcome<Option<String>> {
        let scores = report.numbers();
        let Some((_, found)) = scores.iter().find(|(name, _)| *name == self.score) else {
            let near = multivalued::recipe::suggestion(&self.score, scores.iter().map(|(name, _)| *name));
            return Err(Failure::user(
                "--require",
                format!("the report has no score '{}'{near}", self.score),
            ));
        };
        let holds = if self.at_least { *found >= self.value } else { *found <= self.value };
        let sign = if self.at_least { "at least" } else { "at most" };
        Ok((!holds).then(|| format!("{} is {found:.4}, but {sign} {} is required", self.score, self.value)))
    }
}

impl Evaluate {
    pub fn run(&self) -> Outcome {
        // While the data are read.
        let opening = self.device.begin_to_predict()?;
        let run = RunFolder::open(&self.run)?;
        let reader = self.loading.reader();
        let [json, html] =
            [&self.json, &self.html].map(|path| path.as_deref().map(Document::named).transpose());
        let documents = [json?, html?];
        let printed = documents.iter().flatten().filter(|one| **one == Document::StandardOutput).count();
        if printed > 1 {
            return Err(Failure::user("--json and --html", "standard output takes one of them; name a file"));
        }
        // What is written into the run must not meet a training that writes there too.
        let publishes = self.data.is_none()
            && self.views.is_none()
            && self.split.as_deref().unwrap_or(TEST) == TEST
            && !run.is_shipped();
        let (lock, read_only) = match publishes.then(|| run.lock_unless_read_only()).transpose() {
            Err(Failure::ReadOnly(reason)) => (None, Some(reason)),
            lock => (lock?, None),
        };
        let cases = match &self.data {
            Some(path) => Cases::of_path(&run, path, &self.loading, &reader)?,
            None => Cases::of_run(&run, &reader)?,
        };
        let model = RunModel::of_run(&run, &opening.device()?)?.with_views(self.views)?;
        let evaluation = Evaluation::of(&model, cases, self.split.as_deref())?;
        if lock.is_some() {
            evaluation.publish(&run)?;
        }
        let [json, html] = documents;
        if let Some(document) = json {
            document.write((evaluation.report.to_json() + "\n").as_bytes())?;
        }
        if let Some(document) = html {
            document.write(evaluation.page(&run)?.as_bytes())?;
        }
        // Beside a document the table would spoil it.
        match printed {
            0 => say_lines(&evaluation.table())?,
            _ => complain_lines(&evaluation.table()),
        }
        if let Some(reason) = read_only {
            complain(&format!("nothing was written into the run: {reason}"));
        }
        let broken = self.require.iter().map(|bound| bound.broken(&evaluation.report));
        let broken: Vec<String> = broken.collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect();
        match broken.is_empty() {
            true => Ok(()),
            false => Err(Failure::BelowBound(format!("{}: {}", self.run.display(), broken.join("; ")))),
        }
    }
}
