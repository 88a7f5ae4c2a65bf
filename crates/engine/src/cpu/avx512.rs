//! AVX-512: vectors of sixteen f32, thirty-two registers.

use super::simd::{Kernel, Simd};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

/// Compiles a kernel for this set.
///
/// # Safety
/// The machine must have the instructions named.
#[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    const ROWS: [usize; 2] = [12, 12];
    type V = __m512;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        // SAFETY: a `Avx512` exists only inside `run`, so the instructions exist; so everywhere below.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::V {
        // SAFETY: the caller grants 16 readable f32; the load is unaligned.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: Self::V) {
        // SAFETY: the caller grants 16 writable f32; the store is unaligned.
        unsafe { _mm512_storeu_ps(to, value) }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn where_positive(self, mask: Self::V, value: Self::V) -> Self::V {
        // SAFETY: see `splat`.
        unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(mask, _mm512_setzero_ps()), value) }
    }
    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a hint, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}
