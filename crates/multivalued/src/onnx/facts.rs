//! What a graph's outputs need to become what `predict` says: the file's `metadata_props`, each value as JSON.

use super::is_sampled;
use crate::mixture::codes_of;
use crate::recipe::{PredictRecipe, Recipe};
use crate::{Mixture, Predictor};
use serde_json::{Value, json};

/// Grows when a reader of the old kind could not read the new one.
const FORMAT: &str = "multivalued-onnx/1";

pub(super) struct Facts {
    /// Key and value, as they are written.
    pub entries: Vec<(String, String)>,
    /// Columns of `probabilities`.
    pub probabilities: usize,
    /// Outputs of an image: the second axis of `logits`.
    pub outputs: usize,
}

pub(super) fn of(model: &Mixture) -> Facts {
    let recipe = model.recipe();
    let (mut members, mut before) = (Vec::new(), 0);
    let (mut probabilities, mut outputs) = (0, 0);
    for member in model.members() {
        let codes = codes(member);
        outputs += codes.len();
        probabilities += codes.len() + usize::from(member.recipe().model.empty_head);
        members.push(of_member(member.recipe(), &codes, before));
        before += codes_of(member.recipe());
    }
    let sampled = is_sampled(recipe);
    let (method, predict) = (&recipe.method, &recipe.predict);
    let noise = sampled.then(|| json!({ "samples": predict.samples, "latent_dim": method.latent_dim }));
    let entries = [
        ("format", json!(FORMAT)),
        ("channels", json!(recipe.model.input_channels)),
        ("classes", json!(recipe.model.classes)),
        ("normalise", json!(recipe.data.normalise)),
        ("resize", json!(recipe.data.resize)),
        ("spacing", json!((recipe.data.spacing > 0.0).then_some(recipe.data.spacing))),
        ("context", json!(recipe.data.context)),
        ("views", json!(predict.views)),
        ("noise", json!(noise)),
        ("merge_iou", json!(predict.merge_iou)),
        ("members", json!(members)),
    ];
    let entries = entries.map(|(key, value)| (key.to_owned(), value.to_string())).to_vec();
    Facts { entries, probabilities, outputs }
}

/// The numbers of a model's outputs; of samples as many as `predict` draws.
fn codes(member: &Predictor) -> Vec<usize> {
    match member.network().model() {
        Some(model) => model.active_codes(),
        None if is_sampled(member.recipe()) => (0..member.recipe().predict.samples).collect(),
        None => vec![0],
    }
}

/// Codes are counted on from member to member, as `Mixture` does.
fn of_member(recipe: &Recipe, codes: &[usize], before: usize) -> Value {
    let own = &recipe.predict;
    // Samples are counted: nothing is dropped, what is equal is merged, and no probability changes.
    let counted = PredictRecipe { min_probability: 0.0, merge_iou: 1.0, ..Default::default() };
    let predict = if is_sampled(recipe) { &counted } else { own };
    // With several classes all logits of a pixel move together, which changes no mask.
    let moved = if recipe.model.classes == 1 { predict.spread } else { 0.0 };
    let outlines = if predict.spread > 0.0 { vec![0.0, moved, -moved] } else { vec![0.0] };
    json!({
        "codes": codes.iter().map(|code| code + before).collect::<Vec<_>>(),
        "empty_code": recipe.model.empty_head.then_some(recipe.model.code_count + before),
        "min_probability": predict.min_probability,
        "merge_iou": predict.merge_iou,
        "outlines": outlines,
        "temperature": predict.temperature,
        "empty_temperature": predict.empty_temperature,
        "empty_shift": predict.empty_shift,
    })
}
