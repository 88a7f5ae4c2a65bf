//! Matrix products image by image: what set distances between soft masks are made of.

use crate::cpu::matmul::{self, Epilogue, matmul_tn};
use crate::cuda::ops as gpu;
use crate::tape::Var;
use crate::tensor::Tensor;

/// `out_n = a_n · b_n` for every n: [batch·m, k] · [batch·k, n] → [batch·m, n].
fn product(a: &Tensor, b: &Tensor, [batch, m, k, n]: [usize; 4]) -> Tensor {
    if a.values().is_empty() || b.values().is_empty() {
        return Tensor::zeros(&a.device(), [batch * m, n]);
    }
    let isa = a.isa();
    a.filled([batch * m, n], |out| {
        let parts = a.values().chunks_exact(m * k).zip(b.values().chunks_exact(k * n));
        for ((a, b), out) in parts.zip(out.chunks_exact_mut(m * n)) {
            matmul::matmul(isa, a, b, k, n, Epilogue::NONE, out);
        }
    })
}

/// `out_n = a_n · b_nᵀ` for every n: [batch·m, k] · [batch·n, k] → [batch·m, n].
fn product_nt(a: &Tensor, b: &Tensor, [batch, m, k, n]: [usize; 4]) -> Tensor {
    if b.values().is_empty() {
        return Tensor::zeros(&a.device(), [batch * m, n]);
    }
    let flipped = b.filled([batch * k, n], |out| {
        for (b, out) in b.values().chunks_exact(n * k).zip(out.chunks_exact_mut(n * k)) {
            matmul::transpose(b, k, out);
        }
    });
    product(a, &flipped, [batch, m, k, n])
}

/// `out_n = a_nᵀ · b_n` for every n: [batch·k, m] · [batch·k, n] → [batch·m, n].
fn product_tn(a: &Tensor, b: &Tensor, [batch, m, k, n]: [usize; 4]) -> Tensor {
    if a.values().is_empty() || b.values().is_empty() {
        return Tensor::zeros(&a.device(), [batch * m, n]);
    }
    let isa = a.isa();
    a.filled([batch * m, n], |out| {
        let parts = a.values().chunks_exact(k * m).zip(b.values().chunks_exact(k * n));
        for ((a, b), out) in parts.zip(out.chunks_exact_mut(m * n)) {
            matmul_tn(isa, a, b, m, n, out);
        }
    })
}

impl Var {
    fn batched(&self, other: &Self, batch: usize, name: &str) -> [usize; 4] {
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

    /// Matrix products of corresponding parts.
    ///
    /// # Shapes
    /// [batch·m, k] · [batch·k, n] → [batch·m, n]
    pub fn batched_matmul(&self, other: &Self, batch: usize) -> Self {
        let [m, k, rows, n] = self.batched(other, batch, "batched_matmul");
        assert!(
            k == rows,
            "batched_matmul: parts of {} and {} do not fit: {k} columns, {rows} rows",
            self.shape(),
            other.shape()
        );
        if self.tensor().on_gpu().is_some() {
            return gpu::product::batched_matmul(self, other, [batch, m, k, n]);
        }
        let (a, b) = (self.tensor().clone(), other.tensor().clone());
        let (to_a, to_b) = (self.target(), other.target());
        Self::record(&[self, other], product(&a, &b, [batch, m, k, n]), move |dy, flow| {
            flow.add(to_a, || product_nt(&dy, &b, [batch, m, n, k]));
            flow.add(to_b, || product_tn(&a, &dy, [batch, k, m, n]));
        })
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
        let [m, k, n, columns] = self.batched(other, batch, "batched_inner_products");
        assert!(
            k == columns,
            "batched_inner_products: rows of {} and {} differ in length",
            self.shape(),
            other.shape()
        );
        if self.tensor().on_gpu().is_some() {
            return gpu::product::batched_inner_products(self, other, [batch, m, k, n]);
        }
        let (a, b) = (self.tensor().clone(), other.tensor().clone());
        let (to_a, to_b) = (self.target(), other.target());
        Self::record(&[self, other], product_nt(&a, &b, [batch, m, k, n]), move |dy, flow| {
            flow.add(to_a, || product(&dy, &b, [batch, m, n, k]));
            flow.add(to_b, || product_tn(&dy, &a, [batch, n, m, k]));
        })
    }
}
