//! How large the structures of an image are, as a distribution over its hypotheses.
//!
//! What a model says of a volume's slices are distributions of single slices. Their sum needs an assumption: that
//! whoever draws much in one slice does so in all. The quantile of a sum is then the sum of the quantiles; where
//! slices vary apart from each other, the volume varies less. The mean needs no assumption.

use multivalued_data::Geometry;
use serde_json::{Value, json};

use super::predicted::Predicted;

/// The low and the high end of what is told.
const ENDS: [f64; 2] = [0.05, 0.95];

/// Mean, median, 5 % and 95 % of each class: in pixels, and where the spacing is known in square millimetres, or
/// millilitres where there are several slices.
pub fn of(slices: &[Predicted], geometry: Option<&Geometry>) -> Vec<Value> {
    let classes = slices.first().map_or(0, |slice| slice.all[0].mask.size()[2]);
    // By slice and hypothesis; masks are unpacked once.
    let areas: Vec<Vec<(Vec<usize>, f64)>> = slices.iter().map(areas).collect();
    let unit = geometry.map(|geometry| {
        let [x, y, z] = geometry.spacing.map(f64::from);
        if slices.len() > 1 { ("ml", x * y * z / 1000.0) } else { ("mm2", x * y) }
    });
    let row = |class: usize| {
        let of_class: Vec<Vec<(usize, f64)>> = areas.iter().map(|slice| sorted(slice, class)).collect();
        let at = |level: f64| of_class.iter().map(|slice| quantile(slice, level)).sum();
        let mean = of_class.iter().flatten().map(|(area, share)| *area as f64 * share).sum();
        let numbers: [f64; 4] = [mean, at(0.5), at(ENDS[0]), at(ENDS[1])];
        let told = |scale: f64| {
            let [mean, median, low, high] = numbers.map(|number| number * scale);
            json!({ "mean": mean, "median": median, "low": low, "high": high })
        };
        let mut row = json!({ "class": class + 1, "pixels": told(1.0) });
        if let Some((name, scale)) = unit {
            row[name] = told(scale);
        }
        row
    };
    (0..classes).map(row).collect()
}

/// The areas of each class in each hypothesis, with its share of the probability.
fn areas(slice: &Predicted) -> Vec<(Vec<usize>, f64)> {
    let total: f64 = slice.all.iter().map(|one| f64::from(one.probability)).sum();
    let of = |one: &super::predicted::PackedHypothesis| {
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

/// The smallest area that is not exceeded with this probability.
fn quantile(sorted: &[(usize, f64)], level: f64) -> f64 {
    let mut below = 0.0;
    let reached = sorted.iter().find(|(_, share)| {
        below += share;
        // The shares sum to one but for rounding.
        below >= level - 1e-9
    });
    reached.or(sorted.last()).map_or(0.0, |(area, _)| *area as f64)
}

#[cfg(test)]
mod tests {
    use multivalued_data::{Hypothesis, Mask, Prediction};

    use super::*;

    fn predicted(areas: &[(usize, f32)]) -> Predicted {
        let one = |&(area, probability): &(usize, f32)| Hypothesis {
            mask: Mask::from_fn(10, 10, |x, y| y * 10 + x < area),
            probability,
            code: 0,
        };
        let all = Prediction::stated(areas.iter().map(one).collect());
        Predicted::new(&all, &all, None)
    }

    #[test]
    fn sizes_are_weighted_and_slices_are_added() {
        let geometry = Geometry { spacing: [0.5, 2.0, 10.0], affine: None };
        let first = predicted(&[(20, 0.5), (0, 0.3), (60, 0.2)]);
        let alone = of(&[first], Some(&geometry));
        assert_eq!(alone.len(), 1);
        assert_eq!(
            alone[0]["pixels"],
            json!({"mean": alone[0]["mm2"]["mean"], "median": 20.0, "low": 0.0, "high": 60.0})
        );
        assert!(
            (alone[0]["mm2"]["mean"].as_f64().unwrap() - 22.0).abs() < 1e-4 && alone[0].get("ml").is_none()
        );
        let two =
            of(&[predicted(&[(20, 0.5), (0, 0.3), (60, 0.2)]), predicted(&[(7, 1.0)])], Some(&geometry));
        assert_eq!(two[0]["pixels"]["high"], 67.0);
        assert!((two[0]["ml"]["high"].as_f64().unwrap() - 0.67).abs() < 1e-9 && two[0].get("mm2").is_none());
        let unknown = of(&[predicted(&[(7, 1.0)])], None);
        assert_eq!(unknown[0].as_object().unwrap().len(), 2, "no unit without a spacing");
    }
}
