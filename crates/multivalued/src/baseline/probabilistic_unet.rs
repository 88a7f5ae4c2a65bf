//! The Probabilistic U-Net (Kohl et al. 2018): a U-Net whose last layers take a sample of a latent space.
//!
//! ```text
//! training     z ~ Q(· | x, y)     L = Σ_pixels cross-entropy(G(x, z), y) + β KL(Q(· | x, y) ‖ P(· | x))
//! prediction   z ~ P(· | x)        n samples, each of probability 1/n, equal masks counted together
//! ```
//!
//! Differs from the original: the blocks are the method's (residual, with group normalisation), so that
//! methods are compared and not blocks. As in the original: the pooled deepest features give mean and ln σ
//! by a 1x1 convolution, z enters the first of the last three 1x1 convolutions (as a bias, which is the
//! same as tiling and joining it), halving and doubling are bilinear, and the loss is summed over pixels
//! and averaged over images.

use super::gaussian::{Gaussian, GaussianEncoder, noise};
use super::unet::Body;
use super::{Losses, descend, shares};
use crate::Result;
use crate::batch::Batch;
use crate::collective::Ranks;
use crate::loss::cross_entropy_sum;
use crate::model::Init;
use crate::predict::{masks_of, outputs_per_batch};
use crate::recipe::{MethodRecipe, Recipe};
use crate::train::{StepContext, StepResult, Term, of_all_ranks};
use multivalued_data::draw::Draw;
use multivalued_data::{Hypothesis, Mask, Prediction};
use multivalued_engine::{Adam, Device, Parameters, Tape, Tensor, Var};
use std::collections::HashMap;

/// Outputs that are computed at once, over all images of a batch: what memory is planned for.
const OUTPUTS_AT_ONCE: usize = 128;

/// The U-Net, the prior and the posterior.
pub(crate) struct ProbabilisticUnet {
    pub parameters: Parameters,
    body: Body,
    /// P(z | x)
    prior: GaussianEncoder,
    /// Q(z | x, y), of which only training knows.
    posterior: GaussianEncoder,
    method: MethodRecipe,
    device: Device,
}

