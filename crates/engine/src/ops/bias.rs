//! A bias per sample and channel: how a code enters the 1x1 head.
//!
//! A 1x1 convolution of [features, tiled code] is a 1x1 convolution of the features plus a linear map
//! of the code, the same at every pixel. So K codes per image cost K additions, not K decoders.
//!
//! ```text
//! y[n·K + k, i, j, c] = x[n, i, j, c] + bias[n·K + k, c]
//! ```

use super::conv::mask_by_sign;
use crate::cpu::elementwise::for_each_row;
use crate::cpu::matmul::add_rows;
use crate::cuda::ops as gpu;
use crate::tape::Var;

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

    fn sample_bias(&self, bias: &Self, relu: bool) -> Self {
        let [batch, height, width, channels] = self.shape().image("add_sample_bias");
        let [samples, bias_channels] = bias.shape().matrix("add_sample_bias's bias");
        assert!(
            bias_channels == channels && batch > 0 && samples % batch == 0,
            "add_sample_bias: bias {} for images {}: it needs [a multiple of {batch}, {channels}]",
            bias.shape(),
            self.shape()
        );
        if self.tensor().on_gpu().is_some() {
            let shape = [batch, height, width, channels];
            return gpu::bias::sample_bias(self, bias, shape, samples, relu);
        }
        let (repeats, line) = (samples / batch, width * channels);
        let isa = self.tensor().isa();
        let (images, biases) = (self.values(), bias.values());
        let out = self.tensor().filled([samples, height, width, channels], |out| {
            for_each_row(
                isa,
                out,
                line,
                #[inline(always)]
                |row, out| {
                    let (sample, y) = (row / height, row % height);
                    let x = &images[(sample / repeats * height + y) * line..][..line];
                    let bias = &biases[sample * channels..][..channels];
                    for (out, x) in out.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
                        for c in 0..channels {
                            let value = x[c] + bias[c];
                            out[c] = if relu && value < 0.0 { 0.0 } else { value };
                        }
                    }
                },
            );
        });
        let (to_x, to_bias) = (self.target(), bias.target());
        let y = relu.then(|| out.clone());
        Self::record(&[self, bias], out, move |mut dy, flow| {
            if let Some(y) = y {
                mask_by_sign(&mut dy, &y);
            }
            flow.add(to_bias, || {
                dy.filled([samples, channels], |db| {
                    for_each_row(
                        isa,
                        db,
                        channels,
                        #[inline(always)]
                        |sample, db| {
                            db.fill(0.0);
                            let dy = &dy.values()[sample * height * line..][..height * line];
                            add_rows(dy, db);
                        },
                    );
                })
            });
            flow.add(to_x, || {
                if repeats == 1 {
                    return dy.clone();
                }
                dy.filled([batch, height, width, channels], |dx| {
                    for_each_row(
                        isa,
                        dx,
                        line,
                        #[inline(always)]
                        |row, dx| {
                            let (image, y) = (row / height, row % height);
                            dx.fill(0.0);
                            for k in 0..repeats {
                                let dy = &dy.values()[((image * repeats + k) * height + y) * line..][..line];
                                dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += dy);
                            }
                        },
                    );
                })
            });
        })
    }
}
