//! Normalisation: by groups of channels ([`super::norm`]), by features over a batch, by length of rows.

use super::device::Cpu;
use super::elementwise::for_each_row;
use super::norm;
use crate::backend::{Element, LEAST_LENGTH, Memory, NormShape, Norms};
use crate::tensor::Tensor;

impl Norms for Cpu {
    fn group_norm(
        &self,
        shape: NormShape,
        x: &Tensor,
        [scale, shift]: [&Tensor; 2],
        epsilon: f32,
        residual: Option<&Tensor>,
        relu: bool,
    ) -> [Tensor; 2] {
        let mut statistics = self.filled([shape.batch * shape.groups, 2], |_| ());
        let out = self.filled(x.shape(), |out| {
            let (affine, residual) = ((scale.values(), shift.values()), residual.map(Tensor::values));
            let statistics = statistics.values_mut();
            norm::forward(self.isa, shape, epsilon, x.values(), affine, residual, relu, out, statistics);
        });
        [out, statistics]
    }

    fn group_norm_backward(
        &self,
        shape: NormShape,
        x: &Tensor,
        dy: Tensor,
        scale: &Tensor,
        statistics: &Tensor,
    ) -> [Tensor; 3] {
        // Written over dy where nobody else holds it.
        let (dy, mut dx) = match dy.is_unshared() {
            true => (None, dy),
            false => (Some(&dy), self.empty(dy.shape(), Element::F32)),
        };
        let [mut d_scale, mut d_shift] = [(); 2].map(|()| self.filled([shape.channels], |_| ()));
        let sums = (d_scale.values_mut(), d_shift.values_mut());
        let (scale, statistics) = (scale.values(), statistics.values());
        norm::backward(
            self.isa,
            shape,
            x.values(),
            scale,
            statistics,
            dy.map(Tensor::values),
            dx.values_mut(),
            sums,
        );
        [dx, d_scale, d_shift]
    }

    fn batch_norm(&self, x: &Tensor, epsilon: f32) -> [Tensor; 4] {
        let [batch, features] = x.shape().matrix("batch norm");
        let values = x.values();
        let (mut mean, mut variance) = (vec![0.0f64; features], vec![0.0f64; features]);
        for row in values.chunks_exact(features) {
            mean.iter_mut().zip(row).for_each(|(mean, &x)| *mean += f64::from(x) / batch as f64);
        }
        for row in values.chunks_exact(features) {
            for (f, &x) in row.iter().enumerate() {
                variance[f] += (f64::from(x) - mean[f]).powi(2) / batch as f64;
            }
        }
        let of = |variance: &f64| (1.0 / (variance + f64::from(epsilon)).sqrt()) as f32;
        let inverse_std: Vec<f32> = variance.iter().map(of).collect();
        let out = self.filled(x.shape(), |out| {
            for (out, row) in out.chunks_exact_mut(features).zip(values.chunks_exact(features)) {
                for f in 0..features {
                    out[f] = (f64::from(row[f]) - mean[f]) as f32 * inverse_std[f];
                }
            }
        });
        let [mean, variance] = [mean, variance].map(|values| {
            self.filled([features], |out| {
                out.iter_mut().zip(values).for_each(|(out, value)| *out = value as f32);
            })
        });
        [out, mean, variance, self.upload([features].into(), &inverse_std)]
    }

    fn batch_norm_backward(&self, y: &Tensor, mut dy: Tensor, inverse_std: &Tensor, _: f32) -> Tensor {
        // dx = (dy − mean(dy) − x̂ · mean(dy · x̂)) / σ
        let [batch, features] = y.shape().matrix("batch norm");
        let (y, inverse_std) = (y.values(), inverse_std.values());
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
        dy
    }

    fn batch_norm_by(&self, mut x: Tensor, mean: Option<&Tensor>, variance: &Tensor, epsilon: f32) -> Tensor {
        let features = x.shape().last();
        let inverse_std: Vec<f32> =
            variance.values().iter().map(|variance| 1.0 / (variance + epsilon).sqrt()).collect();
        for row in x.values_mut().chunks_exact_mut(features) {
            if let Some(mean) = mean {
                row.iter_mut().zip(mean.values()).for_each(|(x, mean)| *x -= mean);
            }
            row.iter_mut().zip(&inverse_std).for_each(|(x, inverse_std)| *x *= inverse_std);
        }
        x
    }

    fn l2_normalise(&self, x: &Tensor) -> [Tensor; 2] {
        let [rows, features] = x.shape().matrix("l2 normalise");
        let values = x.values();
        let inverse = self.filled([rows], |inverse| {
            for (inverse, row) in inverse.iter_mut().zip(values.chunks_exact(features)) {
                let square: f64 = row.iter().map(|&x| f64::from(x).powi(2)).sum();
                *inverse = (1.0 / square.sqrt().max(LEAST_LENGTH)) as f32;
            }
        });
        let out = self.filled(x.shape(), |out| {
            for_each_row(self.isa, out, features, |row, out| {
                let x = &values[row * features..][..features];
                out.iter_mut().zip(x).for_each(|(out, x)| *out = x * inverse.values()[row]);
            });
        });
        [out, inverse]
    }

    fn l2_normalise_backward(&self, y: &Tensor, inverse: &Tensor, mut dy: Tensor) -> Tensor {
        // dx = (dy − y (y · dy)) / |x|
        let features = y.shape().last();
        let rows = dy.values_mut().chunks_exact_mut(features).zip(y.values().chunks_exact(features));
        for ((dy, y), inverse) in rows.zip(inverse.values()) {
            let along: f64 = dy.iter().zip(y).map(|(&dy, &y)| f64::from(dy) * f64::from(y)).sum();
            for (dy, y) in dy.iter_mut().zip(y) {
                *dy = (*dy - y * along as f32) * inverse;
            }
        }
        dy
    }
}
