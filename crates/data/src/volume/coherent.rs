//! The volumes that are told of: the most probable ones of a distribution, at most so many, none nearly the same as
//! another.

use super::{Volume, VolumeHypothesis, WeightedSlice};
use crate::Result;
use crate::draw::Draw;

/// Hypotheses that are told of unless stated otherwise.
const MOST: usize = 10;
/// The IoU from which on two volumes count as one, unless stated otherwise.
const SAME: f64 = 0.8;
/// Draws behind the shares of volumes that are nearest to each hypothesis, and behind probabilities where paths are too
/// many to be counted.
const DRAWS: usize = 1000;
/// Volumes among which those are looked for that most draws are nearly the same as: the best paths, and draws.
const CANDIDATES: usize = 100;
/// The best paths are enough where they have so much of the probability.
const ENOUGH: f64 = 0.99;

/// Which volumes are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// At most so many.
    pub most: Option<usize>,
    /// Those with at least this IoU count as one.
    pub merge_iou: Option<f64>,
}

/// What a model says of a volume as a whole.
#[derive(Debug)]
pub struct Coherent {
    /// The distribution.
    pub volume: Volume,
    /// The most probable first.
    pub hypotheses: Vec<VolumeHypothesis>,
    /// The IoU from which on volumes counted as one.
    pub merge_iou: f64,
    /// How many draws the probabilities were counted from; none where they are sums over paths.
    pub draws: Option<usize>,
    /// By hypothesis the share of drawn volumes that are nearest to it.
    pub nearest: Vec<f64>,
}

impl Coherent {
    /// Couples so many slices, of which `slice` gives masks and probabilities. What is drawn depends on name and seed
    /// alone.
    pub fn new(
        count: usize,
        slice: impl Fn(usize) -> WeightedSlice + Sync,
        wanted: Wanted,
        name: &str,
        seed: u64,
    ) -> Result<Self> {
        let volume = Volume::new(count, slice)?;
        let merge_iou = wanted.merge_iou.unwrap_or(SAME);
        let unless_stated = if wanted.merge_iou.is_some() { CANDIDATES } else { MOST };
        let most = wanted.most.unwrap_or(unless_stated);
        let draws = volume.draws(DRAWS, &mut Draw::new(seed, &["nearest", name], 0));
        let mut hypotheses = volume.hypotheses(CANDIDATES.max(most), merge_iou);
        let exact = hypotheses.iter().map(|one| one.probability).sum::<f64>() >= ENOUGH;
        if !exact {
            let best = hypotheses.into_iter().map(|one| one.members);
            let candidates: Vec<Vec<usize>> = best.chain(draws[..CANDIDATES].iter().cloned()).collect();
            hypotheses = volume.covering(&candidates, &draws, most, merge_iou);
        }
        hypotheses.truncate(most);
        let nearest = volume.nearest_shares(&hypotheses, &draws);
        Ok(Self { volume, hypotheses, merge_iou, draws: (!exact).then_some(DRAWS), nearest })
    }
}
