//! Dynamic multi-valued mappings.
mod assignment;
mod batch;
mod error;
mod loss;
pub mod model;
pub mod predict;
pub mod recipe;
pub mod train;
pub use error::{Error, Result};
pub use model::Model;
pub use predict::Predictor;
pub use recipe::Recipe;
