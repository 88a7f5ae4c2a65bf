//! Whether images are like the ones that a model was trained on, by the fingerprint that lies beside it.

use crate::{Error, Result};
use multivalued_data::fingerprint::Fingerprint;
use multivalued_data::{disk, files};
use std::path::Path;

/// The fingerprint's file beside a model.
pub const FINGERPRINT: &str = "fingerprint.json";
/// The most bytes that a fingerprint makes sense with; it holds the names of all raters.
const MOST_BYTES: u64 = 1 << 24;

/// Reads the fingerprint in a model's or run's folder; none where it has none, as at first none had.
pub fn fingerprint(folder: &Path) -> Result<Option<Fingerprint>> {
    let path = folder.join(FINGERPRINT);
    if !disk::is_there(&path) {
        return Ok(None);
    }
    let bytes = files::read(&path, MOST_BYTES)?;
    let refused = |reason: String| {
        let remedy = "fetch it again, or remove it to predict without warnings";
        Error::from(multivalued_data::Error::file(&path, format!("{reason}; {remedy}")))
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
