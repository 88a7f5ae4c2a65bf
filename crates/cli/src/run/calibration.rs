//! The calibration of a run's conformal sets, and what it gives on cases that it did not see.

use multivalued::Coverage;

use super::cases::{Cases, TEST, VALIDATION};
use super::model::RunModel;
use super::{RunFolder, levels};
use crate::exit::Outcome;

/// A level, and how it was found.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// The level with its mass.
    pub coverage: Coverage,
    /// The part that it was calibrated on.
    pub part: String,
    /// The share of readers that are covered on the test part, and the mean size of a set there; none where it has
    /// no cases besides those that were calibrated on.
    pub measured: Option<(f64, f64)>,
}

impl Calibration {
    /// Calibrates on a part of the cases, the validation part where none is named, and adds the level to the run's.
    pub fn of(
        run: &RunFolder,
        model: &RunModel,
        mut cases: Cases,
        part: Option<&str>,
        level: f64,
    ) -> Outcome<Self> {
        let _lock = run.lock()?;
        let (part, calibration) = cases.take(part, VALIDATION)?;
        let predictions = model.predict_part(&cases, &calibration)?;
        let coverage = Coverage::calibrate(level, &calibration, &predictions)
            .map_err(|error| levels::refused(error, format!("the part '{part}'")))?;
        levels::add(run, coverage)?;
        let measured = match part != TEST && cases.has(TEST) {
            false => None,
            true => {
                let (_, test) = cases.take(None, TEST)?;
                let predictions = model.predict_cases(&test)?;
                let size: usize = (0..test.len()).map(|at| coverage.set(&predictions.get(at)).len()).sum();
                Some((coverage.measured(&test, &predictions)?, size as f64 / test.len() as f64))
            }
        };
        Ok(Self { coverage, part, measured })
    }
}
