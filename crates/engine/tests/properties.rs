//! Every operation over random shapes, on every instruction set, against its formula in f64 ([`naive`])
//! and the formula's central differences along random directions.
//!
//! The rule: values within 1e-5 of the formula and of the portable kernels' values, gradients within
//! 1e-5 of the portable kernels' gradients; relative to the tensor's largest magnitude, or to 0.1 where
//! all of it is smaller: operands are of the order of one, and a result that cancels to almost nothing
//! (the gradient of a normalisation of two values) cannot be better than its terms. Derivatives along a
//! direction of ±1 within 1e-4 of the gradient's length.

mod cases;
mod close;
mod naive;
mod operation;

use cases::{Call, Numbers, Sizes};
use close::assert_close;
use multivalued_engine::{Device, Isa};
use naive::Array;
use operation::{Gradients, Operation};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const SMALLEST: f64 = 0.1;

/// Multiply-adds a naive convolution may take.
const MOST_WORK: usize = 20_000_000;

fn sizes() -> impl Strategy<Value = Sizes> {
    let size = || select(vec![1, 2, 3, 5, 7, 11, 45]);
    let channels = || select(vec![1, 3, 8, 16, 17, 32, 33, 256]);
    (select(vec![1, 3]), size(), size(), channels(), channels(), 1usize..4, any::<u64>()).prop_map(
        |(batch, height, width, channels, other_channels, repeats, seed)| {
            let mut sizes = Sizes { batch, height, width, channels, other_channels, repeats, seed };
            if batch * height * width * 9 * channels * other_channels > MOST_WORK || channels == 256 {
                (sizes.height, sizes.width) = (height.min(3), width.min(5));
            }
            sizes
        },
    )
}

