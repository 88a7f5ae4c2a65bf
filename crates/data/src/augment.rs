//! Augmentation: parameters are drawn once per sample and applied to the image, to all its annotations
//! and to its truth alike, so that what the readers agreed and disagreed on stays as it was.
//!
//! The image is sampled bilinearly, masks by the nearest pixel; beyond the border both see the border's own
//! pixels (a mirror would show organs twice). Flips, quarter turns and crops alone move pixels without
//! changing a value.

mod drawn;
mod motion;
mod views;

pub use drawn::{Drawn, Intensity};
pub use motion::Placement;

use serde::{Deserialize, Serialize};

use crate::draw::Draw;
use crate::{Error, Result};

/// What may be done to a sample. The default does nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Augmentation {
    /// Probability of swapping left and right.
    pub flip_horizontal: f32,
    /// Probability of swapping top and bottom.
    pub flip_vertical: f32,
    /// Probability of mirroring about the diagonal from lower left to upper right (square images alone).
    pub flip_diagonal: f32,
    /// Whether to turn by 0, 90, 180 or 270 degrees (images that are not square: 0 or 180).
    pub quarter_turns: bool,
    /// Largest further rotation, in degrees.
    pub rotation: f32,
    /// Largest relative change of size: 0.25 draws factors between 1/1.25 and 1.25.
    pub scale: f32,
    /// Largest shear and stretch: how much each entry of the map between pixels may change.
    pub distortion: f32,
    /// Width and height to cut out at a random place.
    pub crop: Option<[usize; 2]>,
    /// Largest relative change of contrast: 0.25 draws factors between 0.75 and 1.25.
    pub gain: f32,
    /// Largest change of brightness, as a share of the image's range of values.
    pub offset: f32,
    /// Standard deviation of added noise, as a share of the image's range of values.
    pub noise: f32,
}

