//! What a recorded step knows of itself: gradients that are masked and accumulated where they are made, and its list
//! of operations.

use multivalued_engine::{Corners, Device, ParameterId, Parameters, Source, Tape, Tensor, Var};

const SHAPE: [usize; 4] = [2, 5, 6, 8];

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1000) as f32 / 500.0 - 1.0).collect()
}

/// Weights of three 3x3 convolutions, a 1x1 one, and a bias.
fn parameters(device: &Device) -> (Parameters, Vec<ParameterId>) {
    let mut parameters = Parameters::new();
    let shapes: [&[usize]; 5] = [&[3, 3, 8, 8], &[3, 3, 8, 8], &[3, 3, 8, 8], &[1, 1, 8, 8], &[8]];
    let add = |(i, shape): (usize, &&[usize])| {
        let values = values(shape.iter().product(), i);
        parameters.add(format!("{i}"), Tensor::from_slice(device, *shape, &values))
    };
    let ids = shapes.iter().enumerate().map(add).collect();
    (parameters, ids)
}

/// Branches that meet again in every way a gradient can: `relu` separates a convolution from its relu, so that the
/// convolution after it can mask nothing.
fn gradients(relu: impl Fn(&Var, &Var, &Var) -> Var) -> Vec<Vec<f32>> {
    let device = Device::cpu();
    let (parameters, ids) = parameters(&device);
    let tape = Tape::recording(&parameters);
    let [a, b, c, skip, bias] = [0, 1, 2, 3, 4].map(|i| tape.get(ids[i]));
    let x = Var::constant(Tensor::from_slice(&device, SHAPE, &values(SHAPE.iter().product(), 9)));
    let x = relu(&x, &a, &bias);
    // Three users: two convolutions and a residual; and one that is no convolution.
    let side = x.conv2d(&skip, None);
    let inner = relu(&relu(&x, &b, &bias), &c, &bias);
    let joined = inner.add(&x).add(&side);
    let small = x.resize_bilinear(3, 3, Corners::HalfPixel);
    let loss = joined.mul(&joined).mean().add(&small.mul(&small).mean());
    let gradients = tape.backward(&loss);
    ids.iter().map(|&id| gradients.get(id).expect("a gradient").to_vec()).collect()
}

#[test]
fn masked_and_accumulated_gradients_are_the_plain_ones() {
    let fused = gradients(|x, weight, bias| x.conv2d_relu(weight, Some(bias)));
    let plain = gradients(|x, weight, bias| {
        // A relu whose result is reshaped there and back is not the operation before the next convolution.
        let y = x.conv2d(weight, Some(bias)).relu();
        y.reshape([y.shape().volume()]).reshape(y.shape())
    });
    assert_eq!(fused, plain, "the same to the bit");
    assert!(fused.iter().all(|gradient| gradient.iter().any(|&g| g != 0.0)));
}

/// A level that is made smaller, enlarged again and joined with itself; `apart` stands between what is resized, or
/// joined, and the relu before it.
fn gradients_of_levels(apart: impl Fn(Var) -> Var, join: impl Fn(&Var, &Var) -> Var) -> Vec<Vec<f32>> {
    let device = Device::cpu();
    let (mut parameters, mut ids) = parameters(&device);
    let wide = values(16 * 8, 5);
    ids.push(parameters.add("wide", Tensor::from_slice(&device, [1, 1, 16, 8], &wide)));
    let tape = Tape::recording(&parameters);
    let [a, b, c, skip, bias, wide] = [0, 1, 2, 3, 4, 5].map(|i| tape.get(ids[i]));
    let x = Var::constant(Tensor::from_slice(&device, SHAPE, &values(SHAPE.iter().product(), 9)));
    let fine = apart(x.conv2d_relu(&a, Some(&bias)));
    let coarse = fine.resize_bilinear(3, 3, Corners::HalfPixel).conv2d_relu(&b, Some(&bias));
    let coarser = apart(coarse.clone()).resize_bilinear(2, 1, Corners::Aligned).conv2d_relu(&c, None);
    let up = join(&apart(coarser), &coarse).conv2d(&wide, None).conv2d_add_relu(&skip, None, &coarse);
    let joined = join(&apart(up), &fine).conv2d(&wide, Some(&bias));
    let gradients = tape.backward(&joined.mul(&joined).mean());
    ids.iter().map(|&id| gradients.get(id).expect("a gradient").to_vec()).collect()
}

