//! The operations that take the time: convolutions, products, normalisation and resizing.

use super::{common, places, strides};
use crate::onnx::graph::Array;
use rayon::prelude::*;

/// [batch, inputs, h, w] by [outputs, inputs, k, k], as many pixels added around as `pads` says; the size stays.
pub(super) fn conv(
    x: &Array<f32>,
    weight: &Array<f32>,
    bias: &Array<f32>,
    pads: &[i64],
) -> Result<Array<f32>, String> {
    let ([batch, inputs, height, width], [outputs, of, k, k_x]) = (four(x)?, four(weight)?);
    let pad = k / 2;
    if of != inputs || k != k_x || k % 2 == 0 || *pads != [pad as i64; 4] || bias.dims != [outputs] {
        return Err(format!(
            "a kernel {:?} with pads {pads:?} on {:?} is not known here",
            weight.dims, x.dims
        ));
    }
    let mut values = vec![0.0; batch * outputs * height * width];
    values.par_chunks_exact_mut(height * width).enumerate().for_each(|(at, plane)| {
        let (image, output) = (at / outputs, at % outputs);
        plane.fill(bias.values[output]);
        for input in 0..inputs {
            let from = &x.values[(image * inputs + input) * height * width..][..height * width];
            let taps = &weight.values[(output * inputs + input) * k * k..][..k * k];
            for (tap, &factor) in taps.iter().enumerate() {
                // Output pixel (y, x) reads (y + down, x + right).
                let (down, right) = ((tap / k) as isize - pad as isize, (tap % k) as isize - pad as isize);
                let first = (-right).max(0) as usize;
                let last = (width as isize - right.max(0)).max(0) as usize;
                for y in 0..height {
                    let Some(source) = y.checked_add_signed(down).filter(|&source| source < height) else {
                        continue;
                    };
                    if first >= last {
                        continue;
                    }
                    let start = source * width + first.wrapping_add_signed(right);
                    let row = &from[start..start + last - first];
                    let out = &mut plane[y * width + first..y * width + last];
                    out.iter_mut().zip(row).for_each(|(out, value)| *out += factor * value);
                }
            }
        }
    });
    Ok(Array::new(&[batch, outputs, height, width], values))
}

/// Matrices along the last two axes; axes before them are those of both, or of one for all.
pub(super) fn matmul(a: &Array<f32>, b: &Array<f32>) -> Result<Array<f32>, String> {
    let ([.., rows, inner], [.., of, columns]) = (&a.dims[..], &b.dims[..]) else {
        return Err("a product takes matrices".into());
    };
    if inner != of {
        return Err(format!("{:?} by {:?} is no product", a.dims, b.dims));
    }
    let (before_a, before_b) = (&a.dims[..a.dims.len() - 2], &b.dims[..b.dims.len() - 2]);
    let before = common(before_a, before_b)?;
    let (in_a, in_b) = (strides(before_a, &before), strides(before_b, &before));
    let pairs: Vec<(usize, usize)> = places(&before, &in_a).zip(places(&before, &in_b)).collect();
    let product = |(at_a, at_b): (usize, usize)| {
        let (a, b) = (&a.values[at_a * rows * inner..], &b.values[at_b * inner * columns..]);
        let sum = move |row: usize, column: usize| {
            let terms =
                (0..*inner).map(|i| f64::from(a[row * inner + i]) * f64::from(b[i * columns + column]));
            terms.sum::<f64>() as f32
        };
        (0..rows * columns).map(move |at| sum(at / columns, at % columns)).collect::<Vec<f32>>()
    };
    let values = pairs.into_par_iter().flat_map_iter(product).collect();
    Ok(Array::new(&[&before[..], &[*rows, *columns]].concat(), values))
}

/// Mean 0 and variance 1 of each channel of each image, then a scale and a shift by channel.
pub(super) fn instance_normalisation(
    x: &Array<f32>,
    scale: &Array<f32>,
    shift: &Array<f32>,
    epsilon: f32,
) -> Result<Array<f32>, String> {
    let [_, channels, ..] = x.dims[..] else { return Err("has no channels".into()) };
    if scale.dims != [channels] || shift.dims != [channels] {
        return Err(format!("{channels} channels have scales {:?} and shifts {:?}", scale.dims, shift.dims));
    }
    let size: usize = x.dims[2..].iter().product();
    let mut values = x.values.clone();
    values.par_chunks_mut(size.max(1)).enumerate().for_each(|(at, plane)| {
        let mean = plane.iter().map(|&value| f64::from(value)).sum::<f64>() / size as f64;
        let squares = plane.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>();
        let factor =
            f64::from(scale.values[at % channels]) / (squares / size as f64 + f64::from(epsilon)).sqrt();
        for value in plane {
            *value = ((f64::from(*value) - mean) * factor) as f32 + shift.values[at % channels];
        }
    });
    Ok(Array::new(&x.dims, values))
}

/// Linear between pixels, whose centres are at halves; beyond the border its own pixel.
pub(super) fn resize(x: &Array<f32>, sizes: &[usize]) -> Result<Array<f32>, String> {
    let [batch, channels, height, width] = four(x)?;
    let &[to_batch, to_channels, rows, columns] = sizes else { return Err("has no four sizes".into()) };
    if [to_batch, to_channels] != [batch, channels] || height * width == 0 {
        return Err(format!("{:?} cannot be resized to {sizes:?}", x.dims));
    }
    let sources = |from: usize, to: usize| -> Vec<(usize, usize, f32)> {
        let source = |place: usize| {
            let at = ((place as f64 + 0.5) * from as f64 / to as f64 - 0.5).clamp(0.0, (from - 1) as f64);
            let first = at as usize;
            (first, (first + 1).min(from - 1), (at - first as f64) as f32)
        };
        (0..to).map(source).collect()
    };
    let (down, along) = (sources(height, rows), sources(width, columns));
    let mut values = vec![0.0; batch * channels * rows * columns];
    values.par_chunks_mut((rows * columns).max(1)).zip(x.values.par_chunks(height * width)).for_each(
        |(out, plane)| {
            for (row, (above, below, lower)) in out.chunks_exact_mut(columns).zip(&down) {
                for (value, (left, right, share)) in row.iter_mut().zip(&along) {
                    let on = |y: &usize| {
                        plane[y * width + left] * (1.0 - share) + plane[y * width + right] * share
                    };
                    *value = on(above) * (1.0 - lower) + on(below) * lower;
                }
            }
        },
    );
    Ok(Array::new(sizes, values))
}

fn four(array: &Array<f32>) -> Result<[usize; 4], String> {
    array.dims[..].try_into().map_err(|_| format!("{:?} has not four axes", array.dims))
}
