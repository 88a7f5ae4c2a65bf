//! Operations value by value, and the two that only change how gradients flow.

use super::conv::mask_by_sign;
use crate::cpu::{elementwise, math};
use crate::cuda::ops::elementwise::{self as gpu, Binary, Unary};
use crate::tape::Var;
use crate::tensor::Tensor;

impl Var {
    /// `f(x)`, whose derivative `df(x, y)` may use the result.
    fn unary(
        &self,
        on_gpu: Unary,
        f: impl Fn(f32) -> f32 + Send + Sync,
        df: impl Fn(f32, f32) -> f32 + Send + Sync + 'static,
    ) -> Self {
        if self.tensor().on_gpu().is_some() {
            return gpu::unary(self, on_gpu);
        }
        let isa = self.tensor().isa();
        let out = self.tensor().filled(self.shape(), |out| elementwise::map(isa, self.values(), out, f));
        let (x, y, to_x) = (self.tensor().clone(), out.clone(), self.target());
        Self::record(&[self], out, move |dy, flow| {
            flow.add(to_x, || {
                let slope =
                    x.filled(x.shape(), |slope| elementwise::zip(isa, x.values(), y.values(), slope, df));
                times(dy, &slope)
            });
        })
    }

    fn same_shape(&self, other: &Self, name: &str) {
        let (x, y) = (self.shape(), other.shape());
        assert!(x == y, "{name} takes two tensors of one shape, not {x} and {y}");
    }

    fn binary(&self, other: &Self, on_gpu: Binary, f: impl Fn(f32, f32) -> f32 + Send + Sync) -> Tensor {
        if self.tensor().on_gpu().is_some() {
            return gpu::binary(self.tensor(), other.tensor(), on_gpu);
        }
        let isa = self.tensor().isa();
        self.tensor().filled(self.shape(), |out| elementwise::zip(isa, self.values(), other.values(), out, f))
    }

    /// x + y
    pub fn add(&self, other: &Self) -> Self {
        self.same_shape(other, "add");
        let (to_x, to_y) = (self.target(), other.target());
        Self::record(&[self, other], self.binary(other, Binary::Add, |x, y| x + y), move |d, flow| {
            flow.add(to_x, || d.clone());
            flow.add(to_y, || d);
        })
    }

    /// x − y
    pub fn sub(&self, other: &Self) -> Self {
        self.same_shape(other, "sub");
        let (to_x, to_y) = (self.target(), other.target());
        Self::record(&[self, other], self.binary(other, Binary::Sub, |x, y| x - y), move |d, flow| {
            flow.add(to_x, || d.clone());
            flow.add(to_y, || scaled(d, -1.0));
        })
    }

    /// x · y, value by value
    pub fn mul(&self, other: &Self) -> Self {
        self.same_shape(other, "mul");
        let (x, y) = (self.tensor().clone(), other.tensor().clone());
        let (to_x, to_y) = (self.target(), other.target());
        Self::record(&[self, other], self.binary(other, Binary::Mul, |x, y| x * y), move |d, flow| {
            flow.add(to_x, || times(d.clone(), &y));
            flow.add(to_y, || times(d, &x));
        })
    }

    /// x / y, value by value
    pub fn div(&self, other: &Self) -> Self {
        self.same_shape(other, "div");
        let out = self.binary(other, Binary::Div, |x, y| x / y);
        let (y, quotient) = (other.tensor().clone(), out.clone());
        let (to_x, to_y) = (self.target(), other.target());
        if self.tensor().on_gpu().is_some() {
            return Self::record(&[self, other], out, move |d, flow| {
                let d = gpu::update(d, &y, Binary::Div);
                flow.add(to_x, || d.clone());
                flow.add(to_y, || gpu::update(d, &quotient, Binary::NegativeMul));
            });
        }
        Self::record(&[self, other], out, move |mut d, flow| {
            let isa = d.isa();
            elementwise::update(isa, d.values_mut(), y.values(), |d, y| d / y);
            flow.add(to_x, || d.clone());
            flow.add(to_y, || scaled(times(d, &quotient), -1.0));
        })
    }

    /// factor · x
    pub fn scale(&self, factor: f32) -> Self {
        self.unary(Unary::Scale(factor), move |x| factor * x, move |_, _| factor)
    }

    /// x + value
    pub fn add_scalar(&self, value: f32) -> Self {
        self.unary(Unary::AddScalar(value), move |x| x + value, |_, _| 1.0)
    }

    /// eˣ
    pub fn exp(&self) -> Self {
        self.unary(Unary::Exp, math::exp, |_, y| y)
    }

    /// The natural logarithm.
    pub fn ln(&self) -> Self {
        self.unary(Unary::Ln, math::ln, |x, _| 1.0 / x)
    }

    /// 1 / (1 + e⁻ˣ)
    pub fn sigmoid(&self) -> Self {
        self.unary(Unary::Sigmoid, math::sigmoid, |_, y| y * (1.0 - y))
    }

    /// max(x, 0); a NaN stays NaN.
    pub fn relu(&self) -> Self {
        if self.tensor().on_gpu().is_some() {
            return gpu::unary(self, Unary::Relu);
        }
        let isa = self.tensor().isa();
        let out = self.tensor().filled(self.shape(), |out| {
            elementwise::map(isa, self.values(), out, |x| if x < 0.0 { 0.0 } else { x });
        });
        let (to_x, y) = (self.target(), out.clone());
        Self::record(&[self], out, move |mut d, flow| {
            mask_by_sign(&mut d, &y);
            flow.add(to_x, || d);
        })
    }

    /// 1 where |x| exceeds a threshold, 0 elsewhere and for NaN; a constant.
    pub fn exceeds(&self, threshold: f32) -> Self {
        if self.tensor().on_gpu().is_some() {
            return gpu::unary(&self.stop_gradient(), Unary::Exceeds(threshold));
        }
        let isa = self.tensor().isa();
        Self::constant(self.tensor().filled(self.shape(), |out| {
            elementwise::map(isa, self.values(), out, |x| if x.abs() > threshold { 1.0 } else { 0.0 });
        }))
    }

    /// The value of `other` with this one's gradient: `x + stop_gradient(other − x)`.
    pub fn straight_through(&self, other: &Self) -> Self {
        self.same_shape(other, "straight_through");
        let to_x = self.target();
        Self::record(&[self], other.tensor().clone(), move |d, flow| flow.add(to_x, || d))
    }
}

/// a · b, written over `a`.
fn times(mut a: Tensor, b: &Tensor) -> Tensor {
    if a.on_gpu().is_some() {
        return gpu::update(a, b, Binary::Mul);
    }
    let isa = a.isa();
    elementwise::update(isa, a.values_mut(), b.values(), |a, b| a * b);
    a
}

/// factor · a, written over `a`.
fn scaled(mut a: Tensor, factor: f32) -> Tensor {
    if a.on_gpu().is_some() {
        return gpu::scaled(a, factor);
    }
    a.values_mut().iter_mut().for_each(|a| *a *= factor);
    a
}
