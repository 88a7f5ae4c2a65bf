//! Inner products of rows, by groups: what set distances between soft masks are made of.

use crate::cpu::elementwise::sum_zip;
use crate::cpu::matmul::{self, Epilogue};
use crate::tape::Var;
use crate::tensor::Tensor;

impl Var {
    /// Inner products of rows; with K rows here for each row of `other`, that row is used K times.
    ///
    /// ```text
    /// y[n·K + k] = Σ_p x[n·K + k, p] · other[n, p]
    /// ```
    ///
    /// # Shapes
    /// [batch·K, features], other [batch, features] → [batch·K]
    pub fn row_products(&self, other: &Self) -> Self {
        let [rows, features] = self.shape().matrix("row_products");
        let [batch, other_features] = other.shape().matrix("row_products");
        assert!(
            features == other_features && batch > 0 && rows % batch == 0,
            "row_products: rows of {} for rows of {}",
            other.shape(),
            self.shape()
        );
        let repeats = rows / batch;
        let isa = self.tensor().isa();
        let row = move |row: usize| row * features..(row + 1) * features;
        let out = self.tensor().filled([rows], |out| {
            for (i, out) in out.iter_mut().enumerate() {
                let (a, b) = (self.values(), other.values());
                *out = sum_zip(isa, &a[row(i)], &b[row(i / repeats)], |a, b| a * b) as f32;
            }
        });
        let (a, b) = (self.tensor().clone(), other.tensor().clone());
        let (to_a, to_b) = (self.target(), other.target());
        Self::record(&[self, other], out, move |dy, flow| {
            flow.add(to_a, || {
                a.filled([rows, features], |da| {
                    for (i, da) in da.chunks_exact_mut(features).enumerate() {
                        let (dy, b) = (dy.values()[i], &b.values()[row(i / repeats)]);
                        da.iter_mut().zip(b).for_each(|(da, b)| *da = dy * b);
                    }
                })
            });
            flow.add(to_b, || {
                b.filled([batch, features], |db| {
                    db.fill(0.0);
                    for i in 0..rows {
                        let (dy, a) = (dy.values()[i], &a.values()[row(i)]);
                        let db = &mut db[i / repeats * features..][..features];
                        db.iter_mut().zip(a).for_each(|(db, a)| *db += dy * a);
                    }
                })
            });
        })
    }

    /// Inner products of all pairs of rows within each group of `group` neighbouring rows.
    ///
    /// ```text
    /// y[n·K + i, j] = Σ_p x[n·K + i, p] · x[n·K + j, p]      K = group
    /// ```
    ///
    /// # Shapes
    /// [batch·K, features] → [batch·K, K]
    pub fn group_products(&self, group: usize) -> Self {
        let [rows, features] = self.shape().matrix("group_products");
        assert!(group > 0 && rows % group == 0, "group_products: groups of {group} of {}", self.shape());
        let isa = self.tensor().isa();
        let out = self.tensor().filled([rows, group], |out| {
            let x = self.values();
            let mut flipped = Tensor::uninitialised(&self.device(), [features, group]);
            let flipped = flipped.values_mut();
            for (x, out) in x.chunks_exact(group * features).zip(out.chunks_exact_mut(group * group)) {
                matmul::transpose(x, features, flipped);
                matmul::matmul(isa, x, flipped, features, group, Epilogue::NONE, out);
            }
        });
        let (to_x, x) = (self.target(), self.tensor().clone());
        Self::record(&[self], out, move |dy, flow| {
            flow.add(to_x, || {
                x.filled([rows, features], |dx| {
                    // dx = (dy + dyᵀ) · x, group by group.
                    let mut both = vec![0.0; group * group];
                    for ((dx, x), dy) in dx
                        .chunks_exact_mut(group * features)
                        .zip(x.values().chunks_exact(group * features))
                        .zip(dy.values().chunks_exact(group * group))
                    {
                        for i in 0..group {
                            for j in 0..group {
                                both[i * group + j] = dy[i * group + j] + dy[j * group + i];
                            }
                        }
                        matmul::matmul(isa, &both, x, group, features, Epilogue::NONE, dx);
                    }
                })
            });
        })
    }
}
