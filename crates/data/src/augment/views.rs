//! Several ways to look at one image, and back.

use super::{Augmentation, Drawn, Placement};

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
    /// Where the pixels of an image of this size are found in its moved view: the way back for what was computed
    /// from the view.
    pub fn way_back(&self, size: [usize; 2]) -> Placement {
        self.motion(size).map_or(Placement::still(size), |motion| motion.inverse().placement())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Image;
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
            assert_eq!(views[0].motion(size).map(|_| ()), None, "nothing moves");
            assert_eq!(settings.views(1, size), views[..1]);
        }
        let moved =
            |view: &Drawn| view.motion([6, 6]).map_or(original.clone(), |motion| motion.image(&original));
        let turned: Vec<Image> = all.views(8, [6, 6]).iter().map(moved).collect();
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
            let (there, back) = (view.placement(size), view.way_back(size));
            prop_assert_eq!(back.size, size);
            for at in 0..width * height {
                let place = [at % width, at / width].map(|place| place as f64);
                let home = source_of(&there, source_of(&back, place));
                prop_assert!((0..2).all(|axis| (home[axis] - place[axis]).abs() < 1e-9), "{place:?}: {home:?}");
            }
        }
    }
}
