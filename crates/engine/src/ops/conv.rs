//! 2-D convolution with a 1x1 or 3x3 kernel, stride 1 and zero padding.
//!
//! ```text
//! y[n, i, j, o] = Σ_{a, b, c} x[n, i + a − r, j + b − r, c] · w[a, b, c, o] + bias[o]     r = (kernel − 1) / 2
//! ```

use crate::cpu::conv::{self, ConvShape};
use crate::cpu::elementwise;
use crate::cpu::matmul::Epilogue;
use crate::cuda::ops as gpu;
use crate::tape::Var;
use crate::tensor::Tensor;

/// What a convolution's result is, which decides how a GPU stores it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Output {
    /// In the type of the GPU's precision.
    Activation,
    /// In f32.
    Logits,
}

impl Var {
    /// Convolution.
    ///
    /// # Shapes
    /// image [batch, height, width, inputs], weight [k, k, inputs, outputs] with k 1 or 3, bias
    /// [outputs] → [batch, height, width, outputs]
    pub fn conv2d(&self, weight: &Self, bias: Option<&Self>) -> Self {
        self.convolve(weight, bias, None, false, Output::Activation)
    }

    /// As [`conv2d`](Self::conv2d), the result in f32 whatever a GPU's precision: for logits.
    pub fn conv2d_logits(&self, weight: &Self, bias: Option<&Self>) -> Self {
        self.convolve(weight, bias, None, false, Output::Logits)
    }

    /// `relu(conv2d)` in one sweep.
    pub fn conv2d_relu(&self, weight: &Self, bias: Option<&Self>) -> Self {
        self.convolve(weight, bias, None, true, Output::Activation)
    }

    /// `relu(conv2d + residual)` in one sweep; the residual has the output's shape.
    pub fn conv2d_add_relu(&self, weight: &Self, bias: Option<&Self>, residual: &Self) -> Self {
        self.convolve(weight, bias, Some(residual), true, Output::Activation)
    }

    fn convolve(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        residual: Option<&Self>,
        relu: bool,
        output: Output,
    ) -> Self {
        let [batch, height, width, inputs] = self.shape().image("conv2d");
        let [kernel, across, weight_inputs, outputs] = weight.shape().image("conv2d's weight");
        assert!(
            kernel == across && (kernel == 1 || kernel == 3) && weight_inputs == inputs,
            "conv2d: weight {} does not fit an image of shape {}: it needs [k, k, {inputs}, outputs] with k 1 or 3",
            weight.shape(),
            self.shape()
        );
        if let Some(bias) = bias {
            assert!(
                *bias.shape() == [outputs],
                "conv2d: bias {} for weight {}",
                bias.shape(),
                weight.shape()
            );
        }
        let out_shape = [batch, height, width, outputs];
        if let Some(residual) = residual {
            assert!(
                *residual.shape() == out_shape,
                "conv2d: residual {} for an output of {out_shape:?}",
                residual.shape()
            );
        }
        if self.tensor().on_gpu().is_some() {
            let shape = gpu::conv::ConvShape { batch, height, width, inputs, outputs, kernel };
            return gpu::conv::convolve(self, weight, bias, residual, relu, output, shape);
        }
        let shape = ConvShape { batch, height, width, inputs, outputs, kernel };
        let isa = self.tensor().isa();
        let epilogue = Epilogue { bias: bias.map(Self::values), residual: residual.map(Self::values), relu };
        let out = self.tensor().filled(out_shape, |out| {
            conv::forward(isa, shape, self.values(), weight.values(), epilogue, out);
        });

        let (x, w) = (self.tensor().clone(), weight.tensor().clone());
        let y = relu.then(|| out.clone());
        let (to_x, to_w) = (self.target(), weight.target());
        let (to_bias, to_residual) = (bias.and_then(Self::target), residual.and_then(Self::target));
        let mut operands = vec![self, weight];
        operands.extend(bias);
        operands.extend(residual);
        Self::record(&operands, out, move |mut dy, flow| {
            if let Some(y) = y {
                mask_by_sign(&mut dy, &y);
            }
            flow.add(to_x, || {
                x.filled(x.shape(), |dx| conv::data_gradient(isa, shape, dy.values(), w.values(), dx))
            });
            if to_w.is_some() || to_bias.is_some() {
                let mut db = to_bias.map(|_| Tensor::uninitialised(&dy.device(), [outputs]));
                let dw = w.filled(w.shape(), |dw| {
                    let db = db.as_mut().map(Tensor::values_mut);
                    conv::weight_gradient(isa, shape, x.values(), dy.values(), dw, db);
                });
                flow.add(to_w, || dw);
                if let Some(db) = db {
                    flow.add(to_bias, || db);
                }
            }
            flow.add(to_residual, || dy);
        })
    }
}

/// The backward of a relu: keeps the gradient where the output is positive.
pub(super) fn mask_by_sign(dy: &mut Tensor, y: &Tensor) {
    let isa = dy.isa();
    elementwise::update(isa, dy.values_mut(), y.values(), |dy, y| if y > 0.0 { dy } else { 0.0 });
}
