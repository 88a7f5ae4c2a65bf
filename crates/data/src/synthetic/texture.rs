//! Smooth noise, blur and irregular outlines: what makes a synthetic scan look like a scan.

use crate::draw::Draw;
use std::f64::consts::TAU;

/// Random values on a lattice of `cell` pixels, joined smoothly: about -1..1, `size` x `size`.
pub(super) fn smooth_noise(draw: &mut Draw, size: usize, cell: f64) -> Vec<f32> {
    let cell = cell.max(1.0);
    let lattice = (size as f64 / cell) as usize + 2;
    let values: Vec<f64> = (0..lattice * lattice).map(|_| draw.uniform(-1.0, 1.0)).collect();
    // Where a pixel lies: its lattice cell, and how far into it, eased so that no seam shows.
    let places: Vec<(usize, f64)> = (0..size)
        .map(|i| {
            let place = (i as f64 + 0.5) / cell;
            let part = place.fract();
            (place as usize, part * part * (3.0 - 2.0 * part))
        })
        .collect();
    let mut noise = Vec::with_capacity(size * size);
    for &(row, down) in &places {
        for &(column, right) in &places {
            let at = |dy: usize, dx: usize| values[(row + dy) * lattice + column + dx];
            let upper = at(0, 0) + right * (at(0, 1) - at(0, 0));
            let lower = at(1, 0) + right * (at(1, 1) - at(1, 0));
            noise.push((upper + down * (lower - upper)) as f32);
        }
    }
    noise
}

/// Three box blurs of a square picture, close to a Gaussian of standard deviation `radius` pixels.
pub(super) fn blur(pixels: &mut [f32], size: usize, radius: usize) {
    let mut line = vec![0.0; size];
    for _ in 0..3 {
        // Along rows, then along columns.
        for (stride, step) in [(size, 1), (1, size)] {
            for i in 0..size {
                let at = |k: usize| i * stride + k * step;
                for (k, value) in line.iter_mut().enumerate() {
                    *value = pixels[at(k)];
                }
                for k in 0..size {
                    let window = k.saturating_sub(radius)..(k + radius + 1).min(size);
                    let share = 1.0 / window.len() as f32;
                    pixels[at(k)] = line[window].iter().sum::<f32>() * share;
                }
            }
        }
    }
}

/// 0 below `low`, 1 above `high`, smooth between; falls instead where `low` > `high`.
pub(super) fn smooth_step(low: f64, high: f64, value: f64) -> f64 {
    let part = ((value - low) / (high - low)).clamp(0.0, 1.0);
    part * part * (3.0 - 2.0 * part)
}

/// A closed irregular outline around a centre: an ellipse whose radius waves with the angle.
pub(super) struct Blob {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) radius: f64,
    stretch: f64,
    turn: (f64, f64),
    /// Cosine and sine amplitudes of the radius' waves, from frequency 0 on.
    waves: [(f64, f64); 12],
}

impl Blob {
    /// A blob of about this radius; `lobes` is the amplitude of its low waves, `spikes` of its high ones.
    pub(super) fn random(draw: &mut Draw, x: f64, y: f64, radius: f64, lobes: f64, spikes: f64) -> Self {
        let turn = draw.uniform(0.0, TAU).sin_cos();
        let stretch = draw.uniform(0.75, 1.33).sqrt();
        let mut waves = [(0.0, 0.0); 12];
        for (k, wave) in waves.iter_mut().enumerate() {
            let amplitude = match k {
                2..=5 => lobes * 2.0 / k as f64,
                7 | 9 | 11 => spikes,
                _ => continue,
            };
            let (amplitude, (sin, cos)) =
                (amplitude * draw.uniform(0.3, 1.0), draw.uniform(0.0, TAU).sin_cos());
            *wave = (amplitude * cos, -amplitude * sin);
        }
        Self { x, y, radius, stretch, turn, waves }
    }

    /// How far out a point lies: 0 at the centre, 1 on the outline; level sets are scaled outlines.
    pub(super) fn depth(&self, x: f64, y: f64) -> f64 {
        let ((sin, cos), dx, dy) = (self.turn, x - self.x, y - self.y);
        let (u, v) = ((cos * dx + sin * dy) / self.stretch, (cos * dy - sin * dx) * self.stretch);
        let distance = (u * u + v * v).sqrt();
        if distance == 0.0 {
            return 0.0;
        }
        // Horner's rule on the powers of the direction as a complex number: no sine or cosine per pixel.
        let (re, im) = (u / distance, v / distance);
        let (mut sum_re, mut sum_im) = (0.0, 0.0);
        for &(cos, sin) in self.waves.iter().rev() {
            (sum_re, sum_im) = (sum_re * re - sum_im * im + cos, sum_re * im + sum_im * re - sin);
        }
        distance / (self.radius * (1.0 + sum_re).max(0.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blur_keeps_a_flat_picture_and_spreads_a_point() {
        let mut flat = vec![0.5; 64];
        blur(&mut flat, 8, 2);
        assert!(flat.iter().all(|v| (v - 0.5).abs() < 1e-6));
        let mut point = vec![0.0; 441];
        point[10 * 21 + 10] = 1.0;
        blur(&mut point, 21, 1);
        assert!((point.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        // Three boxes of width 3: the centre weight is (7/27)².
        assert!((point[10 * 21 + 10] - (7.0f32 / 27.0).powi(2)).abs() < 1e-6);
    }

    #[test]
    fn noise_is_centred_and_smooth() {
        let noise = smooth_noise(&mut Draw::new(1, &["noise"], 0), 128, 8.0);
        let mean = noise.iter().sum::<f32>() / noise.len() as f32;
        let jump =
            noise.chunks(128).flat_map(|row| row.windows(2)).map(|w| (w[1] - w[0]).abs()).fold(0.0, f32::max);
        assert!(mean.abs() < 0.15 && jump < 0.4, "mean {mean}, largest step {jump}");
    }

    #[test]
    fn a_blobs_radius_waves_with_the_angle() {
        let mut blob = Blob::random(&mut Draw::new(2, &["blob"], 0), 0.0, 0.0, 10.0, 0.2, 0.1);
        (blob.turn, blob.stretch) = ((0.0, 1.0), 1.0);
        for step in 0..100 {
            let angle = f64::from(step) / 100.0 * TAU;
            let wave = |(k, &(cos, sin)): (usize, &(f64, f64))| {
                cos * (k as f64 * angle).cos() + sin * (k as f64 * angle).sin()
            };
            let radius = 10.0 * (1.0 + blob.waves.iter().enumerate().map(wave).sum::<f64>()).max(0.2);
            let depth = blob.depth(radius * angle.cos(), radius * angle.sin());
            assert!((depth - 1.0).abs() < 1e-9, "{depth} at {angle}");
        }
    }

    #[test]
    fn a_blob_without_waves_is_an_ellipse_of_its_radius() {
        let blob = Blob::random(&mut Draw::new(2, &["blob"], 0), 50.0, 50.0, 20.0, 0.0, 0.0);
        let area =
            (0..10_000).filter(|i| blob.depth((i % 100) as f64 + 0.5, (i / 100) as f64 + 0.5) < 1.0).count();
        assert!((area as f64 - 400.0 * std::f64::consts::PI).abs() < 15.0, "{area}");
    }
}
