//! A volume's slices as whole volumes: the most probable ones, and samples.

use super::{Keep, Predicted, Unit};
use crate::Result;
use multivalued_data::draw::Draw;
use multivalued_data::volume::coherent::{self, Wanted};
use serde_json::{Value, json};
use std::ops::Deref;

/// What a model says of a volume as a whole.
pub struct Coherent(coherent::Coherent);

impl Deref for Coherent {
    type Target = coherent::Coherent;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Coherent {
    /// Couples the slices of a volume; none where there is one slice alone.
    pub fn of(slices: &[Predicted], keep: &Keep, name: &str, seed: u64) -> Result<Option<Self>> {
        if slices.len() < 2 {
            return Ok(None);
        }
        let wanted = Wanted { most: keep.top.or(keep.list), merge_iou: keep.merge };
        let all = coherent::Coherent::new(slices.len(), |at| slices[at].weighted(), wanted, name, seed)?;
        Ok(Some(Self(all)))
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
            "draws": self.draws,
            "remaining_probability": (1.0 - covered).max(0.0),
        })
    }
}
