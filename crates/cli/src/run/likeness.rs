//! Tells where images are unlike the ones that a model was trained on.

use std::path::Path;

use multivalued::answer::{self, Warnings};
use multivalued_data::fingerprint::Fingerprint;

use super::RunFolder;
use crate::exit::Outcome;
use crate::terminal::complain;

/// Reasons that the terminal shows of one file; `prediction.json` has all.
const SHOWN: usize = 2;

/// Reads the fingerprint beside a model; none where it has none.
pub fn fingerprint(run: &RunFolder) -> Outcome<Option<Fingerprint>> {
    Ok(answer::fingerprint(run.path())?)
}

/// Says what is unlike the training data on the terminal, once for the file.
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
