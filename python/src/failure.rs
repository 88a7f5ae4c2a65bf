//! The frame of every call: the interpreter is free while Rust works, and what fails becomes an exception of the right
//! kind with the program's own sentence.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use multivalued_cli::{Failure, Outcome, heard_by};
use pyo3::create_exception;
use pyo3::exceptions::{
    PyBrokenPipeError, PyConnectionError, PyFileNotFoundError, PyKeyboardInterrupt, PyMemoryError, PyOSError,
    PyPermissionError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

create_exception!(
    multivalued,
    DeviceError,
    PyRuntimeError,
    "A device cannot be had, or failed while it computed."
);

/// How often Python is asked whether somebody pressed Ctrl-C.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The exception of a signal that nobody has heard of yet.
static RAISED: Mutex<Option<PyErr>> = Mutex::new(None);

thread_local! {
    /// What the last panic of this thread said, and where.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    /// This Python thread's engine threads, by their number.
    static POOLS: RefCell<HashMap<usize, ThreadPool>> = RefCell::new(HashMap::new());
}

/// Panics are told as exceptions and not on standard error.
pub fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or(String::new(), |place| format!(" ({place})"));
        let said = said_by(panic.payload());
        LAST_PANIC.with(|last| *last.borrow_mut() = Some(format!("{said}{place}")));
    }));
}

fn said_by(payload: &dyn Any) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Refuses a process that was forked from one whose engine threads were started: it has none of them, and would wait
/// for them for ever.
fn must_have_its_threads() -> PyResult<()> {
    static STARTED_BY: OnceLock<u32> = OnceLock::new();
    match *STARTED_BY.get_or_init(std::process::id) == std::process::id() {
        true => Ok(()),
        false => Err(PyRuntimeError::new_err(
            "this process was forked from one that used multivalued before, and has no engine threads; start \
             workers with multiprocessing.get_context(\"spawn\"), or use multivalued first in the workers",
        )),
    }
}

/// Does some work without the interpreter.
pub fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> Outcome<T> + Send) -> PyResult<T> {
    must_have_its_threads()?;
    let caught = py.detach(|| {
        let caught = catch_unwind(AssertUnwindSafe(|| multivalued_engine::catching(work)));
        // The hook ran on the thread that panicked, which may be another one: the payload says it, too.
        caught.map_err(|payload| {
            let last = LAST_PANIC.with(|last| last.borrow_mut().take());
            last.unwrap_or_else(|| said_by(&*payload).to_owned())
        })
    });
    match caught {
        Ok(Ok(outcome)) => outcome.map_err(exception),
        Ok(Err(device)) => Err(exception(device.into())),
        Err(panic) => Err(PyRuntimeError::new_err(format!(
            "internal error: {panic}; please report it with what you called"
        ))),
    }
}

/// The same on so many engine threads of this Python thread's own (on all that the machine has where none are
/// stated), whose words go to a Python function.
pub fn computed<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    listener: Option<Py<PyAny>>,
    work: impl FnOnce() -> Outcome<T> + Send,
) -> PyResult<T> {
    let heard = move || match listener {
        None => work(),
        Some(listener) => heard_by(move |line| tell(&listener, line), work),
    };
    guarded(py, || on_threads(threads, heard))
}

fn tell(listener: &Py<PyAny>, line: &str) {
    Python::attach(|py| {
        if let Err(error) = listener.call1(py, (line,)) {
            // Nobody waits for an answer here.
            error.write_unraisable(py, None);
        }
    });
}

/// Only the thread that called may ask Python whether somebody pressed Ctrl-C, so it does while its pool works.
fn on_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    let Some(count) = threads else { return work() };
    POOLS.with(|pools| {
        let mut pools = pools.borrow_mut();
        if let Entry::Vacant(place) = pools.entry(count) {
            let pool = ThreadPoolBuilder::new().num_threads(count).build();
            place.insert(pool.map_err(|error| Failure::user("threads", error))?);
        }
        let (at_work, over) = mpsc::channel::<()>();
        let mut done = None;
        pools[&count].in_place_scope(|scope| {
            scope.spawn(|_| {
                done = Some(work());
                drop(at_work);
            });
            while over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                look_for_signals();
            }
        });
        done.expect("a scope waits for its work, or unwinds with it")
    })
}

/// Keeps the exception of a signal, such as that of Ctrl-C, for whoever asks next.
fn look_for_signals() {
    if let Err(raised) = Python::attach(|py| py.check_signals()) {
        *RAISED.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
    }
}

/// What a signal raised since it was asked last.
pub fn raised_by_signal() -> Option<PyErr> {
    look_for_signals();
    RAISED.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A failure as an exception.
pub fn exception(failure: Failure) -> PyErr {
    let message = failure.message().unwrap_or("the output was closed").to_owned();
    match failure {
        Failure::User(_) | Failure::BelowBound(_) => PyValueError::new_err(message),
        Failure::Missing(_) => PyFileNotFoundError::new_err(message),
        Failure::Memory(_) => PyMemoryError::new_err(message),
        Failure::NoDevice(_) | Failure::DeviceFailed(_) => DeviceError::new_err(message),
        Failure::Io(_) => PyOSError::new_err(message),
        Failure::ReadOnly(_) => PyPermissionError::new_err(message),
        Failure::Interrupted(_) => PyKeyboardInterrupt::new_err(message),
        Failure::Lost(_) => PyConnectionError::new_err(message),
        Failure::OutputClosed => PyBrokenPipeError::new_err(message),
    }
}
