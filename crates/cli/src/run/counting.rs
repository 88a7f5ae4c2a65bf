//! Seeing how far the work on many images is, where it takes more than a few seconds: on a terminal a live
//! line, plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::progress::{PLAIN_EVERY, clock, live_bar};
use crate::terminal::complain;

/// What is over within this time needs no words.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many of so many images, or other things, are done.
#[derive(Debug)]
pub struct Counting {
    total: usize,
    /// What they are.
    what: &'static str,
    /// What is done to them.
    done: &'static str,
    began: Instant,
    /// When something was last shown.
    told: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Counting {
    /// None of so many predicted yet. Of 0 nothing is ever shown.
    pub fn new(total: usize) -> Self {
        Self::of(total, "predicted")
    }

    /// The same for other work.
    pub fn of(total: usize, done: &'static str) -> Self {
        Self::of_things(total, "images", done)
    }

    /// The same of strips of an image that is too large to be computed whole; how many there are is said later.
    pub fn of_strips() -> Self {
        Self::of_things(0, "strips of the image", "computed")
    }

    /// The same of volumes whose slices were predicted; how many there are is said later.
    pub fn of_volumes() -> Self {
        Self::of_things(0, "volumes", "scored")
    }

    fn of_things(total: usize, what: &'static str, done: &'static str) -> Self {
        Self { total, what, done, began: Instant::now(), told: None, bar: None }
    }

    /// So many of so many are done.
    pub fn reached_of(&mut self, done: usize, total: usize) {
        self.total = total;
        if let Some(bar) = &self.bar {
            bar.set_length(total as u64);
        }
        self.reached(done);
    }

    /// So many are done.
    pub fn reached(&mut self, done: usize) {
        let pause = match (self.told, &self.bar) {
            (None, _) => PATIENCE,
            (Some(_), Some(_)) => Duration::ZERO,
            (Some(_), None) => PLAIN_EVERY,
        };
        if done >= self.total || self.told.unwrap_or(self.began).elapsed() < pause {
            return;
        }
        if self.told.is_none() {
            self.bar = live_bar(Some(self.total as u64), "{bar:20} {wide_msg}");
        }
        self.told = Some(Instant::now());
        let line = self.line(done, self.began.elapsed());
        match &self.bar {
            Some(bar) => {
                bar.set_position(done as u64);
                bar.set_message(line);
            }
            None => complain(&line),
        }
    }

    fn line(&self, done: usize, elapsed: Duration) -> String {
        let each = elapsed.as_secs_f64() / done.max(1) as f64;
        let (rate, left) = (1.0 / each.max(1e-9), clock(each * (self.total - done) as f64));
        let Self { total, what, done: verb, .. } = self;
        format!("{done} of {total} {what} {verb} · {rate:.1} a second · {left} left")
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
        assert_eq!(line, "100 of 400 images predicted · 3.3 a second · 1:30 min left");
        let mut strips = Counting::of_strips();
        strips.reached_of(3, 12);
        let line = strips.line(3, Duration::from_secs(6));
        assert_eq!(line, "3 of 12 strips of the image computed · 0.5 a second · 0:18 min left");
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
