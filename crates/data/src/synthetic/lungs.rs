//! Procedural chest radiographs: two lobes between ribs, spine, heart and diaphragm, with their mask.

use super::{
    raster::{Point, polygon},
    texture::{blur, smooth_noise, smooth_step},
};
use crate::{Image, Mask, draw::Draw};

/// The lung on the picture's left in units of the picture: apex, chest wall, costophrenic angle,
/// diaphragm, mediastinum.
const LEFT: [(f64, f64); 12] = [
    (0.345, 0.135),
    (0.262, 0.180),
    (0.200, 0.300),
    (0.160, 0.450),
    (0.137, 0.620),
    (0.125, 0.790),
    (0.190, 0.735),
    (0.280, 0.690),
    (0.385, 0.710),
    (0.425, 0.560),
    (0.432, 0.380),
    (0.418, 0.200),
];

/// The lung on the right, which leaves room for the heart.
const RIGHT: [(f64, f64); 12] = [
    (0.655, 0.135),
    (0.738, 0.180),
    (0.800, 0.300),
    (0.840, 0.450),
    (0.863, 0.630),
    (0.875, 0.810),
    (0.815, 0.755),
    (0.735, 0.710),
    (0.690, 0.640),
    (0.625, 0.520),
    (0.575, 0.390),
    (0.582, 0.200),
];

/// A radiograph with values in 0..1, dense tissue bright, and the mask of its lungs.
pub(super) fn radiograph(draw: &mut Draw, size: usize) -> (Image, Mask) {
    let chest = Chest::random(draw);
    let left = polygon(size, size, &chest.outline(draw, &LEFT, size));
    let lungs = left.union(&polygon(size, size, &chest.outline(draw, &RIGHT, size)));
    // Air fades into tissue over about a hundredth of the picture.
    let mut air: Vec<f32> = (0..size * size).map(|i| lungs.get(0, i % size, i / size) as u8 as f32).collect();
    blur(&mut air, size, size.div_ceil(130));
    let mottle = smooth_noise(draw, size, size as f64 / 12.0);
    let markings = smooth_noise(draw, size, size as f64 / 50.0);
    let depth = draw.uniform(0.30, 0.42);
    let mut pixels = Vec::with_capacity(size * size);
    for y in 0..size {
        for x in 0..size {
            let i = y * size + x;
            let (u, v) = chest.within(x, y, size);
            let air = f64::from(air[i]);
            // Vessels leave the hilum, where the markings are strongest.
            let hilum = (-((u.abs() - 0.13).powi(2) + (v - 0.45).powi(2)) / 0.02).exp();
            let vessels = f64::from(markings[i]) * (0.018 + 0.05 * hilum) + 0.08 * hilum;
            let tissue = chest.tissue(u, v) + 0.02 * f64::from(mottle[i]);
            let value = tissue + air * (vessels - depth) + chest.bones(u, v) * (0.35 + 0.65 * air);
            pixels.push((value + 0.012 * draw.bell()).clamp(0.0, 1.0) as f32);
        }
    }
    (Image::new(size, size, 1, pixels), lungs)
}

/// What varies from patient to patient.
struct Chest {
    shift: (f64, f64),
    scale: (f64, f64),
    tilt: f64,
    heart: f64,
    rib_gap: f64,
    rib_phase: f64,
    rib_strength: f64,
    exposure: f64,
}

impl Chest {
    fn random(draw: &mut Draw) -> Self {
        Self {
            shift: (draw.uniform(-0.025, 0.025), draw.uniform(-0.03, 0.04)),
            scale: (draw.uniform(0.88, 1.06), draw.uniform(0.86, 1.08)),
            tilt: draw.uniform(-0.05, 0.05),
            heart: draw.uniform(0.13, 0.17),
            rib_gap: draw.uniform(0.075, 0.09),
            rib_phase: draw.unit(),
            rib_strength: draw.uniform(0.05, 0.09),
            exposure: draw.uniform(-0.05, 0.05),
        }
    }

