//! What further hypotheses cost: predicting 16 for one 160x160 image against predicting one.
//!
//! `cargo bench -p multivalued --bench hypotheses` prints the ratio and fails above 1.25.

use multivalued::{Network, Predictor, Recipe};
use multivalued_data::Image;
use multivalued_engine::Device;
use std::time::Instant;

const MOST: f64 = 1.25;

fn predictor(min_probability: f32) -> Predictor {
    let mut recipe = Recipe::default(); // the paper's channels, 16 codes
    recipe.predict.min_probability = min_probability;
    // Above 1 nothing is merged: outputs of an untrained model may be equal, and all 16 are to be made.
    recipe.predict.merge_iou = 2.0;
    Predictor::new(Network::new(&recipe, &Device::cpu()).expect("a valid recipe"), &recipe)
}

fn main() {
    let pixels = (0..160 * 160).map(|i| (0.37 * i as f32).sin()).collect();
    let image = Image::new(160, 160, 1, pixels);
    // Untrained, all 16 codes have about 1/16: a threshold of 0 keeps them all, one near 1 a single one.
    let (all, one) = (predictor(0.0), predictor(0.999));
    let time = |predictor: &Predictor| {
        let start = Instant::now();
        let prediction = predictor.predict(&[&image]).expect("one channel, as the model takes");
        (start.elapsed().as_secs_f64(), prediction[0].len())
    };
    time(&all);
    time(&one);
    let (mut of_all, mut of_one) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        of_all.push(time(&all));
        of_one.push(time(&one));
    }
    let least = |times: &[(f64, usize)]| times.iter().map(|(t, _)| *t).fold(f64::INFINITY, f64::min);
    let (a, b) = (least(&of_all), least(&of_one));
    assert_eq!((of_all[0].1, of_one[0].1), (16, 1));
    println!("16 hypotheses: {:.2} ms", 1e3 * a);
    println!("1 hypothesis: {:.2} ms", 1e3 * b);
    println!("ratio {:.3} (at most {MOST})", a / b);
    assert!(a / b <= MOST, "further hypotheses cost too much");
}
