//! Options that several commands share.

use clap::Args;
use multivalued::Recipe;
use multivalued_data::dataset::{Layout, Options};
use multivalued_data::import::MaskRule;

/// How a data set is read.
#[derive(Debug, Args)]
pub struct Reading {
    /// The layout, where it is not to be found by content: manifest, lidc-slices, lidc-crops, nnunet or
    /// case-folders
    #[arg(long, value_name = "NAME")]
    pub layout: Option<Layout>,
    /// What makes stored values a mask: binary, threshold:VALUE or labels:COUNT [default: binary]
    #[arg(long, value_name = "RULE")]
    pub masks: Option<MaskRule>,
}

impl Reading {
    /// As the data crate wants it.
    pub fn options(&self) -> Options {
        Options { layout: self.layout, mask: self.masks, ..Options::default() }
    }

    /// Puts what the options say into a recipe.
    pub fn write_to(&self, recipe: &mut Recipe) {
        if let Some(layout) = self.layout {
            recipe.data.layout = layout.to_string();
        }
        if let Some(masks) = self.masks {
            recipe.data.masks = masks.to_string();
        }
    }
}
