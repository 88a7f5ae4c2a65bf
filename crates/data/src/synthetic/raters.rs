//! `raters`: a lung nodule and four readers who differ in threshold and margin, and overlook faint
//! nodules: a stand-in for LIDC whose distribution is known.
//!
//! A nodule has a density that falls from 1 inside to 0 outside, over a margin that may be sharp or
//! wide, and a contrast from 0.1 to 0.8, drawn uniformly. Each reader outlines the density at an own
//! level and may widen that by a margin; he overlooks the nodule with a probability that falls with
//! its contrast. Given the image (but for its noise) nothing but the overlooking is random: an
//! annotation by a random reader is reader r's mask with probability (1 - miss_r) / 4 and empty with
//! probability Σ miss_r / 4. That is the truth; masks that coincide on the raster are one mode. The
//! annotations are the four readers, once each, with weight 1.

use super::{
    Scene,
    texture::{Blob, smooth_noise, smooth_step},
};
use crate::{Annotation, Image, Mask, Mode, draw::Draw};
use std::f64::consts::TAU;

struct Reader {
    name: &'static str,
    /// The density at which the outline is drawn.
    threshold: f64,
    /// By how much the outline is widened, as a part of the picture's edge.
    margin: f64,
    /// From this contrast on the nodule is never overlooked.
    sees_above: f64,
}

const READERS: [Reader; 4] = [
    Reader { name: "strict", threshold: 0.75, margin: 0.0, sees_above: 0.55 },
    Reader { name: "middle", threshold: 0.50, margin: 0.0, sees_above: 0.45 },
    Reader { name: "wide", threshold: 0.25, margin: 0.0, sees_above: 0.35 },
    Reader { name: "generous", threshold: 0.25, margin: 0.02, sees_above: 0.25 },
];

impl Reader {
    /// The probability of overlooking: grows as the contrast falls below what is always seen, to 0.9;
    /// under 0.05 it counts as none, so that no mode is too rare to be met.
    fn misses(&self, contrast: f64) -> f64 {
        let miss = ((self.sees_above - contrast) / 0.4).min(0.9);
        if miss < 0.05 { 0.0 } else { miss }
    }

    fn mask(&self, density: &[f64], size: usize) -> Mask {
        let core = Mask::from_fn(size, size, |x, y| density[y * size + x] >= self.threshold);
        if self.margin == 0.0 { core } else { widened(&core, (self.margin * size as f64).max(1.0)) }
    }
}

/// A scan around a nodule, its four readers, and the truth.
pub(super) fn scene(draw: &mut Draw, size: usize) -> Scene {
    let contrast = draw.uniform(0.1, 0.8);
    let blob = nodule_outline(draw, size);
    let density = nodule_density(draw, size, &blob);
    let mut pixels = lung_tissue(draw, size);
    let vessels = vessels(draw, size);
    for (i, pixel) in pixels.iter_mut().enumerate() {
        *pixel += vessels[i].max(contrast * density[i]);
    }
    if draw.chance(0.35) {
        chest_wall(draw, &mut pixels, size, &blob);
    }
    let pixels = pixels.iter().map(|&pixel| (pixel + 0.015 * draw.bell()).clamp(0.0, 1.0) as f32).collect();
    let image = Image::new(size, size, 1, pixels);

    let nothing = Mask::empty(size, size, 1);
    let (mut annotations, mut truth): (_, Vec<Mode>) = (Vec::new(), Vec::new());
    let mut give = |mask: &Mask, probability: f64| match truth.iter_mut().find(|mode| mode.mask == *mask) {
        Some(mode) => mode.probability += probability as f32,
        None if probability > 0.0 => truth.push(Mode { mask: mask.clone(), probability: probability as f32 }),
        None => {}
    };
    let share = 1.0 / READERS.len() as f64;
    for reader in &READERS {
        let (mask, miss) = (reader.mask(&density, size), reader.misses(contrast));
        give(&mask, share * (1.0 - miss));
        give(&nothing, share * miss);
        let mask = if draw.chance(miss) { nothing.clone() } else { mask };
        annotations.push(Annotation { mask, rater: Some(reader.name.into()), weight: 1.0 });
    }
    Scene { image, annotations, truth }
}

/// A nodule near the picture's middle: small or large, round, lobed or spiked.
fn nodule_outline(draw: &mut Draw, size: usize) -> Blob {
    let edge = size as f64;
    // Small ones are more common: the radius is uniform in its logarithm.
    let radius = (edge * 0.035 * (0.16f64 / 0.035).powf(draw.unit())).max(2.0);
    let (x, y) = (edge * draw.uniform(0.4, 0.6), edge * draw.uniform(0.4, 0.6));
    let spikes = if draw.chance(0.3) { 0.05 } else { 0.0 };
    Blob::random(draw, x, y, radius, 0.12, spikes)
}

