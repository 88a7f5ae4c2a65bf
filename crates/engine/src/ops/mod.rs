//! The operations, as methods of [`Var`](crate::Var): one file per family, each with its formula and
//! shapes, computing forwards at once and recording how to go back.

mod bias;
pub(crate) mod conv;
mod elementwise;
mod join;
mod linear;
mod loss;
mod norm;
mod product;
mod reduce;
mod resize;

pub use norm::BatchStatistics;
