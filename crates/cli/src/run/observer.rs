//! Who follows a training while it runs, and may ask it to stop: the terminal with its signals, or another program.

use multivalued_data::{Case, Prediction};

use super::RunFolder;
use super::interrupt::Interrupt;
use super::progress::Progress;
use crate::exit::Outcome;
use crate::log::Numbers;

/// Hears how a training goes. Whoever asks it to stop gets a checkpoint first.
pub trait Observer {
    /// The steps begin, at one of so many where their number is known.
    fn begin(&mut self, run: &RunFolder, step: u64, total: Option<u64>, steps_per_epoch: u64) -> Outcome;

    /// Whether the next step is to be told: its numbers have to be fetched for that.
    fn is_due(&self) -> bool;

    /// A step was done; `progress` is the share of the training that is over.
    fn step(&mut self, step: u64, epoch: u64, progress: f32, numbers: &Numbers);

    /// An epoch was completed.
    fn epoch(&mut self, step: u64, epoch: u64, progress: f32, numbers: &Numbers);

    /// Whether the answers of the model as it is are wanted now; asked after every step.
    fn wants_answers(&mut self) -> bool {
        false
    }

    /// What the model says of a few validation cases by now.
    fn answers(&mut self, _step: u64, _progress: f32, _cases: &[Case], _said: &[Prediction]) {}

    /// Whether somebody asks it to stop; looked at after every step.
    fn asks_to_stop(&mut self) -> bool;

    /// The steps are over. Whether somebody asked to stop.
    fn end(&mut self) -> bool;
}

/// The terminal: progress on standard error, signals as requests to stop.
#[derive(Debug, Default)]
pub struct Terminal {
    during: Option<(Progress, Interrupt)>,
}

/// Only signals are listened to: for those who follow another process that shows the progress.
#[derive(Debug, Default)]
pub struct Quiet {
    during: Option<Interrupt>,
}

impl Observer for Quiet {
    fn begin(&mut self, run: &RunFolder, _: u64, _: Option<u64>, _: u64) -> Outcome {
        self.during = Some(Interrupt::listen(run)?);
        Ok(())
    }

    fn is_due(&self) -> bool {
        false
    }

    fn step(&mut self, _: u64, _: u64, _: f32, _: &Numbers) {}

    fn epoch(&mut self, _: u64, _: u64, _: f32, _: &Numbers) {}

    fn asks_to_stop(&mut self) -> bool {
        self.during.as_ref().is_some_and(Interrupt::is_asked)
    }

    fn end(&mut self) -> bool {
        self.during.take().is_some_and(|interrupt| interrupt.end())
    }
}

impl Observer for Terminal {
    fn begin(&mut self, run: &RunFolder, step: u64, total: Option<u64>, steps_per_epoch: u64) -> Outcome {
        self.during = Some((Progress::new(step, total, steps_per_epoch), Interrupt::listen(run)?));
        Ok(())
    }

    fn is_due(&self) -> bool {
        self.during.as_ref().is_some_and(|(progress, _)| progress.is_due())
    }

    fn step(&mut self, step: u64, epoch: u64, progress: f32, numbers: &Numbers) {
        if let Some((shown, _)) = &mut self.during {
            shown.step(step, epoch, progress, numbers);
        }
    }

    fn epoch(&mut self, step: u64, epoch: u64, progress: f32, numbers: &Numbers) {
        if let Some((shown, _)) = &mut self.during {
            shown.epoch(step, epoch, progress, numbers);
        }
    }

    fn asks_to_stop(&mut self) -> bool {
        self.during.as_ref().is_some_and(|(_, interrupt)| interrupt.is_asked())
    }

    fn end(&mut self) -> bool {
        self.during.take().is_some_and(|(progress, interrupt)| {
            progress.finish();
            interrupt.end()
        })
    }
}
