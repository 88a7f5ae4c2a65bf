//! A bias per sample and channel: how a code enters the 1x1 head.
//!
//! A 1x1 convolution of [features, tiled code] is a 1x1 convolution of the features plus a linear map
//! of the code, the same at every pixel. So K codes per image cost K additions, not K decoders.
//!
//! ```text
//! y[n·K + k, i, j, c] = x[n, i, j, c] + bias[n·K + k, c]
//! ```

use super::{Operation, with_parts};
use crate::backend::Element;
use crate::shape::Shape;
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// Adds to each image a bias per channel; with K biases per image the image is used K times.
    ///
    /// # Shapes
    /// [batch, height, width, channels], bias [batch·K, channels] → [batch·K, height, width, channels]
    pub fn add_sample_bias(&self, bias: &Self) -> Self {
        self.sample_bias(bias, false)
    }

    /// `relu(add_sample_bias)` in one sweep.
    pub fn add_sample_bias_relu(&self, bias: &Self) -> Self {
        self.sample_bias(bias, true)
    }

    /// How many biases each image has, where they fit it.
    pub(super) fn biases_of_image(&self, bias: &Self, operation: &str) -> usize {
        let [batch, _, _, channels] = self.shape().image(operation);
        let [samples, bias_channels] = bias.shape().matrix(&format!("{operation}'s bias"));
        assert!(
            bias_channels == channels && batch > 0 && samples % batch == 0,
            "{operation}: bias {} for images {}: it needs [a multiple of {batch}, {channels}]",
            bias.shape(),
            self.shape()
        );
        samples / batch
    }

    fn sample_bias(&self, bias: &Self, relu: bool) -> Self {
        let repeats = self.biases_of_image(bias, "add_sample_bias");
        let backend = self.backend();
        let bias_f32 = backend.cast(bias.tensor().clone(), Element::F32);
        let (samples, from) = (bias.shape()[0], self.shape());
        let shape = Shape::from([samples, from[1], from[2], from[3]]);
        let out = backend.add_sample_bias(self.tensor(), &bias_f32, relu, shape);
        let (y, operand_type) = (relu.then(|| out.clone()), self.tensor().element());
        Self::record(&[self, bias], out, SampleBias { from, samples, repeats, operand_type, y })
    }
}

pub(crate) struct SampleBias {
    /// The images' shape.
    from: Shape,
    samples: usize,
    /// K.
    repeats: usize,
    /// The images' type.
    operand_type: Element,
    /// The result, where it is a relu's.
    y: Option<Tensor>,
}

impl Operation for SampleBias {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        with_parts("sample bias".into(), &[("relu", self.y.is_some())])
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { from: _, samples: _, repeats: _, operand_type: _, y } = self;
        y.iter().collect()
    }

    fn relu_result(&self) -> Option<&Tensor> {
        self.y.as_ref()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { from, samples, repeats, operand_type, y } = self;
        let (mask, segments) = (flow.mask(y.as_ref()), flow.wants(1).then_some(samples));
        let (dy, sums) = flow.device().backend().mask_and_sum(dy, mask, operand_type, segments);
        drop(y);
        if let Some(sums) = sums {
            flow.add(1, |_| sums);
        }
        flow.add(0, |backend| if repeats == 1 { dy } else { backend.sum_repeats(&dy, repeats, from) });
    }
}
