//! A model that is served.

use multivalued::Mixture;
use multivalued_data::fingerprint::{Fingerprint, Warnings};
use multivalued_data::{Image, Prediction};

use crate::refusal::Refusal;

/// A model and the name it is asked for by.
pub struct Model {
    /// The name.
    pub name: String,
    /// What predicts.
    pub mixture: Mixture,
    /// What the training images were like, where that is known.
    pub fingerprint: Option<Fingerprint>,
}

impl Model {
    /// Channels of what the networks take; with their neighbours, where slices have such.
    pub fn channels(&self) -> usize {
        self.mixture.recipe().model.input_channels
    }

    /// Channels of a file's images.
    pub(crate) fn image_channels(&self) -> usize {
        self.mixture.recipe().image_channels()
    }

    /// Whether a slice's neighbours are further channels.
    pub(crate) fn has_context(&self) -> bool {
        self.mixture.recipe().data.context != 0
    }

    /// Foreground classes.
    pub fn classes(&self) -> usize {
        self.mixture.recipe().model.classes
    }

    /// In what images are unlike the training data.
    pub(crate) fn warnings<'a>(&self, images: impl Iterator<Item = &'a Image>) -> Vec<String> {
        let mut warnings = Warnings::default();
        images.for_each(|image| warnings.add(self.fingerprint.as_ref(), image));
        warnings.sentences()
    }

    /// What the model says of images of one size, each for itself.
    pub(crate) fn predict(&self, images: &[Image]) -> Vec<Result<Prediction, Refusal>> {
        let all: Vec<&Image> = images.iter().collect();
        match self.mixture.predict(&all) {
            Ok(said) => said.into_iter().map(Ok).collect(),
            Err(error) if all.len() == 1 => vec![Err(error.into())],
            // One of them is at fault.
            Err(_) => {
                let alone = |image: &&Image| match self.mixture.predict(&[image]) {
                    Ok(mut said) => Ok(said.swap_remove(0)),
                    Err(error) => Err(error.into()),
                };
                all.iter().map(alone).collect()
            }
        }
    }
}
