//! The few vector operations the kernels are written in, once per instruction set.
//!
//! A kernel is a struct that implements [`Kernel`]; [`Isa::run`] compiles its body once per
//! instruction set and picks one at run time.

use super::blocked::pairs::Pairs;
use std::fmt;

/// Vectors of `LANES` f32. A value of an implementing type is proof that its instructions exist on
/// this machine: such values are made only inside [`Isa::run`].
pub(crate) trait Simd: Copy + Send + Sync {
    /// f32 per vector.
    const LANES: usize;
    /// Rows of the register block that is one vector wide, and two vectors wide; chosen so that
    /// accumulators, weights and one broadcast fit the registers.
    const ROWS: [usize; 2];
    /// The vector.
    type V: Copy;

    /// All lanes equal.
    fn splat(self, value: f32) -> Self::V;
    /// Reads `LANES` values.
    ///
    /// # Safety
    /// `from` must be readable for `LANES` f32.
    unsafe fn load(self, from: *const f32) -> Self::V;
    /// Writes `LANES` values.
    ///
    /// # Safety
    /// `to` must be writable for `LANES` f32.
    unsafe fn store(self, to: *mut f32, value: Self::V);
    /// a + b
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// a - b
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// a * b
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// a * b + c
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger of each pair.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `value` where `mask` is positive, else 0.
    fn where_positive(self, mask: Self::V, value: Self::V) -> Self::V;
    /// Asks for the cache line at an address that is soon read or written, which may be anywhere; nothing where there is
    /// no such instruction.
    #[inline(always)]
    fn prefetch(self, _: *const f32) {}
}

/// A computation that can be compiled for any instruction set.
pub(crate) trait Kernel {
    /// What it returns.
    type Output;
    /// The body; implementations mark it `#[inline(always)]`, so that it is compiled with the
    /// instructions of the set it is called for.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// An instruction set that this machine has. A value is the proof: only [`Isa::available`] makes others than
/// the portable one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(Set);

/// The instruction sets the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    /// Any machine.
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    Portable,
    /// x86-64 with AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// x86-64 with AVX-512 F and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 64-bit Arm.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// WebAssembly with 128-bit SIMD: a module that has these instructions runs nowhere else, so it holds no others.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128,
}

impl Isa {
    /// What any machine has.
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    pub const PORTABLE: Self = Self(Set::Portable);
    /// What any machine has that runs this module.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    pub const PORTABLE: Self = Self(Set::Simd128);

    /// The fastest set this machine can run.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::PORTABLE)
    }

    /// Every set this machine can run, the fastest last.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut sets = vec![Self::PORTABLE.0];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Set::Avx2);
                if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                    sets.push(Set::Avx512);
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        sets.push(Set::Neon);
        sets.into_iter().map(Self).collect()
    }

    /// f32 per vector.
    pub fn lanes(self) -> usize {
        struct Lanes;
        impl Kernel for Lanes {
            type Output = usize;
            #[inline(always)]
            fn run<S: Simd>(self, _: S) -> usize {
                S::LANES
            }
        }
        self.run(Lanes)
    }

    /// The set to use for `channels` contiguous values: the widest whose vectors they fill best.
    pub(crate) fn for_channels(self, channels: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if self.0 == Set::Avx512 && channels.wrapping_sub(1) % 16 < 8 && channels < 64 {
            // Half-empty 512-bit vectors would waste what 256-bit ones do not.
            return Self(Set::Avx2);
        }
        let _ = channels;
        self
    }

    /// Windows by pairs, where this set has them.
    pub(crate) fn pairs(self) -> Option<Pairs> {
        #[cfg(target_arch = "x86_64")]
        if self.0 == Set::Avx512 {
            // SAFETY: machines of this set have what pairs need.
            return Some(unsafe { Pairs::new() });
        }
        None
    }

    /// Runs a kernel compiled for this set.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
            Set::Portable => kernel.run(super::portable::Portable),
            // SAFETY: nobody outside this file makes a `Set`, and those other than `Portable` come from
            // `available`, which has checked that the machine has these instructions (`for_channels` only
            // narrows, and AVX-512 machines have AVX2).
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { super::avx2::run(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { super::avx512::run(kernel) },
            #[cfg(target_arch = "aarch64")]
            Set::Neon => kernel.run(super::neon::Neon),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Set::Simd128 => kernel.run(super::simd128::Simd128),
        }
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
