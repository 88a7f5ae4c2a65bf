//! Linear layers, matrix products, single and in batches, and transposition.

use super::{Operation, with_parts};
use crate::backend::{Element, Matrix};
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

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
        self.product(weight, Some(bias), 1, "linear")
    }

    /// The matrix product.
    ///
    /// # Shapes
    /// [m, k] · [k, n] → [m, n]
    pub fn matmul(&self, other: &Self) -> Self {
        self.product(other, None, 1, "matmul")
    }

    /// Matrix products of corresponding parts.
    ///
    /// # Shapes
    /// [batch·m, k] · [batch·k, n] → [batch·m, n]
    pub fn batched_matmul(&self, other: &Self, batch: usize) -> Self {
        self.product(other, None, batch, "batched_matmul")
    }

    /// Inner products of all rows of corresponding parts.
    ///
    /// ```text
    /// y[b·m + i, j] = Σ_p x[b·m + i, p] · other[b·n + j, p]
    /// ```
    ///
    /// # Shapes
    /// [batch·m, k] and [batch·n, k] → [batch·m, n]
    pub fn batched_inner_products(&self, other: &Self, batch: usize) -> Self {
        let name = "batched_inner_products";
        let [m, k, n, columns] = self.parts(other, batch, name);
        let (x, y) = (self.shape(), other.shape());
        assert!(k == columns, "{name}: rows of {x} and {y} differ in length");
        self.multiply(other, true, None, [batch, m, k, n], name)
    }

    /// Rows and columns of both matrices of a batch.
    fn parts(&self, other: &Self, batch: usize, name: &str) -> [usize; 4] {
        let [rows, columns] = self.shape().matrix(name);
        let [other_rows, other_columns] = other.shape().matrix(name);
        assert!(
            batch > 0 && rows % batch == 0 && other_rows % batch == 0,
            "{name}: {} and {} do not fall into {batch} parts",
            self.shape(),
            other.shape()
        );
        [rows / batch, columns, other_rows / batch, other_columns]
    }

    fn product(&self, other: &Self, bias: Option<&Self>, batch: usize, name: &'static str) -> Self {
        let [m, k, rows, n] = self.parts(other, batch, name);
        let (x, y) = (self.shape(), other.shape());
        assert!(rows == k, "{name}: {x} and {y} do not fit: {k} columns, {rows} rows");
        self.multiply(other, false, bias, [batch, m, k, n], name)
    }

    fn multiply(
        &self,
        other: &Self,
        transposed: bool,
        bias: Option<&Self>,
        sizes: [usize; 4],
        name: &'static str,
    ) -> Self {
        let backend = self.backend();
        let [a, b] = [self, other].map(|side| backend.cast(side.tensor().clone(), Element::F32));
        let out = backend.matmul(matrix(&a, false), matrix(&b, transposed), bias.map(Self::tensor), sizes);
        let op = MatMul { a, b, transposed, sizes, name, bias: bias.is_some() };
        Self::record_optional(&[Some(self), Some(other), bias], out, op)
    }

    /// Rows become columns.
    ///
    /// # Shapes
    /// [m, n] → [n, m]
    pub fn transpose(&self) -> Self {
        self.shape().matrix("transpose");
        let backend = self.backend();
        let out = backend.transpose(&backend.cast(self.tensor().clone(), Element::F32));
        Self::record(&[self], out, Transpose)
    }
}

fn matrix(tensor: &Tensor, transposed: bool) -> Matrix<'_> {
    Matrix { tensor, transposed }
}

pub(crate) struct MatMul {
    a: Tensor,
    b: Tensor,
    /// Whether b is the transpose of what a was multiplied by.
    transposed: bool,
    /// The batch, m, k and n.
    sizes: [usize; 4],
    name: &'static str,
    bias: bool,
}

impl Operation for MatMul {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        with_parts(self.name.replace('_', " "), &[("bias", self.bias)])
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { a, b, transposed: _, sizes: _, name: _, bias: _ } = self;
        vec![a, b]
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { a, b, transposed, sizes: [batch, m, k, n], .. } = self;
        let device = flow.device();
        let dy = device.backend().cast(dy, Element::F32);
        let dy_matrix = matrix(&dy, false);
        flow.add(0, |backend| backend.matmul(dy_matrix, matrix(&b, !transposed), None, [batch, m, n, k]));
        flow.add(1, |backend| match transposed {
            false => backend.matmul(matrix(&a, true), dy_matrix, None, [batch, k, m, n]),
            true => backend.matmul(matrix(&dy, true), matrix(&a, false), None, [batch, n, m, k]),
        });
        flow.add(2, |backend| {
            let (_, sums) = backend.mask_and_sum(dy.clone(), None, Element::F32, Some(1));
            sums.expect("sums were asked for").reshaped([n])
        });
    }
}

pub(crate) struct Transpose;

impl Operation for Transpose {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "transpose".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |backend| backend.transpose(&backend.cast(dy, Element::F32)));
    }
}
