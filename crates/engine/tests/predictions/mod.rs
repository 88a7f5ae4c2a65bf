//! Predictions by many threads at once, as a server makes them.

use multivalued_engine::{Device, Parameters, Tape, Tensor, Var};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const THREADS: usize = 8;
const PREDICTIONS: usize = 1000;
/// Outputs of an image, and pixels along its sides: 1.25 MiB of logits.
const OUTPUTS: usize = 5;
const SIDE: usize = 256;

/// Eight threads, a thousand predictions each, inside rayon's pool as predictors work. Every logit must be its
/// own thread's, and all must come to an end.
pub fn by_eight_threads(device: &Device) {
    let mut parameters = Parameters::new();
    let weight = parameters.add("weight", Tensor::full(device, [1, 1, 1, 1], 1.0));
    let (parameters, device) = (Arc::new(parameters), device.clone());
    let (done, waiting) = channel();
    for thread in 0..THREADS {
        let (parameters, device, done) = (parameters.clone(), device.clone(), done.clone());
        std::thread::spawn(move || {
            for prediction in 0..PREDICTIONS {
                let value = (thread * 8 + prediction % 8) as f32;
                let logits = rayon::scope(|_| {
                    let tape = Tape::frozen(&parameters);
                    let image = Tensor::full(&device, [1, SIDE, SIDE, 1], value);
                    let features = Var::constant(image).conv2d_logits(&tape.get(weight), None);
                    let codes = Var::constant(Tensor::zeros(&device, [OUTPUTS, 1]));
                    features.add_sample_bias(&codes).tensor().to_vec()
                });
                assert_eq!(logits.len(), OUTPUTS * SIDE * SIDE);
                assert!(logits.iter().all(|&logit| logit == value), "thread {thread}, {prediction}");
            }
            done.send(()).expect("somebody waits");
        });
    }
    drop(done);
    for _ in 0..THREADS {
        waiting.recv_timeout(Duration::from_secs(120)).expect("every thread comes to its end");
    }
}
