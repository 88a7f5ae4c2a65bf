//! The frame of every call: the interpreter is free while Rust works, and what fails becomes an exception of the right
//! kind with the program's own sentence.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use multivalued_cli::{Failure, Outcome, heard_by};
use pyo3::create_exception;
use pyo3::exceptions::{
    PyBrokenPipeError, PyFileNotFoundError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyPermissionError,
    PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

create_exception!(
    multivalued,
    DeviceError,
    PyRuntimeError,
    "A device cannot be had, or failed while it computed."
);

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

/// Does some work without the interpreter.
pub fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> Outcome<T> + Send) -> PyResult<T> {
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

fn on_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    let Some(count) = threads else { return work() };
    POOLS.with(|pools| {
        let mut pools = pools.borrow_mut();
        if let std::collections::hash_map::Entry::Vacant(place) = pools.entry(count) {
            let pool = ThreadPoolBuilder::new().num_threads(count).build();
            place.insert(pool.map_err(|error| Failure::user("threads", error))?);
        }
        pools[&count].install(work)
    })
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
        Failure::OutputClosed => PyBrokenPipeError::new_err(message),
    }
}
