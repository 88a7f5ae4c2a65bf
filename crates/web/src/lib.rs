//! The viewer: a predictor for WebAssembly, and the page around it.

#[cfg(not(target_arch = "wasm32"))]
pub mod page;
