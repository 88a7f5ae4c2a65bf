//! The kernels on buffers of exactly the size they are told, of every small shape: what a memory
//! checker should see (`docs/results.md` says which ones did). Tensors' buffers are rounded up to cache
//! lines and would hide a read past the end. Instruction sets are compared with portable on the way.

use super::conv;
use super::elementwise;
use super::simd::Isa;
use super::{matmul, norm, resize};
use crate::backend::shapes::Corners;
use crate::backend::{Channels, ConvShape, Epilogue, NormShape, ResizeShape};

/// Reproducible values between -1 and 1, in a buffer without spare room.
fn values(len: usize) -> Vec<f32> {
    let mut state = len as u32;
    let values: Box<[f32]> = (0..len)
        .map(|_| {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    values.into_vec()
}

/// Runs `kernel` on every instruction set and compares what it wrote with what portable wrote.
fn compare(what: &dyn std::fmt::Debug, kernel: impl Fn(Isa) -> Vec<Vec<f32>>) {
    let portable = kernel(Isa::PORTABLE);
    for isa in Isa::available() {
        let outputs = kernel(isa);
        assert_eq!(outputs.len(), portable.len());
        for (output, portable) in outputs.iter().zip(&portable) {
            let largest = portable.iter().fold(0.1f32, |largest, value| value.abs().max(largest));
            for (a, b) in output.iter().zip(portable) {
                assert!((a - b).abs() <= 1e-5 * largest, "{what:?} on {isa:?}: {a} is not {b}");
            }
        }
    }
}

/// One pixel has values, and only its neighbour to the right a gradient: of nine taps, one has a gradient.
#[test]
fn taps_without_a_gradient_get_none_and_what_is_no_number_stays_so() {
    let (inputs, outputs) = (16, 16);
    let shape = ConvShape { batch: 2, height: 9, width: 8, inputs, outputs, kernel: 3 };
    let at = |y: usize, x: usize| (y * shape.width + x) * inputs..(y * shape.width + x + 1) * inputs;
    let (mut x, mut dy) = (vec![0.0; shape.pixels() * inputs], vec![0.0; shape.pixels() * outputs]);
    x[at(3, 3)].copy_from_slice(&values(inputs));
    dy[at(3, 4)].copy_from_slice(&values(outputs));
    for isa in Isa::available() {
        let gradient = |x: &[f32]| {
            let mut dw = vec![1.0; 9 * inputs * outputs];
            conv::weight_gradient(isa, shape, x, &dy, &mut dw, None);
            dw
        };
        for (tap, dw) in gradient(&x).chunks_exact(inputs * outputs).enumerate() {
            assert_eq!(dw.iter().any(|&value| value != 0.0), tap == 3, "tap {tap} on {isa:?}");
        }
        for wrong in [f32::NAN, f32::INFINITY] {
            let mut x = x.clone();
            x[at(3, 3)].fill(wrong);
            assert!(gradient(&x)[3 * inputs * outputs..][..outputs].iter().all(|value| !value.is_finite()));
        }
    }
}

#[test]
fn convolutions_stay_inside_their_buffers() {
    let channels = [1, 3, 8, 16, 17, 24, 32];
    for (i, inputs) in channels.into_iter().enumerate() {
        for (j, outputs) in channels.into_iter().enumerate() {
            for kernel in [1, 3] {
                let (height, width) = [(1, 1), (2, 3), (5, 1), (3, 7), (6, 4)][(i + 2 * j) % 5];
                let shape = ConvShape { batch: 1 + (i + j) % 2, height, width, inputs, outputs, kernel };
                let (x, weights) =
                    (values(shape.pixels() * inputs), values(kernel * kernel * inputs * outputs));
                let (bias, residual) = (values(outputs), values(shape.pixels() * outputs));
                let epilogue = Epilogue::<[f32]> {
                    bias: Some(&bias),
                    residual: Some(&residual),
                    relu: true,
                    mask: None,
                };
                let before = values(x.len());
                compare(&shape, |isa| {
                    let mut out = values(residual.len());
                    conv::forward(isa, shape, &x, &weights, epilogue, &mut out);
                    let (mut dx, mut dw, mut db) = (values(x.len()), values(weights.len()), values(outputs));
                    let masked =
                        Epilogue::<[f32]> { residual: Some(&before), mask: Some(&x), ..Epilogue::NONE };
                    let back = shape.reversed();
                    conv::flipped_forward(isa, back, &residual, &weights, masked, &mut dx);
                    conv::weight_gradient(isa, shape, &x, &residual, &mut dw, Some(&mut db));
                    vec![out, dx, dw, db]
                });
            }
        }
    }
}

/// Every size of a register block of windows, for one, two and three vectors of eight columns.
#[test]
fn rows_of_any_width_with_few_channels() {
    for width in 1..40 {
        for (inputs, outputs) in [(8, 8), (8, 24), (24, 8), (40, 8), (8, 40), (24, 24)] {
            let shape = ConvShape { batch: 1, height: 1 + width % 3, width, inputs, outputs, kernel: 3 };
            let (x, weights) = (values(shape.pixels() * inputs), values(9 * inputs * outputs));
            let bias = values(outputs);
            for (bias, relu) in [(Some(&bias[..]), true), (None, false)] {
                let epilogue = Epilogue::<[f32]> { bias, relu, ..Epilogue::NONE };
                compare(&shape, |isa| {
                    let mut out = values(shape.pixels() * outputs);
                    conv::forward(isa, shape, &x, &weights, epilogue, &mut out);
                    vec![out]
                });
            }
        }
    }
}

#[test]
fn products_stay_inside_their_buffers() {
    for m in [1, 2, 13, 300] {
        for k in [1, 5, 16] {
            for n in [1, 7, 8, 9, 16, 17, 31] {
                let (a, b, bias, dy) = (values(m * k), values(k * n), values(n), values(m * n));
                let epilogue = Epilogue::<[f32]> { bias: Some(&bias), ..Epilogue::NONE };
                compare(&(m, k, n), |isa| {
                    let (mut out, mut db, mut flipped) = (values(m * n), values(k * n), values(m * k));
                    let mut sums = values(n);
                    matmul::matmul(isa, &a, &b, k, n, epilogue, &mut out);
                    matmul::matmul_tn(isa, &a, &dy, k, n, &mut db);
                    matmul::transpose(&a, k, &mut flipped);
                    matmul::column_sums(isa, &dy, n, &mut sums);
                    vec![out, db, flipped, sums]
                });
            }
        }
    }
}

#[test]
fn normalisation_stays_inside_its_buffers() {
    for (batch, pixels, channels, groups) in [(1, 1, 1, 1), (2, 7, 17, 17), (1, 600, 24, 3), (3, 5, 40, 4)] {
        let shape = NormShape { batch, pixels, channels, groups };
        let (x, scale, shift) = (values(batch * pixels * channels), values(channels), values(channels));
        let residual = values(x.len());
        compare(&shape, |isa| {
            let (mut y, mut dy) = (values(x.len()), values(x.len()));
            let (mut d_scale, mut d_shift) = (values(channels), values(channels));
            let affine = (&scale[..], &shift[..]);
            let mut statistics = values(2 * batch * groups);
            norm::forward(isa, shape, 1e-3, &x, affine, Some(&residual), true, &mut y, &mut statistics);
            norm::backward(isa, shape, &x, &scale, &statistics, None, &mut dy, (&mut d_scale, &mut d_shift));
            // A gradient that others hold as well stays as it is.
            let (given, mut dx) = (values(x.len()), values(x.len()));
            let sums = (&mut values(channels)[..], &mut values(channels)[..]);
            norm::backward(isa, shape, &x, &scale, &statistics, Some(&given), &mut dx, sums);
            assert_eq!(dx, dy, "{shape:?}");
            vec![y, dy, d_scale, d_shift]
        });
    }
}

/// One thread takes image by image; three that would wait for the fourth image take parts of all.
#[test]
fn images_normalised_one_by_one_and_together_are_the_same() {
    let shape = NormShape { batch: 4, pixels: 1100, channels: 24, groups: 3 };
    let (x, scale, shift) = (values(4 * 1100 * 24), values(24), values(24));
    let [one_by_one, together] = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| {
            let (mut y, mut dx, mut statistics) = (values(x.len()), values(x.len()), values(2 * 4 * 3));
            let (mut d_scale, mut d_shift) = (values(24), values(24));
            let (isa, affine) = (Isa::best(), (&scale[..], &shift[..]));
            norm::forward(isa, shape, 1e-3, &x, affine, None, true, &mut y, &mut statistics);
            norm::backward(isa, shape, &x, &scale, &statistics, None, &mut dx, (&mut d_scale, &mut d_shift));
            [y, dx, statistics, d_scale, d_shift]
        })
    });
    assert!(one_by_one == together);
}

