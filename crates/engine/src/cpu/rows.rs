//! Rows of values: sums, distances, softmax, and rows by their numbers.

use super::device::Cpu;
use super::elementwise::{for_each_row, for_rows, sum_zip_rows};
use super::math::{self, sigmoid, softplus};
use crate::backend::{Distance, Element, Rows};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// ln Σ exp of each row.
fn log_sum_exp(row: &[f32]) -> f32 {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = row.iter().map(|&x| f64::from(x - largest).exp()).sum();
    largest + total.ln() as f32
}

/// How many values each of so many rows has.
fn width(x: &Tensor, rows: usize) -> usize {
    x.shape().volume() / rows.max(1)
}

impl Rows for Cpu {
    fn sum_rows(&self, x: &Tensor, rows: usize, factor: f64) -> Tensor {
        let (width, values) = (width(x, rows), x.values());
        self.filled([rows], |out| {
            if width == 0 {
                return out.fill(0.0);
            }
            let sums = sum_zip_rows(self.isa, values, values, width, 1, |x, _| x);
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = (sum * factor) as f32);
        })
    }

    fn broadcast_rows(&self, values: &Tensor, shape: Shape, factor: f64, _: Element) -> Tensor {
        let width = (shape.volume() / values.shape().volume().max(1)).max(1);
        self.filled(shape, |out| {
            for_rows(out, width, |first, rows| {
                for (out, &value) in rows.chunks_exact_mut(width).zip(&values.values()[first..]) {
                    out.fill((f64::from(value) * factor) as f32);
                }
            });
        })
    }

    fn row_distance(&self, distance: Distance, x: &Tensor, y: &Tensor, repeats: usize) -> Tensor {
        let rows = x.shape()[0];
        let (width, isa) = (width(x, rows), self.isa);
        let (x, y) = (x.values(), y.values());
        self.filled([rows], |out| {
            if width == 0 {
                // The mean of no values.
                return out.fill(f32::NAN);
            }
            let sums = match distance {
                Distance::BinaryCrossEntropy => sum_zip_rows(
                    isa,
                    x,
                    y,
                    width,
                    repeats,
                    #[inline(always)]
                    |x, y| softplus(x) - y * x,
                ),
                Distance::SquaredError => sum_zip_rows(
                    isa,
                    x,
                    y,
                    width,
                    repeats,
                    #[inline(always)]
                    |x, y| (x - y) * (x - y),
                ),
            };
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = (sum / width as f64) as f32;
            }
        })
    }

    fn row_distance_backward(
        &self,
        distance: Distance,
        [x, y, dy]: [&Tensor; 3],
        repeats: usize,
        sign: f32,
    ) -> Tensor {
        let width = width(x, x.shape()[0]);
        let (x_values, y, dy) = (x.values(), y.values(), dy.values());
        self.filled(x.shape(), |dx| {
            for_each_row(
                self.isa,
                dx,
                width,
                #[inline(always)]
                |row, dx| {
                    let x = &x_values[row * width..][..width];
                    let y = &y[row / repeats * width..][..width];
                    let factor = sign * dy[row] / width as f32;
                    let values = dx.iter_mut().zip(x).zip(y);
                    match distance {
                        Distance::BinaryCrossEntropy => {
                            values.for_each(|((dx, &x), &y)| *dx = factor * (sigmoid(x) - y));
                        }
                        Distance::SquaredError => {
                            let factor = 2.0 * factor;
                            values.for_each(|((dx, &x), &y)| *dx = factor * (x - y));
                        }
                    }
                },
            );
        })
    }

    fn softmax(&self, logits: &Tensor) -> Tensor {
        let classes = logits.shape().last();
        self.filled(logits.shape(), |out| {
            for_each_row(
                self.isa,
                out,
                classes,
                #[inline(always)]
                |row, out| {
                    let logits = &logits.values()[row * classes..][..classes];
                    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    for (out, &logit) in out.iter_mut().zip(logits) {
                        *out = math::exp(logit - largest);
                    }
                    // In f64: a row may be all pixels of an image.
                    let total = out.iter().map(|&power| f64::from(power)).sum::<f64>() as f32;
                    out.iter_mut().for_each(|out| *out /= total);
                },
            );
        })
    }

    fn softmax_backward(&self, y: &Tensor, mut dy: Tensor) -> Tensor {
        // dx = y (dy − Σ y dy)
        let classes = y.shape().last();
        for (dy, y) in dy.values_mut().chunks_exact_mut(classes).zip(y.values().chunks_exact(classes)) {
            let along: f32 = dy.iter().zip(y).map(|(dy, y)| dy * y).sum();
            dy.iter_mut().zip(y).for_each(|(dy, y)| *dy = y * (*dy - along));
        }
        dy
    }

    fn cross_entropy(&self, logits: &Tensor, targets: &Tensor) -> Tensor {
        let [rows, classes] = logits.shape().matrix("cross entropy");
        self.filled([rows], |out| {
            let rows = logits.values().chunks_exact(classes).zip(targets.values().chunks_exact(classes));
            for (out, (logits, targets)) in out.iter_mut().zip(rows) {
                let normaliser = log_sum_exp(logits);
                let terms = logits.iter().zip(targets);
                *out = terms.map(|(x, t)| if *t == 0.0 { 0.0 } else { t * (normaliser - x) }).sum();
            }
        })
    }

    fn cross_entropy_backward(&self, logits: &Tensor, targets: &Tensor, dy: &Tensor) -> Tensor {
        let classes = logits.shape().last();
        let mut dx = self.softmax(logits);
        let rows = dx.values_mut().chunks_exact_mut(classes).zip(targets.values().chunks_exact(classes));
        for ((dx, targets), &dy) in rows.zip(dy.values()) {
            let mass: f32 = targets.iter().sum();
            dx.iter_mut().zip(targets).for_each(|(dx, t)| *dx = dy * (*dx * mass - t));
        }
        dx
    }

    fn gather_rows(&self, x: &Tensor, indices: &[usize], shape: Shape) -> Tensor {
        let (width, values) = (width(x, x.shape()[0]), x.values());
        self.filled(shape, |out| {
            for (out, &index) in out.chunks_exact_mut(width.max(1)).zip(indices) {
                out.copy_from_slice(&values[index * width..][..width]);
            }
        })
    }

    fn scatter_rows(&self, dy: &Tensor, indices: &[usize], shape: Shape) -> Tensor {
        let width = shape.volume() / shape[0].max(1);
        self.filled(shape, |dx| {
            dx.fill(0.0);
            for (dy, &index) in dy.values().chunks_exact(width.max(1)).zip(indices) {
                let dx = &mut dx[index * width..][..width];
                dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += dy);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::tape::Var;
    use crate::tensor::{Device, Tensor};

    #[test]
    fn the_softmax_of_a_row_of_many_pixels_is_as_exact_as_that_of_few() {
        let logits: Vec<f32> = (0..1 << 16).map(|at| (at % 7) as f32 * -0.3).collect();
        let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        let row = Tensor::from_slice(&Device::cpu(), [1, logits.len()], &logits);
        let found = Var::constant(row).softmax().into_tensor().to_vec();
        for (found, &logit) in found.iter().zip(&logits) {
            let exact = f64::from(logit).exp() / total;
            assert!((f64::from(*found) / exact - 1.0).abs() < 1e-6, "{found}, {exact}");
        }
    }
}
