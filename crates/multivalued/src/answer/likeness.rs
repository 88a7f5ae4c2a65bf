//! Whether images are like the ones that a model was trained on, by the fingerprint that lies beside it.

use crate::{Error, Result};
use multivalued_data::fingerprint::{Fingerprint, Unlike};
use multivalued_data::{Image, disk, files};
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

/// What is unlike the training data in the slices of one file.
#[derive(Debug, Default)]
pub struct Warnings {
    slices: usize,
    /// The first slice's word on each aspect, and how many slices are unlike in it.
    found: Vec<(Unlike, usize)>,
}

impl Warnings {
    /// Adds a slice.
    pub fn add(&mut self, fingerprint: Option<&Fingerprint>, image: &Image) {
        self.slices += 1;
        for unlike in fingerprint.map_or(Vec::new(), |fingerprint| fingerprint.unlike(image)) {
            match self.found.iter_mut().find(|(known, _)| known.aspect == unlike.aspect) {
                Some((_, count)) => *count += 1,
                None => self.found.push((unlike, 1)),
            }
        }
    }

    /// A sentence for each aspect.
    pub fn sentences(&self) -> Vec<String> {
        let all = self.slices;
        let sentence = |(unlike, count): &(Unlike, usize)| match all {
            1 => format!("the image {}", unlike.reason),
            _ => format!("{count} of {all} slices differ in {}: the first {}", unlike.aspect, unlike.reason),
        };
        self.found.iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_data::synthetic::{Task, TaskName};

    #[test]
    fn slices_are_counted_and_a_missing_fingerprint_says_nothing() {
        let cases = Task::new(TaskName::Raters, 32, 1).unwrap().generate("train", 20);
        let fingerprint = Fingerprint::of(&cases[..].into()).unwrap();
        let large = Image::new(96, 96, 1, vec![0.5; 96 * 96]);
        let mut warnings = Warnings::default();
        for image in [&cases[0].image, &large, &large] {
            warnings.add(Some(&fingerprint), image);
        }
        let sentences = warnings.sentences();
        assert_eq!(
            sentences[0],
            "2 of 3 slices differ in size: the first has 96x96 pixels; the training images have 32x32"
        );
        let mut silent = Warnings::default();
        silent.add(None, &large);
        assert!(silent.sentences().is_empty());
    }
}
