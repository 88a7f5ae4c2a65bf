//! The models that the program holds itself, as they lie under `models/`: once, among the viewer's files.

use multivalued::Predictor;
use multivalued_engine::Device;
use multivalued_web::viewer::SHIPPED;

use crate::exit::Outcome;

/// The model of triangles that readers answered with four shapes, 160x160 pixels, ready to predict.
pub fn shapes(device: &Device) -> Outcome<Predictor> {
    let model = SHIPPED.iter().find(|model| model.name == "shapes").expect("shapes is shipped");
    let file = |name: &str| {
        let file = model.files.iter().find(|(known, _)| *known == name);
        file.map(|(_, bytes)| *bytes).expect("a model has weights and a recipe")
    };
    let recipe = std::str::from_utf8(file("recipe.toml")).expect("a recipe is text");
    Ok(Predictor::from_shipped(model.name, file("model.safetensors"), recipe, device)?)
}
