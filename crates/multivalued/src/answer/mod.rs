//! What a model says of one image or volume, as `predict` writes it: what is kept of it, whole volumes, sizes, warnings,
//! and `prediction.json`.

mod coherent;
mod document;
mod keep;
mod likeness;
mod predicted;
pub mod sizes;

pub use coherent::Coherent;
pub use document::{DOCUMENT, Document, FORMAT, Pixels, VERSION, checksum, model_hash, settings, stem};
pub use keep::Keep;
pub use likeness::{FINGERPRINT, fingerprint};
pub use multivalued_data::fingerprint::Warnings;
pub use predicted::{PackedHypothesis, Predicted};
pub use sizes::Unit;

use multivalued_data::volume::VolumeHypothesis;

/// A hypothesis of an image, or of a volume as a whole: its masks, slice by slice.
pub struct Answer<'a> {
    /// How probable it is.
    pub probability: f64,
    /// Its masks.
    pub slices: Vec<&'a PackedHypothesis>,
}

/// The hypotheses of an image, or of a volume as a whole.
pub fn answers<'a>(predicted: &'a [Predicted], coherent: Option<&Coherent>) -> Vec<Answer<'a>> {
    match coherent {
        Some(all) => {
            let of = |one: &VolumeHypothesis| Answer {
                probability: one.probability,
                slices: predicted.iter().zip(&one.members).map(|(slice, &at)| &slice.all[at]).collect(),
            };
            all.hypotheses.iter().map(of).collect()
        }
        None => {
            let of = |one: &'a PackedHypothesis| Answer {
                probability: f64::from(one.probability),
                slices: vec![one],
            };
            predicted[0].kept().iter().map(of).collect()
        }
    }
}
