//! What was drawn for one sample, and what it does to the sample's image and masks.

use super::motion::{Motion, Placement};
use crate::draw::Draw;
use crate::{Annotation, Case, Image, Mask, Mode};

/// The parameters drawn for one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    pub(super) flip: [bool; 2],
    pub(super) quarter_turns: usize,
    pub(super) angle: f64,
    pub(super) scale: f64,
    pub(super) crop: Option<[usize; 2]>,
    pub(super) crop_place: [f64; 2],
    pub(super) gain: f32,
    pub(super) offset: f32,
    pub(super) noise: f32,
    pub(super) noise_stream: (u64, u64),
    /// Added to the identity.
    pub(super) distortion: [[f64; 2]; 2],
    pub(super) flip_diagonal: bool,
}

impl Drawn {
    /// Where the pixels of a changed image come from, for those who move them themselves.
    pub fn placement(&self, source: [usize; 2]) -> Placement {
        self.motion(source).map_or(Placement::still(source), |motion| motion.placement())
    }

    /// What happens to the values, for those who change them themselves.
    pub fn intensity(&self) -> Intensity {
        let (seed, sample) = self.noise_stream;
        let unit = Draw::new(seed, &["augment", "noise"], sample).unit();
        let stream = (unit * (1u64 << 53) as f64) as u64;
        Intensity { gain: self.gain, offset: self.offset, noise: self.noise, stream }
    }

    /// Whether pixels come from between pixels.
    fn is_resampled(&self) -> bool {
        self.angle != 0.0 || self.scale != 1.0 || self.distortion != [[0.0; 2]; 2]
    }

    /// The changed case. Where pixels moved, the geometry no longer holds and is dropped.
    pub fn apply(&self, case: &Case) -> Case {
        let source = [case.image.width(), case.image.height()];
        let mut changed = match self.motion(source) {
            None => case.clone(),
            Some(motion) => {
                let nearest = motion.nearest();
                let moved = |mask: &Mask| motion.mask(mask, &nearest);
                Case {
                    id: case.id.clone(),
                    group: case.group.clone(),
                    image: motion.image(&case.image),
                    annotations: case
                        .annotations
                        .iter()
                        .map(|old| Annotation {
                            mask: moved(&old.mask),
                            rater: old.rater.clone(),
                            weight: old.weight,
                        })
                        .collect(),
                    truth: case.truth.as_ref().map(|modes| {
                        modes
                            .iter()
                            .map(|old| Mode { mask: moved(&old.mask), probability: old.probability })
                            .collect()
                    }),
                }
            }
        };
        self.adjust(&mut changed.image);
        changed
    }

    /// Contrast about the mean, brightness and noise, in units of the image's own range.
    fn adjust(&self, image: &mut Image) {
        if self.gain == 1.0 && self.offset == 0.0 && self.noise == 0.0 {
            return;
        }
        let pixels = image.pixels_mut();
        let low = pixels.iter().copied().fold(f32::INFINITY, f32::min);
        let high = pixels.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mean = (pixels.iter().map(|&value| f64::from(value)).sum::<f64>() / pixels.len() as f64) as f32;
        let range = high - low;
        let shift = mean - mean * self.gain + self.offset * range;
        pixels.iter_mut().for_each(|value| *value = *value * self.gain + shift);
        if self.noise > 0.0 {
            let (seed, sample) = self.noise_stream;
            let mut random = Draw::new(seed, &["augment", "noise"], sample);
            pixels.iter_mut().for_each(|value| *value += self.noise * range * random.bell() as f32);
        }
    }

    /// How pixels move; none where they stay.
    pub(super) fn motion(&self, [width, height]: [usize; 2]) -> Option<Motion> {
        let turns = if width == height { self.quarter_turns } else { self.quarter_turns & 2 };
        let target = self.crop.unwrap_or([width, height]);
        let diagonal = self.flip_diagonal && width == height;
        let still = !self.flip[0] && !self.flip[1] && !diagonal && turns == 0 && !self.is_resampled();
        if still && target == [width, height] {
            return None;
        }
        let (sin, cos) = self.angle.sin_cos();
        let (sin, cos) = [(sin, cos), (cos, -sin), (-sin, -cos), (-cos, sin)][turns];
        // The inverse of: flip about the diagonal, then along the axes, then scale, then turn.
        let mut matrix = [[cos / self.scale, sin / self.scale], [-sin / self.scale, cos / self.scale]];
        if self.distortion != [[0.0; 2]; 2] {
            let [[a, b], [c, d]] = self.distortion;
            matrix = matrix.map(|[x, y]| [x * (1.0 + a) + y * c, x * b + y * (1.0 + d)]);
        }
        for axis in 0..2 {
            if self.flip[axis] {
                matrix[axis] = matrix[axis].map(|entry| -entry);
            }
        }
        if diagonal {
            let [x, y] = matrix;
            matrix = [y, x].map(|row| row.map(|entry| -entry));
        }
        let corner = |axis: usize, have: usize| {
            let want = target[axis];
            match have.checked_sub(want) {
                Some(spare) => (self.crop_place[axis] * (spare + 1) as f64).floor(),
                None => -(((want - have) / 2) as f64),
            }
        };
        let centre = [(width as f64 - 1.0) / 2.0, (height as f64 - 1.0) / 2.0];
        let corner = [corner(0, width) - centre[0], corner(1, height) - centre[1]];
        Some(Motion { source: [width, height], target, matrix, corner, centre })
    }
}

/// What happens to an image's values: `value · gain + mean · (1 − gain) + range · (offset + noise · z)`, mean
/// and range those of the image itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intensity {
    /// Contrast about the mean.
    pub gain: f32,
    /// Brightness, as a share of the range.
    pub offset: f32,
    /// Standard deviation of the noise, as a share of the range.
    pub noise: f32,
    /// Names the noise: the same for the same seed and sample number.
    pub stream: u64,
}
