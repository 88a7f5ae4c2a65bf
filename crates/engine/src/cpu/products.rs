//! Matrix products, single and in batches.

use super::device::Cpu;
use super::inner_products;
use super::matmul::{matmul, matmul_tn, transpose};
use crate::backend::{Epilogue, Matrix, Products};
use crate::tensor::Tensor;

impl Products for Cpu {
    fn matmul(&self, a: Matrix, b: Matrix, bias: Option<&Tensor>, [batch, m, k, n]: [usize; 4]) -> Tensor {
        if b.transposed && !a.transposed && bias.is_none() && inner_products::suits(n, k) {
            let sides = [a.tensor.values(), b.tensor.values()];
            return self.filled([batch * m, n], |out| {
                inner_products::inner_products(self.isa, sides, [batch, m, k, n], out);
            });
        }
        if b.transposed {
            let transposed = self.filled([batch * k, n], |out| {
                let parts = b.tensor.values().chunks_exact((n * k).max(1));
                for (b, out) in parts.zip(out.chunks_exact_mut((n * k).max(1))) {
                    transpose(b, k, out);
                }
            });
            let transposed = Matrix { tensor: &transposed, transposed: false };
            return self.matmul(a, transposed, bias, [batch, m, k, n]);
        }
        let (a, b, a_transposed) = (a.tensor.values(), b.tensor.values(), a.transposed);
        let epilogue = Epilogue { bias: bias.map(Tensor::values), ..Epilogue::NONE };
        self.filled([batch * m, n], |out| {
            for (i, out) in out.chunks_exact_mut((m * n).max(1)).enumerate() {
                let (a, b) = (&a[i * m * k..][..m * k], &b[i * k * n..][..k * n]);
                match a_transposed {
                    false => matmul(self.isa, a, b, k, n, epilogue, out),
                    true if k == 0 => out.fill(0.0),
                    true => matmul_tn(self.isa, a, b, m, n, out),
                }
            }
        })
    }

    fn transpose(&self, x: &Tensor) -> Tensor {
        let [rows, columns] = x.shape().matrix("transpose");
        self.filled([columns, rows], |out| transpose(x.values(), columns, out))
    }
}