#[test]
fn resizing_stays_inside_its_buffers() {
    for (from, to) in [([1, 1], [5, 3]), ([7, 5], [3, 9]), ([9, 4], [1, 1]), ([3, 3], [6, 6])] {
        for (channels, corners) in [(1, Corners::Aligned), (17, Corners::HalfPixel), (8, Corners::Aligned)] {
            let shape = ResizeShape { batch: 2, from, to, channels, corners };
            let (x, dy) = (values(2 * from[0] * from[1] * channels), values(2 * to[0] * to[1] * channels));
            compare(&shape, |isa| {
                let (mut out, mut dx) = (values(dy.len()), values(x.len()));
                resize::forward(isa, shape, &x, None, &mut out);
                let gradient = Channels { images: &dy[..], width: channels, first: 0 };
                resize::backward(isa, shape, gradient, None, None, &mut dx);
                // Also resize_concat, and its backward pass with accumulated gradient and mask.
                let (others, more) = (values(2 * to[0] * to[1] * 9), 9);
                let (mut beside, mut joined) = (values(dy.len() + others.len()), values(x.len()));
                resize::forward(isa, shape, &x, Some((&others, more)), &mut beside);
                let gradient = Channels { images: &beside[..], width: channels + more, first: 4 };
                let accumulated = Channels { images: &x[..], width: channels, first: 0 };
                resize::backward(isa, shape, gradient, Some(accumulated), Some(&x), &mut joined);
                vec![out, dx, beside, joined]
            });
        }
    }
}

#[test]
fn loops_over_values_stay_inside_their_buffers() {
    for len in [0, 1, 15, 17, 4097, 40_001] {
        let (a, b) = (values(len), values(len));
        compare(&len, |isa| {
            let (mut mapped, mut zipped, mut updated) = (values(len), values(len), values(len));
            elementwise::map(isa, &a, &mut mapped, |a| 2.0 * a);
            elementwise::zip(isa, &a, &b, &mut zipped, |a, b| a - b);
            elementwise::update(isa, &mut updated, &b, |a, b| a * b);
            let sum = elementwise::sum_zip(isa, &a, &b, |a, b| a * b);
            vec![mapped, zipped, updated, vec![sum as f32]]
        });
    }
}
