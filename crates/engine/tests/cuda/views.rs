//! Views of images and masks as bits: the GPU against the CPU, of which the plain formulas are tested beside the code.

use super::cases::Numbers;
use super::{error, gpu};
use multivalued_engine::{Device, InverseViews, PackedMasks, Placement, Precision, Tensor};

fn draw(numbers: &mut Numbers, count: usize) -> Vec<f32> {
    (0..count).map(|_| numbers.signed()).collect()
}

/// The turns and mirrors of a square with their ways back.
fn turns(side: usize) -> [Vec<Placement>; 2] {
    let last = side as f64 - 1.0;
    let turn = |matrix: [[f64; 2]; 2]| Placement {
        from: [0, 1].map(|axis| if matrix[axis][0] + matrix[axis][1] < 0.0 { last } else { 0.0 }),
        matrix,
    };
    let signs = [[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]];
    let straight = signs.map(|[a, b]| [[a, 0.0], [0.0, b]]);
    let crossed = signs.map(|[a, b]| [[0.0, a], [b, 0.0]]);
    let all: Vec<[[f64; 2]; 2]> = straight.into_iter().chain(crossed).collect();
    let transposed = |[[a, b], [c, d]]: [[f64; 2]; 2]| [[a, c], [b, d]];
    let there = all.iter().map(|&matrix| turn(matrix)).collect();
    [there, all.iter().map(|&matrix| turn(transposed(matrix))).collect()]
}

/// Turns by any angle, made smaller and larger, so that views show part of an image or more than it.
fn motions(count: usize) -> Vec<Placement> {
    let motion = |i: usize| {
        let ((sin, cos), scale) = ((i as f64 * 0.7).sin_cos(), 0.6 + 0.3 * i as f64);
        let matrix = [[cos * scale, sin * scale], [-sin * scale, cos * scale]];
        Placement { from: [i as f64 * 1.3 - 2.2, 3.1 - i as f64 * 1.7], matrix }
    };
    [Placement::STILL].into_iter().chain((1..count).map(motion)).collect()
}

#[test]
fn turns_and_mirrors_are_moved_and_moved_back_to_the_bit() {
    for (side, channels, repeats) in [(1, 1, 1), (2, 3, 2), (7, 1, 3), (33, 2, 1), (64, 1, 5)] {
        let [there, back] = turns(side);
        let images = draw(&mut Numbers(7), 3 * side * side * channels);
        let outputs = draw(&mut Numbers(9), 3 * 8 * repeats * side * side * channels);
        let run = |device: &Device| {
            let moved = Tensor::from_slice(device, [3, side, side, channels], &images).views(&there);
            let ways = InverseViews { back: &back, views: 0..8, repeats };
            let outputs = Tensor::from_slice(device, [24 * repeats, side, side, channels], &outputs);
            [moved.to_vec(), outputs.mean_of_views(&ways, None).to_vec()]
        };
        let expected = run(&Device::cpu());
        // A view that is moved back is the image, which is what moving back means.
        let moved = Tensor::from_slice(&Device::cpu(), [24, side, side, channels], &expected[0]);
        let mean = moved.mean_of_views(&InverseViews { back: &back, views: 0..8, repeats: 1 }, None).to_vec();
        assert!(error(&mean, &images) < 1e-6);
        for precision in Precision::ALL {
            let Some(device) = gpu(precision) else { return };
            assert_eq!(run(device), expected, "{precision:?}, side {side}");
        }
    }
}

