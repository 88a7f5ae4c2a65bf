//! Sums and means: of all values, of each row, of each image's pixels.

use crate::cpu::elementwise::{for_each_row, sum_zip};
use crate::cuda::ops as gpu;
use crate::tape::Var;
use crate::tensor::Tensor;

impl Var {
    /// The sum of all values.
    pub fn sum(&self) -> Self {
        self.scaled_sum(1.0)
    }

    /// The mean of all values.
    pub fn mean(&self) -> Self {
        self.scaled_sum(1.0 / self.shape().volume() as f64)
    }

    fn scaled_sum(&self, factor: f64) -> Self {
        if self.tensor().on_gpu().is_some() {
            return gpu::reduce::sum_rows(self, 1, factor as f32, []);
        }
        let x = self.values();
        let total = sum_zip(self.tensor().isa(), x, x, |x, _| x);
        let out = Tensor::full(&self.device(), [], (total * factor) as f32);
        let (to_x, shape) = (self.target(), self.shape());
        Self::record(&[self], out, move |dy, flow| {
            flow.add(to_x, || Tensor::full(&dy.device(), shape, (f64::from(dy.item()) * factor) as f32));
        })
    }

    /// The sum of each row.
    ///
    /// # Shapes
    /// [rows, …] → [rows]
    pub fn sum_rows(&self) -> Self {
        let shape = self.shape();
        let rows = *shape.first().unwrap_or_else(|| panic!("sum_rows takes rows, not {shape}"));
        if self.tensor().on_gpu().is_some() {
            return gpu::reduce::sum_rows(self, rows, 1.0, [rows]);
        }
        let size = shape.volume() / rows.max(1);
        let isa = self.tensor().isa();
        let out = self.tensor().filled([rows], |out| {
            for (out, row) in out.iter_mut().zip(self.values().chunks_exact(size)) {
                *out = sum_zip(isa, row, row, |x, _| x) as f32;
            }
        });
        let to_x = self.target();
        Self::record(&[self], out, move |dy, flow| {
            flow.add(to_x, || {
                dy.filled(shape, |dx| {
                    for (dx, &dy) in dx.chunks_exact_mut(size).zip(dy.values()) {
                        dx.fill(dy);
                    }
                })
            });
        })
    }

    /// The mean of each channel over an image's pixels.
    ///
    /// # Shapes
    /// [batch, height, width, channels] → [batch, channels]
    pub fn global_average_pool(&self) -> Self {
        let [batch, height, width, channels] = self.shape().image("global_average_pool");
        if self.tensor().on_gpu().is_some() {
            return gpu::reduce::global_average_pool(self, [batch, height, width, channels]);
        }
        let pixels = height * width;
        let isa = self.tensor().isa();
        let x = self.values();
        let out = self.tensor().filled([batch, channels], |out| {
            for_each_row(isa, out, channels, |image, out| {
                let mut sums = vec![0.0f64; channels];
                for pixel in x[image * pixels * channels..][..pixels * channels].chunks_exact(channels) {
                    sums.iter_mut().zip(pixel).for_each(|(sum, &x)| *sum += f64::from(x));
                }
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = (sum / pixels as f64) as f32);
            });
        });
        let (to_x, shape) = (self.target(), self.shape());
        Self::record(&[self], out, move |dy, flow| {
            flow.add(to_x, || {
                dy.filled(shape, |dx| {
                    for_each_row(isa, dx, channels, |row, dx| {
                        let dy = &dy.values()[row / pixels * channels..][..channels];
                        dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx = dy / pixels as f32);
                    });
                })
            });
        })
    }
}
