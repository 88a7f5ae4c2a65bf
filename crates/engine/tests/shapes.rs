//! Operands that do not fit are refused by a panic that names both shapes.

use multivalued_engine::{BatchStatistics, Corners, Device, Parameters, Tape, Tensor, Var};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn tensor(shape: &[usize]) -> Tensor {
    Tensor::zeros(&Device::cpu(), shape)
}

fn var(shape: &[usize]) -> Var {
    Var::constant(tensor(shape))
}

/// What a call panics with.
fn complaint(call: impl FnOnce()) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(call)).err()?;
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()))
}

#[test]
fn a_wrong_shape_is_named_with_the_shape_it_should_fit() {
    type Case = (&'static str, Box<dyn FnOnce()>, [&'static str; 2]);
    let image = || var(&[2, 5, 3, 4]);
    let statistics = |mean: usize, variance: usize| BatchStatistics {
        mean: tensor(&[mean]),
        variance: tensor(&[variance]),
    };
    // The call, and what its sentence must contain.
    let cases: Vec<Case> = vec![
        (
            "conv2d: not an image",
            Box::new(|| _ = var(&[2, 5]).conv2d(&var(&[1, 1, 5, 1]), None)),
            ["[2, 5]", "[batch, height, width, channels]"],
        ),
        (
            "conv2d: not a weight",
            Box::new(move || _ = image().conv2d(&var(&[4, 7]), None)),
            ["[4, 7]", "[batch, height, width, channels]"],
        ),
        (
            "conv2d: inputs",
            Box::new(move || _ = image().conv2d(&var(&[3, 3, 5, 6]), None)),
            ["[3, 3, 5, 6]", "[2, 5, 3, 4]"],
        ),
        (
            "conv2d: kernel",
            Box::new(move || _ = image().conv2d(&var(&[5, 5, 4, 6]), None)),
            ["[5, 5, 4, 6]", "[2, 5, 3, 4]"],
        ),
        (
            "conv2d: not square",
            Box::new(move || _ = image().conv2d(&var(&[1, 3, 4, 6]), None)),
            ["[1, 3, 4, 6]", "[2, 5, 3, 4]"],
        ),
        (
            "conv2d: bias",
            Box::new(move || _ = image().conv2d(&var(&[3, 3, 4, 6]), Some(&var(&[4])))),
            ["[4]", "[3, 3, 4, 6]"],
        ),
        (
            "conv2d_relu: inputs",
            Box::new(move || _ = image().conv2d_relu(&var(&[1, 1, 3, 6]), None)),
            ["[1, 1, 3, 6]", "[2, 5, 3, 4]"],
        ),
        (
            "conv2d_add_relu: residual",
            Box::new(move || _ = image().conv2d_add_relu(&var(&[3, 3, 4, 6]), None, &image())),
            ["[2, 5, 3, 4]", "[2, 5, 3, 6]"],
        ),
        (
            "group_norm: scale",
            Box::new(move || _ = image().group_norm(2, &var(&[3]), &var(&[4]), 1e-5)),
            ["[3]", "[2, 5, 3, 4]"],
        ),
        (
            "group_norm: shift",
            Box::new(move || _ = image().group_norm(2, &var(&[4]), &var(&[2, 2]), 1e-5)),
            ["[2, 2]", "[2, 5, 3, 4]"],
        ),
        (
            "group_norm: groups",
            Box::new(move || _ = image().group_norm(3, &var(&[4]), &var(&[4]), 1e-5)),
            ["3 groups", "[2, 5, 3, 4]"],
        ),
        (
            "group_norm_relu: image",
            Box::new(|| _ = var(&[5, 4]).group_norm_relu(2, &var(&[4]), &var(&[4]), 1e-5)),
            ["[5, 4]", "[batch, height, width, channels]"],
        ),
        (
            "group_norm_add_relu: residual",
            Box::new(move || {
                _ = image().group_norm_add_relu(2, &var(&[4]), &var(&[4]), 1e-5, &var(&[2, 5, 3, 1]));
            }),
            ["[2, 5, 3, 1]", "[2, 5, 3, 4]"],
        ),
        ("batch_norm", Box::new(move || _ = image().batch_norm(1e-5)), ["[2, 5, 3, 4]", "[rows, columns]"]),
        (
            "batch_norm_by: mean",
            Box::new(move || _ = var(&[3, 4]).batch_norm_by(&statistics(5, 4), 1e-5)),
            ["[5]", "[3, 4]"],
        ),
        (
            "batch_norm_by: variance",
            Box::new(move || _ = var(&[3, 4]).batch_norm_by(&statistics(4, 5), 1e-5)),
            ["[5]", "[3, 4]"],
        ),
        ("l2_normalise", Box::new(|| _ = var(&[7]).l2_normalise()), ["[7]", "[rows, columns]"]),
        (
            "resize_bilinear: image",
            Box::new(|| _ = var(&[5, 3]).resize_bilinear(2, 2, Corners::Aligned)),
            ["[5, 3]", "[batch, height, width, channels]"],
        ),
        (
            "resize_bilinear: size",
            Box::new(move || _ = image().resize_bilinear(0, 2, Corners::Aligned)),
            ["[2, 5, 3, 4]", "0x2"],
        ),
        (
            "resize_concat: image",
            Box::new(move || _ = image().resize_concat(&var(&[5, 3]), Corners::Aligned)),
            ["[5, 3]", "[batch, height, width, channels]"],
        ),
        (
            "resize_concat: batch",
            Box::new(move || _ = image().resize_concat(&var(&[3, 5, 3, 4]), Corners::Aligned)),
            ["[2, 5, 3, 4]", "[3, 5, 3, 4]"],
        ),
        (
            "resize_concat: size",
            Box::new(move || _ = image().resize_concat(&var(&[2, 0, 3, 4]), Corners::Aligned)),
            ["[2, 5, 3, 4]", "0x3"],
        ),
        (
            "concat_channels",
            Box::new(move || _ = Var::concat_channels(&[&image(), &var(&[2, 3, 5, 4])])),
            ["[2, 5, 3, 4]", "[2, 3, 5, 4]"],
        ),
        ("gather_rows", Box::new(|| _ = var(&[3, 2]).gather_rows(&[0, 3])), ["row 3", "[3, 2]"]),
        ("reshape", Box::new(|| _ = var(&[3, 2]).reshape([5])), ["[3, 2]", "[5]"]),
        (
            "linear: weight",
            Box::new(|| _ = var(&[3, 2]).linear(&var(&[3, 4]), &var(&[4]))),
            ["[3, 2]", "[3, 4]"],
        ),
        ("linear: bias", Box::new(|| _ = var(&[3, 2]).linear(&var(&[2, 4]), &var(&[2]))), ["[2]", "[2, 4]"]),
        ("matmul", Box::new(|| _ = var(&[3, 2]).matmul(&var(&[3, 2]))), ["[3, 2]", "2 columns, 3 rows"]),
        ("transpose", Box::new(|| _ = var(&[7]).transpose()), ["[7]", "[rows, columns]"]),
        (
            "batched_matmul",
            Box::new(|| _ = var(&[6, 2]).batched_matmul(&var(&[9, 4]), 3)),
            ["[6, 2]", "[9, 4]"],
        ),
        (
            "batched_inner_products",
            Box::new(|| _ = var(&[6, 2]).batched_inner_products(&var(&[3, 4]), 3)),
            ["[6, 2]", "[3, 4]"],
        ),
        (
            "batched_inner_products: parts",
            Box::new(|| _ = var(&[7, 2]).batched_inner_products(&var(&[3, 2]), 3)),
            ["[7, 2]", "[3, 2]"],
        ),
        (
            "add_sample_bias",
            Box::new(move || _ = image().add_sample_bias(&var(&[3, 4]))),
            ["[3, 4]", "[2, 5, 3, 4]"],
        ),
        (
            "add_sample_bias_relu",
            Box::new(move || _ = image().add_sample_bias_relu(&var(&[4, 5]))),
            ["[4, 5]", "[2, 5, 3, 4]"],
        ),
        ("softmax", Box::new(|| _ = var(&[7]).softmax()), ["[7]", "[rows, columns]"]),
        ("cross_entropy", Box::new(|| _ = var(&[3, 2]).cross_entropy(&[0, 1])), ["2 classes", "[3, 2]"]),
        ("cross_entropy: class", Box::new(|| _ = var(&[1, 2]).cross_entropy(&[2])), ["class 2", "[1, 2]"]),
        (
            "cross_entropy_soft",
            Box::new(|| _ = var(&[3, 2]).cross_entropy_soft(&tensor(&[2, 3]))),
            ["[3, 2]", "[2, 3]"],
        ),
        (
            "bce_with_logits",
            Box::new(|| _ = var(&[3, 5, 5, 1]).bce_with_logits(&tensor(&[2, 5, 5, 1]))),
            ["[3, 5, 5, 1]", "[2, 5, 5, 1]"],
        ),
        (
            "bce_with_logits: rank",
            Box::new(|| _ = var(&[3, 5]).bce_with_logits(&tensor(&[3]))),
            ["[3, 5]", "[3]"],
        ),
        (
            "bce_with_logits: scalars",
            Box::new(|| _ = var(&[]).bce_with_logits(&tensor(&[]))),
            ["targets of shape []", "logits of shape []"],
        ),
        ("squared_error", Box::new(|| _ = var(&[3, 5]).squared_error(&var(&[5, 3]))), ["[3, 5]", "[5, 3]"]),
        ("sum_rows", Box::new(|| _ = var(&[]).sum_rows()), ["rows", "[]"]),
        (
            "global_average_pool",
            Box::new(|| _ = var(&[3, 5]).global_average_pool()),
            ["[3, 5]", "[batch, height, width, channels]"],
        ),
        ("broadcast_rows", Box::new(|| _ = var(&[3]).broadcast_rows([4, 2])), ["[3]", "[4, 2]"]),
        ("broadcast_rows: axes", Box::new(|| _ = var(&[3, 1]).broadcast_rows([3, 2])), ["[3, 1]", "[3, 2]"]),
        ("broadcast_pixels", Box::new(|| _ = var(&[3]).broadcast_pixels(4, 2)), ["[3]", "[rows, columns]"]),
        ("add", Box::new(|| _ = var(&[3, 5]).add(&var(&[5, 3]))), ["[3, 5]", "[5, 3]"]),
        ("sub", Box::new(|| _ = var(&[3, 5]).sub(&var(&[15]))), ["[3, 5]", "[15]"]),
        ("mul", Box::new(|| _ = var(&[3, 5]).mul(&var(&[3, 5, 1]))), ["[3, 5]", "[3, 5, 1]"]),
        ("div", Box::new(|| _ = var(&[3]).div(&var(&[4]))), ["[3]", "[4]"]),
        ("straight_through", Box::new(|| _ = var(&[3]).straight_through(&var(&[4]))), ["[3]", "[4]"]),
        (
            "from_slice",
            Box::new(|| _ = Tensor::from_slice(&Device::cpu(), [2, 3], &[0.0; 5])),
            ["5 values", "[2, 3]"],
        ),
        ("item", Box::new(|| _ = var(&[2, 3]).item()), ["single value", "[2, 3]"]),
        (
            "backward",
            Box::new(|| _ = Tape::recording(&Parameters::new()).backward(&var(&[2, 3]))),
            ["single value", "[2, 3]"],
        ),
        (
            "set",
            Box::new(|| {
                let mut parameters = Parameters::new();
                let id = parameters.add("p", tensor(&[2, 3]));
                parameters.set(id, tensor(&[3, 2]));
            }),
            ["[2, 3]", "[3, 2]"],
        ),
    ];
    for (name, call, wanted) in cases {
        let text = complaint(call).unwrap_or_else(|| panic!("{name}: was not refused"));
        let sentence = text.lines().next().unwrap_or_default();
        for wanted in wanted {
            assert!(sentence.contains(wanted), "{name}: no {wanted:?} in: {text}");
        }
    }
}

