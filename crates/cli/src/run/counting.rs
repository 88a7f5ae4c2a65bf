//! Seeing how far a prediction of many images is, where it takes more than a few seconds: on a terminal a live
//! line, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::progress::clock;
use crate::terminal::complain;

/// What is over within this time needs no words.
const PATIENCE: Duration = Duration::from_secs(3);
/// Plain lines come no more often than this.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// How many of so many images are predicted.
#[derive(Debug)]
pub struct Counting {
    total: usize,
    began: Instant,
    /// When something was last shown.
    told: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Counting {
    /// None of so many yet. Of 0 nothing is ever shown.
    pub fn new(total: usize) -> Self {
        Self { total, began: Instant::now(), told: None, bar: None }
    }

    /// So many are done.
    pub fn reached(&mut self, done: usize) {
        let terminal = std::io::stderr().is_terminal();
        let pause = match (self.told, terminal) {
            (None, _) => PATIENCE,
            (Some(_), true) => Duration::ZERO,
            (Some(_), false) => PLAIN_EVERY,
        };
        if done >= self.total || self.told.unwrap_or(self.began).elapsed() < pause {
            return;
        }
        self.told = Some(Instant::now());
        let line = self.line(done, self.began.elapsed());
        if !terminal {
            return complain(&line);
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar =
                ProgressBar::with_draw_target(Some(self.total as u64), ProgressDrawTarget::stderr_with_hz(5));
            let style = ProgressStyle::with_template("{bar:20} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        bar.set_position(done as u64);
        bar.set_message(line);
    }

    fn line(&self, done: usize, elapsed: Duration) -> String {
        let left = elapsed.as_secs_f64() / done.max(1) as f64 * (self.total - done) as f64;
        format!("{done} of {} images predicted · {} left", self.total, clock(left))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_and_how_long() {
        let line = Counting::new(400).line(100, Duration::from_secs(30));
        assert_eq!(line, "100 of 400 images predicted · 1:30 min left");
    }

    #[test]
    fn nothing_is_shown_of_what_is_quick_or_over() {
        let mut counting = Counting::new(2);
        counting.reached(1);
        assert!(counting.told.is_none());
        counting.began -= PATIENCE;
        counting.reached(2);
        assert!(counting.told.is_none());
        counting.reached(1);
        assert!(counting.told.is_some());
    }
}
