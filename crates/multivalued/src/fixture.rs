//! Small recipes and cases that the crate's tests share.

use crate::recipe::{Recipe, Space};
use multivalued_data::draw::Draw;
use multivalued_data::{Annotation, Case, Image, Mask};

/// A model small enough to train in milliseconds, its settings changed by `table.key=value` lines.
pub(crate) fn tiny_recipe(space: Space, changes: &[&str]) -> Recipe {
    let mut recipe = Recipe::default();
    let own = [
        "model.channels=[4, 8]",
        "model.code_count=8",
        "model.code_dim=8",
        "model.head_width=8",
        "model.classifier_hidden=8",
        "assignment.active_codes=0",
        "train.batch=4",
        "train.epochs=0",
        "train.steps=20",
        "train.warmup_steps=2",
        match space {
            Space::Output => "assignment.space=output",
            Space::Embedding => "assignment.space=embedding",
        },
        match space {
            Space::Output => "assignment.distinct=true",
            Space::Embedding => "assignment.distinct=false",
        },
    ];
    for change in own.iter().chain(changes) {
        recipe.set(change).unwrap();
    }
    recipe.validate().unwrap();
    recipe
}

/// Noisy images with a bright box; their annotations are parts of the box, one to three of them with
/// different weights.
pub(crate) fn cases(count: usize, [width, height]: [usize; 2], channels: usize, classes: usize) -> Vec<Case> {
    (0..count)
        .map(|i| {
            let mut draw = Draw::new(7, &["fixture"], i as u64);
            let (left, top) = (draw.index(width.div_ceil(2)), draw.index(height.div_ceil(2)));
            let (right, bottom) = (left + width.div_ceil(2), top + height.div_ceil(2));
            let inside = |x: usize, y: usize| (left..right).contains(&x) && (top..bottom).contains(&y);
            let pixels = (0..width * height * channels)
                .map(|at| {
                    let (x, y) = (at % width, at / width % height);
                    (f64::from(u8::from(inside(x, y))) + draw.uniform(-0.2, 0.2)) as f32
                })
                .collect();
            let annotations = (0..1 + i % 3)
                .map(|kind| {
                    let part = |x: usize, y: usize| match kind {
                        0 => inside(x, y),
                        1 => inside(x, y) && x < (left + right) / 2,
                        _ => inside(x, y) && y < (top + bottom) / 2,
                    };
                    let mut mask = Mask::empty(width, height, classes);
                    for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                        if part(x, y) {
                            mask.set(x % classes, x, y, true);
                        }
                    }
                    Annotation { mask, rater: None, weight: 1.0 + kind as f32 }
                })
                .collect();
            Case {
                id: format!("case-{i}"),
                group: format!("case-{i}"),
                image: Image::new(width, height, channels, pixels),
                annotations,
                truth: None,
            }
        })
        .collect()
}

/// The values of `reference/method.py`.
pub(crate) fn golden() -> serde_json::Value {
    serde_json::from_str(include_str!("../../../reference/golden/method.json")).unwrap()
}

/// The inputs of `reference/method.py`: `shift + scale · sin(0.7 i + phase)`.
pub(crate) fn wave(count: usize, phase: f64, scale: f64, shift: f64) -> Vec<f32> {
    (0..count).map(|i| (shift + scale * (0.7 * i as f64 + phase).sin()) as f32).collect()
}

/// The masks of `reference/method.py`.
pub(crate) fn golden_masks(rows: usize, size: usize) -> Vec<f32> {
    (0..rows * size).map(|at| f32::from((7 * (at % size) + 5 * (at / size)) % 11 < 4)).collect()
}

/// Compares with a golden list, to a tolerance.
pub(crate) fn assert_close(what: &str, found: &[f32], golden: &serde_json::Value, tolerance: f64) {
    let golden: Vec<f64> = serde_json::from_value(golden.clone()).unwrap();
    assert_eq!(found.len(), golden.len(), "{what}");
    for (i, (found, golden)) in found.iter().zip(&golden).enumerate() {
        let error = (f64::from(*found) - golden).abs();
        assert!(error <= tolerance * golden.abs().max(1.0), "{what} [{i}]: {found}, golden {golden}");
    }
}
