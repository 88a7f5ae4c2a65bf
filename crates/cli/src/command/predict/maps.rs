//! Maps of an image in its own format: how probable each class is at a pixel, where that passes some levels, and how
//! much hypotheses disagree there.

use std::path::{Path, PathBuf};

use multivalued::answer::Predicted;
use multivalued_data::export::write_map_like;
use multivalued_data::import::Limits;
use multivalued_data::shares::label_shares;

use crate::exit::Outcome;

/// The files of an image's maps.
pub struct Maps {
    /// The mean probability of each class.
    pub means: Vec<PathBuf>,
    /// The contours of each class.
    pub contours: Vec<PathBuf>,
    pub entropy: PathBuf,
}

impl Maps {
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.means.iter().chain(&self.contours).chain([&self.entropy])
    }
}

/// What contours are drawn around, the lowest first: pixels that are in with at least so much probability.
const LEVELS: [f32; 3] = [0.1, 0.5, 0.9];

/// Writes `mean-1`, `mean-2` and so on, `contours-1` and so on, and `entropy`, like the image `source`. A slice of which `joined` slices of
/// the file are channels is written for each of them.
pub fn write(
    source: &Path,
    folder: &Path,
    slices: &[Predicted],
    joined: usize,
    limits: &Limits,
) -> Outcome<Maps> {
    let [width, height, classes] = slices[0].all[0].mask.size();
    let map = |name: String, of: &dyn Fn(&Predicted) -> Vec<f32>| {
        let slice = |z: usize| of(&slices[z / joined]);
        write_map_like(source, &folder.join(name), [width, height], &slice, limits)
    };
    let mean =
        |class: usize| map(format!("mean-{}", class + 1), &|slice| shares(slice).swap_remove(class + 1));
    let contours = |class: usize| {
        map(format!("contours-{}", class + 1), &|slice| contours(&shares(slice)[class + 1], width))
    };
    let means = (0..classes).map(mean).collect::<Result<_, _>>()?;
    let contours = (0..classes).map(contours).collect::<Result<_, _>>()?;
    Ok(Maps { means, contours, entropy: map("entropy".into(), &entropy)? })
}

/// The outermost pixels of what is in with at least the probability of a level have that level, the highest one where
/// contours meet; all others are 0.
fn contours(shares: &[f32], width: usize) -> Vec<f32> {
    let height = shares.len() / width;
    let is_on = |level: f32, at: usize| {
        let (x, y) = (at % width, at / width);
        let is_edge = x == 0 || y == 0 || x + 1 == width || y + 1 == height;
        shares[at] >= level
            && (is_edge
                || [at - 1, at + 1, at - width, at + width].iter().any(|&beside| shares[beside] < level))
    };
    let highest = |at: usize| LEVELS.into_iter().rev().find(|&level| is_on(level, at)).unwrap_or(0.0);
    (0..shares.len()).map(highest).collect()
}

/// The probability of each label at each pixel, the background first.
fn shares(slice: &Predicted) -> Vec<Vec<f32>> {
    let total: f32 = slice.all.iter().map(|one| one.probability).sum();
    label_shares(slice.all.iter().map(|one| (one.probability, one.mask.mask())), total)
}

/// The entropy of the label at each pixel as a share of its largest value: 0 where all agree, 1 where all labels
/// are as probable. Of one class it is in bits.
fn entropy(slice: &Predicted) -> Vec<f32> {
    let shares = shares(slice);
    let most = (shares.len() as f32).log2();
    let at = |pixel: usize| {
        let terms = shares.iter().map(|label| label[pixel]).filter(|share| *share > 0.0);
        let bits: f32 = terms.map(|share| -share * share.log2()).sum();
        (bits / most).clamp(0.0, 1.0)
    };
    (0..shares[0].len()).map(at).collect()
}

#[cfg(test)]
mod tests {
    use multivalued_data::{Hypothesis, Mask, Prediction};

    use super::*;

    #[test]
    fn a_map_is_written_for_each_class_and_channels_share_one() {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("image.png");
        image::save_buffer(&source, &[7; 6], 3, 2, image::ExtendedColorType::L8).unwrap();
        let mut mask = Mask::empty(3, 2, 2);
        mask.set(1, 2, 1, true);
        let all = Prediction::stated(vec![
            Hypothesis { mask, probability: 0.75, code: 0 },
            Hypothesis { mask: Mask::empty(3, 2, 2), probability: 0.25, code: 1 },
        ]);
        let slices = [Predicted::new(&all, &all, None)];
        let maps = write(&source, place.path(), &slices, 1, &Limits::default()).unwrap();
        assert_eq!(maps.means.len(), 2);
        let open = |path: &Path| image::open(path).unwrap().into_luma16().into_raw();
        assert_eq!(open(&maps.means[0]), [0; 6]);
        assert_eq!(open(&maps.means[1]), [0, 0, 0, 0, 0, 49_151]);
        assert!(open(&maps.entropy)[5] > 0 && open(&maps.entropy)[..5] == [0; 5]);
    }

    #[test]
    fn contours_are_the_outermost_pixels_of_a_level_and_the_highest_level_counts() {
        // A square of five pixels: 0.6 inside of a ring of 0.2.
        let ring = |x: usize, y: usize| if (1..4).contains(&x) && (1..4).contains(&y) { 0.6 } else { 0.2 };
        let mut shares: Vec<f32> = (0..25).map(|at| ring(at % 5, at / 5)).collect();
        let expected = |x: usize, y: usize| match (x, y) {
            (2, 2) => 0.0,
            _ if ring(x, y) == 0.6 => 0.5,
            _ => 0.1,
        };
        let wanted: Vec<f32> = (0..25).map(|at| expected(at % 5, at / 5)).collect();
        assert_eq!(contours(&shares, 5), wanted);
        // One pixel that is sure has all contours around it.
        shares[12] = 1.0;
        assert_eq!(contours(&shares, 5)[12], 0.9);
        assert_eq!(contours(&[0.05; 4], 2), [0.0; 4]);
    }

    #[test]
    fn pixels_have_the_probability_of_their_labels_and_its_entropy() {
        let hypothesis = |width: usize, probability| Hypothesis {
            mask: Mask::from_fn(3, 1, |x, _| x < width),
            probability,
            code: 0,
        };
        let all = Prediction::stated(vec![hypothesis(1, 0.5), hypothesis(2, 0.25), hypothesis(0, 0.25)]);
        let slice = Predicted::new(&all, &all, None);
        assert_eq!(shares(&slice), [[0.25, 0.75, 1.0], [0.75, 0.25, 0.0]]);
        let found = entropy(&slice);
        assert!((found[0] - 0.811_278).abs() < 1e-5 && (found[1] - found[0]).abs() < 1e-6, "{found:?}");
        assert_eq!(found[2], 0.0);
        let mut two = Mask::empty(1, 1, 2);
        let none = Mask::empty(1, 1, 2);
        let mut one = none.clone();
        two.set(1, 0, 0, true);
        one.set(0, 0, 0, true);
        let equal = [none, one, two].map(|mask| Hypothesis { mask, probability: 1.0 / 3.0, code: 0 });
        let all = Prediction::stated(equal.to_vec());
        assert!((entropy(&Predicted::new(&all, &all, None))[0] - 1.0).abs() < 1e-5);
    }
}
