//! A head that the code enters: a bias per sample, then layers of 1x1 convolutions, pixel by pixel.
//!
//! ```text
//! h₀[n·K + k, i, j] = relu(x[n, i, j] + bias[n·K + k])
//! hₗ₊₁              = relu(hₗ · wₗ + bₗ)                  the last one without relu
//! ```
//!
//! K codes make K tensors of every layer, each read and written several times, for a result of one channel. A device
//! that computes a chunk of pixels through all layers while it is in the cache
//! ([`PixelLayers`](crate::backend::PixelLayers)) keeps none of them and computes them again in the backward pass.
//! Elsewhere it is the operations one after the other.

use super::Operation;
use crate::backend::LayersShape;
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// A bias per sample and a relu, then layers of weight and bias with a relu between them; with K biases per image
    /// the image is used K times. The result is in f32.
    ///
    /// # Shapes
    /// [batch, height, width, channels], bias [batch·K, channels], each layer [1, 1, inputs, outputs] and [outputs]
    /// → [batch·K, height, width, outputs of the last layer]
    pub fn pixel_layers(&self, bias: &Self, layers: &[[&Self; 2]]) -> Self {
        let (last, hidden) = layers.split_last().expect("pixel_layers: at least one layer");
        let shape = self.layers_shape(bias, layers);
        let device = self.device();
        let Some(kernels) = device.backend().pixel_layers() else {
            let first = self.add_sample_bias_relu(bias);
            let x = hidden.iter().fold(first, |x, [weight, bias]| x.conv2d_relu(weight, Some(bias)));
            return x.conv2d_logits(last[0], Some(last[1]));
        };
        let operands: Vec<&Self> = [self, bias].into_iter().chain(layers.iter().flatten().copied()).collect();
        let tensors: Vec<Tensor> = operands.iter().map(|operand| operand.tensor().clone()).collect();
        let out = kernels.forward(&shape, &tensors);
        Self::record(&operands, out, Layers { shape, operands: tensors })
    }

    fn layers_shape(&self, bias: &Self, layers: &[[&Self; 2]]) -> LayersShape {
        let [batch, height, width, channels] = self.shape().image("pixel_layers");
        let repeats = self.biases_of_image(bias, "pixel_layers");
        let mut widths = vec![channels];
        for [weight, bias] in layers {
            let inputs = widths[widths.len() - 1];
            let [height, width, weight_inputs, outputs] = weight.shape().image("pixel_layers's weight");
            assert!(
                [height, width, weight_inputs] == [1, 1, inputs] && *bias.shape() == [outputs],
                "pixel_layers: weight {} and bias {} after {inputs} channels: they need [1, 1, {inputs}, outputs] and \
                 [outputs]",
                weight.shape(),
                bias.shape()
            );
            widths.push(outputs);
        }
        LayersShape { batch, height, width, repeats, widths }
    }
}

pub(crate) struct Layers {
    shape: LayersShape,
    /// The image, the samples' bias, and weight and bias of every layer.
    operands: Vec<Tensor>,
}

impl Operation for Layers {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        format!("sample bias + relu + {} layers", self.shape.widths.len() - 1)
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { shape: _, operands } = self;
        operands.iter().collect()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let device = flow.device();
        let kernels = device.backend().pixel_layers().expect("the device that computed it");
        let gradients = kernels.backward(&self.shape, &self.operands, &dy);
        for (operand, gradient) in gradients.into_iter().enumerate() {
            flow.add(operand, |_| gradient);
        }
    }
}