#[test]
fn sizes_whose_product_overflows_are_refused_by_every_operation() {
    type Case = (&'static str, Box<dyn FnOnce()>, [&'static str; 2]);
    const LARGE: usize = 1 << 30;
    let cpu = Device::cpu;
    // Empty tensors need no memory, whatever their other sizes.
    let wide = || var(&[0, LARGE, LARGE, 1]);
    let cases: Vec<Case> = vec![
        (
            "from_slice",
            Box::new(move || _ = Tensor::from_slice(&cpu(), [1, LARGE, LARGE, 16], &[])),
            ["[1, 1073741824, 1073741824, 16]", "at most 2305843009213693951 values"],
        ),
        (
            "full",
            Box::new(move || _ = Tensor::full(&cpu(), [usize::MAX, 2], 0.0)),
            ["[18446744073709551615, 2]", "at most"],
        ),
        (
            "zeros: a size of zero hides nothing",
            Box::new(move || _ = Tensor::zeros(&cpu(), [0, usize::MAX, 2])),
            ["[0, 18446744073709551615, 2]", "at most"],
        ),
        (
            "one axis",
            Box::new(move || _ = Tensor::zeros(&cpu(), [1 << 61])),
            ["[2305843009213693952]", "at most"],
        ),
        ("reshaped", Box::new(|| _ = tensor(&[0]).reshaped([0, LARGE, LARGE, 16])), ["16]", "at most"]),
        ("reshape", Box::new(|| _ = var(&[0]).reshape([LARGE, 0, LARGE, 16])), ["16]", "at most"]),
        (
            "conv2d: 1x1",
            Box::new(move || _ = var(&[1, LARGE, LARGE, 0]).conv2d(&var(&[1, 1, 0, 16]), None)),
            ["[1, 1073741824, 1073741824, 16]", "at most"],
        ),
        (
            "conv2d: 3x3",
            Box::new(move || _ = var(&[1, LARGE, LARGE, 0]).conv2d_relu(&var(&[3, 3, 0, 16]), None)),
            ["[1, 1073741824, 1073741824, 16]", "at most"],
        ),
        (
            "conv2d_logits",
            Box::new(move || _ = var(&[1, LARGE, LARGE, 0]).conv2d_logits(&var(&[3, 3, 0, 16]), None)),
            ["[1, 1073741824, 1073741824, 16]", "at most"],
        ),
        (
            "matmul",
            Box::new(|| _ = var(&[1 << 40, 0]).matmul(&var(&[0, 1 << 40]))),
            ["[1099511627776, 1099511627776]", "at most"],
        ),
        (
            "linear",
            Box::new(|| _ = var(&[1 << 59, 0]).linear(&var(&[0, 4]), &var(&[4]))),
            ["[576460752303423488, 4]", "at most"],
        ),
        (
            "batched_matmul",
            Box::new(|| _ = var(&[1 << 40, 0]).batched_matmul(&var(&[0, 1 << 40]), 2)),
            ["[1099511627776, 1099511627776]", "at most"],
        ),
        (
            "batched_inner_products",
            Box::new(|| _ = var(&[1 << 40, 0]).batched_inner_products(&var(&[1 << 40, 0]), 1)),
            ["1099511627776]", "at most"],
        ),
        (
            "resize_bilinear",
            Box::new(|| _ = var(&[1, 2, 2, 4]).resize_bilinear(LARGE, LARGE, Corners::HalfPixel)),
            ["[1, 1073741824, 1073741824, 4]", "at most"],
        ),
        (
            "resize_bilinear: nothing to resize",
            Box::new(|| _ = var(&[1, 0, 2, 4]).resize_bilinear(4, 4, Corners::HalfPixel)),
            ["[1, 0, 2, 4]", "4x4"],
        ),
        (
            "resize_concat: the product",
            Box::new(move || _ = var(&[0, 2, 2, 2]).resize_concat(&wide(), Corners::HalfPixel)),
            ["[0, 1073741824, 1073741824, 3]", "at most"],
        ),
        (
            "concat_channels: the sum",
            Box::new(|| {
                let image = var(&[0, 1, 1, 1 << 60]);
                _ = Var::concat_channels(&[&image; 16]);
            }),
            ["1152921504606846976", "too many"],
        ),
        (
            "concat_channels: the product",
            Box::new(move || _ = Var::concat_channels(&[&wide(), &wide(), &wide()])),
            ["[0, 1073741824, 1073741824, 3]", "at most"],
        ),
        (
            "gather_rows",
            Box::new(|| _ = var(&[1, 0, LARGE, LARGE]).gather_rows(&[0, 0, 0, 0])),
            ["[4, 0, 1073741824, 1073741824]", "at most"],
        ),
        (
            "add_sample_bias",
            Box::new(|| _ = var(&[1, LARGE, LARGE, 0]).add_sample_bias(&var(&[3, 0]))),
            ["[3, 1073741824, 1073741824, 0]", "at most"],
        ),
    ];
    for (name, call, wanted) in cases {
        let text = complaint(call).unwrap_or_else(|| panic!("{name}: was not refused"));
        for wanted in wanted {
            assert!(text.contains(wanted), "{name}: no {wanted:?} in: {text}");
        }
    }
}

