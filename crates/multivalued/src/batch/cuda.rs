//! Batches made on a GPU against those made by the processor. Skips where there is no GPU.

use super::{Batch, TrainingSet};
use crate::fixture::{cases, tiny_recipe};
use crate::recipe::Space;
use multivalued_engine::{Device, Precision};

fn gpu() -> Option<Device> {
    Device::cuda(0, Precision::F32).map_err(|error| println!("skipped: {error}")).ok()
}

/// Two steps' batches of images that are not square, or square for quarter turns, on a device.
fn batches(
    changes: &[&str],
    size: [usize; 2],
    channels: usize,
    classes: usize,
    device: &Device,
) -> Vec<Batch> {
    let model = [format!("model.input_channels={channels}"), format!("model.classes={classes}")];
    let model: Vec<&str> = model.iter().map(String::as_str).collect();
    let mut recipe = tiny_recipe(Space::Output, &[&model, changes].concat());
    // None are joined: the processor would join what augmentation has made equal.
    recipe.assignment.same_iou = 2.0;
    let set = TrainingSet::new(cases(6, size, channels, classes), &recipe, device).unwrap();
    let on_gpu = matches!(device, Device::Cuda(_));
    assert_eq!(set.is_resident(), on_gpu, "a GPU keeps the cases whatever the augmentation");
    (0..2).map(|step| set.batch(step, device).unwrap()).collect()
}

#[test]
fn every_augmentation_but_noise_is_the_same_on_a_gpu() {
    let Some(gpu) = gpu() else { return };
    let flips = [
        "augment.flip_horizontal=0.5",
        "augment.flip_vertical=0.5",
        "augment.flip_diagonal=0.5",
        "augment.quarter_turns=true",
    ];
    let motion = ["augment.rotation=40", "augment.scale=0.5"];
    let intensity = ["augment.gain=0.3", "augment.offset=0.2"];
    let all = [&flips[..], &motion, &intensity].concat();
    let z_score = ["data.normalise=\"z-score\""];
    let range = ["data.normalise={ range = { low = -0.1, high = 1.0 } }"];
    let crop = ["augment.crop=[21, 18]"];
    let wide_crop = ["augment.crop=[70, 75]"];
    for changes in [
        vec![],
        flips.to_vec(),
        motion.to_vec(),
        intensity.to_vec(),
        crop.to_vec(),
        all.clone(),
        [&all[..], &crop, &z_score].concat(),
        [&all[..], &wide_crop, &range].concat(),
    ] {
        for (size, channels, classes) in [([33, 33], 1, 1), ([41, 27], 2, 3)] {
            let on = |device| batches(&changes, size, channels, classes, device);
            for (step, (expected, found)) in on(&Device::cpu()).iter().zip(&on(&gpu)).enumerate() {
                let what = format!("{changes:?}, {size:?}, step {step}");
                assert_eq!(found.images.shape(), expected.images.shape(), "{what}");
                assert_eq!((&found.cases, found.per_image), (&expected.cases, expected.per_image), "{what}");
                assert_eq!(found.weights, expected.weights, "{what}");
                let (pixels, expected_pixels) = (found.images.to_vec(), expected.images.to_vec());
                let error =
                    pixels.iter().zip(&expected_pixels).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                let turned = changes.iter().all(|change| flips.contains(change));
                let allowed = if turned { 0.0 } else { 1e-4 };
                assert!(error <= allowed, "{what}: images differ by {error}");
                let (masks, expected_masks) = (found.annotations.to_vec(), expected.annotations.to_vec());
                let different = masks.iter().zip(&expected_masks).filter(|(a, b)| a != b).count();
                let allowed = if turned { 0 } else { masks.len() / 200 };
                assert!(different <= allowed, "{what}: {different} of {} mask values", masks.len());
                // Of masks that may differ in a pixel here and there.
                for (a, b) in found.areas.to_vec().iter().zip(expected.areas.to_vec()) {
                    assert!((a - b).abs() <= 1e-5 * b + different as f32, "{what}: area {a}, not {b}");
                }
            }
        }
    }
}

#[test]
fn noise_on_a_gpu_has_its_deviation_and_repeats() {
    let Some(gpu) = gpu() else { return };
    // The cases' values reach from about −0.2 to 1.2.
    let range = "data.normalise={ range = { low = -2.0, high = 3.0 } }";
    let on = |changes: &[&str]| {
        let batches = batches(changes, [64, 64], 1, 1, &gpu);
        batches.iter().map(|batch| batch.images.to_vec()).collect::<Vec<_>>()
    };
    let (plain, noisy) = (on(&[range, "augment.gain=1e-9"]), on(&[range, "augment.noise=0.1"]));
    assert_eq!(noisy, on(&[range, "augment.noise=0.1"]), "the same again");
    for (step, (plain, noisy)) in plain.iter().zip(&noisy).enumerate() {
        for (image, (plain, noisy)) in
            plain.chunks_exact(64 * 64).zip(noisy.chunks_exact(64 * 64)).enumerate()
        {
            let range =
                plain.iter().fold(f32::MIN, |a, &b| a.max(b)) - plain.iter().fold(f32::MAX, |a, &b| a.min(b));
            let squares: f32 = plain.iter().zip(noisy).map(|(a, b)| ((b - a) / range).powi(2)).sum();
            let deviation = (squares / plain.len() as f32).sqrt();
            assert!((deviation - 0.1).abs() < 0.005, "step {step}, image {image}: {deviation}");
        }
    }
    assert_ne!(noisy[0], noisy[1]);
}
