//! Bilinear resizing to any size.
//!
//! ```text
//! HalfPixel: position = max((i + ½) · from / to − ½, 0)        Aligned: position = i · (from − 1) / (to − 1)
//! y[i] = (1 − w) · x[⌊position⌋] + w · x[⌊position⌋ + 1]       w = position − ⌊position⌋, per axis
//! ```

use super::Operation;
use crate::backend::shapes::Corners;
use crate::backend::{Element, ResizeShape};
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// Bilinear resizing.
    ///
    /// # Shapes
    /// [batch, h, w, channels] → [batch, height, width, channels]
    pub fn resize_bilinear(&self, height: usize, width: usize, corners: Corners) -> Self {
        let [batch, h, w, channels] = self.shape().image("resize_bilinear");
        assert!(
            [h, w, height, width].iter().all(|&size| size > 0),
            "resize_bilinear: {} to {height}x{width}: no image is without pixels",
            self.shape()
        );
        if [h, w] == [height, width] {
            return self.clone();
        }
        let shape = ResizeShape { batch, from: [h, w], to: [height, width], channels, corners };
        let out = self.backend().resize(shape, self.tensor());
        Self::record(&[self], out, Resize { shape, given: self.tensor().element() })
    }
}

pub(crate) struct Resize {
    shape: ResizeShape,
    given: Element,
}

impl Operation for Resize {
    const NAME: &'static str = "resize";

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |backend| backend.resize_backward(self.shape, &backend.cast(dy, self.given)));
    }
}
