//! Whether a file says what the networks say: both look at the same images.

use super::file::File;
use super::graph::Array;
use super::interpreter;
use super::networks::{IMAGE, NOISE};
use crate::predict::tensor_of;
use crate::{Error, Mixture, Predictor, Result};
use multivalued_data::Image;
use multivalued_data::draw::Draw;
use multivalued_data::normalise::Normalisation;

/// Images of different sizes, which are no multiples of anything, alone and together: count, width and height.
const LOOKED_AT: [(usize, [usize; 2]); 2] = [(2, [27, 38]), (1, [32, 21])];
/// Samples of each image, where the model draws them.
const SAMPLES: usize = 3;

/// How far probabilities may be apart.
const PROBABILITIES: f32 = 1e-5;
/// The same of logits; above 1, of their own size.
const LOGITS: f32 = 1e-4;

/// The largest differences between a file's answers and the model's own.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Agreement {
    /// Of probabilities.
    pub probabilities: f32,
    /// Of logits; above 1, of their own size.
    pub logits: f32,
}

/// What was said of some images: [images, columns], and [images, outputs, channels, height, width].
struct Said {
    probabilities: Vec<f32>,
    logits: Vec<f32>,
}

pub(super) fn check(bytes: &[u8], model: &Mixture) -> Result<Agreement> {
    let refused = |reason: String| Error::Onnx { reason };
    let file = File::from_bytes(bytes).ok_or_else(|| refused("it cannot be read back".into()))?;
    let mut agreement = Agreement::default();
    for (at, (count, size)) in LOOKED_AT.into_iter().enumerate() {
        let (images, noise) = drawn(model, at as u64, count, size);
        let found = by_file(&file, &images, &noise).map_err(refused)?;
        let expected = by_networks(model, &images, &noise.values);
        let apart = |found: &[f32], expected: &[f32]| -> Result<f32> {
            if found.len() != expected.len() {
                let reason = format!("it gives {} values in place of {}", found.len(), expected.len());
                return Err(refused(reason));
            }
            let pairs = found.iter().zip(expected);
            // A NaN is further apart than anything.
            Ok(pairs.fold(0.0, |most, (a, b)| match (a - b).abs() / b.abs().max(1.0) {
                apart if apart <= most => most,
                apart if apart.is_finite() => apart,
                _ => f32::INFINITY,
            }))
        };
        agreement.probabilities =
            agreement.probabilities.max(apart(&found.probabilities, &expected.probabilities)?);
        agreement.logits = agreement.logits.max(apart(&found.logits, &expected.logits)?);
    }
    for (what, apart, most) in
        [("probabilities", agreement.probabilities, PROBABILITIES), ("logits", agreement.logits, LOGITS)]
    {
        if apart > most {
            return Err(refused(format!("its {what} are apart by {apart:.1e}, more than {most:.0e}")));
        }
    }
    Ok(agreement)
}

/// Images of the values that the model takes, and noise for the samples of each.
fn drawn(
    model: &Mixture,
    number: u64,
    count: usize,
    [width, height]: [usize; 2],
) -> (Vec<Image>, Array<f32>) {
    let recipe = model.recipe();
    let mut draw = Draw::new(1, &["onnx"], number);
    let (low, high) = match recipe.data.normalise {
        Normalisation::Range { low, high } => (f64::from(low), f64::from(high)),
        _ => (0.0, 255.0),
    };
    // A little beyond the range, which is cut off.
    let beyond = (high - low) / 16.0;
    let channels = recipe.model.input_channels;
    let images = (0..count).map(|_| {
        let pixels = 0..width * height * channels;
        let pixels = pixels.map(|_| draw.uniform(low - beyond, high + beyond) as f32).collect();
        Image::new(width, height, channels, pixels)
    });
    let images: Vec<Image> = images.collect();
    let latent = recipe.method.latent_dim;
    let noise = (0..count * SAMPLES * latent).map(|_| draw.bell() as f32).collect();
    (images, Array::new(&[count, SAMPLES, latent], noise))
}

fn by_file(file: &File, images: &[Image], noise: &Array<f32>) -> std::result::Result<Said, String> {
    let first = &images[0];
    let dims = [images.len(), first.channels(), first.height(), first.width()];
    let pixels = images.iter().flat_map(|image| image.pixels().iter().copied()).collect();
    let mut inputs = vec![(IMAGE, Array::new(&dims, pixels))];
    if file.graph.inputs.iter().any(|port| port.name == NOISE) {
        inputs.push((NOISE, noise.clone()));
    }
    let mut outputs = interpreter::run(&file.graph, inputs)?.into_iter().map(|array| array.values);
    match (outputs.next(), outputs.next()) {
        (Some(probabilities), Some(logits)) => Ok(Said { probabilities, logits }),
        _ => Err("it has no two outputs".into()),
    }
}

fn by_networks(model: &Mixture, images: &[Image], noise: &[f32]) -> Said {
    let share = 1.0 / model.members().len() as f32;
    let said: Vec<Said> = model.members().iter().map(|member| by_member(member, images, noise)).collect();
    let of_image = |values: &[f32], image: usize| -> Vec<f32> {
        let each = values.len() / images.len();
        values[image * each..(image + 1) * each].to_vec()
    };
    let all = |of: &dyn Fn(&Said) -> &[f32]| -> Vec<f32> {
        let rows = (0..images.len()).flat_map(|image| said.iter().map(move |one| of_image(of(one), image)));
        rows.flatten().collect()
    };
    Said {
        probabilities: all(&|one| &one.probabilities).iter().map(|value| value * share).collect(),
        logits: all(&|one| &one.logits),
    }
}

fn by_member(member: &Predictor, images: &[Image], noise: &[f32]) -> Said {
    let data = &member.recipe().data;
    let prepared: Vec<Image> = images
        .iter()
        .map(|image| {
            let mut image = image.resampled(data.resize.unwrap_or([image.width(), image.height()]));
            data.normalise.apply(&mut image);
            image
        })
        .collect();
    let network = member.network();
    let (probabilities, logits) = network.stated(&tensor_of(&prepared, network.device()), noise);
    let [outputs, height, width, channels] = *logits.shape() else { unreachable!("outputs are images") };
    let values = logits.to_vec();
    let mut planes = Vec::with_capacity(values.len());
    for (output, channel) in
        (0..outputs).flat_map(|output| (0..channels).map(move |channel| (output, channel)))
    {
        let own = &values[output * height * width * channels..][..height * width * channels];
        planes.extend(own.iter().skip(channel).step_by(channels));
    }
    Said { probabilities, logits: planes }
}
