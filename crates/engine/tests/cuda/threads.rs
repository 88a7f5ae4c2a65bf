//! Predictions by many threads at once; logits; a GPU that is opened twice.

use super::gpu;
use crate::predictions;
use multivalued_engine::{Device, Precision, Tensor, Var};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn eight_threads_predict_at_the_same_time() {
    let Some(device) = gpu(Precision::Bf16) else { return };
    predictions::by_eight_threads(device);
}

#[test]
fn logits_are_f32_whatever_the_number_of_classes() {
    let Some(device) = gpu(Precision::Bf16) else { return };
    // What bf16 would round to 1: a weight that it holds, times inputs that it holds, summed in f32.
    let image = Var::constant(Tensor::from_slice(device, [1, 1, 1, 2], &[1.0, 1.0 / 1024.0]));
    for classes in [1, 4, 5, 8, 33] {
        let weight = Var::constant(Tensor::full(device, [1, 1, 2, classes], 1.0));
        let logits = image.conv2d_logits(&weight, None).tensor().to_vec();
        assert!(logits.iter().all(|&logit| logit == 1.0 + 1.0 / 1024.0), "{classes} classes: {logits:?}");
        let activations = image.conv2d(&weight, None).tensor().to_vec();
        assert!(activations.iter().all(|&value| value == 1.0), "{classes} channels: {activations:?}");
    }
}

#[test]
fn tensors_of_a_gpu_that_was_opened_twice_do_not_meet() {
    let Some(device) = gpu(Precision::Bf16) else { return };
    let again = Device::cuda(0, Precision::Bf16).expect("a GPU that was opened before");
    let [one, other] = [device, &again].map(|device| Var::constant(Tensor::full(device, [4], 1.0)));
    let met = catch_unwind(AssertUnwindSafe(|| one.add(&other)));
    assert!(met.is_err(), "two streams work on them");
    let read = catch_unwind(AssertUnwindSafe(|| Tensor::to_vecs(&[one.tensor(), other.tensor()])));
    assert!(read.is_err(), "two streams work on them");
}
