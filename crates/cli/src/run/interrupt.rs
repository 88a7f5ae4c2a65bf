//! What asks a training to stop: Ctrl-C, SIGTERM, SIGHUP (a lost connection) and SIGUSR1 (which schedulers send
//! before the time is up).
//!
//! | when | what a signal does |
//! |---|---|
//! | before the first step, after the last, and in every other command | ends the process at once |
//! | in the steps, the first one | the step is finished and a checkpoint saved |
//! | the same, where that takes longer than [`PATIENCE`] | ends the process; the checkpoint before stays |
//! | the same, the second one | ends the process at once |

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use multivalued::train::checkpoint;
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGUSR1};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use super::RunFolder;
use crate::exit::{Failure, INTERRUPTED, Outcome};
use crate::terminal::complain;

/// What asks to stop.
#[cfg(unix)]
const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGUSR1];
#[cfg(not(unix))]
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// How long a training may take to stop by itself. Those who stop processes often wait for ten seconds.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often it is looked whether that time is over.
const LOOK: Duration = Duration::from_millis(100);

/// Whether somebody asked to stop, from the first step to the last.
#[derive(Debug)]
pub struct Interrupt {
    /// The signal that came, 0 before.
    signal: Arc<AtomicUsize>,
    /// Whether the next signal ends the process.
    at_once: Arc<AtomicBool>,
    /// Whether the steps are over, so that nobody need watch them.
    over: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens from now on. Until then signals do what the system lets them do: they end the process.
    pub fn listen(run: &RunFolder) -> Outcome<Self> {
        let (signal, at_once) = listening()?;
        signal.store(0, Ordering::SeqCst);
        at_once.store(false, Ordering::SeqCst);
        let interrupt = Self { signal, at_once, over: Arc::default() };
        let (signal, over) = (Arc::clone(&interrupt.signal), Arc::clone(&interrupt.over));
        let run = run.clone();
        thread::spawn(move || watch(&signal, &over, &run));
        Ok(interrupt)
    }

    /// Whether a signal came.
    pub fn is_asked(&self) -> bool {
        self.signal.load(Ordering::SeqCst) != 0
    }

    /// Ends the listening; says whether a signal came before. One that comes later ends the process at once.
    pub fn end(&self) -> bool {
        self.over.store(true, Ordering::SeqCst);
        self.at_once.store(true, Ordering::SeqCst);
        self.is_asked()
    }
}

/// The flags that signals raise. A handler stays for as long as the process lives, so that there is one for all
/// trainings of a process.
fn listening() -> Outcome<(Arc<AtomicUsize>, Arc<AtomicBool>)> {
    static FLAGS: OnceLock<(Arc<AtomicUsize>, Arc<AtomicBool>)> = OnceLock::new();
    if let Some(flags) = FLAGS.get() {
        return Ok(flags.clone());
    }
    let (number, at_once) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for signal in SIGNALS.into_iter().filter(|&signal| !is_ignored(signal)) {
        // In this order: the first signal finds the flag down and only raises it.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&at_once))
            .and_then(|_| flag::register(signal, Arc::clone(&at_once)))
            .and_then(|_| flag::register_usize(signal, Arc::clone(&number), signal as usize))
            .map_err(|error| Failure::Io(format!("signals: {error}")))?;
    }
    Ok(FLAGS.get_or_init(|| (number, at_once)).clone())
}

/// Ends the process where the steps do not end soon enough after a signal.
fn watch(signal: &AtomicUsize, over: &AtomicBool, run: &RunFolder) {
    let mut asked = None;
    while !over.load(Ordering::SeqCst) {
        thread::sleep(LOOK);
        let number = signal.load(Ordering::SeqCst) as i32;
        if number == 0 || asked.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
            continue;
        }
        let kept = checkpoint::exists(&run.last());
        let run = run.path().display();
        let (code, kept) = match kept {
            true => (
                INTERRUPTED.into(),
                format!("the checkpoint before it stays; go on with --resume --out {run}"),
            ),
            false => (128 + number, "no checkpoint was saved yet".to_owned()),
        };
        let message =
            format!("interrupted: {run}: a step did not end within {} s; {kept}", PATIENCE.as_secs());
        // Whoever does not read standard error must not keep the process alive.
        thread::spawn(move || complain(&message));
        thread::sleep(2 * LOOK);
        low_level::exit(code);
    }
}

/// Whether whoever started the program wants it to live on after a hang-up, as `nohup` does. Only Linux tells.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signal == SIGHUP && ignored >> (SIGHUP - 1) & 1 == 1
}

#[cfg(not(unix))]
fn is_ignored(_: i32) -> bool {
    false
}
