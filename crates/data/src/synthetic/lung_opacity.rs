//! `lung-opacity` (paper §4.3): lungs behind an opacity; one reader draws the complete lungs, the other
//! leaves out what the opacity covers.
//!
//! The opacity is a bright blob that covers 18 to 30 % of the lungs. Reader 1 draws the lungs whole.
//! Reader 2 leaves out the opacity's outline, shrunk about its centre by a factor drawn from 0.75 to 1:
//! centre and shape can be seen, the factor cannot; that is the "randomly removing part of the opacity
//! area" which stays random. Both are equally likely.

use super::{
    DrawnMode, Scene, lungs,
    texture::{Blob, smooth_noise, smooth_step},
};
use crate::{Case, Error, Image, Mask, Result, draw::Draw};
use rayon::prelude::*;

/// The range of the factor by which reader 2 shrinks the opacity's outline.
const SHRINK: (f64, f64) = (0.75, 1.0);

/// A real chest radiograph, values in 0..1, with the mask of its lungs.
#[derive(Debug, Clone, PartialEq)]
pub struct Radiograph {
    /// Names the case, and with the seed decides its opacity.
    pub name: String,
    /// The picture.
    pub image: Image,
    /// The complete lungs.
    pub lungs: Mask,
}

/// The task over real radiographs ([`read_films`](super::read_films) reads a folder of them): one case each,
/// in their order. A case depends on the seed and its radiograph alone, so that splits can be cut as one likes.
pub fn lung_opacity_over(radiographs: &[Radiograph], seed: u64) -> Result<Vec<Case>> {
    let case = |radiograph: &Radiograph| {
        let Radiograph { name, image, lungs } = radiograph;
        let (size, mask_size) = ((image.width(), image.height()), (lungs.width(), lungs.height()));
        if size != mask_size {
            return Err(Error::mismatch(
                format!("radiograph '{name}'"),
                format!("the image is {size:?}, its lung mask {mask_size:?}; give both the same size"),
            ));
        }
        if lungs.area(0) < 64 {
            return Err(Error::mismatch(
                format!("radiograph '{name}'"),
                format!(
                    "its lung mask has {} pixels; at least 64 are needed to place an opacity",
                    lungs.area(0)
                ),
            ));
        }
        let draw = &mut Draw::new(seed, &["lung-opacity", "radiograph", name], 0);
        Ok(opacified(draw, image, lungs).into_case(name.clone()))
    };
    // The first fault in order, whatever the number of threads.
    radiographs.par_iter().map(case).collect::<Vec<_>>().into_iter().collect()
}

/// The task over a procedural radiograph.
pub(super) fn procedural(draw: &mut Draw, size: usize) -> Scene {
    let (image, lungs) = lungs::radiograph(draw, size);
    opacified(draw, &image, &lungs)
}

fn opacified(draw: &mut Draw, image: &Image, lungs: &Mask) -> Scene {
    let (width, height) = (image.width(), image.height());
    let depth = random_opacity(draw, lungs);
    let without = |shrink: f64| {
        Mask::from_fn(width, height, |x, y| lungs.get(0, x, y) && depth[y * width + x] > shrink)
    };
    let drawn = without(draw.uniform(SHRINK.0, SHRINK.1));
    let representative = without(best_shrink(lungs, &depth));
    let mode = |drawn: Mask, representative: Mask, rater| DrawnMode {
        drawn,
        representative,
        probability: 0.5,
        rater: Some(rater),
    };
    let complete = mode(lungs.clone(), lungs.clone(), "complete");
    Scene::of_modes(brightened(draw, image, &depth), [complete, mode(drawn, representative, "cautious")])
}

/// For each pixel how far out it lies in a random opacity: at most 1 within, where 18 to 30 % of the
/// lungs are.
fn random_opacity(draw: &mut Draw, lungs: &Mask) -> Vec<f64> {
    let (width, height) = (lungs.width(), lungs.height());
    let centre = draw.index(lungs.area(0));
    let pixels = (0..width * height).map(|i| (i % width, i / width));
    let (x, y) =
        pixels.clone().filter(|&(x, y)| lungs.get(0, x, y)).nth(centre).expect("an index below the area");
    let blob = Blob::random(draw, x as f64 + 0.5, y as f64 + 0.5, 1.0, 0.14, 0.0);
    let mut depth: Vec<f64> = pixels.map(|(x, y)| blob.depth(x as f64 + 0.5, y as f64 + 0.5)).collect();
    let mut covered = depths_in(lungs, &depth);
    let last = (draw.uniform(0.18, 0.30) * covered.len() as f64) as usize;
    let (_, &mut outline, _) = covered.select_nth_unstable_by(last, f64::total_cmp);
    depth.iter_mut().for_each(|d| *d /= outline);
    depth
}

