//! Results do not depend on the number of threads: every operation, forwards and backwards, and Adam
//! give the same bits on pools of one, two and three threads.

mod cases;
mod close;
mod operation;
mod predictions;

use cases::{Call, Numbers, Sizes};
use multivalued_engine::{Adam, AdamOptions, Device, Isa, Parameters, Tape, Tensor, Var};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// One thread, then two (twice: who takes which task differs from run to run), then three.
fn pools() -> Vec<ThreadPool> {
    [1, 2, 2, 3]
        .map(|count| ThreadPoolBuilder::new().num_threads(count).build().expect("a thread pool"))
        .into()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn assert_same_on_all(pools: &[ThreadPool], call: &Call) {
    let (operation, _) = call;
    for isa in Isa::available() {
        let on = |pool: &ThreadPool| {
            pool.install(|| {
                let mut numbers = Numbers(11);
                let operands = cases::draw(call, &mut numbers);
                let seed = |count| (0..count).map(|_| numbers.signed()).collect();
                let (_, out, gradients) = operation.run(&Device::cpu_with(isa), &operands, seed);
                let gradients: Vec<_> = gradients.iter().flatten().map(|gradient| bits(gradient)).collect();
                (bits(&out), gradients)
            })
        };
        let first = on(&pools[0]);
        for pool in &pools[1..] {
            let count = pool.current_num_threads();
            let other = on(pool);
            assert!(first.0 == other.0, "{call:?} on {isa:?}: values differ on {count} threads");
            assert!(first.1 == other.1, "{call:?} on {isa:?}: gradients differ on {count} threads");
        }
    }
}

#[test]
fn operations_on_images() {
    let pools = pools();
    // Direct and Winograd's convolutions, each large enough for several tasks.
    for (channels, other_channels) in [(3, 17), (33, 8), (16, 16), (32, 64)] {
        let sizes = Sizes { batch: 3, height: 45, width: 45, channels, other_channels, repeats: 3, seed: 5 };
        for call in [cases::convolutions(sizes), cases::images(sizes), cases::values(sizes)].concat() {
            assert_same_on_all(&pools, &call);
        }
    }
}

#[test]
fn operations_on_matrices() {
    let pools = pools();
    for (height, channels, other_channels) in [(1500, 33, 17), (900, 8, 64), (5, 256, 256)] {
        let sizes = Sizes { batch: 3, height, width: 1, channels, other_channels, repeats: 3, seed: 6 };
        for call in cases::matrices(sizes) {
            assert_same_on_all(&pools, &call);
        }
    }
}

/// The head's layers in one: what they give, and the gradients of all operands.
fn layers(device: &Device, widths: &[usize], in_one: bool) -> (Vec<f32>, Vec<Vec<f32>>) {
    let (batch, repeats, mut numbers) = (3, 4, Numbers(8));
    let mut parameters = Parameters::new();
    let mut add = |shape: &[usize]| {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| numbers.signed()).collect();
        parameters.add(format!("{}", numbers.0), Tensor::from_slice(device, shape, &values))
    };
    let mut ids = vec![add(&[batch, 23, 31, widths[0]]), add(&[batch * repeats, widths[0]])];
    for pair in widths.windows(2) {
        ids.extend([add(&[1, 1, pair[0], pair[1]]), add(&[pair[1]])]);
    }
    let tape = Tape::recording(&parameters);
    let x: Vec<Var> = ids.iter().map(|&id| tape.get(id)).collect();
    let pairs: Vec<[&Var; 2]> = x[2..].chunks_exact(2).map(|pair| [&pair[0], &pair[1]]).collect();
    let out = if in_one {
        x[0].pixel_layers(&x[1], &pairs)
    } else {
        let (last, hidden) = pairs.split_last().expect("a layer");
        let first = x[0].add_sample_bias_relu(&x[1]);
        let given = hidden.iter().fold(first, |x, [weight, bias]| x.conv2d_relu(weight, Some(bias)));
        given.conv2d_logits(last[0], Some(last[1]))
    };
    let values = out.tensor().to_vec();
    let seed: Vec<f32> = values.iter().map(|_| numbers.signed()).collect();
    let seed = Var::constant(Tensor::from_slice(device, out.shape(), &seed));
    let gradients = tape.backward(&out.mul(&seed).mean());
    (values, ids.iter().map(|&id| gradients.get(id).expect("a gradient").to_vec()).collect())
}

#[test]
fn layers_in_one_are_the_layers_one_by_one() {
    let pools = pools();
    for widths in
        [&[16, 16, 1][..], &[16, 16, 3], &[8, 1], &[5, 17, 33, 2], &[32, 1, 16, 16, 1], &[200, 120, 9]]
    {
        for isa in Isa::available() {
            let what = format!("{widths:?} on {isa:?}");
            let device = Device::cpu_with(isa);
            let (values, gradients) = pools[0].install(|| layers(&device, widths, true));
            let (expected, expected_gradients) = layers(&device, widths, false);
            assert!(bits(&values) == bits(&expected), "{what}: values");
            for (i, (gradient, expected)) in gradients.iter().zip(&expected_gradients).enumerate() {
                let expected: Vec<f64> = expected.iter().map(|&value| f64::from(value)).collect();
                close::assert_close(&format!("{what}: operand {i}"), gradient, &expected, 1e-5, 1e-3);
            }
            for pool in &pools[1..] {
                let (_, others) = pool.install(|| layers(&device, widths, true));
                let same = gradients.iter().zip(&others).all(|(a, b)| bits(a) == bits(b));
                assert!(same, "{what} on {} threads", pool.current_num_threads());
            }
        }
    }
}

#[test]
fn adam() {
    let train = || {
        let device = Device::cpu();
        let mut numbers = Numbers(3);
        let mut draw = |shape: [usize; 2]| {
            let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| numbers.signed()).collect();
            Tensor::from_slice(&device, shape, &values)
        };
        let (x, mut parameters) = (Var::constant(draw([300, 150])), Parameters::new());
        let weight = parameters.add("weight", draw([150, 400]));
        let mut adam = Adam::new(&parameters, AdamOptions { clip_norm: Some(0.1), ..AdamOptions::default() });
        for _ in 0..3 {
            let tape = Tape::recording(&parameters);
            let y = x.matmul(&tape.get(weight));
            let loss = y.mul(&y).mean();
            let gradients = tape.backward(&loss);
            adam.step(&mut parameters, &gradients, 0.1);
        }
        bits(&parameters.get(weight).tensor().to_vec())
    };
    let pools = pools();
    let first = pools[0].install(train);
    for pool in &pools[1..] {
        assert!(first == pool.install(train), "{} threads", pool.current_num_threads());
    }
}

#[test]
fn eight_threads_predict_at_the_same_time() {
    predictions::by_eight_threads(&Device::cpu());
}
