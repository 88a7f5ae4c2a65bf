//! Bilinear resizing to any size, by itself or straight into a concat.
//!
//! ```text
//! HalfPixel: position = max((i + ½) · from / to − ½, 0)        Aligned: position = i · (from − 1) / (to − 1)
//! y[i] = (1 − w) · x[⌊position⌋] + w · x[⌊position⌋ + 1]       w = position − ⌊position⌋, per axis
//! ```

use super::{Operation, with_parts};
use crate::backend::shapes::Corners;
use crate::backend::{Channels, Element, ResizeShape};
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// Bilinear resizing.
    ///
    /// # Shapes
    /// [batch, h, w, channels] → [batch, height, width, channels]
    pub fn resize_bilinear(&self, height: usize, width: usize, corners: Corners) -> Self {
        let shape = self.resize_shape("resize_bilinear", [height, width], corners);
        if shape.from == shape.to {
            return self.clone();
        }
        let out = self.backend().resize(shape, self.tensor(), None, shape.output_shape(0));
        Self::record(&[self], out, Resize { shape, operand_type: self.tensor().element(), beside: None })
    }

    /// `concat_channels(resize_bilinear(x), beside)` in one sweep; the size is that of the images beside.
    ///
    /// # Shapes
    /// [batch, h, w, c₁], beside [batch, height, width, c₂] → [batch, height, width, c₁ + c₂]
    pub fn resize_concat(&self, beside: &Self, corners: Corners) -> Self {
        let [batch, height, width, more] = beside.shape().image("resize_concat");
        let shape = self.resize_shape("resize_concat", [height, width], corners);
        assert!(
            shape.batch == batch,
            "resize_concat: images of shapes {} and {} are not as many",
            self.shape(),
            beside.shape()
        );
        let (x, other) = (self.tensor(), beside.tensor());
        if shape.from == shape.to || x.element() != other.element() {
            let enlarged = self.resize_bilinear(height, width, corners);
            return Self::concat_channels(&[&enlarged, beside]);
        }
        let out = self.backend().resize(shape, x, Some(other), shape.output_shape(more));
        Self::record(&[self, beside], out, Resize { shape, operand_type: x.element(), beside: Some(more) })
    }

    fn resize_shape(&self, name: &str, to: [usize; 2], corners: Corners) -> ResizeShape {
        let [batch, h, w, channels] = self.shape().image(name);
        assert!(
            [h, w].iter().chain(&to).all(|&size| size > 0),
            "{name}: {} to {}x{}: no image is without pixels",
            self.shape(),
            to[0],
            to[1]
        );
        ResizeShape { batch, from: [h, w], to, channels, corners }
    }
}

/// The number of the operand that stands beside; what is resized is the first.
const BESIDE: usize = 1;

pub(crate) struct Resize {
    shape: ResizeShape,
    /// The type of both operands.
    operand_type: Element,
    /// The channels of the images beside.
    beside: Option<usize>,
}

impl Operation for Resize {
    const ACCUMULATES: bool = true;

    fn name(&self) -> String {
        with_parts("resize".into(), &[("concat", self.beside.is_some())])
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { shape, operand_type, beside } = self;
        let dy = flow.device().backend().cast(dy, operand_type);
        flow.accumulate(|backend, accumulated, mask| {
            let accumulated = accumulated.map(|accumulated| accumulated.cast(backend, operand_type));
            let mask = mask.map(|mask| backend.cast(mask.clone(), operand_type));
            let accumulated = accumulated.as_ref().map(|accumulated| accumulated.channels());
            backend.resize_backward(shape, Channels::all(&dy), accumulated, mask.as_ref())
        });
        if let Some(count) = beside {
            flow.add_channels(BESIDE, &dy, shape.channels, count, operand_type);
        }
    }
}
