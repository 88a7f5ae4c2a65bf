//! Several ways to look at one image, and back.

use super::motion::Motion;
use super::{Augmentation, Drawn};
use crate::Image;

/// The root of r⁷ = r + 1.
const EVENLY: f64 = 1.112_775_684_278_705_5;

impl Augmentation {
    /// Ways to look at an image of this size, as it is first: all flips and turns that training may draw, in
    /// turn, with rotations, scales and distortions spread evenly over what it draws. Where pixels only
    /// change places there are no more views than different ones. Values stay, and nothing is cut out.
    pub fn views(&self, count: usize, size: [usize; 2]) -> Vec<Drawn> {
        let still = Self::default().draw(0, 0);
        let may = |chance: f32| if chance > 0.0 { &[false, true][..] } else { &[false] };
        let turns = if self.quarter_turns { 4 } else { 1 };
        let mut turned: Vec<Drawn> = Vec::new();
        for quarter_turns in 0..turns {
            for &diagonal in may(self.flip_diagonal) {
                for &vertical in may(self.flip_vertical) {
                    for &horizontal in may(self.flip_horizontal) {
                        let flip = [horizontal, vertical];
                        let drawn = Drawn { flip, flip_diagonal: diagonal, quarter_turns, ..still.clone() };
                        let place = |drawn: &Drawn| drawn.placement(size);
                        if turned.iter().all(|other| place(other) != place(&drawn)) {
                            turned.push(drawn);
                        }
                    }
                }
            }
        }
        let resampled = self.rotation > 0.0 || self.scale > 0.0 || self.distortion > 0.0;
        let count = if resampled { count } else { count.min(turned.len()) };
        let view = |number: usize| {
            // Multiples of powers of the root of r⁷ = r + 1, of which only the fractions count: points that
            // fill a cube of six axes evenly, however many are taken. The first is its centre, which
            // changes nothing.
            let at = |axis: i32| 2.0 * (0.5 + number as f64 * EVENLY.powi(-axis)).fract() - 1.0;
            Drawn {
                angle: (at(1) * f64::from(self.rotation)).to_radians(),
                scale: (1.0 + f64::from(self.scale)).powf(at(2)),
                distortion: [[3, 4], [5, 6]].map(|row| row.map(|axis| at(axis) * f64::from(self.distortion))),
                ..turned[number % turned.len()].clone()
            }
        };
        (0..count).map(view).collect()
    }
}

impl Drawn {
    /// The image alone, with its pixels moved and their values as they were.
    pub fn moved(&self, image: &Image) -> Image {
        match self.motion([image.width(), image.height()]) {
            None => image.clone(),
            Some(motion) => motion.image(image),
        }
    }

    /// The way back for what was computed from moved images of this size.
    pub fn way_back(&self, size: [usize; 2]) -> WayBack {
        let back = self.motion(size).map(|motion| motion.inverse());
        let within = |[x, y]: [f64; 2]| {
            let [width, height] = size.map(|length| length as f64 - 0.5);
            (-0.5..width).contains(&x) && (-0.5..height).contains(&y)
        };
        let shown = match &back {
            None => vec![true; size[0] * size[1]],
            Some(back) => back.origins().map(within).collect(),
        };
        WayBack { back, shown }
    }
}

/// Brings what was computed from a moved image back to where it belongs.
pub struct WayBack {
    /// None where pixels stayed.
    back: Option<Motion>,
    shown: Vec<bool>,
}

impl WayBack {
    /// Whether the moved image showed each pixel of the original.
    pub fn shown(&self) -> &[bool] {
        &self.shown
    }

    /// The output with its pixels moved back.
    pub fn apply(&self, output: &Image) -> Image {
        self.back.as_ref().map_or_else(|| output.clone(), |back| back.image(output))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::augment::tests::{case, source_of};

    #[test]
    fn views_are_all_flips_and_turns_and_the_image_is_the_first() {
        let original = case(6, 6).image;
        let flips = Augmentation { flip_horizontal: 0.5, flip_vertical: 0.1, ..Default::default() };
        let all = Augmentation { quarter_turns: true, flip_diagonal: 0.5, ..flips.clone() };
        for (settings, size, count) in [
            (&Augmentation::default(), [6, 6], 1),
            (&flips, [6, 6], 4),
            (&all, [6, 6], 8),
            // A diagonal mirrors squares alone, and a quarter turn does not fit.
            (&all, [6, 5], 4),
        ] {
            let views = settings.views(64, size);
            assert_eq!(views.len(), count, "{settings:?} {size:?}");
            assert_eq!(views[0].moved(&original), original);
            assert_eq!(settings.views(1, size), views[..1]);
        }
        let turned: Vec<Image> = all.views(8, [6, 6]).iter().map(|view| view.moved(&original)).collect();
        assert!((0..8).all(|a| (0..a).all(|b| turned[a] != turned[b])), "all differ");
    }

    #[test]
    fn views_spread_over_what_training_draws() {
        let settings =
            Augmentation { rotation: 10.0, scale: 0.5, distortion: 0.1, gain: 0.3, ..Default::default() };
        let views = settings.views(64, [9, 9]);
        assert_eq!(views.len(), 64);
        let spread = |of: &dyn Fn(&Drawn) -> f64, most: f64| {
            let mut places: Vec<f64> = views.iter().map(|view| of(view) / most).collect();
            places.sort_by(f64::total_cmp);
            let widest = places.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
            assert!(
                places[0] > -1.0 && places[0] < -0.9 && places[63] < 1.0 && places[63] > 0.9,
                "{places:?}"
            );
            assert!(widest < 0.15, "a gap of {widest}");
        };
        spread(&|view| view.angle, 10f64.to_radians());
        spread(&|view| view.scale.ln(), 1.5f64.ln());
        for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            spread(&|view| view.distortion[row][column], 0.1);
        }
        assert!(views.iter().all(|view| view.gain == 1.0 && view.offset == 0.0 && view.noise == 0.0));
    }

    proptest! {
        #[test]
        fn the_way_back_undoes_any_view(width in 1..20usize, height in 1..20usize, number in 0..64usize) {
            let settings = Augmentation {
                flip_horizontal: 0.5, flip_diagonal: 0.5, quarter_turns: true, rotation: 40.0, scale: 1.0, distortion: 0.3,
                ..Default::default()
            };
            let size = [width, height];
            let view = &settings.views(64, size)[number];
            let back = view.way_back(size);
            let (there, again) = (view.placement(size), back.back.as_ref());
            for at in 0..width * height {
                let place = [at % width, at / width].map(|place| place as f64);
                let moved = again.map_or(place, |again| again.origins().nth(at).unwrap());
                let home = source_of(&there, moved);
                prop_assert!((0..2).all(|axis| (home[axis] - place[axis]).abs() < 1e-9), "{place:?}: {home:?}");
                let within = (0..2).all(|axis| moved[axis] > -0.5 && moved[axis] < size[axis] as f64 - 0.5);
                prop_assert_eq!(back.shown()[at], within);
            }
        }
    }
}
