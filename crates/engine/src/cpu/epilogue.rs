//! What happens to finished sums before they are written, and operands padded to whole vectors.

use super::scratch;
use super::simd::Simd;
use crate::backend::Epilogue;

impl Epilogue<'_, [f32]> {
    /// Lends the epilogue with its bias padded to whole vectors.
    pub fn with_padded_bias<T>(
        self,
        columns: usize,
        lanes: usize,
        work: impl FnOnce(Epilogue<'_, [f32]>) -> T,
    ) -> T {
        match self.bias {
            Some(bias) => {
                with_padded(bias, columns, lanes, |bias| work(Epilogue { bias: Some(bias), ..self }))
            }
            None => work(self),
        }
    }
}

/// An [`Epilogue`] from where a task's output begins.
#[derive(Clone, Copy)]
pub(crate) struct Finish {
    /// Padded to whole vectors.
    bias: Option<*const f32>,
    residual: Option<*const f32>,
    relu: bool,
    mask: Option<*const f32>,
}

impl Finish {
    pub const NONE: Self = Self { bias: None, residual: None, relu: false, mask: None };

    /// From the value `first` of the output on.
    pub fn new(epilogue: Epilogue<'_, [f32]>, first: usize) -> Self {
        let from_first = |values: Option<&[f32]>| values.map(|values| values[first..].as_ptr());
        let Epilogue { bias, residual, relu, mask } = epilogue;
        let (residual, mask) = (from_first(residual), from_first(mask));
        Self { bias: bias.map(<[f32]>::as_ptr), residual, relu, mask }
    }

    /// From `values` values of the output further on, and `columns` columns of the bias.
    ///
    /// # Safety
    /// What is there must reach so far.
    #[inline(always)]
    pub unsafe fn add(self, values: usize, columns: usize) -> Self {
        // SAFETY: as the caller grants.
        unsafe {
            Self {
                bias: self.bias.map(|bias| bias.add(columns)),
                residual: self.residual.map(|residual| residual.add(values)),
                relu: self.relu,
                mask: self.mask.map(|mask| mask.add(values)),
            }
        }
    }
}

/// Lends a matrix with its rows padded by zeros to whole vectors, so that kernels may load past the
/// last column: itself where the columns fill their vectors, else a copy. Rows are then
/// `columns.next_multiple_of(lanes)` apart.
pub(crate) fn with_padded<T>(
    matrix: &[f32],
    columns: usize,
    lanes: usize,
    work: impl FnOnce(&[f32]) -> T,
) -> T {
    let stride = columns.next_multiple_of(lanes);
    if stride == columns {
        return work(matrix);
    }
    scratch::with(matrix.len() / columns * stride, |padded| {
        pad(matrix, columns, stride, padded);
        work(padded)
    })
}

/// Copies rows of `columns` values to rows of `stride`, the rest of which is zero.
pub(super) fn pad(matrix: &[f32], columns: usize, stride: usize, padded: &mut [f32]) {
    for (to, from) in padded.chunks_exact_mut(stride).zip(matrix.chunks_exact(columns)) {
        to[..columns].copy_from_slice(from);
        to[columns..].fill(0.0);
    }
}

/// Finishes a block of sums and writes it.
///
/// # Safety
/// `out` (and residual and mask, if any) must reach `rows` rows, `stride` apart, of `width` values (at most
/// `NV` vectors); the bias, if any, `NV` whole vectors.
#[inline(always)]
pub(super) unsafe fn finish<S: Simd, const R: usize, const NV: usize>(
    s: S,
    sums: [[S::V; NV]; R],
    Finish { bias, residual, relu, mask }: Finish,
    out: *mut f32,
    stride: usize,
    width: usize,
) {
    let zero = s.splat(0.0);
    // What most products end in, asked for once for a block instead of once for a vector.
    if width >= NV * S::LANES
        && residual.is_none()
        && (bias.is_none() || mask.is_none())
        && (bias.is_some() || !relu)
    {
        // SAFETY: whole vectors of `out`, mask and bias, as the caller grants.
        unsafe {
            // Plain loops in loops: over an iterator of pairs they would not be unrolled, and the sums would leave their
            // registers.
            match (bias, mask) {
                (Some(bias), _) => {
                    let bias: [S::V; NV] = std::array::from_fn(|v| s.load(bias.add(v * S::LANES)));
                    for i in 0..R {
                        for v in 0..NV {
                            let value = s.add(sums[i][v], bias[v]);
                            // Zero first: a NaN then passes through.
                            let value = if relu { s.max(zero, value) } else { value };
                            s.store(out.add(i * stride + v * S::LANES), value);
                        }
                    }
                }
                (None, Some(mask)) => {
                    for i in 0..R {
                        for v in 0..NV {
                            let at = i * stride + v * S::LANES;
                            s.store(out.add(at), s.where_positive(s.load(mask.add(at)), sums[i][v]));
                        }
                    }
                }
                (None, None) => {
                    for i in 0..R {
                        for v in 0..NV {
                            s.store(out.add(i * stride + v * S::LANES), sums[i][v]);
                        }
                    }
                }
            }
        }
        return;
    }
    for i in 0..R {
        for v in 0..NV {
            let at = i * stride + v * S::LANES;
            let valid = width.saturating_sub(v * S::LANES).min(S::LANES);
            // SAFETY: bias has whole vectors; rows of `out`, residual and mask are touched whole vector
            // by whole vector only while `valid` says so, and value by value at the ragged end.
            unsafe {
                let mut value = sums[i][v];
                if let Some(bias) = bias {
                    value = s.add(value, s.load(bias.add(v * S::LANES)));
                }
                if valid == S::LANES {
                    if let Some(residual) = residual {
                        value = s.add(value, s.load(residual.add(at)));
                    }
                    if relu {
                        // Zero first: a NaN then passes through.
                        value = s.max(zero, value);
                    }
                    if let Some(mask) = mask {
                        value = s.where_positive(s.load(mask.add(at)), value);
                    }
                    s.store(out.add(at), value);
                } else {
                    let mut values = [0.0; 16];
                    s.store(values.as_mut_ptr(), value);
                    for (lane, mut value) in values.into_iter().take(valid).enumerate() {
                        if let Some(residual) = residual {
                            value += *residual.add(at + lane);
                        }
                        if let Some(mask) = mask {
                            // Not `<=`: where the mask is NaN, nothing is kept.
                            value = if *mask.add(at + lane) > 0.0 { value } else { 0.0 };
                        }
                        *out.add(at + lane) = if relu && value < 0.0 { 0.0 } else { value };
                    }
                }
            }
        }
    }
}