#[test]
fn gradients_of_resized_and_joined_images_are_the_plain_ones() {
    let fused = gradients_of_levels(|x| x, |x, beside| x.resize_concat(beside, Corners::HalfPixel));
    let plain = gradients_of_levels(
        |x| x.reshape([x.shape().volume()]).reshape(x.shape()),
        |x, beside| {
            let enlarged = x.resize_bilinear(beside.shape()[1], beside.shape()[2], Corners::HalfPixel);
            let parts = [&enlarged, beside].map(|x| x.reshape([x.shape().volume()]).reshape(x.shape()));
            Var::concat_channels(&[&parts[0], &parts[1]])
        },
    );
    assert_eq!(fused, plain, "the same to the bit");
    assert!(fused.iter().all(|gradient| gradient.iter().any(|&g| g != 0.0)));
}

#[test]
fn a_residual_that_is_the_input_itself_gets_both_gradients() {
    let device = Device::cpu();
    let (parameters, ids) = parameters(&device);
    let run = |separate: bool| {
        let tape = Tape::recording(&parameters);
        let [a, b, _, _, bias] = [0, 1, 2, 3, 4].map(|i| tape.get(ids[i]));
        let x = Var::constant(Tensor::from_slice(&device, SHAPE, &values(SHAPE.iter().product(), 3)));
        let x = x.conv2d_relu(&a, Some(&bias));
        let residual = if separate { x.scale(1.0) } else { x.clone() };
        let y = x.conv2d_add_relu(&b, None, &residual);
        let gradients = tape.backward(&y.mul(&y).sum());
        gradients.get(ids[0]).expect("a gradient").to_vec()
    };
    let (joint, separate) = (run(false), run(true));
    let largest = joint.iter().fold(0.0f32, |largest, g| largest.max(g.abs()));
    assert!(joint.iter().zip(&separate).all(|(a, b)| (a - b).abs() <= 1e-5 * largest));
}

#[test]
fn a_step_is_listed_with_shapes_parameters_and_bytes() {
    let device = Device::cpu();
    let (parameters, ids) = parameters(&device);
    let run = |tape: &Tape| {
        let x = Var::constant(Tensor::from_slice(&device, SHAPE, &values(SHAPE.iter().product(), 3)));
        let x = x.conv2d_relu(&tape.get(ids[0]), Some(&tape.get(ids[4])));
        x.conv2d(&tape.get(ids[3]), None).global_average_pool().scale(2.0).sum()
    };
    let tape = Tape::timed(&parameters);
    let loss = run(&tape);
    let (gradients, listing) = tape.listed(&loss);
    let listed = &listing.operations;
    let names: Vec<&str> = listed.iter().map(|op| op.name.as_str()).collect();
    assert_eq!(names, ["conv 3x3 + bias + relu", "conv 1x1", "mean of pixels", "scale", "sum"]);
    assert_eq!(*listed[0].result, SHAPE);
    assert_eq!(
        listed[0].operands.iter().map(|operand| operand.shape.to_vec()).collect::<Vec<_>>(),
        [SHAPE.to_vec(), vec![3, 3, 8, 8], vec![8]]
    );
    let sources = |op: usize| listed[op].operands.iter().map(|operand| operand.source).collect::<Vec<_>>();
    assert_eq!(sources(0), [Source::Constant, Source::Parameter(ids[0]), Source::Parameter(ids[4])]);
    assert_eq!(sources(1), [Source::Operation(0), Source::Parameter(ids[3])]);
    assert_eq!([2, 3, 4].map(sources), [1, 2, 3].map(|op| vec![Source::Operation(op)]));
    assert_eq!(listed.iter().map(|op| op.parameters).collect::<Vec<_>>(), [584, 64, 0, 0, 0]);
    assert_eq!(listed.iter().map(|op| op.bytes).collect::<Vec<_>>(), [1920, 1920, 64, 64, 4]);
    assert!(listed[0].forward.as_nanos() > 0 && listed[0].backward.as_nanos() > 0);
    let tape = Tape::recording(&parameters);
    let loss = run(&tape);
    let plain = tape.backward(&loss);
    let of = |id| (gradients.get(id).map(Tensor::to_vec), plain.get(id).map(Tensor::to_vec));
    assert!(ids.iter().map(|&id| of(id)).all(|(timed, plain)| timed == plain));
}