/// Checks all calls of `family` for `count` random sizes, the same ones in every run.
fn for_random_sizes(count: u32, family: fn(Sizes) -> Vec<Call>) {
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, rng).run(&sizes(), |sizes| {
        family(sizes).iter().for_each(|call| check(call, sizes.seed));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

fn check(call: &Call, seed: u64) {
    let (operation, _) = call;
    let mut numbers = Numbers(seed);
    let operands = cases::draw(call, &mut numbers);
    let exact: Vec<Array> = operands
        .iter()
        .map(|(shape, values)| Array { shape: shape.clone(), values: widened(values) })
        .collect();
    let reference = operation.naive(&exact);
    // No gradient comes from where a relu's input is about zero: rounding decides what it would be.
    let unsure = |&x: &f64| operation.ends_in_relu() && x.abs() < 1e-4;
    let before_relu = operation.naive_before_relu(&exact).values;
    let seed: Vec<f32> = before_relu.iter().map(|x| if unsure(x) { 0.0 } else { numbers.signed() }).collect();
    let slopes = slopes(operation, &exact, &seed, &mut numbers);

    let mut portable: Option<(Vec<f32>, Gradients)> = None;
    for isa in Isa::available() {
        let what = format!("{call:?} on {isa:?}");
        let (shape, out, gradients) = operation.run(&Device::cpu_with(isa), &operands, |_| seed.clone());
        assert_eq!(shape[..], reference.shape[..], "{what}: shape of the output");
        assert_close(&what, &out, &reference.values, 1e-5, SMALLEST);
        if let Some((portable, _)) = &portable {
            assert_close(&what, &out, &widened(portable), 1e-5, SMALLEST);
        }
        for (i, (gradient, slope)) in gradients.iter().zip(&slopes).enumerate() {
            let what = format!("{what}, gradient of operand {i}");
            let Some(slope) = slope else { continue };
            let gradient = gradient.as_ref().unwrap_or_else(|| panic!("{what}: none"));
            slope.assert_follows(&what, gradient, &seed);
            if let Some((_, portable)) = &portable {
                let portable = portable[i].as_ref().expect("a portable gradient");
                assert_close(&what, gradient, &widened(portable), 1e-5, SMALLEST);
            }
        }
        if *operation == Operation::StraightThrough {
            assert_eq!(gradients[0].as_deref(), Some(&seed[..]), "{what}: the gradient passes as it is");
        }
        portable.get_or_insert((out, gradients));
    }
}

fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

/// The derivative of ⟨seed, operation⟩ along a direction of ±1 in one operand.
struct Slope {
    direction: Vec<f64>,
    derivative: f64,
}

impl Slope {
    fn assert_follows(&self, what: &str, gradient: &[f32], seed: &[f32]) {
        assert_eq!(gradient.len(), self.direction.len(), "{what}: another number of values");
        let length = |values: &[f32]| values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        let along: f64 = gradient.iter().zip(&self.direction).map(|(&g, v)| f64::from(g) * v).sum();
        let scale = length(gradient).max(SMALLEST * length(seed));
        let error = (along - self.derivative).abs() / scale;
        assert!(
            error <= 1e-4,
            "{what}: {along} along a direction, not {}: off by {error:.2e}",
            self.derivative
        );
    }
}

/// Central differences of the formula in f64, for each operand that has a gradient.
fn slopes(operation: &Operation, x: &[Array], seed: &[f32], numbers: &mut Numbers) -> Vec<Option<Slope>> {
    const STEP: f64 = 2e-7;
    let differentiable = !matches!(operation, Operation::StraightThrough | Operation::StopGradient);
    (0..x.len())
        .map(|i| {
            if !differentiable || operation.is_constant(i) {
                return None;
            }
            let direction: Vec<f64> =
                x[i].values.iter().map(|_| f64::from(numbers.signed().signum())).collect();
            let moved = |step: f64| {
                let mut x = x.to_vec();
                x[i].values.iter_mut().zip(&direction).for_each(|(x, v)| *x += step * v);
                operation.naive(&x).values
            };
            let (ahead, behind) = (moved(STEP), moved(-STEP));
            let change = ahead.iter().zip(behind).zip(seed).map(|((a, b), &s)| (a - b) * f64::from(s));
            let derivative = change.sum::<f64>() / (2.0 * STEP);
            Some(Slope { direction, derivative })
        })
        .collect()
}

#[test]
fn convolutions_of_any_shape() {
    for_random_sizes(250, cases::convolutions);
}

#[test]
fn convolutions_of_every_pair_of_channel_counts() {
    const CHANNELS: [usize; 7] = [1, 3, 8, 17, 33, 48, 256];
    for (i, channels) in CHANNELS.into_iter().enumerate() {
        for (j, other_channels) in CHANNELS.into_iter().enumerate() {
            let (height, width) = [(1, 1), (2, 1), (1, 2), (3, 5), (5, 2), (2, 2)][(i + 2 * j) % 6];
            let batch = if (i + j) % 2 == 0 { 1 } else { 3 };
            let sizes = Sizes { batch, height, width, channels, other_channels, repeats: 1, seed: 7 };
            cases::convolutions(sizes).iter().for_each(|call| check(call, sizes.seed));
        }
    }
}

#[test]
fn images_of_any_shape() {
    for_random_sizes(250, cases::images);
}

#[test]
fn matrices_of_any_shape() {
    for_random_sizes(250, cases::matrices);
}

#[test]
fn values_of_any_shape() {
    for_random_sizes(100, cases::values);
}

#[test]
fn long_sums_of_equal_values_keep_their_digits() {
    // Rounding errors of equal terms all point one way: a plain running sum would show them.
    let (height, width, channels) = (160, 160, 3);
    let x = (vec![1, height, width, channels], vec![0.1; height * width * channels]);
    let seed = |count| vec![0.1; count];
    let (pixels, tenth) = ((height * width) as f64, f64::from(0.1f32));
    let calls = [
        (Operation::AddSampleBias, vec![x.clone(), (vec![1, channels], vec![0.0; channels])]),
        (
            Operation::Conv2d,
            vec![x.clone(), (vec![1, 1, channels, 1], vec![0.0; channels]), (vec![1], vec![0.0])],
        ),
        (
            Operation::Linear,
            vec![
                (vec![height * width, channels], x.1.clone()),
                (vec![channels, 1], vec![0.0; channels]),
                (vec![1], vec![0.0]),
            ],
        ),
        (
            Operation::GroupNorm { groups: 1, epsilon: 1.0 },
            vec![x.clone(), (vec![channels], vec![0.0; channels]), (vec![channels], vec![0.0; channels])],
        ),
    ];
    for isa in Isa::available() {
        let device = Device::cpu_with(isa);
        for (operation, operands) in &calls {
            let (_, _, gradients) = operation.run(&device, operands, seed);
            let bias = gradients.last().unwrap().as_ref().unwrap();
            let exact = vec![pixels * tenth; bias.len()];
            assert_close(&format!("{operation:?} on {isa:?}, gradient of the bias"), bias, &exact, 1e-5, 0.0);
        }
        let (_, sum, _) = Operation::Sum.run(&device, std::slice::from_ref(&x), seed);
        assert_close("sum", &sum, &[pixels * tenth * channels as f64], 1e-5, 0.0);
    }
}
