//! The native part of the Python package: arrays and paths in, arrays and JSON out. What people call is in
//! `multivalued/*.py`; what is computed is in the crates that the program `multivalued` is made of.
//!
//! | file | what it is for |
//! |---|---|
//! | `failure` | every call's frame: the interpreter set free, failures and panics as exceptions |
//! | `arrays` | NumPy arrays as images and masks, and back |
//! | `cases` | data sets: given as arrays, read from disk, or generated |
//! | `model` | prediction, evaluation, calibration and export |
//! | `training` | plans and trainings, followed by a Python function |
//! | `ranks` | a transport of Python's between the processes of a training |
//! | `metrics` | weighted sets of masks compared |

mod arrays;
mod cases;
mod failure;
mod metrics;
mod model;
mod ranks;
mod training;

use std::ffi::OsString;

use pyo3::prelude::*;

use failure::guarded;

/// The program: runs the command that the arguments name and returns the exit code. With a transport it is one of
/// several processes.
#[pyfunction]
#[pyo3(signature = (arguments, transport=None))]
fn main(py: Python<'_>, arguments: Vec<OsString>, transport: Option<Py<PyAny>>) -> PyResult<u8> {
    let team = ranks::team(py, transport)?;
    guarded(py, || Ok(multivalued_cli::main_among(arguments, team)))
}

/// Panics, so that a test sees what becomes of a panic.
#[pyfunction]
fn panic(py: Python<'_>, message: String) -> PyResult<()> {
    guarded(py, || panic!("{message}"))
}

/// The native part of `multivalued`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    failure::keep_panics_quiet();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DeviceError", module.py().get_type::<failure::DeviceError>())?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(panic, module)?)?;
    cases::register(module)?;
    metrics::register(module)?;
    model::register(module)?;
    training::register(module)
}