/// Its density: with a sharp or a wide margin, even or mottled.
fn nodule_density(draw: &mut Draw, size: usize, blob: &Blob) -> Vec<f64> {
    let softness = draw.uniform(0.04, 0.16);
    let mottle = draw.uniform(0.0, 0.10);
    let texture = smooth_noise(draw, size, blob.radius / 2.0);
    let pixels = (0..size * size).map(|i| ((i % size) as f64 + 0.5, (i / size) as f64 + 0.5));
    pixels
        .zip(texture)
        .map(|((x, y), texture)| {
            let density = 1.0 / (1.0 + ((blob.depth(x, y) - 1.0) / softness).exp());
            // Mottle scales the density, so that it vanishes outside.
            density * (1.0 - mottle * (0.5 + 0.5 * f64::from(texture)))
        })
        .collect()
}

/// Lung tissue: dark and mottled.
fn lung_tissue(draw: &mut Draw, size: usize) -> Vec<f64> {
    let edge = size as f64;
    let (coarse, fine) = (smooth_noise(draw, size, edge / 6.0), smooth_noise(draw, size, edge / 40.0));
    coarse.iter().zip(&fine).map(|(&c, &f)| 0.12 + 0.025 * f64::from(c) + 0.02 * f64::from(f)).collect()
}

/// By how much vessels are brighter than the tissue: tubes that wander through the picture and taper,
/// dots where they are seen end on.
fn vessels(draw: &mut Draw, size: usize) -> Vec<f64> {
    let edge = size as f64;
    let mut excess = vec![0.0f64; size * size];
    for _ in 0..4 + draw.index(6) {
        let (mut x, mut y) = (draw.uniform(0.0, edge), draw.uniform(0.0, edge));
        let mut heading = draw.uniform(0.0, TAU);
        let radius = edge * draw.uniform(0.008, 0.022);
        let level = draw.uniform(0.2, 0.5);
        let steps = if draw.chance(0.3) { 1 } else { (edge * draw.uniform(0.15, 0.7)) as usize + 1 };
        for step in 0..steps {
            let radius = (radius * (1.0 - 0.6 * step as f64 / steps as f64)).max(0.5);
            let span = |at: f64| {
                let reach = 1.5 * radius + 1.0;
                (at - reach).clamp(0.0, edge) as usize..(at + reach).clamp(0.0, edge) as usize
            };
            for py in span(y) {
                for px in span(x) {
                    let off = (px as f64 + 0.5 - x).hypot(py as f64 + 0.5 - y) / radius;
                    let pixel = &mut excess[py * size + px];
                    *pixel = pixel.max(level * smooth_step(1.5, 0.5, off));
                }
            }
            heading += 0.12 * draw.bell() / (edge / 64.0).max(1.0);
            x += heading.cos();
            y += heading.sin();
        }
    }
    excess
}

/// Bright tissue on one side of the picture, its border bent, clear of the nodule.
fn chest_wall(draw: &mut Draw, pixels: &mut [f64], size: usize, nodule: &Blob) {
    let edge = size as f64;
    let (sin, cos) = draw.uniform(0.0, TAU).sin_cos();
    let (bend, level) = (draw.uniform(-0.3, 0.5), draw.uniform(0.6, 0.8));
    let outward = |x: f64, y: f64| {
        let (dx, dy) = (x / edge - 0.5, y / edge - 0.5);
        cos * dx + sin * dy + bend * (cos * dy - sin * dx).powi(2)
    };
    let clear = outward(nodule.x, nodule.y) + 1.6 * nodule.radius / edge;
    let border = draw.uniform(0.27, 0.42).max(clear);
    for (i, pixel) in pixels.iter_mut().enumerate() {
        let out = outward((i % size) as f64, (i / size) as f64);
        *pixel += smooth_step(-0.01, 0.01, out - border) * (level - *pixel);
    }
}

/// All pixels within a distance of the mask.
fn widened(mask: &Mask, distance: f64) -> Mask {
    let (size, reach) = (mask.width(), distance as usize);
    let mut wide = Mask::empty(size, mask.height(), 1);
    for y in 0..mask.height() {
        for x in (0..size).filter(|&x| mask.get(0, x, y)) {
            for row in y.saturating_sub(reach)..(y + reach + 1).min(mask.height()) {
                let up = row.abs_diff(y) as f64;
                let half = (distance * distance - up * up).sqrt() as usize;
                wide.fill_row(0, row, x.saturating_sub(half)..(x + half + 1).min(size));
            }
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_a_pixel_gives_a_disc() {
        let pixel = Mask::from_fn(11, 11, |x, y| (x, y) == (5, 5));
        let disc = Mask::from_fn(11, 11, |x, y| {
            (x as f64 - 5.0).hypot(y as f64 - 5.0) <= 2.5 // the four corners of the 5x5 square are 2.83 away
        });
        assert_eq!(widened(&pixel, 2.5), disc);
        assert_eq!(disc.area(0), 21);
    }

    #[test]
    fn overlooking_falls_with_contrast_and_never_gets_rare() {
        for reader in &READERS {
            assert_eq!(reader.misses(reader.sees_above), 0.0);
            assert_eq!(reader.misses(reader.sees_above - 0.01), 0.0);
            assert!((reader.misses(reader.sees_above - 0.2) - 0.5).abs() < 1e-12);
            assert!(reader.misses(0.1) <= 0.9);
        }
    }
}