#[test]
fn tensors_without_values_pass_through_the_operations() {
    let parts = [var(&[0, 4, 4, 8]), var(&[0, 4, 4, 8])];
    assert_eq!(*parts[0].conv2d(&var(&[3, 3, 8, 16]), None).shape(), [0, 4, 4, 16]);
    assert_eq!(*parts[0].resize_bilinear(1 << 40, 2, Corners::Aligned).shape(), [0, 1 << 40, 2, 8]);
    assert_eq!(*Var::concat_channels(&[&parts[0], &parts[1]]).shape(), [0, 4, 4, 16]);
    assert_eq!(*parts[0].resize_concat(&var(&[0, 2, 3, 5]), Corners::Aligned).shape(), [0, 2, 3, 13]);
    assert_eq!(*var(&[2, 3, 3, 0]).add_sample_bias(&var(&[4, 0])).shape(), [4, 3, 3, 0]);
    assert_eq!(*var(&[3, 5]).matmul(&var(&[5, 0])).shape(), [3, 0]);
    assert_eq!(var(&[2, 0]).matmul(&var(&[0, 2])).tensor().to_vec(), [0.0; 4]);
}

#[test]
fn operands_of_two_tapes_are_refused() {
    let mut parameters = Parameters::new();
    let id = parameters.add("p", tensor(&[2]));
    let [one, other] = [Tape::recording(&parameters), Tape::recording(&parameters)];
    let text = complaint(|| _ = one.get(id).add(&other.get(id))).expect("a refusal");
    assert!(text.contains("different tapes"), "{text}");
}
