//! One error type, its variants named by what the user must repair.

use crate::collective::Unwound;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

/// What went wrong, where, and (inside `reason`) what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A recipe's key has a value that breaks a rule.
    #[error("recipe key `{key}`: {reason}")]
    Recipe {
        /// The key, as `table.key`.
        key: String,
        /// The rule that is broken, and what would keep it.
        reason: String,
    },
    /// A recipe cannot be read at all.
    #[error("recipe {place}: {reason}")]
    RecipeText {
        /// The file or the built-in recipe's name.
        place: String,
        /// What the parser says.
        reason: String,
    },
    /// The data do not suit the recipe.
    #[error("{0}")]
    Data(#[from] multivalued_data::Error),
    /// A checkpoint is torn, foreign or of another model.
    #[error("checkpoint {}: {reason}", path.display())]
    Checkpoint {
        /// The checkpoint's folder or the file at fault.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The loss was NaN or infinite too often in a row.
    #[error(
        "training diverged: the loss or its gradient was not finite in {in_a_row} steps in a row, the last at step {step}; \
         the last good state is kept. Lower `train.learning_rate` or set `train.clip_norm`"
    )]
    Diverged {
        /// The last of the steps.
        step: u64,
        /// How many in a row.
        in_a_row: u64,
    },
    /// A network's outputs are NaN or infinite; masks of them would say nothing and look as if they did.
    #[error(
        "the network's {what} are not finite numbers: its weights or the image's values are too large. \
         Check the image's values and that the model is the one that was trained; a training needs a lower \
         `train.learning_rate`"
    )]
    NotFinite {
        /// Logits or probabilities.
        what: &'static str,
    },
    /// An ONNX file that was made does not say what the model says.
    #[error(
        "the ONNX file is not what the model is: {reason}. No file was written; report this with the model's recipe"
    )]
    Onnx {
        /// What is different.
        reason: String,
    },
    /// The GPU failed or is full; the last checkpoint is kept.
    #[error("{0}")]
    Device(#[from] multivalued_engine::DeviceError),
    /// The transport between the ranks of a training failed: mostly, another rank has ended.
    #[error("rank {rank} of {size} could not add up {what} with the others: {reason}")]
    Lost {
        /// Which of them this process is.
        rank: usize,
        /// How many there were.
        size: usize,
        /// What was to be added up.
        what: String,
        /// What the transport says.
        reason: String,
    },
    /// The ranks of a training do not fit together.
    #[error("{reason}")]
    Ranks {
        /// What differs, and what to do about it.
        reason: String,
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

/// Runs `work` and returns the error of a device or of a transport that failed in it, as it returns all others: what
/// every public function does that computes.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // What `work` was changing is as it was before: it moves nothing before all that may fail is behind it.
    catch_unwind(AssertUnwindSafe(|| multivalued_engine::catching(work))).unwrap_or_else(|payload| {
        match payload.downcast::<Unwound>() {
            Ok(unwound) => Ok(Err(unwound.0)),
            Err(other) => resume_unwind(other),
        }
    })?
}

impl Error {
    pub(crate) fn recipe(key: &str, reason: impl Into<String>) -> Self {
        Self::Recipe { key: key.into(), reason: reason.into() }
    }

    pub(crate) fn checkpoint(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self::Checkpoint { path: path.into(), reason: reason.into() }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}
