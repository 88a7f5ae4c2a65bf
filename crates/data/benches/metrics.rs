//! Speed of the metrics: exact GED of 4 labels against 256 hypotheses on one core, and everything for the
//! LIDC test set, or where it is not beside the checkout for a set of its size.
//!
//! `cargo bench -p multivalued-data --bench metrics`

use std::collections::HashSet;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use multivalued_data::dataset::{Dataset, Options};
use multivalued_data::draw::Draw;
use multivalued_data::evaluate::{Settings, evaluate};
use multivalued_data::metric::{Comparison, Overlaps, Side, ged};
use multivalued_data::{Annotation, Case, Hypothesis, Image, Mask, Prediction};
use rayon::prelude::*;

#[path = "../tests/files/archive.rs"]
mod archive;

const SIZE: usize = 128;

/// A nodule: an ellipse of 4 to 30 pixels radius near the centre with a wavy margin.
fn blob(random: &mut Draw) -> Mask {
    let mut between = |low: f64, high: f64| random.uniform(low, high);
    let (cx, cy) = (between(54.0, 74.0), between(54.0, 74.0));
    let (rx, ry) = (between(4.0, 30.0), between(4.0, 30.0));
    let (waves, depth, phase) = (between(3.0, 7.0).floor(), between(0.0, 0.2), between(0.0, 6.3));
    Mask::from_fn(SIZE, SIZE, |x, y| {
        let (dx, dy) = ((x as f64 - cx) / rx, (y as f64 - cy) / ry);
        dx.hypot(dy) <= 1.0 + depth * (waves * dy.atan2(dx) + phase).sin()
    })
}

/// The worst case: every word of every mask is different.
fn noise(random: &mut Draw) -> Mask {
    Mask::from_fn(SIZE, SIZE, |_, _| random.chance(0.5))
}

/// 4 labels and then 256 hypotheses, all different.
fn four_and_256(mask: fn(&mut Draw) -> Mask) -> Vec<Mask> {
    let random = &mut Draw::new(7, &["benchmark"], 0);
    let mut seen = HashSet::new();
    let masks: Vec<Mask> =
        std::iter::repeat_with(|| mask(random)).filter(|mask| seen.insert(mask.clone())).take(260).collect();
    assert_eq!(masks.len(), 260);
    masks
}

fn exact_ged(criterion: &mut Criterion) {
    for (name, mask) in [("blobs", blob as fn(&mut Draw) -> Mask), ("noise", noise)] {
        let masks = four_and_256(mask);
        let all: Vec<&Mask> = masks.iter().collect();
        let q = [0.25; 4];
        let p: Vec<f64> = (0..256).map(|j| f64::from(256 - j) / 32896.0).collect();
        criterion.bench_function(&format!("exact GED, 4 x 256 {name}, one core"), |bencher| {
            bencher.iter(|| {
                let overlaps = Overlaps::among("benchmark", black_box(&all)).unwrap();
                ged::energy(&overlaps, Side { first: 0, weights: &q }, Side { first: 4, weights: &p })
            });
        });
    }
}

fn case(index: usize) -> (Case, Prediction) {
    let random = &mut Draw::new(11, &["benchmark"], index as u64);
    let mask = |random: &mut Draw| {
        if random.chance(0.2) { Mask::empty(SIZE, SIZE, 1) } else { blob(random) }
    };
    let annotations = (0..4).map(|_| Annotation { mask: mask(random), rater: None, weight: 1.0 }).collect();
    let weights: Vec<f64> = (0..16).map(|_| -random.unit().max(1e-9).ln()).collect();
    let sum: f64 = weights.iter().sum();
    let hypotheses = weights.iter().enumerate().map(|(code, weight)| Hypothesis {
        mask: mask(random),
        probability: (weight / sum) as f32,
        code,
    });
    let case = Case {
        id: format!("slice-{index}"),
        group: format!("patient-{}", index / 16),
        image: Image::new(1, 1, 1, vec![0.0]),
        annotations,
        truth: None,
    };
    (case, Prediction::stated(hypotheses.collect()))
}

fn whole_test_set(criterion: &mut Criterion) {
    let (name, cases, predictions) = match archive::unpacked(&["lidc-test"]) {
        Some(folder) => {
            let cases = Dataset::open(folder.path(), &Options::default()).unwrap().load().unwrap();
            let predictions = cases.par_iter().map(archive::sixteen_outputs).collect();
            ("LIDC test set", cases, predictions)
        }
        None => {
            let (cases, predictions): (Vec<Case>, Vec<Prediction>) = (0..3196).map(case).unzip();
            ("3,196 images", cases, predictions)
        }
    };
    let mut group = criterion.benchmark_group("all metrics");
    group.sample_size(10);
    for (details, what) in [(true, ""), (false, ", without details")] {
        let settings = Settings { details, ..Settings::new("benchmark") };
        group.bench_function(format!("{name}, 4 labels, 16 hypotheses, 1,000 resamples{what}"), |bencher| {
            bencher.iter(|| evaluate(&cases, &predictions, &settings).unwrap());
        });
    }
    group.finish();
}

fn one_comparison(criterion: &mut Criterion) {
    let (case, prediction) = case(1);
    criterion.bench_function("one comparison, 4 x 16 blobs", |bencher| {
        bencher.iter(|| Comparison::new(black_box(&case), black_box(&prediction)).unwrap());
    });
}

criterion_group!(metrics, exact_ged, one_comparison, whole_test_set);
criterion_main!(metrics);
