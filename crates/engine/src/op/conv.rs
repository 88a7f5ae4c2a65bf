//! 2-D convolution with a 1x1 or 3x3 kernel, stride 1 and zero padding.
//!
//! ```text
//! y[n, i, j, o] = Σ_{a, b, c} x[n, i + a − r, j + b − r, c] · w[a, b, c, o] + bias[o]     r = (kernel − 1) / 2
//! ```

use super::{Operation, with_parts};
use crate::backend::{ConvShape, Element, Epilogue};
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// Convolution.
    ///
    /// # Shapes
    /// image [batch, height, width, inputs], weight [k, k, inputs, outputs] with k 1 or 3, bias
    /// [outputs] → [batch, height, width, outputs]
    pub fn conv2d(&self, weight: &Self, bias: Option<&Self>) -> Self {
        self.convolve(weight, bias, None, false, self.backend().activation())
    }

    /// As [`conv2d`](Self::conv2d), the result in f32 whatever a GPU's precision: for logits.
    pub fn conv2d_logits(&self, weight: &Self, bias: Option<&Self>) -> Self {
        self.convolve(weight, bias, None, false, Element::F32)
    }

    /// `relu(conv2d)` in one sweep.
    pub fn conv2d_relu(&self, weight: &Self, bias: Option<&Self>) -> Self {
        self.convolve(weight, bias, None, true, self.backend().activation())
    }

    /// `relu(conv2d + residual)` in one sweep; the residual has the output's shape.
    pub fn conv2d_add_relu(&self, weight: &Self, bias: Option<&Self>, residual: &Self) -> Self {
        self.convolve(weight, bias, Some(residual), true, self.backend().activation())
    }

    fn convolve(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        residual: Option<&Self>,
        relu: bool,
        to: Element,
    ) -> Self {
        let [batch, height, width, inputs] = self.shape().image("conv2d");
        let [kernel, other_kernel, weight_inputs, outputs] = weight.shape().image("conv2d's weight");
        assert!(
            kernel == other_kernel && (kernel == 1 || kernel == 3) && weight_inputs == inputs,
            "conv2d: weight {} does not fit an image of shape {}: it needs [k, k, {inputs}, outputs] with k 1 or 3",
            weight.shape(),
            self.shape()
        );
        let shape = ConvShape { batch, height, width, inputs, outputs, kernel };
        if let Some(bias) = bias {
            assert!(
                *bias.shape() == [outputs],
                "conv2d: bias {} for weight {}",
                bias.shape(),
                weight.shape()
            );
        }
        if let Some(residual) = residual {
            assert!(
                residual.shape() == shape.output_shape(),
                "conv2d: residual {} for an output of {}",
                residual.shape(),
                shape.output_shape()
            );
        }
        let backend = self.backend();
        let activation = |tensor: &Tensor| backend.cast(tensor.clone(), backend.activation());
        let (x, residual_values) =
            (activation(self.tensor()), residual.map(|residual| activation(residual.tensor())));
        let (bias_values, residual_values) = (bias.map(Self::tensor), residual_values.as_ref());
        let epilogue = Epilogue { bias: bias_values, residual: residual_values, relu, mask: None };
        let out = backend.conv(shape, &x, weight.tensor(), false, epilogue, to);
        let (operand_type, y) = (self.tensor().element(), relu.then(|| out.clone()));
        let with = [bias.is_some(), residual.is_some()];
        let op = Conv { shape, x, operand_type, weight: weight.tensor().clone(), y, with };
        Self::record_optional(&[Some(self), Some(weight), bias, residual], out, op)
    }
}

/// The operands' numbers; the image is the first.
const WEIGHT: usize = 1;
const BIAS: usize = 2;
const RESIDUAL: usize = 3;

pub(crate) struct Conv {
    shape: ConvShape,
    /// The image in the activations' type.
    x: Tensor,
    /// The image's own type, which its gradient has.
    operand_type: Element,
    weight: Tensor,
    /// The result, where it is a relu's.
    y: Option<Tensor>,
    /// Whether there is a bias, and a residual.
    with: [bool; 2],
}

impl Operation for Conv {
    const ACCUMULATES: bool = true;

    fn name(&self) -> String {
        let [bias, residual] = self.with;
        let name = format!("conv {0}x{0}", self.shape.kernel);
        with_parts(name, &[("bias", bias), ("residual", residual), ("relu", self.y.is_some())])
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { shape: _, x, operand_type: _, weight, y, with: _ } = self;
        [x, weight].into_iter().chain(y).collect()
    }

    fn relu_result(&self) -> Option<&Tensor> {
        self.y.as_ref()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { shape, x, operand_type, weight, y, .. } = self;
        let device = flow.device();
        let backend = device.backend();
        // The weight's gradient makes the bias's on its way.
        let bias_alone = (flow.wants(BIAS) && !flow.wants(WEIGHT)).then_some(1);
        let (dy, sums) = backend.mask_and_sum(dy, flow.mask(y.as_ref()), backend.activation(), bias_alone);
        drop(y);
        if let Some(sums) = sums {
            flow.add(BIAS, |_| sums.reshaped([shape.outputs]));
        }
        let (wants_weight, wants_bias) = (flow.wants(WEIGHT), flow.wants(BIAS));
        let mut weight_and_bias = None;
        flow.accumulate(|backend, accumulated, mask| {
            // What has already come is added as a residual, which spares a sweep.
            let accumulated = accumulated
                .map(|accumulated| backend.cast(accumulated.into_tensor(backend), backend.activation()));
            let epilogue =
                Epilogue { residual: accumulated.as_ref(), mask: mask.map(|_| &x), ..Epilogue::NONE };
            if !wants_weight {
                return backend.conv(shape.reversed(), &dy, &weight, true, epilogue, operand_type);
            }
            let (dx, dw, db) =
                backend.conv_backward(shape, [&x, &dy, &weight], epilogue, operand_type, wants_bias);
            weight_and_bias = Some((dw, db));
            dx
        });
        if wants_weight {
            let (dw, db) =
                weight_and_bias.unwrap_or_else(|| backend.conv_weight_gradient(shape, &x, &dy, wants_bias));
            flow.add(WEIGHT, |_| dw);
            if let Some(db) = db {
                flow.add(BIAS, |_| db);
            }
        }
        flow.add(RESIDUAL, |_| dy);
    }
}
