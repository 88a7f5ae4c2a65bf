//! Batches of images that stay on the GPU against plain formulas: moved, changed, brought to a range.

use super::gpu;
use multivalued_engine::{Device, Intensity, Pick, Precision, Rescale, ResidentImages};

const STILL: Intensity = Intensity { gain: 1.0, offset: 0.0, noise: 0.0, stream: 0 };

fn opened() -> Option<&'static Device> {
    gpu(Precision::F32)
}

/// Bytes that look random, in 0 to 250.
fn bytes(count: usize) -> Vec<u8> {
    (0..count as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8 % 251).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.iter().map(|&byte| f32::from(byte)).collect()
}

#[test]
fn flips_quarter_turns_and_shifts_change_no_value() {
    let Some(device) = opened() else { return };
    let (size, channels) = (3, 2);
    let bytes = bytes(2 * size * size * channels);
    // Thirds, so that any rounding would be seen.
    let values: Vec<f32> = floats(&bytes).iter().map(|value| value / 3.0).collect();
    let shape = [2, size, size, channels];
    let images =
        (ResidentImages::of_values(device, shape, &values), ResidentImages::of_bytes(device, shape, &bytes));
    let last = size as f64 - 1.0;
    let turned = |from, matrix| Pick { image: Some(1), from, matrix };
    // As it is, left and right swapped, a quarter turn (x from y, y from −x), none, one to the right.
    let picks = [
        Pick::plain(1),
        turned([last, 0.0], [[-1.0, 0.0], [0.0, 1.0]]),
        turned([0.0, last], [[0.0, 1.0], [-1.0, 0.0]]),
        Pick { image: None, ..Pick::plain(0) },
        Pick { from: [1.0, 0.0], ..Pick::plain(1) },
    ];
    let mut places = Vec::new();
    for pick in 0..picks.len() {
        for (y, x) in (0..size).flat_map(|y| (0..size).map(move |x| (y, x))) {
            let from = match pick {
                0 => Some([x, y]),
                1 => Some([size - 1 - x, y]),
                2 => Some([y, size - 1 - x]),
                3 => None,
                _ => Some([(x + 1).min(size - 1), y]),
            };
            places.extend((0..channels).map(|c| from.map(|[x, y]| ((size + y) * size + x) * channels + c)));
        }
    }
    let of = |values: &[f32]| -> Vec<f32> {
        places.iter().map(|place| place.map_or(0.0, |place| values[place])).collect()
    };
    assert_eq!(images.0.gather(&picks, [size, size]).to_vec(), of(&values));
    assert_eq!(images.1.gather(&picks, [size, size]).to_vec(), of(&floats(&bytes)));
}

/// Where a pixel comes from.
fn source(pick: &Pick, x: usize, y: usize) -> [f64; 2] {
    [0, 1].map(|axis| pick.from[axis] + pick.matrix[axis][0] * x as f64 + pick.matrix[axis][1] * y as f64)
}

/// An index beyond the border is the border's.
fn within(index: i64, length: usize) -> usize {
    match usize::try_from(index) {
        Ok(index) if index < length => index,
        Ok(_) => length - 1,
        Err(_) => 0,
    }
}

#[test]
fn any_motion_samples_values_bilinearly_and_bytes_by_the_nearest_pixel() {
    let Some(device) = opened() else { return };
    for ([height, width, channels], [to_height, to_width]) in
        [([7, 5, 3], [7, 5]), ([1, 4, 1], [6, 3]), ([33, 17, 2], [9, 41]), ([64, 65, 1], [65, 33])]
    {
        let shape = [3, height, width, channels];
        let bytes = bytes(3 * height * width * channels);
        let values = floats(&bytes);
        let picks: Vec<Pick> = (0..8)
            .map(|i| {
                let (angle, scale) = (i as f64 * 0.9 - 2.0, 0.3 + 0.25 * i as f64);
                let (sin, cos) = angle.sin_cos();
                let matrix = [[cos * scale, sin * scale], [-sin * scale, cos * scale]];
                let from = [i as f64 * 3.1 - 9.7, 4.2 - i as f64 * 2.3];
                Pick { image: (i != 5).then_some(i % 3), from, matrix }
            })
            .collect();
        let found = (
            ResidentImages::of_values(device, shape, &values).gather(&picks, [to_height, to_width]).to_vec(),
            ResidentImages::of_bytes(device, shape, &bytes).gather(&picks, [to_height, to_width]).to_vec(),
        );
        assert_eq!(found.0.len(), picks.len() * to_height * to_width * channels);
        for at in 0..found.0.len() {
            let (channel, pixel) = (at % channels, at / channels);
            let (x, y) = (pixel % to_width, pixel / to_width % to_height);
            let pick = &picks[pixel / (to_width * to_height)];
            let Some(image) = pick.image else {
                assert_eq!((found.0[at], found.1[at]), (0.0, 0.0));
                continue;
            };
            let value = |x: i64, y: i64| {
                let (x, y) = (within(x, width), within(y, height));
                f64::from(values[((image * height + y) * width + x) * channels + channel])
            };
            let [x, y] = source(pick, x, y);
            let (left, top) = (x.floor(), y.floor());
            let (a, b) = (left as i64, top as i64);
            let line = |row: i64| value(a, row) * (left + 1.0 - x) + value(a + 1, row) * (x - left);
            let bilinear = line(b) * (top + 1.0 - y) + line(b + 1) * (y - top);
            assert!((f64::from(found.0[at]) - bilinear).abs() < 1e-4 * 250.0, "{at}: {bilinear}");
            let nearest = value((x + 0.5).floor() as i64, (y + 0.5).floor() as i64);
            assert_eq!(f64::from(found.1[at]), nearest, "{at}: from {x}, {y}");
        }
    }
}

