//! How a predicted set of masks compares with a set of annotations: one file per family of metrics.
//!
//! Every metric reads a [`Comparison`]: the weighted annotations, the weighted outputs, where known the
//! true modes, and all their pairwise overlaps, counted once. `docs/metrics.md` gives each formula with
//! the key under which a report carries it.
//!
//! | file | what it measures |
//! |---|---|
//! | [`overlap`] | IoU and Dice, and the convention for empty masks |
//! | [`ged`] | generalized energy distance: exact, unbiased, sampled |
//! | [`diversity`] | how far the members of one set lie apart |
//! | [`matching`] | HM-IoU by transport and by assignment; Dice max, match and mean |
//! | [`soft`] | marginal maps and soft Dice |
//! | [`calibration`] | pixels, modes and emptiness: are the probabilities honest? |
//! | [`count`] | N_x, the number of outputs that matter |
//! | [`summary`] | a short list of hypotheses in place of a long one, and what it loses |
//! | [`truth`] | against known modes: recall, precision, probabilities |
//!
//! Two exact solvers serve [`matching`]: [`assignment`] and [`transport`].

pub mod assignment;
pub mod calibration;
mod comparison;
pub mod count;
pub mod diversity;
pub mod ged;
pub mod matching;
pub mod overlap;
pub mod soft;
pub mod summary;
pub mod transport;
pub mod truth;
pub(crate) mod weighted;

pub use comparison::{Comparison, Side};
pub use overlap::{Overlaps, dice, iou};
pub use weighted::WeightedMasks;

/// The conventions behind every number, as each report states them.
pub const CONVENTION: &str = "IoU and Dice of two empty masks are 1, of one empty and one not 0; several \
classes: the mean over the foreground classes, each under the same rule; d = 1 - IoU; GED is the squared \
generalized energy distance over all pairs including a mask with itself; outputs with equal masks count as \
one whose probability is their sum; scores are taken per image, then averaged over images";

/// Weights arrive as f32: two sums of them that differ by less than this are the same number.
pub(crate) const WEIGHT_NOISE: f64 = 1e-6;
