//! One error type, its variants named by what the user must repair.

use std::path::PathBuf;

use crate::memory::in_words;

/// What went wrong, where, and (inside `reason`) what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read as what it claims to be.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file at fault.
        path: PathBuf,
        /// What is wrong with it and how to repair it.
        reason: String,
    },
    /// A folder or manifest does not form a data set.
    #[error("data set {}: {reason}", path.display())]
    Dataset {
        /// The data set's folder or manifest.
        path: PathBuf,
        /// What is wrong with it and how to repair it.
        reason: String,
    },
    /// Two things that must agree do not (sizes, classes, weights).
    #[error("{what}: {reason}")]
    Mismatch {
        /// The case, metric or option concerned.
        what: String,
        /// Both values and the rule.
        reason: String,
    },
    /// Something needs more memory than there is.
    #[error(
        "{}: needs {} of memory, and {} are free; give this process more, or make it smaller",
        what.display(),
        in_words(*needed),
        in_words(*available)
    )]
    Memory {
        /// The file, or the recipe's key.
        what: PathBuf,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that may be taken.
        available: u64,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's own words.
        source: std::io::Error,
    },
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

// By value, so that a caller may pass what is at hand: a literal, a `format!`, another error.
#[allow(clippy::needless_pass_by_value)]
impl Error {
    /// A file error from anything printable.
    pub fn file(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::File { path: path.into(), reason: reason.to_string() }
    }

    /// A data set error from anything printable.
    pub fn dataset(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::Dataset { path: path.into(), reason: reason.to_string() }
    }

    /// A mismatch error from anything printable.
    pub fn mismatch(what: impl ToString, reason: impl ToString) -> Self {
        Self::Mismatch { what: what.to_string(), reason: reason.to_string() }
    }

    /// An operating-system error at a path.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}