/// A key's name, its value and the largest one allowed; the least is 0.
type Range = (&'static str, fn(&Augmentation) -> f32, f32);

/// The range of every number but the crop.
pub const RANGES: &[Range] = &[
    ("flip_horizontal", |a| a.flip_horizontal, 1.0),
    ("flip_vertical", |a| a.flip_vertical, 1.0),
    ("flip_diagonal", |a| a.flip_diagonal, 1.0),
    ("rotation", |a| a.rotation, 180.0),
    ("scale", |a| a.scale, 4.0),
    ("distortion", |a| a.distortion, 0.4),
    ("gain", |a| a.gain, 1.0),
    ("offset", |a| a.offset, 1.0),
    ("noise", |a| a.noise, 1.0),
];

/// The largest width or height of a crop: no image that is read has a longer side.
pub const MOST_CROP: usize = 16_384;

impl Augmentation {
    /// Whether samples are only flipped and turned by quarters, which moves pixels and changes none.
    pub fn only_turns(&self) -> bool {
        let others = Self {
            flip_horizontal: 0.0,
            flip_vertical: 0.0,
            flip_diagonal: 0.0,
            quarter_turns: false,
            ..self.clone()
        };
        others == Self::default()
    }

    /// Refuses values that mean nothing.
    pub fn validate(&self) -> Result<()> {
        for (name, value, most) in RANGES {
            let value = value(self);
            if !(0.0..=*most).contains(&value) {
                return Err(Error::mismatch(
                    format!("augment.{name}"),
                    format!("{value} is outside 0 to {most}"),
                ));
            }
        }
        if let Some(side) = self.crop.iter().flatten().find(|side| !(1..=MOST_CROP).contains(*side)) {
            return Err(Error::mismatch("augment.crop", format!("{side} is outside 1 to {MOST_CROP}")));
        }
        Ok(())
    }

    /// The parameters of one sample: the same for the same seed and sample number, whatever was drawn
    /// before.
    pub fn draw(&self, seed: u64, sample: u64) -> Drawn {
        let mut random = Draw::new(seed, &["augment"], sample);
        // Every number is drawn, used or not: switching one option on leaves the others' draws alone.
        Drawn {
            flip: [self.flip_horizontal, self.flip_vertical].map(|chance| random.chance(f64::from(chance))),
            quarter_turns: random.index(4) * usize::from(self.quarter_turns),
            angle: (random.uniform(-1.0, 1.0) * f64::from(self.rotation)).to_radians(),
            scale: (1.0 + f64::from(self.scale)).powf(random.uniform(-1.0, 1.0)),
            crop: self.crop,
            crop_place: [random.unit(), random.unit()],
            gain: 1.0 + random.uniform(-1.0, 1.0) as f32 * self.gain,
            offset: random.uniform(-1.0, 1.0) as f32 * self.offset,
            noise: self.noise,
            noise_stream: (seed, sample),
            distortion: [(); 2]
                .map(|()| [(); 2].map(|()| random.uniform(-1.0, 1.0) * f64::from(self.distortion))),
            flip_diagonal: random.chance(f64::from(self.flip_diagonal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Annotation, Case, Image, Mask, Mode};

    /// An image whose values are its mask, so that agreement can be read off the pixels.
    pub fn case(width: usize, height: usize) -> Case {
        let inside = |x: usize, y: usize| (x * 5 + y * 3) % 7 < 3;
        let values = (0..height).flat_map(|y| (0..width).map(move |x| f32::from(u8::from(inside(x, y)))));
        let mask = Mask::from_fn(width, height, inside);
        Case {
            id: "a".into(),
            group: "g".into(),
            image: Image::new(width, height, 1, values.collect()),
            annotations: vec![
                Annotation { mask: mask.clone(), rater: Some("r".into()), weight: 2.0 },
                Annotation { mask: Mask::empty(width, height, 1), rater: None, weight: 1.0 },
            ],
            truth: Some(vec![Mode { mask, probability: 1.0 }]),
        }
    }

    pub fn source_of(placement: &Placement, [x, y]: [f64; 2]) -> [f64; 2] {
        let Placement { from, matrix, .. } = placement;
        [0, 1].map(|axis| from[axis] + matrix[axis][0] * x + matrix[axis][1] * y)
    }

    fn agrees(case: &Case) -> bool {
        let mask = &case.annotations[0].mask;
        let (width, height) = (mask.width(), mask.height());
        (0..width * height).all(|at| (case.image.pixels()[at] == 1.0) == mask.get(0, at % width, at / width))
    }

    #[test]
    fn quarter_turns_and_flips_by_hand() {
        let image = Image::new(2, 2, 1, vec![1.0, 2.0, 3.0, 4.0]);
        let still = Augmentation::default().draw(0, 0);
        for (drawn, expected) in [
            (Drawn { flip: [true, false], ..still.clone() }, [2.0, 1.0, 4.0, 3.0]),
            (Drawn { flip: [false, true], ..still.clone() }, [3.0, 4.0, 1.0, 2.0]),
            (Drawn { flip_diagonal: true, ..still.clone() }, [4.0, 2.0, 3.0, 1.0]),
            (Drawn { quarter_turns: 1, ..still.clone() }, [3.0, 1.0, 4.0, 2.0]),
            (Drawn { quarter_turns: 2, ..still.clone() }, [4.0, 3.0, 2.0, 1.0]),
            (Drawn { quarter_turns: 3, ..still.clone() }, [2.0, 4.0, 1.0, 3.0]),
        ] {
            assert_eq!(drawn.motion([2, 2]).unwrap().image(&image).pixels(), expected, "{drawn:?}");
            let placement = drawn.placement([2, 2]);
            let placed = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]].map(|to: [f64; 2]| {
                let [x, y] = source_of(&placement, to);
                image.pixels()[y as usize * 2 + x as usize]
            });
            assert_eq!(placed, expected, "{placement:?}");
        }
    }

    #[test]
    fn nothing_drawn_changes_nothing() {
        let case = case(5, 4);
        assert_eq!(Augmentation::default().draw(3, 4).apply(&case), case);
    }

    #[test]
    fn four_quarter_turns_are_the_identity() {
        let original = case(6, 6);
        let turn = Drawn { quarter_turns: 1, ..Augmentation::default().draw(0, 0) };
        let mut turned = original.clone();
        for step in 0..4 {
            turned = turn.apply(&turned);
            assert_eq!(turned == original, step == 3);
        }
    }

    #[test]
    fn a_free_quarter_turn_equals_the_exact_one() {
        let original = case(8, 8);
        let still = Augmentation::default().draw(0, 0);
        let exact = Drawn { quarter_turns: 1, ..still.clone() }.apply(&original);
        let free = Drawn { angle: std::f64::consts::FRAC_PI_2, ..still }.apply(&original);
        assert_eq!(free.annotations, exact.annotations);
        for (a, b) in free.image.pixels().iter().zip(exact.image.pixels()) {
            assert!((a - b).abs() < 1e-5);
        }
    }

    #[test]
    fn scaling_up_enlarges_what_is_drawn() {
        let disc = Mask::from_fn(33, 33, |x, y| (x as i32 - 16).pow(2) + (y as i32 - 16).pow(2) <= 36);
        let mut original = case(33, 33);
        original.annotations[0].mask = disc.clone();
        let drawn = Drawn { scale: 2.0, ..Augmentation::default().draw(0, 0) };
        let area = drawn.apply(&original).annotations[0].mask.area(0) as f64 / disc.area(0) as f64;
        assert!((area - 4.0).abs() < 0.4, "area grew by {area}");
    }

    #[test]
    fn intensity_touches_the_image_alone() {
        let original = case(9, 9);
        let settings = Augmentation { gain: 0.5, offset: 0.2, noise: 0.1, ..Default::default() };
        let changed = settings.draw(1, 2).apply(&original);
        assert_ne!(changed.image, original.image);
        assert_eq!((&changed.annotations, &changed.truth), (&original.annotations, &original.truth));
        assert_eq!(changed, settings.draw(1, 2).apply(&original));
        assert_ne!(changed, settings.draw(1, 3).apply(&original));
        let [stream, again, other] = [2, 2, 3].map(|sample| settings.draw(1, sample).intensity().stream);
        assert!(stream == again && stream != other, "{stream}, {again}, {other}");
    }

    #[test]
    fn meaningless_settings_are_refused() {
        for (settings, key) in [
            (Augmentation { flip_horizontal: 1.5, ..Default::default() }, "flip_horizontal"),
            (Augmentation { rotation: f32::NAN, ..Default::default() }, "rotation"),
            (Augmentation { noise: -0.1, ..Default::default() }, "noise"),
            (Augmentation { crop: Some([0, 4]), ..Default::default() }, "crop"),
        ] {
            assert!(settings.validate().unwrap_err().to_string().contains(key));
        }
        assert!(Augmentation { rotation: 15.0, scale: 0.2, ..Default::default() }.validate().is_ok());
    }

    proptest! {
        #[test]
        fn image_and_all_masks_move_together(
            width in 1..20usize, height in 1..20usize, crop in proptest::option::of((1..24usize, 1..24usize)), seed: u64,
        ) {
            let settings = Augmentation {
                flip_horizontal: 0.5,
                flip_vertical: 0.5,
                quarter_turns: true,
                crop: crop.map(|(width, height)| [width, height]),
                ..Default::default()
            };
            let changed = settings.draw(seed, 7).apply(&case(width, height));
            let size = crop.unwrap_or((width, height));
            prop_assert_eq!((changed.image.width(), changed.image.height()), size);
            prop_assert!(agrees(&changed));
            prop_assert_eq!(&changed.truth.unwrap()[0].mask, &changed.annotations[0].mask);
            prop_assert!(changed.annotations[1].mask.is_empty());
        }

        #[test]
        fn a_placement_says_where_pixels_come_from(
            width in 1..20usize, height in 1..20usize, crop in proptest::option::of((1..24usize, 1..24usize)),
            rotation in 0f32..180.0, scale in 0f32..4.0, seed: u64,
        ) {
            let crop = crop.map(|(width, height)| [width, height]);
            let settings =
                Augmentation { flip_vertical: 0.5, quarter_turns: true, crop, rotation, scale, ..Default::default() };
            let drawn = settings.draw(seed, 3);
            let placement = drawn.placement([width, height]);
            prop_assert_eq!(placement.size, crop.unwrap_or([width, height]));
            if let Some(motion) = drawn.motion([width, height]) {
                for (at, origin) in motion.origins().enumerate() {
                    let to = [at % placement.size[0], at / placement.size[0]].map(|place| place as f64);
                    let found = source_of(&placement, to);
                    prop_assert!((0..2).all(|axis| (found[axis] - origin[axis]).abs() < 1e-9));
                }
            }
        }

        #[test]
        fn any_setting_keeps_values_within_the_image(
            width in 1..20usize, height in 1..20usize, rotation in 0f32..180.0, scale in 0f32..4.0, seed: u64,
        ) {
            let settings = Augmentation { rotation, scale, quarter_turns: true, ..Default::default() };
            let changed = settings.draw(seed, 0).apply(&case(width, height));
            prop_assert!(changed.image.pixels().iter().all(|value| (0.0..=1.0).contains(value)));
            prop_assert_eq!(changed.annotations.len(), 2);
        }
    }
}
