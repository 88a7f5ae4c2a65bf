//! Without gradients nothing is kept: a deep chain needs its parameters and two buffers.

use multivalued_engine::{Device, ParameterId, Parameters, Tape, Tensor, Var};

const DEPTH: usize = 24;
const SHAPE: [usize; 4] = [1, 32, 32, 16];
const BUFFER: usize = 32 * 32 * 16 * 4;

/// Runs a chain of convolutions and gives the most memory its tensors took at once, in buffers of one
/// layer, beside the parameters.
fn buffers_of_a_chain(open: fn(&Parameters) -> Tape) -> f64 {
    let device = Device::cpu();
    let mut parameters = Parameters::new();
    let weights: Vec<ParameterId> = (0..DEPTH)
        .map(|i| parameters.add(format!("{i}"), Tensor::full(&device, [3, 3, 16, 16], 0.01)))
        .collect();
    let before = device.peak_bytes();
    let tape = open(&parameters);
    let mut x = Var::constant(Tensor::full(&device, SHAPE, 1.0));
    for &weight in &weights {
        x = x.conv2d_relu(&tape.get(weight), None);
    }
    assert!(x.sum().item() > 0.0);
    (device.peak_bytes() - before) as f64 / BUFFER as f64
}

#[test]
fn prediction_keeps_two_buffers_and_training_one_per_layer() {
    let predicting = buffers_of_a_chain(Tape::frozen);
    assert!((2.0..2.1).contains(&predicting), "{predicting} buffers for {DEPTH} layers");
    let training = buffers_of_a_chain(Tape::recording);
    assert!(training >= DEPTH as f64, "{training} buffers for {DEPTH} layers with gradients");
}