#[test]
fn any_motion_and_any_part_of_the_views_is_that_of_the_cpu() {
    let Some(device) = gpu(Precision::F32) else { return };
    for ([height, width, channels], repeats) in [([9, 9, 1], 2), ([5, 12, 3], 1), ([40, 33, 2], 3)] {
        let ways = motions(6);
        let values = draw(&mut Numbers(3), 2 * height * width * channels);
        let outputs = draw(&mut Numbers(4), 6 * repeats * height * width * channels);
        let run = |device: &Device| {
            let moved = Tensor::from_slice(device, [2, height, width, channels], &values).views(&ways);
            // Views 0, 1 and 2, and 3 to 5 of one image, one part after the other.
            let mut mean = None;
            for views in [0..1, 1..3, 3..6] {
                let size = repeats * height * width * channels;
                let own = &outputs[views.start * size..views.end * size];
                let part = Tensor::from_slice(device, [views.len() * repeats, height, width, channels], own);
                mean = Some(part.mean_of_views(&InverseViews { back: &ways, views, repeats }, mean));
            }
            [moved.to_vec(), mean.unwrap().to_vec()]
        };
        for (found, expected) in run(device).iter().zip(run(&Device::cpu())) {
            assert!(error(found, &expected) < 1e-5, "{height}x{width}: {:.1e}", error(found, &expected));
        }
    }
}

#[test]
fn sums_of_earlier_views_that_others_hold_stay_as_they_are() {
    let Some(device) = gpu(Precision::F32) else { return };
    let before = Tensor::full(device, [1, 2, 2, 1], 3.0);
    let ways = InverseViews { back: &[Placement::STILL; 2], views: 1..2, repeats: 1 };
    let after = Tensor::full(device, [1, 2, 2, 1], 4.0).mean_of_views(&ways, Some(before.clone()));
    assert_eq!((before.to_vec(), after.to_vec()), (vec![3.0; 4], vec![5.0; 4]));
}

#[test]
fn masks_are_packed_as_on_the_cpu() {
    let shapes =
        [[1, 1, 1, 1], [3, 7, 10, 1], [2, 128, 128, 1], [5, 9, 11, 4], [1, 33, 70, 2], [70, 16, 4, 3]];
    for precision in Precision::ALL {
        let Some(device) = gpu(precision) else { return };
        for shape in shapes {
            let mut values = draw(&mut Numbers(shape[1] as u64), shape.iter().product());
            // Equals, and the border between inside and outside.
            values.iter_mut().step_by(5).for_each(|value| *value = 0.0);
            let packed = |device: &Device, values: &[f32]| {
                PackedMasks::words(&[Tensor::from_slice(device, shape, values).pack_masks()])
            };
            let expected = packed(&Device::cpu(), &values);
            assert!(expected.is_some());
            assert_eq!(packed(device, &values), expected, "{precision:?} {shape:?}");
            // Every other mask would be empty: its classes are far below no class.
            let each = values.len() / shape[0];
            let mut low = values.clone();
            for (at, value) in low.iter_mut().enumerate().filter(|(at, _)| (at / each).is_multiple_of(2)) {
                *value -= if shape[3] == 1 || at % shape[3] > 0 { 20.0 } else { 0.0 };
            }
            let shown = |device: &Device| {
                PackedMasks::words(&[Tensor::from_slice(device, shape, &low).pack_masks_with_pixels()])
                    .unwrap()
            };
            let words = shown(&Device::cpu());
            assert!(words[0].chunks(words[0].len() / shape[0]).all(|mask| mask.iter().any(|&word| word > 0)));
            assert_eq!(shown(device), words, "{precision:?} {shape:?}");
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let last = values.len() - 1;
                values[last] = bad;
                assert_eq!(packed(device, &values), None, "{bad} in {shape:?}");
            }
        }
    }
}

#[test]
fn masks_of_several_turns_are_read_together() {
    let Some(device) = gpu(Precision::F32) else { return };
    let masks = |device: &Device| {
        [2, 5].map(|count| {
            let values = draw(&mut Numbers(count as u64), count * 9 * 9);
            Tensor::from_slice(device, [count, 9, 9, 1], &values).pack_masks()
        })
    };
    assert_eq!(PackedMasks::words(&masks(device)), PackedMasks::words(&masks(&Device::cpu())));
}
