//! A model as an ONNX file: one graph from the raw image to logits and probabilities, for any runtime that reads ONNX.
//!
//! | module | what it is for |
//! |---|---|
//! | `networks` | the networks' layers as operations, from their named parameters |
//! | `graph` | operations and constants as data |
//! | `file` | the messages of `onnx.proto`, written and read |
//! | `facts` | what the graph does not do, for whoever makes masks of its outputs (`docs/onnx.md`) |
//! | `interpreter` | the meaning of the operations |
//! | `check` | whether the file says what the networks say |

mod check;
mod facts;
mod file;
mod graph;
mod interpreter;
mod networks;
#[cfg(test)]
mod tests;

pub use check::Agreement;

use crate::error::caught;
use crate::recipe::{MethodKind, Recipe};
use crate::{Error, Mixture, Result};
use file::File;
use graph::{Attribute, Axis, Graph, Port};
use networks::{IMAGE, Layers, NOISE, Stated};

/// A protobuf message has fewer bytes than this.
const MOST_BYTES: usize = i32::MAX as usize;

const ABOUT: &str = "One image in; plausible masks as logits, and their probabilities out. Written by multivalued; its \
docs/onnx.md says how masks are made of them. For research; not a medical device.";

/// An ONNX file, and how near its answers are to the model's own.
#[derive(Debug, Clone)]
pub struct Exported {
    /// The file's content.
    pub bytes: Vec<u8>,
    /// What the check found.
    pub agreement: Agreement,
}

/// A model as an ONNX file, whose answers were found to be the model's. An error where it has a form that no graph
/// is made of, or where they are not.
pub fn export(model: &Mixture) -> Result<Exported> {
    caught(|| {
        let bytes = file_of(model)?.to_bytes();
        if bytes.len() >= MOST_BYTES {
            let reason =
                "the weights take more than the 2 GiB that an ONNX file may have; use a narrower model";
            return Err(Error::recipe("model.channels", reason));
        }
        let agreement = check::check(&bytes, model)?;
        Ok(Exported { bytes, agreement })
    })
}

/// Refuses mixtures whose members cannot share a graph.
fn must_fit_together(model: &Mixture) -> Result<()> {
    let [first, others @ ..] = model.members() else { return Ok(()) };
    let resize = first.recipe().data.resize;
    if others.iter().any(|other| other.recipe().data.resize != resize) {
        let reason = "the members see images in different sizes, so that their outputs do not fit into one graph; \
                      export the members one by one";
        return Err(Error::recipe("data.resize", reason));
    }
    if !others.is_empty() && model.members().iter().any(|member| is_sampled(member.recipe())) {
        let reason =
            "each Probabilistic U-Net of a mixture needs noise of its own; export the members one by one";
        return Err(Error::recipe("method.kind", reason));
    }
    Ok(())
}

/// Whether outputs are samples, whose noise the caller draws.
fn is_sampled(recipe: &Recipe) -> bool {
    recipe.method.kind == MethodKind::ProbabilisticUnet
}

fn file_of(model: &Mixture) -> Result<File> {
    must_fit_together(model)?;
    let recipe = model.recipe();
    let free = |name: &str| Axis::Free(name.into());
    let mut graph = Graph::default();
    let channels = Axis::Fixed(recipe.model.input_channels);
    let axes = vec![free("batch"), channels, free("height"), free("width")];
    graph.inputs.push(Port { name: IMAGE.into(), axes });
    let sampled = is_sampled(model.members()[0].recipe());
    if sampled {
        let latent = Axis::Fixed(model.members()[0].recipe().method.latent_dim);
        graph.inputs.push(Port { name: NOISE.into(), axes: vec![free("batch"), free("samples"), latent] });
    }
    let (mut probabilities, mut logits) = (Vec::new(), Vec::new());
    let count = model.members().len();
    for (at, member) in model.members().iter().enumerate() {
        let scope = if count == 1 { String::new() } else { format!("member-{}/", at + 1) };
        let network = member.network();
        let mut layers = Layers {
            graph: &mut graph,
            scope: &scope,
            parameters: network.parameters(),
            recipe: member.recipe(),
        };
        let Stated { probabilities: stated, logits: own } = layers.stated(network.model());
        probabilities.push(match count {
            1 => stated,
            _ => {
                let share = graph.scalar(1.0 / count as f32);
                graph.add(&scope, "Mul", &[&stated, &share], &[])
            }
        });
        logits.push(own);
    }
    let facts = facts::of(model);
    let [probabilities, logits] = [probabilities, logits].map(|of_members| joined(&mut graph, of_members));
    let axis = |length: usize| if sampled { free("samples") } else { Axis::Fixed(length) };
    let axes = vec![free("batch"), axis(facts.probabilities)];
    graph.output(&probabilities, Port { name: "probabilities".into(), axes });
    let [width, height] = match recipe.data.resize {
        Some(size) => size.map(Axis::Fixed),
        None => [free("width"), free("height")],
    };
    let channels = Axis::Fixed(recipe.model.output_channels());
    let axes = vec![free("batch"), axis(facts.outputs), channels, height, width];
    graph.output(&logits, Port { name: "logits".into(), axes });
    Ok(File { graph, about: ABOUT.into(), facts: facts.entries })
}

/// What all members give, side by side.
fn joined(graph: &mut Graph, mut of_members: Vec<String>) -> String {
    if of_members.len() == 1 {
        return of_members.remove(0);
    }
    let names: Vec<&str> = of_members.iter().map(String::as_str).collect();
    graph.add("", "Concat", &names, &[("axis", Attribute::Whole(1))])
}
