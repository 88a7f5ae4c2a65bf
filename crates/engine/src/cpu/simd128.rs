//! WebAssembly SIMD: vectors of four f32; compiled in when the target enables `simd128`.

use super::simd::Simd;
use std::arch::wasm32::*;

#[derive(Clone, Copy)]
pub(crate) struct Simd128;

impl Simd for Simd128 {
    const LANES: usize = 4;
    const ROWS: [usize; 2] = [6, 3];
    type V = v128;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        f32x4_splat(value)
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::V {
        // SAFETY: the caller grants four readable f32; the load is unaligned.
        unsafe { v128_load(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: Self::V) {
        // SAFETY: the caller grants four writable f32; the store is unaligned.
        unsafe { v128_store(to.cast(), value) }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        f32x4_add(a, b)
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        f32x4_sub(a, b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        f32x4_mul(a, b)
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        f32x4_add(f32x4_mul(a, b), c)
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        f32x4_pmax(b, a)
    }
    #[inline(always)]
    fn where_positive(self, mask: Self::V, value: Self::V) -> Self::V {
        v128_and(f32x4_gt(mask, f32x4_splat(0.0)), value)
    }
}
