//! Vectors of eight f32 in plain Rust: the compiler maps them to whatever the target has. No fused
//! multiply-add, which without hardware would be a library call.

use super::simd::Simd;

#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn zip(a: [f32; 8], b: [f32; 8], f: impl Fn(f32, f32) -> f32) -> [f32; 8] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Portable {
    const LANES: usize = 8;
    const ROWS: [usize; 2] = [4, 2];
    type V = [f32; 8];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        [value; 8]
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::V {
        // SAFETY: the caller grants eight readable f32; the read is unaligned.
        unsafe { from.cast::<[f32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: Self::V) {
        // SAFETY: the caller grants eight writable f32; the write is unaligned.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(value) }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn where_positive(self, mask: Self::V, value: Self::V) -> Self::V {
        zip(mask, value, |mask, value| if mask > 0.0 { value } else { 0.0 })
    }
}
