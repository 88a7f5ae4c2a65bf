//! Whether images are like the ones that a model was trained on, by the fingerprint that lies beside it.

use std::path::Path;

use multivalued_data::files;
use multivalued_data::fingerprint::{Fingerprint, Warnings};

use super::RunFolder;
use crate::exit::{Failure, Outcome};
use crate::terminal::complain;

/// The most bytes that a fingerprint makes sense with; it holds the names of all raters.
const MOST_BYTES: u64 = 1 << 24;
/// Reasons that the terminal shows of one file; `prediction.json` has all.
const SHOWN: usize = 2;

/// Reads the fingerprint beside a model; none where it has none, as at first none had.
pub fn fingerprint(run: &RunFolder) -> Outcome<Option<Fingerprint>> {
    let path = run.fingerprint();
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let bytes = files::read(&path, MOST_BYTES)?;
    let refused = |reason: String| {
        Failure::user(
            path.display(),
            format!("{reason}; fetch it again, or remove it to predict without warnings"),
        )
    };
    let found: Fingerprint =
        serde_json::from_slice(&bytes).map_err(|error| refused(format!("is no fingerprint ({error})")))?;
    match found.version {
        Fingerprint::VERSION => Ok(Some(found)),
        other => {
            Err(refused(format!("has version {other}; this program reads version {}", Fingerprint::VERSION)))
        }
    }
}

/// Says on the terminal in what an image is unlike the training data, once for the file.
pub fn tell(warnings: &Warnings, path: &Path) {
    let sentences = warnings.sentences();
    if sentences.is_empty() {
        return;
    }
    let more = match sentences.len().saturating_sub(SHOWN) {
        0 => String::new(),
        count => format!("; {count} more in prediction.json"),
    };
    let shown = sentences[..sentences.len().min(SHOWN)].join("; ");
    complain(&format!("warning: {}: unlike the training data: {shown}{more}", path.display()));
}
