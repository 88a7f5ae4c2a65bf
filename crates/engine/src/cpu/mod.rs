//! The processor: an implementation of [`Backend`](crate::backend::Backend). Beside `cuda` the only place with `unsafe`:
//! vector instructions, and outputs that several tasks write at once.
//!
//! | file | what it is for |
//! |---|---|
//! | `device`, `memory` | the device with its pool of buffers |
//! | `values`, `images`, `views`, `norms`, `rows`, `products`, `training` | the backend's kernels, by family |
//! | `blocked`, `blocked/pairs`, `epilogue` | the two register-blocked products that most time is spent in, one of them for few channels, and what becomes of their sums |
//! | `conv`, `winograd`, `matmul`, `inner_products`, `pixel_layers`, `norm`, `norm_sums`, `resize`, `elementwise`, `math` | loops over slices, which check their sizes |
//! | `simd`, `avx512`, `avx2`, `neon`, `simd128`, `portable` | the vector operations, by instruction set |
//! | `parallel`, `helpers`, `scratch` | tasks for threads, helpers that wait for the next tasks, and working memory |
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocked;
mod conv;
mod device;
mod elementwise;
mod epilogue;
#[cfg(not(target_arch = "wasm32"))]
mod helpers;
mod images;
mod inner_products;
mod math;
mod matmul;
pub(crate) mod memory;
#[cfg(target_arch = "aarch64")]
mod neon;
mod norm;
mod norm_sums;
mod norms;
mod parallel;
mod peak;
mod pixel_layers;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod portable;
mod products;
mod resize;
mod rows;
mod scratch;
mod simd;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(test)]
mod tests;
mod training;
mod values;
mod views;
mod winograd;

pub use device::Cpu;
pub use simd::Isa;
