//! Linear layers, matrix products and transposition.

use crate::cpu::matmul::{self, Epilogue, column_sums, matmul_tn};
use crate::cuda::ops as gpu;
use crate::tape::Var;
use crate::tensor::Tensor;

fn transposed(x: &Tensor) -> Tensor {
    let [rows, columns] = x.shape().matrix("transpose");
    if x.on_gpu().is_some() {
        return gpu::product::transposed(x);
    }
    x.filled([columns, rows], |out| matmul::transpose(x.values(), columns, out))
}

impl Var {
    /// ```text
    /// y = x · weight + bias
    /// ```
    ///
    /// # Shapes
    /// [batch, inputs], weight [inputs, outputs], bias [outputs] → [batch, outputs]
    pub fn linear(&self, weight: &Self, bias: &Self) -> Self {
        let [_, outputs] = weight.shape().matrix("linear's weight");
        assert!(*bias.shape() == [outputs], "linear: bias {} for weight {}", bias.shape(), weight.shape());
        self.product(weight, Some(bias), "linear")
    }

    /// The matrix product.
    ///
    /// # Shapes
    /// [m, k] · [k, n] → [m, n]
    pub fn matmul(&self, other: &Self) -> Self {
        self.product(other, None, "matmul")
    }

    fn product(&self, other: &Self, bias: Option<&Self>, name: &str) -> Self {
        let [m, k] = self.shape().matrix(name);
        let [rows, n] = other.shape().matrix(name);
        assert!(
            rows == k,
            "{name}: {} and {} do not fit: {k} columns, {rows} rows",
            self.shape(),
            other.shape()
        );
        if self.tensor().on_gpu().is_some() {
            return gpu::product::product(self, other, bias, [m, k, n]);
        }
        let isa = self.tensor().isa();
        let epilogue = Epilogue { bias: bias.map(Self::values), ..Epilogue::NONE };
        let out = self.tensor().filled([m, n], |out| {
            matmul::matmul(isa, self.values(), other.values(), k, n, epilogue, out);
        });
        let (a, b) = (self.tensor().clone(), other.tensor().clone());
        let (to_a, to_b, to_bias) = (self.target(), other.target(), bias.and_then(Self::target));
        let mut operands = vec![self, other];
        operands.extend(bias);
        Self::record(&operands, out, move |dy, flow| {
            flow.add(to_a, || {
                let b = transposed(&b);
                a.filled([m, k], |da| matmul::matmul(isa, dy.values(), b.values(), n, k, Epilogue::NONE, da))
            });
            flow.add(to_b, || b.filled([k, n], |db| matmul_tn(isa, a.values(), dy.values(), k, n, db)));
            flow.add(to_bias, || dy.filled([n], |d_bias| column_sums(isa, dy.values(), n, d_bias)));
        })
    }

    /// Rows become columns.
    ///
    /// # Shapes
    /// [m, n] → [n, m]
    pub fn transpose(&self) -> Self {
        let to_x = self.target();
        Self::record(&[self], transposed(self.tensor()), move |dy, flow| {
            flow.add(to_x, || transposed(&dy));
        })
    }
}
