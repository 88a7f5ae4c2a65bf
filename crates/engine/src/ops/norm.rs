//! Normalisation: by groups of channels within an image, by features over a batch, by length of rows.

use super::conv::mask_by_sign;
use crate::cpu::elementwise;
use crate::cpu::norm::{self, NormShape};
use crate::cuda::ops as gpu;
use crate::tape::Var;
use crate::tensor::Tensor;

/// Mean and (biased) variance of each feature over a batch.
#[derive(Debug, Clone)]
pub struct BatchStatistics {
    /// [features]
    pub mean: Tensor,
    /// [features]
    pub variance: Tensor,
}

impl Var {
    /// Group normalisation with a scale and a shift per channel.
    ///
    /// ```text
    /// y = (x − mean) / √(variance + ε) · scale + shift      mean, variance over a group's pixels and channels
    /// ```
    ///
    /// # Shapes
    /// [batch, height, width, channels], scale and shift [channels] → the same; `groups` divides channels
    pub fn group_norm(&self, groups: usize, scale: &Self, shift: &Self, epsilon: f32) -> Self {
        self.grouped(groups, scale, shift, epsilon, None, false)
    }

    /// `relu(group_norm)` in one sweep.
    pub fn group_norm_relu(&self, groups: usize, scale: &Self, shift: &Self, epsilon: f32) -> Self {
        self.grouped(groups, scale, shift, epsilon, None, true)
    }

    /// `relu(group_norm + residual)` in one sweep.
    pub fn group_norm_add_relu(
        &self,
        groups: usize,
        scale: &Self,
        shift: &Self,
        epsilon: f32,
        residual: &Self,
    ) -> Self {
        self.grouped(groups, scale, shift, epsilon, Some(residual), true)
    }

    fn grouped(
        &self,
        groups: usize,
        scale: &Self,
        shift: &Self,
        epsilon: f32,
        residual: Option<&Self>,
        relu: bool,
    ) -> Self {
        let [batch, height, width, channels] = self.shape().image("group_norm");
        assert!(
            groups > 0 && channels % groups == 0,
            "group_norm: {groups} groups do not divide the channels of {}",
            self.shape()
        );
        assert!(
            *scale.shape() == [channels] && *shift.shape() == [channels],
            "group_norm: scale {} and shift {} for an image of shape {}",
            scale.shape(),
            shift.shape(),
            self.shape()
        );
        if let Some(residual) = residual {
            assert!(
                residual.shape() == self.shape(),
                "group_norm: residual {} for an image of shape {}",
                residual.shape(),
                self.shape()
            );
        }
        if self.tensor().on_gpu().is_some() {
            let shape = [batch, height, width, channels];
            return gpu::norm::grouped(self, groups, [scale, shift], epsilon, residual, relu, shape);
        }
        let shape = NormShape { batch, pixels: height * width, channels, groups };
        let isa = self.tensor().isa();
        let mut out = Tensor::uninitialised(&self.device(), self.shape());
        let statistics = norm::forward(
            isa,
            shape,
            epsilon,
            self.values(),
            (scale.values(), shift.values()),
            residual.map(Self::values),
            relu,
            out.values_mut(),
        );

        let (x, gamma) = (self.tensor().clone(), scale.tensor().clone());
        let y = relu.then(|| out.clone());
        let (to_x, to_scale, to_shift) = (self.target(), scale.target(), shift.target());
        let to_residual = residual.and_then(Self::target);
        let mut operands = vec![self, scale, shift];
        operands.extend(residual);
        Self::record(&operands, out, move |mut dy, flow| {
            if let Some(y) = y {
                mask_by_sign(&mut dy, &y);
            }
            flow.add(to_residual, || dy.clone());
            if to_x.is_none() && to_scale.is_none() && to_shift.is_none() {
                return;
            }
            let [mut d_scale, mut d_shift] =
                [(); 2].map(|()| Tensor::uninitialised(&gamma.device(), [channels]));
            let sums = (d_scale.values_mut(), d_shift.values_mut());
            // `values_mut` copies where the residual shares dy.
            norm::backward(isa, shape, x.values(), gamma.values(), &statistics, dy.values_mut(), sums);
            flow.add(to_x, || dy);
            flow.add(to_scale, || d_scale);
            flow.add(to_shift, || d_shift);
        })
    }

