//! Operations value by value, and the two that only change how gradients flow.

use super::Operation;
use crate::backend::{Binary, Unary};
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    fn same_shape(&self, other: &Self, name: &str) {
        let (x, y) = (self.shape(), other.shape());
        assert!(x == y, "{name} takes two tensors of one shape, not {x} and {y}");
    }

    fn arithmetic(&self, other: &Self, operation: Binary, name: &'static str) -> Self {
        self.same_shape(other, name);
        let out = self.backend().binary(operation, self.tensor().clone(), other.tensor());
        let saved = match operation {
            Binary::Mul => Some([self.tensor().clone(), other.tensor().clone()]),
            Binary::Div => Some([out.clone(), other.tensor().clone()]),
            Binary::Add | Binary::Sub | Binary::NegativeMul => None,
        };
        Self::record(&[self, other], out, Arithmetic { operation, name, saved })
    }

    /// x + y
    pub fn add(&self, other: &Self) -> Self {
        self.arithmetic(other, Binary::Add, "add")
    }

    /// x − y
    pub fn sub(&self, other: &Self) -> Self {
        self.arithmetic(other, Binary::Sub, "sub")
    }

    /// x · y, value by value
    pub fn mul(&self, other: &Self) -> Self {
        self.arithmetic(other, Binary::Mul, "mul")
    }

    /// x / y, value by value
    pub fn div(&self, other: &Self) -> Self {
        self.arithmetic(other, Binary::Div, "div")
    }

    fn pointwise(&self, operation: Unary) -> Self {
        let out = self.backend().unary(operation, self.tensor().clone());
        let saved = match operation {
            Unary::Exp | Unary::Sigmoid | Unary::Relu => Some(out.clone()),
            Unary::Ln => Some(self.tensor().clone()),
            Unary::Scale(_) | Unary::AddScalar(_) | Unary::Exceeds(_) => None,
        };
        Self::record(&[self], out, Pointwise { operation, saved })
    }

    /// factor · x
    pub fn scale(&self, factor: f32) -> Self {
        self.pointwise(Unary::Scale(factor))
    }

    /// x + value
    pub fn add_scalar(&self, value: f32) -> Self {
        self.pointwise(Unary::AddScalar(value))
    }

    /// eˣ
    pub fn exp(&self) -> Self {
        self.pointwise(Unary::Exp)
    }

    /// The natural logarithm.
    pub fn ln(&self) -> Self {
        self.pointwise(Unary::Ln)
    }

    /// 1 / (1 + e⁻ˣ)
    pub fn sigmoid(&self) -> Self {
        self.pointwise(Unary::Sigmoid)
    }

    /// max(x, 0); a NaN stays NaN.
    pub fn relu(&self) -> Self {
        self.pointwise(Unary::Relu)
    }

    /// 1 where |x| exceeds a threshold, 0 elsewhere and for NaN; a constant.
    pub fn exceeds(&self, threshold: f32) -> Self {
        self.stop_gradient().pointwise(Unary::Exceeds(threshold))
    }

    /// The value of `other` with this one's gradient: `x + stop_gradient(other − x)`.
    pub fn straight_through(&self, other: &Self) -> Self {
        self.same_shape(other, "straight_through");
        Self::record(&[self], other.tensor().clone(), StraightThrough)
    }
}

pub(crate) struct Arithmetic {
    operation: Binary,
    name: &'static str,
    /// Of a product both factors, of a quotient itself and its divisor.
    saved: Option<[Tensor; 2]>,
}

impl Operation for Arithmetic {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        self.name.into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { operation: _, name: _, saved } = self;
        saved.iter().flatten().collect()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        match (self.operation, self.saved) {
            (Binary::Add, _) => {
                flow.add(0, |_| dy.clone());
                flow.add(1, |_| dy);
            }
            (Binary::Sub, _) => {
                flow.add(0, |_| dy.clone());
                flow.add(1, |backend| backend.unary(Unary::Scale(-1.0), dy));
            }
            (Binary::Mul, Some([x, y])) => {
                flow.add(0, |backend| backend.binary(Binary::Mul, dy.clone(), &y));
                flow.add(1, |backend| backend.binary(Binary::Mul, dy, &x));
            }
            (Binary::Div, Some([quotient, y])) => {
                let dx = flow.device().backend().binary(Binary::Div, dy, &y);
                flow.add(0, |_| dx.clone());
                flow.add(1, |backend| backend.binary(Binary::NegativeMul, dx, &quotient));
            }
            (Binary::Mul | Binary::Div, None) => unreachable!("they keep what their gradients need"),
            (Binary::NegativeMul, _) => unreachable!("a part of gradients, which no tape records"),
        }
    }
}

pub(crate) struct Pointwise {
    operation: Unary,
    /// The operand or the result, whichever the derivative is a function of.
    saved: Option<Tensor>,
}

impl Operation for Pointwise {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        let name = match self.operation {
            Unary::Scale(_) => "scale",
            Unary::AddScalar(_) => "add scalar",
            Unary::Exp => "exp",
            Unary::Ln => "ln",
            Unary::Sigmoid => "sigmoid",
            Unary::Relu => "relu",
            Unary::Exceeds(_) => "exceeds",
        };
        name.into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { operation: _, saved } = self;
        saved.iter().collect()
    }

    fn relu_result(&self) -> Option<&Tensor> {
        self.saved.as_ref().filter(|_| self.operation == Unary::Relu)
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { operation, saved } = self;
        let saved = if operation == Unary::Relu { flow.mask(saved.as_ref()) } else { saved.as_ref() };
        flow.add(0, |backend| match (operation, saved) {
            (Unary::Scale(_), _) => backend.unary(operation, dy),
            (Unary::AddScalar(_), _) => dy,
            // The operation after it has masked the gradient.
            (Unary::Relu, None) => dy,
            (Unary::Exp | Unary::Ln | Unary::Sigmoid | Unary::Relu, Some(saved)) => {
                backend.unary_backward(operation, saved, dy)
            }
            (Unary::Exp | Unary::Ln | Unary::Sigmoid, None) => {
                unreachable!("they keep what their gradients need")
            }
            (Unary::Exceeds(_), _) => unreachable!("a constant, which no tape records"),
        });
    }
}

pub(crate) struct StraightThrough;

impl Operation for StraightThrough {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "straight through".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |_| dy);
    }
}
