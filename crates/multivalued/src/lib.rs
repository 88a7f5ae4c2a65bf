//! Dynamic multi-valued mappings: one image in; a short, varying list of plausible masks out, each with an
//! honest probability.
//!
//! # The method on one page
//!
//! An image encoder E_θ makes features; a generator G_θ turns them and one of N codes into an output; a
//! classifier P_ϕ with a fixed simplex frame says how probable each code is for this image. Training finds
//! for each annotation the code it belongs to, by the nearest output (or, as the paper writes it, by a pair
//! encoder E_φ and the nearest code), and moves that code's output towards it and its probability up.
//! At prediction, codes below ε are dropped: what is left are the N_x outputs of this image.
//!
//! ```text
//!            ┌── P_ϕ ── p(c_j | x) ──────────────┐
//! x ── E_θ ──┤                                   ├── {(y_j, p_j)},  j = 1 … N_x
//!            └── decoder ── 1x1 head + W c_j ────┘
//! ```
//!
//! | paper | code | shape |
//! |---|---|---|
//! | x, y | `image`, `annotation` | |
//! | E_θ, G_θ | `ImageEncoder`, `Generator` | |
//! | E_φ, z(x, y) | `PairEncoder`, `embedding` | [batch, code_dim] |
//! | P_ϕ, p(c_j given x) | `Classifier`, `probabilities` | [batch, code_count] |
//! | C, N, m | `Codebook`, `code_count`, `code_dim` | [code_count, code_dim] |
//! | s_i^k | `nearest`, `responsibilities` | [batch], [annotations, codes] |
//! | M, A | `simplex_etf` | [code_count, code_dim] |
//! | α, β, γ | `loss.cross_entropy`, `loss.commitment`, `loss.covariance` | |
//! | τ, κ, ε | `orthogonality_threshold`, `loss.average_decay`, `predict.min_probability` | |
//! | N_x, y_j | `Prediction::len`, `Hypothesis` | |
//!
//! `train` uses `model`, `loss`, `assignment`, `batch` and `predict`; `model` knows none of them. A recipe
//! may name a baseline instead (`method.kind`): `network` is what trainer and predictor see of either.

// In a browser there are no threads: the same loops run one after the other.
#[cfg(target_arch = "wasm32")]
extern crate multivalued_sequential as rayon;

pub mod answer;
mod assignment;
mod baseline;
mod batch;
pub mod collective;
mod conformal;
mod data;
pub mod distil;
mod error;
#[cfg(test)]
mod fixture;
mod loss;
pub mod mixture;
mod model;
mod network;
pub mod onnx;
pub mod plan;
pub mod predict;
pub mod protobuf;
pub mod recipe;
pub mod shipped;
mod temperature;
pub mod train;
mod verdict;

pub use collective::{Collective, Ranks};
pub use conformal::Coverage;
pub use data::{Collection, Splits};
pub use error::{Error, Result};
pub use mixture::Mixture;
pub use model::{Model, simplex_etf};
pub use network::Network;
pub use plan::Plan;
pub use predict::{Limit, Predictor};
pub use recipe::Recipe;
pub use train::Trainer;
pub use verdict::{Trained, Trivial, Verdict};
