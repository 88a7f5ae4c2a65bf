//! Ctrl-C, SIGTERM and SIGUSR1 (which schedulers send before the time is up): the first asks the training to stop after its step, the second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
use signal_hook::consts::SIGUSR1;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::{Failure, Outcome};

/// Whether somebody asked to stop.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

/// What asks to stop.
#[cfg(unix)]
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGUSR1];
#[cfg(not(unix))]
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

impl Interrupt {
    /// Listens from now on.
    pub fn listen() -> Outcome<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in SIGNALS {
            // In this order: the first signal finds the flag down and only raises it.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .map_err(|error| Failure::Io(format!("signals: {error}")))?;
        }
        Ok(Self(asked))
    }

    /// Whether a signal came.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
