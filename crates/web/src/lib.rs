//! The viewer: a predictor for WebAssembly, and the page around it.
//!
//! | module | what it is for |
//! |---|---|
//! | [`session`] | a model and an image, and what the page asks of them |
//! | `exports` | the same as functions of a WebAssembly module |
//! | [`page`] | the page's scripts and styles |
//! | [`viewer`] | the viewer's files by their paths, the module and the shipped models among them |

pub mod session;

#[cfg(target_arch = "wasm32")]
mod exports;

#[cfg(not(target_arch = "wasm32"))]
pub mod page;
#[cfg(not(target_arch = "wasm32"))]
pub mod viewer;

#[cfg(not(target_arch = "wasm32"))]
pub use viewer::{File, file};
