//! A volume's slices as whole volumes: the most probable ones, and samples.

use super::{Keep, Predicted, Unit};
use crate::Result;
use multivalued_data::draw::Draw;
use multivalued_data::volume::{Volume, VolumeHypothesis};
use serde_json::{Value, json};

/// Hypotheses that are written unless the user says otherwise.
const MOST: usize = 10;
/// The IoU from which on two volumes count as one, unless the user says otherwise.
const SAME: f64 = 0.8;
/// Draws behind the shares of volumes that are nearest to each hypothesis, and behind probabilities where paths are too
/// many to be counted.
const DRAWS: usize = 1000;
/// Volumes among which those are looked for that most draws are nearly the same as: the best paths, and draws.
const CANDIDATES: usize = 100;
/// The best paths are enough where they have so much of the probability.
const ENOUGH: f64 = 0.99;

/// What a model says of a volume as a whole.
pub struct Coherent {
    /// The slices, coupled.
    pub volume: Volume,
    /// The most probable first.
    pub hypotheses: Vec<VolumeHypothesis>,
    merge_iou: f64,
    /// Whether the probabilities are exact sums over paths, and not counted from draws.
    exact: bool,
    /// By hypothesis the share of drawn volumes that are nearest to it.
    nearest: Vec<f64>,
}

impl Coherent {
    /// Couples the slices of a volume; none where there is one slice alone.
    pub fn of(slices: &[Predicted], keep: &Keep, name: &str, seed: u64) -> Result<Option<Self>> {
        if slices.len() < 2 {
            return Ok(None);
        }
        let volume = Volume::new(slices.len(), |at| slices[at].weighted())?;
        let merge_iou = keep.merge.unwrap_or(SAME);
        let unless_stated = if keep.merge.is_some() { CANDIDATES } else { MOST };
        let most = keep.top.or(keep.list).unwrap_or(unless_stated);
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
        Ok(Some(Self { volume, hypotheses, merge_iou, exact, nearest }))
    }

    /// Volumes drawn by their probability; the same for the same name and seed.
    pub fn samples(&self, count: usize, name: &str, seed: u64) -> Vec<Vec<usize>> {
        self.volume.draws(count, &mut Draw::new(seed, &["sample", name], 0))
    }

    /// What `prediction.json` says of the volume.
    pub fn json(&self, files: &[String], unit: Option<Unit>) -> Value {
        let rows = self.hypotheses.iter().zip(files).zip(&self.nearest).map(|((one, file), nearest)| {
            let voxels: Vec<u64> =
                (0..self.volume.classes()).map(|class| self.volume.pixels(class, &one.members)).collect();
            let mut row = json!({
                "file": file,
                "probability": one.probability,
                "nearest_share": nearest,
                "voxels": voxels,
                "members": one.members,
            });
            if let Some(unit) = unit {
                row[unit.name] = voxels.iter().map(|&voxels| voxels as f64 * unit.scale).collect();
            }
            row
        });
        let covered: f64 = self.hypotheses.iter().map(|one| one.probability).sum();
        json!({
            "hypotheses": rows.collect::<Vec<_>>(),
            "merge_iou": self.merge_iou,
            "draws": (!self.exact).then_some(DRAWS),
            "remaining_probability": (1.0 - covered).max(0.0),
        })
    }
}
