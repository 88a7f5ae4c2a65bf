//! `calibrate`: how much probability a set of hypotheses may hold and still covers readers at a stated level.

use std::path::PathBuf;

use clap::Args;

use super::options::{Loading, level};
use crate::columns::two_columns;
use crate::device::DeviceChoice;
use crate::exit::Outcome;
use crate::run::RunFolder;
use crate::run::calibration::Calibration;
use crate::run::cases::Cases;
use crate::run::model::RunModel;
use crate::terminal::say_lines;

/// Calibrate conformal sets, so that `predict --coverage` keeps what covers readers at a stated level
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued calibrate runs/lidc\n  multivalued calibrate runs/lidc --coverage \
0.95 --data held-out.jsonl\n\nThe level holds for new images that are like the calibration images. \
Those should not have been trained on; the validation part, which chose the model, is a little too kind. A \
cross-validation is calibrated on all its cases, each predicted by the model that did not see it; for all models \
together, which predict a little better, the level is then approximate."
)]
pub struct Calibrate {
    /// The run's folder
    run: PathBuf,
    /// How often a set shall hold the hypothesis nearest to a reader's mask
    #[arg(long, value_name = "LEVEL", default_value_t = 0.9, value_parser = level)]
    coverage: f64,
    /// Calibrate on another data set
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    #[command(flatten)]
    loading: Loading,
    /// The part to calibrate on [default: validation, or all of other data that state no parts]
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// What computes: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

impl Calibrate {
    pub fn run(&self) -> Outcome {
        let device = self.device.open_to_predict()?;
        let run = RunFolder::open(&self.run)?;
        let reader = self.loading.reader();
        let model = RunModel::of_run(&run, &device)?;
        let cases = match &self.data {
            Some(path) => Cases::of_path(&run, path, &self.loading, &reader)?,
            None => Cases::of_run(&run, &reader)?,
        };
        let Calibration { coverage, part, measured } =
            Calibration::of(&run, &model, cases, self.split.as_deref(), self.coverage)?;
        let mut rows = vec![
            ("level", format!("{}", coverage.level)),
            ("calibrated on", format!("{} cases of {part}", coverage.cases)),
            ("most that a set holds", format!("{:.4}", coverage.mass)),
        ];
        if let Some((share, size)) = measured {
            rows.push(("measured on test", format!("{share:.4}")));
            rows.push(("mean size of a set there", format!("{size:.2}")));
        }
        rows.push(("written to", run.coverage().display().to_string()));
        let rows: Vec<_> = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        say_lines(&two_columns(&rows))
    }
}