    /// Batch normalisation without scale and shift, by this batch's own statistics.
    ///
    /// ```text
    /// y = (x − mean) / √(variance + ε)      mean, variance over the batch, per feature
    /// ```
    ///
    /// # Shapes
    /// [batch, features] → the same
    pub fn batch_norm(&self, epsilon: f32) -> (Self, BatchStatistics) {
        let [batch, features] = self.shape().matrix("batch_norm");
        if self.tensor().on_gpu().is_some() {
            return gpu::norm::batch_norm(self, epsilon, [batch, features]);
        }
        let x = self.values();
        let mut mean = vec![0.0f64; features];
        let mut variance = vec![0.0f64; features];
        for row in x.chunks_exact(features) {
            mean.iter_mut().zip(row).for_each(|(mean, &x)| *mean += f64::from(x) / batch as f64);
        }
        for row in x.chunks_exact(features) {
            for (f, &x) in row.iter().enumerate() {
                variance[f] += (f64::from(x) - mean[f]).powi(2) / batch as f64;
            }
        }
        let inverse_std: Vec<f32> =
            variance.iter().map(|variance| (1.0 / (variance + f64::from(epsilon)).sqrt()) as f32).collect();
        let device = self.device();
        let out = self.tensor().filled(self.shape(), |out| {
            for (out, row) in out.chunks_exact_mut(features).zip(x.chunks_exact(features)) {
                for f in 0..features {
                    out[f] = (f64::from(row[f]) - mean[f]) as f32 * inverse_std[f];
                }
            }
        });
        let tensor = |values: &[f64]| {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            Tensor::from_slice(&device, [features], &values)
        };
        let statistics = BatchStatistics { mean: tensor(&mean), variance: tensor(&variance) };

        let (to_x, normalised) = (self.target(), out.clone());
        let out = Self::record(&[self], out, move |mut dy, flow| {
            // dx = (dy − mean(dy) − x̂ · mean(dy · x̂)) / σ
            let y = normalised.values();
            let (mut plain, mut weighted) = (vec![0.0f64; features], vec![0.0f64; features]);
            for (dy, y) in dy.values().chunks_exact(features).zip(y.chunks_exact(features)) {
                for f in 0..features {
                    plain[f] += f64::from(dy[f]) / batch as f64;
                    weighted[f] += f64::from(dy[f]) * f64::from(y[f]) / batch as f64;
                }
            }
            for (dy, y) in dy.values_mut().chunks_exact_mut(features).zip(y.chunks_exact(features)) {
                for f in 0..features {
                    let centred = f64::from(dy[f]) - plain[f] - f64::from(y[f]) * weighted[f];
                    dy[f] = centred as f32 * inverse_std[f];
                }
            }
            flow.add(to_x, || dy);
        });
        (out, statistics)
    }

    /// Batch normalisation by given statistics: what prediction uses.
    ///
    /// # Shapes
    /// [batch, features], statistics [features] → [batch, features]
    pub fn batch_norm_by(&self, statistics: &BatchStatistics, epsilon: f32) -> Self {
        let [_, features] = self.shape().matrix("batch_norm_by");
        assert!(
            *statistics.mean.shape() == [features] && *statistics.variance.shape() == [features],
            "batch_norm_by: mean {} and variance {} for {}",
            statistics.mean.shape(),
            statistics.variance.shape(),
            self.shape()
        );
        if self.tensor().on_gpu().is_some() {
            return gpu::norm::batch_norm_by(self, statistics, epsilon);
        }
        let mean = statistics.mean.to_vec();
        let inverse_std: Vec<f32> =
            statistics.variance.values().iter().map(|variance| 1.0 / (variance + epsilon).sqrt()).collect();
        let out = self.tensor().filled(self.shape(), |out| {
            for (out, row) in out.chunks_exact_mut(features).zip(self.values().chunks_exact(features)) {
                for f in 0..features {
                    out[f] = (row[f] - mean[f]) * inverse_std[f];
                }
            }
        });
        let to_x = self.target();
        Self::record(&[self], out, move |mut dy, flow| {
            for dy in dy.values_mut().chunks_exact_mut(features) {
                dy.iter_mut().zip(&inverse_std).for_each(|(dy, inverse_std)| *dy *= inverse_std);
            }
            flow.add(to_x, || dy);
        })
    }

    /// Rows scaled to length one.
    ///
    /// ```text
    /// y = x / max(|x|, 1e-12)
    /// ```
    ///
    /// # Shapes
    /// [rows, features] → the same
    pub fn l2_normalise(&self) -> Self {
        let [rows, features] = self.shape().matrix("l2_normalise");
        if self.tensor().on_gpu().is_some() {
            return gpu::norm::l2_normalise(self, [rows, features]);
        }
        let inverse: Vec<f32> = self
            .values()
            .chunks_exact(features)
            .map(|row| {
                let square: f64 = row.iter().map(|&x| f64::from(x).powi(2)).sum();
                (1.0 / square.sqrt().max(1e-12)) as f32
            })
            .collect();
        let isa = self.tensor().isa();
        let x = self.values();
        let out = self.tensor().filled([rows, features], |out| {
            elementwise::for_each_row(isa, out, features, |row, out| {
                let x = &x[row * features..][..features];
                out.iter_mut().zip(x).for_each(|(out, x)| *out = x * inverse[row]);
            });
        });
        let (to_x, y) = (self.target(), out.clone());
        Self::record(&[self], out, move |mut dy, flow| {
            // dx = (dy − y (y · dy)) / |x|
            for ((dy, y), inverse) in
                dy.values_mut().chunks_exact_mut(features).zip(y.values().chunks_exact(features)).zip(inverse)
            {
                let along: f64 = dy.iter().zip(y).map(|(&dy, &y)| f64::from(dy) * f64::from(y)).sum();
                for (dy, y) in dy.iter_mut().zip(y) {
                    *dy = (*dy - y * along as f32) * inverse;
                }
            }
            flow.add(to_x, || dy);
        })
    }
}
