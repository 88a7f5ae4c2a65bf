//! Seeing how far a training is: on a terminal two live lines (how far, how well), plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::log::Numbers;
use crate::terminal::{complain, is_heard};

/// Plain lines come no more often than this, unless they tell of a validation.
pub(super) const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// Where epochs are long there is a plain line this often.
const PLAIN_AT_LEAST: Duration = Duration::from_secs(60);
/// The live lines change no more often than this.
const LIVE_EVERY: Duration = Duration::from_millis(200);

/// When this process began, and at which step.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    began: Instant,
    first: u64,
}

impl Pace {
    /// It begins now.
    pub fn from(step: u64) -> Self {
        Self { began: Instant::now(), first: step }
    }

    /// Steps per second since.
    pub fn rate(&self, step: u64) -> f64 {
        step.saturating_sub(self.first) as f64 / self.began.elapsed().as_secs_f64().max(1e-9)
    }
}

/// What is shown.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    total: Option<u64>,
    epochs: Option<u64>,
    pace: Pace,
    /// When something was last shown.
    told: Option<Instant>,
    used_codes: Option<f64>,
    ged: Option<f64>,
}

impl Progress {
    /// A training at a step of so many, or of an unknown number.
    pub fn new(step: u64, total: Option<u64>, steps_per_epoch: u64) -> Self {
        // Two lines, so that a terminal of 80 columns shows the scores too; what is wider is cut.
        let bar = live_bar(total, "{bar:20} {prefix}\n{wide_msg}");
        if let Some(bar) = &bar {
            bar.set_position(step);
        }
        Self {
            bar,
            total,
            epochs: total.map(|total| total.div_ceil(steps_per_epoch.max(1))),
            pace: Pace::from(step),
            told: None,
            used_codes: None,
            ged: None,
        }
    }

    /// Whether it is time to show a step.
    pub fn is_due(&self) -> bool {
        let pause = if self.bar.is_some() { LIVE_EVERY } else { PLAIN_AT_LEAST };
        self.told.unwrap_or(self.pace.began).elapsed() >= pause
    }

    /// Shows a step.
    pub fn step(&mut self, step: u64, epoch: u64, progress: f32, terms: &Numbers) {
        self.told = Some(Instant::now());
        match &self.bar {
            Some(bar) => {
                bar.set_position(step);
                bar.set_prefix(self.how_far(step, epoch, progress));
                bar.set_message(self.how_well(terms));
            }
            None => complain(&self.sentence(step, epoch, progress, terms)),
        }
    }

    /// An epoch was completed.
    pub fn epoch(&mut self, step: u64, epoch: u64, progress: f32, numbers: &Numbers) {
        self.used_codes = numbers.get("used_codes").copied().or(self.used_codes);
        let validated = numbers.get("validation.ged_limit").copied();
        self.ged = validated.or(self.ged);
        if self.bar.is_some() {
            return;
        }
        if validated.is_some() || self.told.is_none_or(|told| told.elapsed() >= PLAIN_EVERY) {
            self.told = Some(Instant::now());
            complain(&self.sentence(step, epoch, progress, numbers));
        }
    }

    /// Takes the live lines away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn sentence(&self, step: u64, epoch: u64, progress: f32, numbers: &Numbers) -> String {
        format!("{} · {}", self.how_far(step, epoch, progress), self.how_well(numbers))
    }

    fn how_far(&self, step: u64, epoch: u64, progress: f32) -> String {
        let of = |total: Option<u64>| total.map_or(String::new(), |total| format!("/{total}"));
        let rate = self.pace.rate(step);
        let mut parts = vec![
            format!("epoch {epoch}{}", of(self.epochs)),
            format!("step {step}{}", of(self.total)),
            format!("{rate:.1} steps/s"),
        ];
        match self.total {
            Some(total) if rate > 0.0 => {
                parts.push(format!("{} left", clock(total.saturating_sub(step) as f64 / rate)));
            }
            _ => parts.push(format!("{:.0} %", 100.0 * progress)),
        }
        parts.join(" · ")
    }

    /// The most telling first: a narrow terminal cuts the end.
    fn how_well(&self, numbers: &Numbers) -> String {
        let mut parts = Vec::new();
        parts.extend(self.ged.map(|ged| format!("GED {ged:.4}")));
        parts.extend(self.used_codes.map(|codes| format!("{codes:.0} codes")));
        parts.extend(numbers.get("loss.total").map(|loss| format!("loss {loss:.3}")));
        let terms = numbers.iter().filter_map(|(name, value)| {
            let term = name.strip_prefix("loss.").filter(|term| *term != "total" && *value != 0.0)?;
            Some(format!("{} {value:.3}", term.replace('_', " ")))
        });
        parts.extend(terms);
        parts.join(" · ")
    }
}

/// A bar that is drawn anew as it moves; none where standard error is no terminal or nobody looks there.
pub(super) fn live_bar(total: Option<u64>, template: &str) -> Option<ProgressBar> {
    (std::io::stderr().is_terminal() && !is_heard()).then(|| {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(5));
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    })
}

/// Seconds as minutes and seconds, or hours and minutes.
pub fn clock(seconds: f64) -> String {
    let whole = seconds.clamp(0.0, 1e9).round() as u64;
    match whole / 3600 {
        0 => format!("{}:{:02} min", whole / 60, whole % 60),
        hours => format!("{hours}:{:02} h", whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_matters() {
        let mut progress = Progress {
            bar: None,
            total: Some(1000),
            epochs: Some(10),
            pace: Pace::from(100),
            told: None,
            used_codes: None,
            ged: None,
        };
        let numbers: Numbers = [
            ("loss.total".to_owned(), 0.5),
            ("loss.energy".to_owned(), 0.0),
            ("loss.reconstruction".to_owned(), 0.25),
            ("used_codes".to_owned(), 5.0),
            ("validation.ged_limit".to_owned(), 0.125),
        ]
        .into();
        progress.epoch(200, 2, 0.2, &numbers);
        let line = progress.sentence(200, 2, 0.2, &numbers);
        for part in
            ["epoch 2/10 · step 200/1000", "left", "GED 0.1250 · 5 codes · loss 0.500 · reconstruction 0.250"]
        {
            assert!(line.contains(part), "{line} lacks {part}");
        }
        assert!(!line.contains("energy"));
    }

    #[test]
    fn clocks() {
        assert_eq!(
            [clock(5.4), clock(125.0), clock(7500.0), clock(-1.0)],
            ["0:05 min", "2:05 min", "2:05 h", "0:00 min"]
        );
    }
}
