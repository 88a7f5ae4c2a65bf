//! The simplex equiangular tight frame: as many unit vectors as there are codes, all equally far apart.

use crate::{Error, Result};
use multivalued_data::draw::Draw;

/// The rows m_j of A = Mᵀ.
///
/// ```text
/// M = √(N / (N − 1)) · U · (I_N − 1 1ᵀ / N)         m_iᵀ m_j = N/(N−1) δ_ij − 1/(N−1)
/// ```
///
/// Paper: Definition "Simplex Equiangular Tight Frame", §3.2. Differs: the paper's UᵀU = I_N needs
/// m ≥ N although it states m ≥ N − 1; here U maps an orthonormal basis of the N − 1 dimensions that
/// the centring leaves, which gives the same frame for m ≥ N and also serves m = N − 1.
///
/// # Shapes
/// [code_count, code_dim], row by row
pub fn simplex_etf(code_count: usize, code_dim: usize, seed: u64) -> Result<Vec<f32>> {
    let (n, m) = (code_count, code_dim);
    if n < 2 {
        return Err(Error::recipe("model.code_count", format!("a simplex has at least 2 corners, not {n}")));
    }
    if m + 1 < n {
        return Err(Error::recipe(
            "model.code_dim",
            format!(
                "{n} equiangular vectors need at least {} dimensions, not {m}: raise code_dim or lower code_count",
                n - 1
            ),
        ));
    }
    // Orthonormal in the hyperplane Σ x = 0: Helmert's vectors e_k = (1, …, 1, −k, 0, …) / √(k(k+1)).
    let centred = |k: usize, j: usize| -> f64 {
        let scale = ((k * (k + 1)) as f64).sqrt();
        match j.cmp(&k) {
            std::cmp::Ordering::Less => 1.0 / scale,
            std::cmp::Ordering::Equal => -(k as f64) / scale,
            std::cmp::Ordering::Greater => 0.0,
        }
    };
    let rotation = orthonormal_rows(n - 1, m, &mut Draw::new(seed, &["simplex_etf"], 0));
    let factor = (n as f64 / (n - 1) as f64).sqrt();
    let mut frame = vec![0.0f32; n * m];
    for (j, row) in frame.chunks_exact_mut(m).enumerate() {
        for (i, out) in row.iter_mut().enumerate() {
            let sum: f64 = (1..n).map(|k| centred(k, j) * rotation[(k - 1) * m + i]).sum();
            *out = (factor * sum) as f32;
        }
    }
    Ok(frame)
}

/// `rows` orthonormal vectors of `columns` dimensions, uniformly distributed: Gaussian vectors made
/// orthogonal one after the other, twice for accuracy.
pub(crate) fn orthonormal_rows(rows: usize, columns: usize, draw: &mut Draw) -> Vec<f64> {
    assert!(rows <= columns, "{rows} orthonormal vectors do not fit {columns} dimensions");
    let mut out: Vec<f64> = (0..rows * columns).map(|_| draw.bell()).collect();
    for i in 0..rows {
        let (before, rest) = out.split_at_mut(i * columns);
        let row = &mut rest[..columns];
        for _ in 0..2 {
            for other in before.chunks_exact(columns) {
                let along: f64 = row.iter().zip(other).map(|(a, b)| a * b).sum();
                row.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
        }
        let length = row.iter().map(|a| a * a).sum::<f64>().sqrt();
        row.iter_mut().for_each(|a| *a /= length);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_the_frames_inner_product() {
        for (n, m) in [(2, 1), (2, 5), (4, 3), (4, 4), (16, 16), (9, 20), (256, 256)] {
            let frame = simplex_etf(n, m, 3).unwrap();
            for i in 0..n {
                for j in 0..n {
                    let product: f64 =
                        (0..m).map(|k| f64::from(frame[i * m + k]) * f64::from(frame[j * m + k])).sum();
                    let expected = if i == j { 1.0 } else { -1.0 / (n as f64 - 1.0) };
                    assert!((product - expected).abs() < 1e-6, "N={n} m={m} ({i}, {j}): {product}");
                }
            }
        }
    }

    #[test]
    fn too_few_dimensions_are_refused_with_the_rule() {
        let error = simplex_etf(10, 8, 1).unwrap_err().to_string();
        assert!(
            error.contains("model.code_dim") && error.contains("at least 9 dimensions, not 8"),
            "{error}"
        );
    }
}
