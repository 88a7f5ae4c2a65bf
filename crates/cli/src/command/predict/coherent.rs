//! A volume's slices as whole volumes: the most probable ones, and samples.

use multivalued_data::draw::Draw;
use multivalued_data::volume::coherent::{self, Wanted};
use multivalued_data::volume::{Volume, VolumeHypothesis};
use serde_json::{Value, json};

use super::predicted::Predicted;
use super::sizes::Unit;
use crate::exit::Outcome;
use crate::run::keep::Keep;

/// What a model says of a volume as a whole.
pub struct Coherent(coherent::Coherent);

impl Coherent {
    /// Couples the slices of a volume; none where there is one slice alone.
    pub fn of(slices: &[Predicted], keep: &Keep, name: &str, seed: u64) -> Outcome<Option<Self>> {
        if slices.len() < 2 {
            return Ok(None);
        }
        let wanted = Wanted { most: keep.top.or(keep.list), merge_iou: keep.merge };
        let all = coherent::Coherent::new(slices.len(), |at| slices[at].weighted(), wanted, name, seed)?;
        Ok(Some(Self(all)))
    }

    /// The distribution.
    pub fn volume(&self) -> &Volume {
        &self.0.volume
    }

    /// The most probable first.
    pub fn hypotheses(&self) -> &[VolumeHypothesis] {
        &self.0.hypotheses
    }

    /// Volumes drawn by their probability; the same for the same name and seed.
    pub fn samples(&self, count: usize, name: &str, seed: u64) -> Vec<Vec<usize>> {
        self.0.volume.draws(count, &mut Draw::new(seed, &["sample", name], 0))
    }

    /// What `prediction.json` says of the volume.
    pub fn json(&self, files: &[String], unit: Option<Unit>) -> Value {
        let coherent::Coherent { volume, hypotheses, merge_iou, draws, nearest } = &self.0;
        let rows = hypotheses.iter().zip(files).zip(nearest).map(|((one, file), nearest)| {
            let voxels: Vec<u64> =
                (0..volume.classes()).map(|class| volume.pixels(class, &one.members)).collect();
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
        let covered: f64 = hypotheses.iter().map(|one| one.probability).sum();
        json!({
            "hypotheses": rows.collect::<Vec<_>>(),
            "merge_iou": merge_iou,
            "draws": draws,
            "remaining_probability": (1.0 - covered).max(0.0),
        })
    }
}
