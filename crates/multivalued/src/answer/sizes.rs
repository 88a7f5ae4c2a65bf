//! How large the structures of an image are, as a distribution over its hypotheses.
//!
//! Those of a volume are summed along the chain of its coupled slices (`multivalued_data::volume`): a reader who draws
//! much in one slice is taken for one who does so in the next, as far as the slices' own probabilities allow.

use super::{PackedHypothesis, Predicted};
use multivalued_data::Geometry;
use multivalued_data::metric::area::quantile;
use multivalued_data::volume::Volume;
use serde_json::{Value, json};

/// The low and the high end of what is told.
const ENDS: [f64; 2] = [0.05, 0.95];

/// What sizes are told in beside pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// "ml" or "mm2".
    pub name: &'static str,
    /// How much a pixel is.
    pub scale: f64,
}

impl Unit {
    /// Millilitres of a volume, square millimetres of an image; none where the spacing is not known.
    pub fn of(geometry: Option<&Geometry>, slices: usize) -> Option<Self> {
        let [x, y, z] = geometry?.spacing.map(f64::from);
        let (name, scale) = if slices > 1 { ("ml", x * y * z / 1000.0) } else { ("mm2", x * y) };
        Some(Self { name, scale })
    }
}

/// The size of one class, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    mean: f64,
    median: f64,
    low: f64,
    high: f64,
}

impl Size {
    fn json(&self, scale: f64) -> Value {
        let [mean, median, low, high] =
            [self.mean, self.median, self.low, self.high].map(|number| number * scale);
        json!({ "mean": mean, "median": median, "low": low, "high": high })
    }
}

/// Mean, median, 5 % and 95 % of each class; of a volume over the chain of its slices.
pub fn of(slices: &[Predicted], volume: Option<&Volume>) -> Vec<Size> {
    if let Some(volume) = volume {
        let row = |class: usize| {
            let size = volume.size(class);
            let at = |level: f64| size.quantile(level);
            Size { mean: size.mean(), median: at(0.5), low: at(ENDS[0]), high: at(ENDS[1]) }
        };
        return (0..volume.classes()).map(row).collect();
    }
    // Masks are unpacked once.
    let areas = areas(&slices[0]);
    let row = |class: usize| {
        let sorted = sorted(&areas, class);
        let at = |level: f64| quantile(&sorted, level);
        let mean = sorted.iter().map(|(area, share)| *area as f64 * share).sum();
        Size { mean, median: at(0.5), low: at(ENDS[0]), high: at(ENDS[1]) }
    };
    (0..slices[0].all[0].mask.size()[2]).map(row).collect()
}

/// As `prediction.json` has them.
pub fn json(sizes: &[Size], unit: Option<Unit>) -> Vec<Value> {
    let row = |(class, size): (usize, &Size)| {
        let mut row = json!({ "class": class + 1, "pixels": size.json(1.0) });
        if let Some(Unit { name, scale }) = unit {
            row[name] = size.json(scale);
        }
        row
    };
    sizes.iter().enumerate().map(row).collect()
}

/// For people: "2.1 ml, 90 %: 1.4 to 3.0", the median first.
pub fn in_words(sizes: &[Size], unit: Option<Unit>) -> String {
    let unit = unit.unwrap_or(Unit { name: "voxels", scale: 1.0 });
    let several = sizes.len() > 1;
    let one = |(class, size): (usize, &Size)| {
        let [median, low, high] = [size.median, size.low, size.high].map(|number| number * unit.scale);
        // Two digits that count, of the largest of the three.
        let digits = (1.0 - high.max(1e-6).log10().floor()).clamp(0.0, 6.0) as usize;
        let class = if several { format!("class {}: ", class + 1) } else { String::new() };
        format!("{class}{median:.digits$} {}, 90 %: {low:.digits$} to {high:.digits$}", unit.name)
    };
    sizes.iter().enumerate().map(one).collect::<Vec<_>>().join("; ")
}

/// The areas of each class in each hypothesis, with its share of the probability.
fn areas(slice: &Predicted) -> Vec<(Vec<usize>, f64)> {
    let total: f64 = slice.all.iter().map(|one| f64::from(one.probability)).sum();
    let of = |one: &PackedHypothesis| {
        let mask = one.mask.mask();
        let areas = (0..mask.classes()).map(|class| mask.area(class)).collect();
        (areas, f64::from(one.probability) / total)
    };
    slice.all.iter().map(of).collect()
}

fn sorted(slice: &[(Vec<usize>, f64)], class: usize) -> Vec<(usize, f64)> {
    let mut sorted: Vec<_> = slice.iter().map(|(areas, share)| (areas[class], *share)).collect();
    sorted.sort_by_key(|(area, _)| *area);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_data::{Hypothesis, Mask, Prediction};

    fn predicted(areas: &[(usize, f32)]) -> Predicted {
        let one = |&(area, probability): &(usize, f32)| Hypothesis {
            mask: Mask::from_fn(10, 10, |x, y| y * 10 + x < area),
            probability,
            code: 0,
        };
        let all = Prediction::stated(areas.iter().map(one).collect());
        Predicted::new(&all, &all, None)
    }

    fn of_one(areas: &[(usize, f32)], geometry: Option<&Geometry>) -> Vec<Value> {
        json(&of(&[predicted(areas)], None), Unit::of(geometry, 1))
    }

    #[test]
    fn sizes_are_weighted_by_probability() {
        let geometry = Geometry { spacing: [0.5, 2.0, 10.0], affine: None };
        let alone = of_one(&[(20, 0.5), (0, 0.3), (60, 0.2)], Some(&geometry));
        assert_eq!(alone.len(), 1);
        let mean = alone[0]["mm2"]["mean"].as_f64().unwrap();
        assert_eq!(alone[0]["pixels"], json!({"mean": mean, "median": 20.0, "low": 0.0, "high": 60.0}));
        assert!((mean - 22.0).abs() < 1e-4 && alone[0].get("ml").is_none());
        let unknown = of_one(&[(7, 1.0)], None);
        assert_eq!(unknown[0].as_object().unwrap().len(), 2, "no unit without a spacing");
    }

    #[test]
    fn a_volume_is_summed_along_its_slices() {
        let geometry = Geometry { spacing: [0.5, 2.0, 10.0], affine: None };
        let slices = [predicted(&[(20, 0.5), (0, 0.3), (60, 0.2)]), predicted(&[(30, 0.7), (0, 0.3)])];
        let volume = Volume::new(2, |at| slices[at].weighted()).unwrap();
        let sizes = of(&slices, Some(&volume));
        let told = &json(&sizes, Unit::of(Some(&geometry), 2))[0];
        // Who draws nothing in one slice does so in the other.
        let pixels = json!({"mean": told["pixels"]["mean"], "median": 50.0, "low": 0.0, "high": 90.0});
        assert_eq!(told["pixels"], pixels);
        assert!((told["pixels"]["mean"].as_f64().unwrap() - 43.0).abs() < 1e-4);
        assert!((told["ml"]["high"].as_f64().unwrap() - 0.9).abs() < 1e-9 && told.get("mm2").is_none());
        assert_eq!(in_words(&sizes, Unit::of(Some(&geometry), 2)), "0.50 ml, 90 %: 0.00 to 0.90");
        assert_eq!(in_words(&sizes, None), "50 voxels, 90 %: 0 to 90");
    }
}