/// The factor whose mask has the highest expected IoU with that of a random factor: a search over 64
/// factors, exact on the raster, since masks of different factors are nested.
fn best_shrink(lungs: &Mask, depth: &[f64]) -> f64 {
    const STEPS: usize = 64;
    let factor = |k: usize| SHRINK.0 + (SHRINK.1 - SHRINK.0) * (k as f64 + 0.5) / STEPS as f64;
    let depths = depths_in(lungs, depth);
    let areas: Vec<f64> =
        (0..STEPS).map(|k| depths.iter().filter(|&&d| d > factor(k)).count() as f64).collect();
    let expected = |k: usize| -> f64 {
        areas.iter().map(|&area| area.min(areas[k]) / area.max(areas[k]).max(1.0)).sum()
    };
    factor((0..STEPS).max_by(|&a, &b| expected(a).total_cmp(&expected(b))).expect("at least one step"))
}

fn depths_in(lungs: &Mask, depth: &[f64]) -> Vec<f64> {
    let width = lungs.width();
    (0..depth.len()).filter(|i| lungs.get(0, i % width, i / width)).map(|i| depth[i]).collect()
}

/// The picture with the opacity in it: drawn towards a bright level by a random strength, mottled, and
/// fading at the outline.
fn brightened(draw: &mut Draw, image: &Image, depth: &[f64]) -> Image {
    let (width, side) = (image.width(), image.width().max(image.height()));
    let brightest = image.pixels().iter().fold(0.0f32, |most, &p| most.max(p));
    let level = f64::from(brightest) * draw.uniform(0.78, 0.95);
    let strength = draw.uniform(0.40, 0.85);
    let mottle = smooth_noise(draw, side, side as f64 / 16.0);
    let mut image = image.clone();
    for (i, pixel) in image.pixels_mut().iter_mut().enumerate() {
        let i = i % depth.len();
        let cover = strength
            * smooth_step(1.1, 0.9, depth[i])
            * (0.88 + 0.12 * f64::from(mottle[i / width * side + i % width]));
        *pixel += (cover * (level - f64::from(*pixel)).max(0.0)) as f32;
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::iou;

    fn radiographs(count: usize) -> Vec<Radiograph> {
        let radiograph = |i: usize| {
            let (image, lungs) = lungs::radiograph(&mut Draw::new(1, &["real"], i as u64), 64);
            Radiograph { name: format!("film {i}"), image, lungs }
        };
        (0..count).map(radiograph).collect()
    }

    #[test]
    fn a_case_over_a_radiograph_depends_on_it_alone() {
        let films = radiographs(6);
        let all = lung_opacity_over(&films, 5).unwrap();
        let last = lung_opacity_over(&films[5..], 5).unwrap();
        assert_eq!(all[5], last[0]);
        assert_ne!(all[5], lung_opacity_over(&films[5..], 6).unwrap()[0]);
        assert_eq!(all[2].annotations[0].mask, films[2].lungs);
    }

    #[test]
    fn the_representative_is_nearest_to_all_draws() {
        for index in 0..5 {
            let draw = &mut Draw::new(9, &["best"], index);
            let (_, lungs) = lungs::radiograph(draw, 64);
            let depth = random_opacity(draw, &lungs);
            let without =
                |shrink: f64| Mask::from_fn(64, 64, |x, y| lungs.get(0, x, y) && depth[y * 64 + x] > shrink);
            let draws: Vec<Mask> = (0..500).map(|_| without(draw.uniform(SHRINK.0, SHRINK.1))).collect();
            let expected = |shrink: f64| {
                let own = without(shrink);
                draws.iter().map(|mask| iou(mask, &own).unwrap()).sum::<f64>() / 500.0
            };
            let best = expected(best_shrink(&lungs, &depth));
            for other in [0.75, 0.8, 0.85, 0.9, 0.95, 1.0] {
                // Five hundred draws leave the mean uncertain by a few thousandths.
                assert!(best > expected(other) - 0.003, "{other}: {} against {best}", expected(other));
            }
            assert!(best > expected(0.75) + 0.01 && best > expected(1.0) + 0.01);
        }
    }

    #[test]
    fn unusable_masks_are_refused_by_name() {
        let mut films = radiographs(1);
        films[0].lungs = Mask::empty(64, 64, 1);
        let message = lung_opacity_over(&films, 1).unwrap_err().to_string();
        assert!(message.contains("film 0") && message.contains("0 pixels"), "{message}");
        films[0].lungs = Mask::empty(32, 64, 1);
        let message = lung_opacity_over(&films, 1).unwrap_err().to_string();
        assert!(message.contains("(64, 64)") && message.contains("(32, 64)"), "{message}");
    }
}
