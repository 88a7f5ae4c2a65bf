//! The models that the program holds itself, as they lie under `models/`.

use multivalued::Predictor;
use multivalued_engine::Device;

use crate::exit::Outcome;

/// A model of `models/`.
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// `model.safetensors`.
    pub weights: &'static [u8],
    /// `recipe.toml`.
    pub recipe: &'static str,
}

/// Triangles that readers answered with four shapes, 160x160 pixels.
pub fn shapes() -> Shipped {
    Shipped {
        name: "shapes",
        weights: include_bytes!("../../../models/shapes/model.safetensors"),
        recipe: include_str!("../../../models/shapes/recipe.toml"),
    }
}

impl Shipped {
    /// The model, ready to predict.
    pub fn predictor(&self, device: &Device) -> Outcome<Predictor> {
        Ok(Predictor::from_shipped(self.name, self.weights, self.recipe, device)?)
    }
}
