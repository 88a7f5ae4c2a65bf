//! Operations value by value.

use super::device::Cpu;
use super::elementwise::{for_each_row, map, map_in_place, update, zip};
use super::math;
use super::matmul::{add_rows, column_sums};
use crate::backend::{Binary, Element, Unary, Values};
use crate::tensor::Tensor;

impl Cpu {
    /// `f(a, b)`, written over `a` where nobody else holds it.
    fn zipped(&self, mut a: Tensor, b: &Tensor, f: impl Fn(f32, f32) -> f32 + Send + Sync) -> Tensor {
        if a.is_unshared() {
            update(self.isa, a.values_mut(), b.values(), f);
            return a;
        }
        self.filled(a.shape(), |out| zip(self.isa, a.values(), b.values(), out, f))
    }

    /// `f(x)`, written over `x` where nobody else holds it.
    fn mapped(&self, mut x: Tensor, f: impl Fn(f32) -> f32 + Send + Sync) -> Tensor {
        if x.is_unshared() {
            map_in_place(self.isa, x.values_mut(), f);
            return x;
        }
        self.filled(x.shape(), |out| map(self.isa, x.values(), out, f))
    }
}

impl Values for Cpu {
    fn binary(&self, operation: Binary, a: Tensor, b: &Tensor) -> Tensor {
        match operation {
            Binary::Add => self.zipped(a, b, |a, b| a + b),
            Binary::Sub => self.zipped(a, b, |a, b| a - b),
            Binary::Mul => self.zipped(a, b, |a, b| a * b),
            Binary::Div => self.zipped(a, b, |a, b| a / b),
            Binary::NegativeMul => self.zipped(a, b, |a, b| a * -b),
        }
    }

    fn unary(&self, operation: Unary, x: Tensor) -> Tensor {
        match operation {
            Unary::Scale(factor) => self.mapped(x, |x| factor * x),
            Unary::AddScalar(value) => self.mapped(x, |x| x + value),
            Unary::Exp => self.mapped(x, math::exp),
            Unary::Ln => self.mapped(x, math::ln),
            Unary::Sigmoid => self.mapped(x, math::sigmoid),
            Unary::Relu => self.mapped(x, |x| if x < 0.0 { 0.0 } else { x }),
            Unary::Exceeds(threshold) => self.mapped(x, |x| if x.abs() > threshold { 1.0 } else { 0.0 }),
        }
    }

    fn unary_backward(&self, operation: Unary, saved: &Tensor, dy: Tensor) -> Tensor {
        match operation {
            Unary::Exp => self.zipped(dy, saved, |dy, y| dy * y),
            Unary::Ln => self.zipped(dy, saved, |dy, x| dy * (1.0 / x)),
            Unary::Sigmoid => self.zipped(dy, saved, |dy, y| dy * (y * (1.0 - y))),
            Unary::Relu => self.zipped(dy, saved, |dy, y| if y > 0.0 { dy } else { 0.0 }),
            Unary::Scale(_) | Unary::AddScalar(_) | Unary::Exceeds(_) => {
                unreachable!("their gradients need nothing that was saved")
            }
        }
    }

    fn mask_and_sum(
        &self,
        dy: Tensor,
        y: Option<&Tensor>,
        _: Element,
        segments: Option<usize>,
    ) -> (Tensor, Option<Tensor>) {
        let dy = match y {
            Some(y) => self.unary_backward(Unary::Relu, y, dy),
            None => dy,
        };
        let sums = segments.map(|segments| {
            let (channels, values) = (dy.shape().last(), dy.values());
            self.filled([segments, channels], |sums| match segments {
                1 => column_sums(self.isa, values, channels, sums),
                _ => for_each_row(
                    self.isa,
                    sums,
                    channels,
                    #[inline(always)]
                    |segment, sums| {
                        let size = values.len() / segments;
                        sums.fill(0.0);
                        add_rows(&values[segment * size..][..size], sums);
                    },
                ),
            })
        });
        (dy, sums)
    }
}
