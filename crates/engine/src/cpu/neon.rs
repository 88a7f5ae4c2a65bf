//! NEON: vectors of four f32, thirty-two registers. Part of every 64-bit Arm.

use super::simd::Simd;
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
pub(crate) struct Neon;

impl Simd for Neon {
    const LANES: usize = 4;
    const ROWS: [usize; 2] = [12, 12];
    type V = float32x4_t;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        // SAFETY: every 64-bit Arm has NEON.
        unsafe { vdupq_n_f32(value) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::V {
        // SAFETY: the caller grants four readable f32.
        unsafe { vld1q_f32(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: Self::V) {
        // SAFETY: the caller grants four writable f32.
        unsafe { vst1q_f32(to, value) }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: every 64-bit Arm has NEON.
        unsafe { vaddq_f32(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: every 64-bit Arm has NEON.
        unsafe { vsubq_f32(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: every 64-bit Arm has NEON.
        unsafe { vmulq_f32(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: every 64-bit Arm has NEON.
        unsafe { vfmaq_f32(c, a, b) }
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: every 64-bit Arm has NEON.
        unsafe { vmaxq_f32(a, b) }
    }
    #[inline(always)]
    fn where_positive(self, mask: Self::V, value: Self::V) -> Self::V {
        // SAFETY: every 64-bit Arm has NEON.
        unsafe {
            let positive = vcgtq_f32(mask, vdupq_n_f32(0.0));
            vreinterpretq_f32_u32(vandq_u32(positive, vreinterpretq_u32_f32(value)))
        }
    }
}