impl ProbabilisticUnet {
    pub fn new(recipe: &Recipe, device: &Device) -> Self {
        let mut parameters = Parameters::new();
        let mut init = Init { device, parameters: &mut parameters, seed: recipe.train.seed };
        let (model, latent) = (&recipe.model, recipe.method.latent_dim);
        let body = Body::new(&mut init, model, latent);
        let (image, mask) = (model.input_channels, model.output_channels());
        let prior = GaussianEncoder::new(&mut init, "prior", image, model, latent);
        let posterior = GaussianEncoder::new(&mut init, "posterior", image + mask, model, latent);
        Self { parameters, body, prior, posterior, method: recipe.method.clone(), device: device.clone() }
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn step(&mut self, adam: &mut Adam, context: StepContext) -> StepResult {
        let tape = Tape::recording(&self.parameters);
        let losses = self.step_losses(&tape, context);
        descend(tape, losses, &mut self.parameters, adam, context)
    }

    /// The losses of a step, whose latent noise depends on its number.
    pub fn step_losses(&self, tape: &Tape, context: StepContext) -> Losses {
        let StepContext { recipe, batch, number, progress, ranks, .. } = context;
        let draw = Draw::new(recipe.train.seed, &["latent"], number);
        self.losses(tape, recipe, batch, progress, self.noise_of_pairs(batch, draw, ranks))
    }

    /// [pairs, latent dimensions]: the noise of a pair is that of its place in the whole batch, where every image has
    /// as many rows.
    fn noise_of_pairs(&self, batch: &Batch, mut draw: Draw, ranks: &Ranks) -> Tensor {
        let latent = self.method.latent_dim;
        if ranks.are_alone() {
            return noise(&self.device, batch.annotations.shape()[0], latent, &mut draw);
        }
        let (own, all) = (batch.per_image, of_all_ranks(ranks, batch.per_image, 0).0);
        (0..batch.own.start * all * latent).for_each(|_| _ = draw.bell());
        let image: Vec<f32> = (0..batch.own.len() * all * latent).map(|_| draw.bell() as f32).collect();
        let noise: Vec<f32> =
            image.chunks_exact(all * latent).flat_map(|rows| rows[..own * latent].iter().copied()).collect();
        Tensor::from_slice(&self.device, [batch.own.len() * own, latent], &noise)
    }

    /// The evidence bound, negated, of a batch's pairs of image and annotation, by noise [pairs, latent dimensions].
    fn losses(&self, tape: &Tape, recipe: &Recipe, batch: &Batch, progress: f32, noise: Tensor) -> Losses {
        let images = Var::constant(batch.images.clone());
        let [_, height, width, _] = *images.shape() else { unreachable!("images have four axes") };
        let pairs = batch.annotations.shape()[0];
        let rows: Vec<usize> = (0..pairs).map(|pair| pair / batch.per_image).collect();
        let channels = batch.annotations.shape()[1] / (height * width);
        let annotations = Var::constant(batch.annotations.reshaped([pairs, height, width, channels]));

        let side_by_side = Var::concat_channels(&[&images.gather_rows(&rows), &annotations]);
        let posterior = self.posterior.forward(tape, &side_by_side);
        let prior = self.prior.forward(tape, &images);
        let prior = Gaussian {
            mean: prior.mean.gather_rows(&rows),
            log_deviation: prior.log_deviation.gather_rows(&rows),
        };
        let z = posterior.sample(noise);
        let features = self.body.features(tape, &images);
        let logits = self.body.generator.generate(tape, &features, &z);

        let shares = shares(batch);
        let reconstruction = cross_entropy_sum(&logits, &batch.annotations).mul(&shares).sum();
        let divergence = posterior.divergence_from(&prior).mul(&shares).sum();
        let mut losses = Losses::new(recipe, progress);
        losses.add(Term::Reconstruction, reconstruction);
        losses.add(Term::Divergence, divergence);
        losses
    }

    /// The logits of samples whose noise is given, as many for each image.
    ///
    /// # Shapes
    /// [images, height, width, channels], images·K rows of noise → [images·K, height, width, output channels]
    pub fn sampled(&self, images: &Tensor, noise: &[f32]) -> Tensor {
        let tape = Tape::frozen(&self.parameters);
        let images = Var::constant(images.clone());
        let latent = self.method.latent_dim;
        let noise = Tensor::from_slice(&self.device, [noise.len() / latent, latent], noise);
        let z = self.prior.forward(&tape, &images).sample(noise);
        self.body.generator.generate(&tape, &self.body.features(&tape, &images), &z).into_tensor()
    }

    /// Samples of the prior for each image. Its noise is drawn from the image's own content, so that an
    /// image gets the same samples alone, in any batch and at any place of a data set.
    pub fn predict_batch(&self, recipe: &Recipe, images: &Tensor) -> Result<Vec<Prediction>> {
        let options = &recipe.predict;
        let tape = Tape::frozen(&self.parameters);
        let constant = Var::constant(images.clone());
        let prior = self.prior.forward(&tape, &constant);
        let features = self.body.features(&tape, &constant);
        let values = images.to_vec();
        let [count, height, width, _] = *images.shape() else { unreachable!("images have four axes") };
        let at_once = outputs_per_batch(&self.device, &recipe.model, count, [width, height])
            .min((OUTPUTS_AT_ONCE / count).max(1));
        let mut draws: Vec<Draw> = values.chunks_exact(values.len() / count).map(noise_of).collect();
        let mut masks: Vec<Vec<Mask>> = vec![Vec::with_capacity(options.samples); count];
        while masks[0].len() < options.samples {
            let part = at_once.min(options.samples - masks[0].len());
            let latent = self.method.latent_dim;
            let noise: Vec<f32> = draws
                .iter_mut()
                .flat_map(|draw| (0..part * latent).map(|_| draw.bell() as f32).collect::<Vec<_>>())
                .collect();
            let z = prior.sample(Tensor::from_slice(&self.device, [count * part, latent], &noise));
            let logits = self.body.generator.generate(&tape, &features, &z);
            let packed = [logits.into_tensor().pack_masks()];
            let drawn = masks_of(&packed, [width, height], recipe.model.classes)?.into_iter().flatten();
            for (row, mask) in drawn.enumerate() {
                masks[row / part].push(mask);
            }
        }
        Ok(masks.into_iter().map(counted).collect())
    }
}

/// The stream of noise that belongs to an image.
fn noise_of(pixels: &[f32]) -> Draw {
    let mut hasher = blake3::Hasher::new();
    pixels.iter().for_each(|pixel| {
        hasher.update(&pixel.to_le_bytes());
    });
    let hash = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    Draw::new(0, &["prior"], u64::from_le_bytes(first))
}

/// Equal masks counted together; the code is the first sample that shows the mask.
fn counted(masks: Vec<Mask>) -> Prediction {
    let draws = masks.len();
    let mut hypotheses: Vec<Hypothesis> = Vec::new();
    let mut counts: Vec<usize> = Vec::new();
    let mut places: HashMap<Mask, usize> = HashMap::new();
    for (code, mask) in masks.into_iter().enumerate() {
        let at = *places.entry(mask.clone()).or_insert(hypotheses.len());
        if at == hypotheses.len() {
            hypotheses.push(Hypothesis { mask, probability: 0.0, code });
            counts.push(0);
        }
        counts[at] += 1;
    }
    for (hypothesis, count) in hypotheses.iter_mut().zip(counts) {
        hypothesis.probability = count as f32 / draws as f32;
    }
    hypotheses.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.code.cmp(&b.code)));
    Prediction { hypotheses, draws: Some(draws) }
}