/// Mean and standard deviation.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    (mean, (values.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

#[test]
fn values_are_changed_about_the_mean_and_brought_to_each_range() {
    let Some(device) = opened() else { return };
    let (pixels, channels) = (37 * 29, 3);
    // Two images, the second with a channel that does not vary.
    let mut values: Vec<f32> =
        floats(&bytes(2 * pixels * channels)).iter().map(|v| v * 8.0 - 1000.0).collect();
    values[pixels * channels..].iter_mut().skip(1).step_by(channels).for_each(|value| *value = 40.0);
    let images = ResidentImages::of_values(device, [2, 37, 29, channels], &values);
    let intensities = [Intensity { gain: 0.7, offset: -0.1, ..STILL }, STILL];
    for rescale in [Rescale::MinMax, Rescale::Range { low: -900.0, high: 300.0 }, Rescale::ZScore] {
        let picks = [Pick::plain(0), Pick::plain(1)];
        let found = images.gather_adjusted(&picks, [37, 29], &intensities, rescale).to_vec();
        for (i, intensity) in intensities.iter().enumerate() {
            let raw = values[i * pixels * channels..][..pixels * channels].iter().map(|&v| f64::from(v));
            let (gain, offset) = (f64::from(intensity.gain), f64::from(intensity.offset));
            let range = raw.clone().fold(f64::MIN, f64::max) - raw.clone().fold(f64::MAX, f64::min);
            let (mean, _) = moments(raw.clone());
            let changed: Vec<f64> = raw.map(|v| (v - mean) * gain + mean + offset * range).collect();
            for channel in 0..channels {
                let plane = changed.iter().skip(channel).step_by(channels).copied();
                let (low, high) =
                    (plane.clone().fold(f64::MAX, f64::min), plane.clone().fold(f64::MIN, f64::max));
                let (origin, unit) = match rescale {
                    Rescale::MinMax => (low, high - low),
                    Rescale::Range { low, high } => (f64::from(low), f64::from(high - low)),
                    Rescale::ZScore => moments(plane.clone()),
                };
                for (pixel, value) in plane.enumerate() {
                    let mut expected = if unit < 1e-9 { 0.0 } else { (value - origin) / unit };
                    if matches!(rescale, Rescale::Range { .. }) {
                        expected = expected.clamp(0.0, 1.0);
                    }
                    let found = f64::from(found[(i * pixels + pixel) * channels + channel]);
                    assert!(
                        (found - expected).abs() < 1e-5,
                        "{rescale:?} {i} {channel}: {found}, {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn noise_is_normal_and_belongs_to_its_stream() {
    let Some(device) = opened() else { return };
    let (height, width) = (181, 163);
    // Half black, half white, so that the range is 1000.
    let values: Vec<f32> = (0..height * width).map(|i| if i % 2 == 0 { 0.0 } else { 1000.0 }).collect();
    let images = ResidentImages::of_values(device, [1, height, width, 1], &values);
    let intensities = [5, 5, 6].map(|stream| Intensity { noise: 0.05, stream, ..STILL });
    let rescale = Rescale::Range { low: -1000.0, high: 2000.0 };
    let found = images.gather_adjusted(&[Pick::plain(0); 3], [height, width], &intensities, rescale).to_vec();
    let parts: Vec<&[f32]> = found.chunks_exact(height * width).collect();
    assert_eq!(parts[0], parts[1], "the same stream");
    let noise = |part: &[f32]| -> Vec<f64> {
        let added = |(found, raw): (&f32, &f32)| f64::from(*found) * 3000.0 - 1000.0 - f64::from(*raw);
        part.iter().zip(&values).map(|pair| added(pair) / 50.0).collect()
    };
    let (first, other) = (noise(parts[0]), noise(parts[2]));
    for noise in [&first, &other] {
        let (mean, deviation) = moments(noise.iter().copied());
        assert!(mean.abs() < 0.03 && (deviation - 1.0).abs() < 0.02, "mean {mean}, deviation {deviation}");
        let beyond = noise.iter().filter(|z| z.abs() > 1.96).count() as f64 / noise.len() as f64;
        assert!((beyond - 0.05).abs() < 0.01, "{beyond} beyond 1.96 deviations");
    }
    let related = |pairs: &mut dyn Iterator<Item = (&f64, &f64)>| {
        pairs.map(|(a, b)| a * b).sum::<f64>() / first.len() as f64
    };
    let across = related(&mut first.iter().zip(&other));
    let beside = related(&mut first.iter().zip(&first[1..]));
    assert!(across.abs() < 0.03 && beside.abs() < 0.03, "streams by {across}, neighbours by {beside}");
}
