//! Bilinear resizing to any size.
//!
//! ```text
//! HalfPixel: position = max((i + ½) · from / to − ½, 0)        Aligned: position = i · (from − 1) / (to − 1)
//! y[i] = (1 − w) · x[⌊position⌋] + w · x[⌊position⌋ + 1]       w = position − ⌊position⌋, per axis
//! ```

use crate::cpu::resize::{self, Corners, ResizeShape};
use crate::cuda::ops as gpu;
use crate::tape::Var;

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
        if self.tensor().on_gpu().is_some() {
            return gpu::resize::bilinear(self, shape);
        }
        let isa = self.tensor().isa();
        let out = self
            .tensor()
            .filled([batch, height, width, channels], |out| resize::forward(isa, shape, self.values(), out));
        let (to_x, x_shape) = (self.target(), self.shape());
        Self::record(&[self], out, move |dy, flow| {
            flow.add(to_x, || dy.filled(x_shape, |dx| resize::backward(isa, shape, dy.values(), dx)));
        })
    }
}
