//! AVX2 and FMA: vectors of eight f32, sixteen registers.

use super::simd::{Kernel, Simd};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The machine must have AVX2 and FMA.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// Compiles a kernel for this set.
///
/// # Safety
/// The machine must have the instructions named.
#[target_feature(enable = "avx2,fma")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    const ROWS: [usize; 2] = [10, 6];
    type V = __m256;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        // SAFETY: a `Avx2` exists only inside `run`, so the instructions exist; so everywhere below.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::V {
        // SAFETY: the caller grants 8 readable f32; the load is unaligned.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: Self::V) {
        // SAFETY: the caller grants 8 writable f32; the store is unaligned.
        unsafe { _mm256_storeu_ps(to, value) }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    fn where_positive(self, mask: Self::V, value: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(mask, _mm256_setzero_ps()), value) }
    }
    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}