    /// A pixel in the chest's own coordinates: u from the spine, v down from the top.
    fn within(&self, x: usize, y: usize, size: usize) -> (f64, f64) {
        let at = |i: usize| (i as f64 + 0.5) / size as f64 - 0.5;
        let (dx, dy) = (at(x) - self.shift.0, at(y) - self.shift.1);
        ((dx + self.tilt * dy) / self.scale.0, (dy - self.tilt * dx) / self.scale.1 + 0.5)
    }

    /// A lung's outline in pixels: its corners moved a little and joined by a closed Catmull-Rom curve.
    fn outline(&self, draw: &mut Draw, corners: &[(f64, f64)], size: usize) -> Vec<Point> {
        let norm = 1.0 + self.tilt * self.tilt;
        let mut moved = |&(x, y): &(f64, f64)| {
            let u = (x - 0.5 + 0.008 * draw.bell()) * self.scale.0;
            let v = (y - 0.5 + 0.010 * draw.bell()) * self.scale.1;
            // The inverse of `within`.
            let (dx, dy) = ((u - self.tilt * v) / norm, (v + self.tilt * u) / norm);
            Point { x: (dx + 0.5 + self.shift.0) * size as f64, y: (dy + 0.5 + self.shift.1) * size as f64 }
        };
        let corners: Vec<Point> = corners.iter().map(&mut moved).collect();
        let corner = |i: usize| corners[i % corners.len()];
        let mut curve = Vec::new();
        for i in 0..corners.len() {
            let [p, q, r, s] = [corner(i), corner(i + 1), corner(i + 2), corner(i + 3)];
            for step in 0..10 {
                let t = f64::from(step) / 10.0;
                let weights = [
                    t * (-1.0 + t * (2.0 - t)),
                    2.0 + t * t * (-5.0 + 3.0 * t),
                    t * (1.0 + t * (4.0 - 3.0 * t)),
                    t * t * (t - 1.0),
                ];
                let along = |part: fn(Point) -> f64| {
                    [p, q, r, s].iter().zip(weights).map(|(&p, w)| w * part(p)).sum::<f64>() / 2.0
                };
                curve.push(Point { x: along(|p| p.x), y: along(|p| p.y) });
            }
        }
        curve
    }

    /// Soft tissue: the body before the film's dark, spine and mediastinum, heart, and what lies below
    /// the diaphragm.
    fn tissue(&self, u: f64, v: f64) -> f64 {
        let body = smooth_step(0.52, 0.44, u.abs() + 0.55 * (0.17 - v).max(0.0) - 0.03 * (v - 0.5));
        let neck = smooth_step(0.16, 0.06, u.abs());
        let body = body.max(neck);
        let spine = 0.14 * (-(u / 0.055).powi(2)).exp();
        let heart = ((u - 0.055) / self.heart).hypot((v - 0.58) / 0.19);
        let heart = 0.09 * smooth_step(1.2, 0.5, heart);
        let belly = 0.10 * smooth_step(0.68, 0.85, v);
        let flank = 0.10 * (u.abs() / 0.42).powi(2);
        0.06 + body * (0.60 + self.exposure + spine + heart + belly - flank)
    }

    /// Ribs that fall from the spine to the sides, and the two collar bones.
    fn bones(&self, u: f64, v: f64) -> f64 {
        let side = u.abs();
        let reach =
            smooth_step(0.03, 0.09, side) * smooth_step(0.42, 0.36, side) * smooth_step(0.86, 0.76, v);
        let ladder = |fall: f64, width: f64| {
            let place = (v - fall) / self.rib_gap + self.rib_phase;
            let off = (place - place.round()).abs() * self.rib_gap;
            smooth_step(width, 0.45 * width, off)
        };
        // Rear ribs arch upwards from the spine; front ribs, fainter, slope the other way.
        let rear = ladder(1.6 * (side - 0.13).powi(2), 0.017);
        let front = ladder(-0.75 * side + 0.9 * side * side, 0.022) * smooth_step(0.12, 0.22, side);
        let collar = v - (0.205 - 0.22 * side + 0.10 * (12.0 * side).sin() * side);
        let collar = smooth_step(0.020, 0.008, collar.abs())
            * smooth_step(0.02, 0.06, side)
            * smooth_step(0.42, 0.36, side);
        self.rib_strength * (reach * (rear + 0.45 * front) + 1.1 * collar)
    }
}
