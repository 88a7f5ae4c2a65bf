//! What is unlike the training data in all slices of one image, in sentences.

use super::{Fingerprint, Unlike};
use crate::Image;

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
    use crate::synthetic::{Task, TaskName};

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
