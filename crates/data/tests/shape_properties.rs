//! What must hold for boundaries and lesions of any masks.

mod sets;

use multivalued_data::Mask;
use multivalued_data::metric::{WeightedMasks, boundary, lesion};
use proptest::prelude::*;
use sets::case;

const WIDTH: usize = 11;
const HEIGHT: usize = 7;

/// Any mask, from empty to full.
fn mask() -> impl Strategy<Value = Mask> {
    (0..5u8, proptest::collection::vec(0..5u8, WIDTH * HEIGHT))
        .prop_map(|(level, values)| Mask::from_fn(WIDTH, HEIGHT, |x, y| values[y * WIDTH + x] < level))
}

fn boundaries(a: &Mask, b: &Mask, spacing: [f64; 2]) -> boundary::Agreement {
    let case = case("any", std::slice::from_ref(a));
    boundary::between(&WeightedMasks::annotations(&case).unwrap(), &[b], spacing, boundary::TOLERANCE)[0][0]
}

fn lesions(a: &Mask, b: &Mask) -> lesion::Matched {
    let case = case("any", std::slice::from_ref(a));
    lesion::between(&WeightedMasks::annotations(&case).unwrap(), &[b])[0][0]
}

/// HD95 and the share within the tolerance, by looking at all pairs of boundary pixels.
fn by_all_pairs(a: &Mask, b: &Mask, spacing: [f64; 2]) -> (f64, f64) {
    let edge = |mask: &Mask| -> Vec<(f64, f64)> {
        let at = |x: i64, y: i64| {
            let inside = (0..WIDTH as i64).contains(&x) && (0..HEIGHT as i64).contains(&y);
            inside && mask.get(0, x as usize, y as usize)
        };
        let all = (0..HEIGHT as i64).flat_map(|y| (0..WIDTH as i64).map(move |x| (x, y)));
        all.filter(|&(x, y)| at(x, y) && !(at(x - 1, y) && at(x + 1, y) && at(x, y - 1) && at(x, y + 1)))
            .map(|(x, y)| (x as f64 * spacing[0], y as f64 * spacing[1]))
            .collect()
    };
    let (of_a, of_b) = (edge(a), edge(b));
    let directed = |from: &[(f64, f64)], to: &[(f64, f64)]| -> Vec<f64> {
        let nearest =
            |p: &(f64, f64)| to.iter().map(|q| (p.0 - q.0).hypot(p.1 - q.1)).fold(f64::INFINITY, f64::min);
        let mut distances: Vec<f64> = from.iter().map(nearest).collect();
        distances.sort_by(f64::total_cmp);
        distances
    };
    let high = |distances: &[f64]| {
        let at = 0.95 * (distances.len() - 1) as f64;
        let (low, next) = (distances[at.floor() as usize], distances[at.ceil() as usize]);
        low + (next - low) * at.fract()
    };
    let (there, back) = (directed(&of_a, &of_b), directed(&of_b, &of_a));
    let all = there.iter().chain(&back);
    let within = all.filter(|distance| **distance <= boundary::TOLERANCE + 1e-9).count();
    (high(&there).max(high(&back)), within as f64 / (there.len() + back.len()) as f64)
}

proptest! {
    #[test]
    fn boundaries_are_those_of_all_pairs(a in mask(), b in mask(), across in 0.3f64..2.0, down in 0.3f64..2.0) {
        let spacing = [across, down];
        let found = boundaries(&a, &b, spacing);
        if a.is_empty() || b.is_empty() {
            prop_assert_eq!(found.hd95, None);
            prop_assert_eq!(found.nsd, f64::from(u8::from(a.is_empty() && b.is_empty())));
        } else {
            let (hd95, nsd) = by_all_pairs(&a, &b, spacing);
            prop_assert!((found.hd95.unwrap() - hd95).abs() < 1e-9 && (found.nsd - nsd).abs() < 1e-9, "{found:?}");
        }
        prop_assert_eq!(boundaries(&b, &a, spacing), found, "neither side comes first");
    }

    #[test]
    fn lesions_are_found_missed_or_invented(a in mask(), b in mask()) {
        let (there, back) = (lesions(&a, &b), lesions(&b, &a));
        prop_assert!(there.found <= there.lesions.min(back.lesions));
        prop_assert_eq!(there.lesions, back.found + back.invented);
        prop_assert_eq!(there.found + there.invented, back.lesions);
        let own = lesions(&a, &a);
        prop_assert_eq!((own.found, own.invented), (own.lesions, 0));
    }
}
