//! CPU kernels. Beside `cuda` the only place with `unsafe`: vector instructions, and outputs that several
//! tasks write at once. Everything takes slices and plain shapes and checks their sizes; nothing here
//! knows of tensors or gradients.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod conv;
pub(crate) mod elementwise;
pub(crate) mod math;
pub(crate) mod memory;

pub(crate) mod matmul;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod norm;
pub(crate) mod parallel;
pub(crate) mod peak;
mod portable;
pub(crate) mod resize;
mod scratch;
mod simd;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(test)]
mod tests;
mod winograd;

pub use simd::Isa;
