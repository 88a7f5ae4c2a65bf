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
//! | [`split`] | GED in emptiness and shape, and the floor that readers set |
//! | [`diversity`] | how far the members of one set lie apart |
//! | [`matching`] | HM-IoU by transport and by assignment; Dice max, match and mean |
//! | [`soft`] | marginal maps and soft Dice |
//! | [`calibration`] | pixels, modes and emptiness: are the probabilities honest? |
//! | [`area`] | probabilities of sizes |
//! | [`boundary`] | distances of boundaries: HD95 and normalised surface distance |
//! | [`lesion`] | lesions found, missed and invented |
//! | [`consensus`] | one mask of several readers: the majority's and STAPLE's |
//! | [`count`] | N_x, the number of outputs that matter |
//! | [`summary`] | a short list of hypotheses in place of a long one, and what it loses |
//! | [`truth`] | against known modes: recall, precision, probabilities |
//!
//! Two exact solvers serve [`matching`]: [`assignment`] and [`transport`]. [`distance`] serves [`boundary`].

pub mod area;
pub mod assignment;
pub mod boundary;
pub mod calibration;
mod comparison;
pub mod consensus;
pub mod count;
pub mod distance;
pub mod diversity;
pub mod ged;
pub mod lesion;
pub mod matching;
pub mod overlap;
pub mod soft;
pub mod split;
pub mod summary;
pub mod transport;
pub mod truth;
pub(crate) mod weighted;
mod window;

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

/// The value that a share of some sorted values lie below, interpolated between its neighbours.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}
