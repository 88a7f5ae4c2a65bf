//! Several views of images, and masks: pixels moved, what was computed of them moved back and averaged, and logits
//! packed to bits, all where the tensors are.

use crate::shape::Shape;
use crate::tensor::Tensor;
use std::ops::Range;

/// Where each pixel of a moved image comes from: `[x, y] = from + matrix · [to_x, to_y]`, between pixels by bilinear
/// interpolation, beyond the border from the border's own pixel. Flips, quarter turns and whole shifts change no
/// value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// The source of the first pixel, x and y.
    pub from: [f64; 2],
    /// How the source moves with a pixel's column and row.
    pub matrix: [[f64; 2]; 2],
}

impl Placement {
    /// Nothing moves.
    pub const STILL: Self = Self { from: [0.0; 2], matrix: [[1.0, 0.0], [0.0, 1.0]] };

    /// The source of a pixel.
    pub(crate) fn source(&self, to_x: usize, to_y: usize) -> [f64; 2] {
        let (x, y) = (to_x as f64, to_y as f64);
        [0, 1].map(|axis| self.from[axis] + self.matrix[axis][0] * x + self.matrix[axis][1] * y)
    }

    /// Whether a source is a pixel of the image, or nearer to one than half a pixel.
    pub(crate) fn is_shown([x, y]: [f64; 2], [width, height]: [usize; 2]) -> bool {
        let within = |place: f64, length: usize| place >= -0.5 && place < length as f64 - 0.5;
        within(x, width) && within(y, height)
    }
}

/// Pixels that a value of packed masks holds: as a whole number, which f32 has exactly.
pub(crate) const PACKED: usize = 16;
/// Pixels of a word.
pub(crate) const WORD: usize = 64;

/// How outputs of views become outputs of images.
#[derive(Debug, Clone)]
pub struct InverseViews<'a> {
    /// For every view of an image, where its pixels are found in the view.
    pub back: &'a [Placement],
    /// Which of the views the outputs are of.
    pub views: Range<usize>,
    /// How many outputs each view has.
    pub repeats: usize,
}

impl Tensor {
    /// Every view of every image.
    ///
    /// # Shapes
    /// [images, height, width, channels], V placements → [images·V, height, width, channels]
    pub fn views(&self, placements: &[Placement]) -> Self {
        self.shape().image("views of images");
        match placements {
            [Placement::STILL] => self.clone(),
            _ => self.backend().move_images(self, placements),
        }
    }

    /// The mean of outputs over the views that show a pixel, where the image itself has it:
    /// `out[n, k] = before[n, k] + Σ_v moved back(self[n, v, k]) / views that show it`. Where an image's views come
    /// one part after the other, `before` is what the parts so far gave.
    ///
    /// # Shapes
    /// [images·views·repeats, height, width, channels] → [images·repeats, height, width, channels]
    pub fn mean_of_views(&self, inverse: &InverseViews, before: Option<Self>) -> Self {
        let [outputs, height, width, channels] = self.shape().image("the mean of views");
        let InverseViews { back, views, repeats } = inverse;
        let each = views.len() * repeats;
        assert!(
            views.end <= back.len() && each > 0 && outputs.is_multiple_of(each),
            "{outputs} outputs are not {repeats} of each of the views {views:?} of {}",
            back.len()
        );
        if let (None, [Placement::STILL]) = (&before, back) {
            return self.clone();
        }
        let shape = Shape::from([outputs / views.len(), height, width, channels]);
        if let Some(before) = &before {
            assert_eq!(before.shape(), shape, "what the views so far gave, and what they give now");
        }
        self.backend().mean_of_views(self, inverse, before, shape)
    }

    /// The masks that logits state, as bits: where the only channel is above zero; of several channels each but the
    /// first where it is the largest, the earlier one of equals.
    ///
    /// # Shapes
    /// [masks, height, width, channels]
    pub fn pack_masks(&self) -> PackedMasks {
        self.pack(false)
    }

    /// The same of masks that have a pixel by what is known of them. One that would be empty takes the pixels whose
    /// logits (less those of the first of several channels) are within [`NEAR_HIGHEST`] of its highest.
    pub fn pack_masks_with_pixels(&self) -> PackedMasks {
        self.pack(true)
    }

    fn pack(&self, with_pixels: bool) -> PackedMasks {
        let [masks, height, width, channels] = self.shape().image("masks");
        let (classes, words) = ((channels - 1).max(1), (height * width).div_ceil(WORD));
        let shape = Shape::from([masks, classes, words * (WORD / PACKED)]);
        PackedMasks(self.backend().pack_masks(self, with_pixels, shape))
    }
}

/// How far below the highest logit the pixels of a mask may lie that would have none: e times its odds.
pub const NEAR_HIGHEST: f32 = 1.0;

/// Masks of logits on their device: a bit for each pixel and class, which is what travels.
pub struct PackedMasks([Tensor; 2]);

impl PackedMasks {
    /// The bits of some of them, for which the device is waited for once: pixel p of a class is bit `p % 64` of its
    /// word `p / 64`, bits past the last pixel are zero. None where a logit was not finite.
    ///
    /// # Shapes
    /// of each words of [masks, max(channels − 1, 1), ⌈height·width / 64⌉]
    pub fn words(all: &[Self]) -> Option<Vec<Vec<u64>>> {
        let tensors: Vec<&Tensor> = all.iter().flat_map(|Self(tensors)| tensors).collect();
        let word = |parts: &[f32]| {
            parts.iter().rev().fold(0, |word: u64, &part| word << PACKED | u64::from(part as u16))
        };
        let read = Tensor::to_vecs(&tensors);
        let words = |pair: &[Vec<f32>]| {
            (pair[1][0] == 0.0).then(|| pair[0].chunks_exact(WORD / PACKED).map(word).collect())
        };
        read.chunks_exact(2).map(words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Device;

    fn image(shape: [usize; 4]) -> Tensor {
        let values: Vec<f32> =
            (0..shape.iter().product::<usize>()).map(|at| (at * 37 % 101) as f32 / 7.0 - 6.0).collect();
        Tensor::from_slice(&Device::cpu(), shape, &values)
    }

    /// x from y and y from −x with the inverse, and in the same way a turn by a few degrees.
    fn turns(side: usize) -> [[Placement; 2]; 2] {
        let last = side as f64 - 1.0;
        let there = Placement { from: [0.0, last], matrix: [[0.0, 1.0], [-1.0, 0.0]] };
        let back = Placement { from: [last, 0.0], matrix: [[0.0, -1.0], [1.0, 0.0]] };
        let (sin, cos) = 0.2f64.sin_cos();
        let turn = |sin: f64| Placement {
            from: [0, 1].map(|axis| last / 2.0 * (1.0 - cos + if axis == 0 { -sin } else { sin })),
            matrix: [[cos, sin], [-sin, cos]],
        };
        [[there, back], [turn(sin), turn(-sin)]]
    }

    #[test]
    fn a_quarter_turn_by_hand_and_back() {
        let (square, [[there, back], _]) = (image([2, 3, 3, 2]), turns(3));
        let (values, turned) = (square.to_vec(), square.views(&[Placement::STILL, there]).to_vec());
        for (n, y, x, c) in (0..36).map(|at| (at / 18, at / 6 % 3, at / 2 % 3, at % 2)) {
            let at = |n: usize, y: usize, x: usize| ((n * 3 + y) * 3 + x) * 2 + c;
            assert_eq!(turned[at(2 * n, y, x)], values[at(n, y, x)]);
            assert_eq!(turned[at(2 * n + 1, y, x)], values[at(n, 2 - x, y)]);
        }
        let inverse = InverseViews { back: &[Placement::STILL, back], views: 0..2, repeats: 1 };
        let again = Tensor::from_slice(&Device::cpu(), [4, 3, 3, 2], &turned).mean_of_views(&inverse, None);
        assert_eq!(again.to_vec(), values);
    }

    #[test]
    fn parts_of_the_views_add_up_to_all_of_them() {
        let [[_, quarter], [there, back]] = turns(9);
        let back = [Placement::STILL, quarter, back, there];
        // Three outputs of each view of two images.
        let outputs = image([2 * 4 * 3, 9, 9, 2]);
        let all = outputs.mean_of_views(&InverseViews { back: &back, views: 0..4, repeats: 3 }, None);
        let values = outputs.to_vec();
        let size = 9 * 9 * 2;
        for n in 0..2 {
            let mut sum = None;
            for views in [0..1, 1..3, 3..4] {
                let own = &values[(n * 4 + views.start) * 3 * size..(n * 4 + views.end) * 3 * size];
                let part = Tensor::from_slice(&Device::cpu(), [views.len() * 3, 9, 9, 2], own);
                sum = Some(part.mean_of_views(&InverseViews { back: &back, views, repeats: 3 }, sum));
            }
            assert_eq!(sum.unwrap().to_vec(), all.to_vec()[n * 3 * size..(n + 1) * 3 * size]);
        }
    }

    #[test]
    fn a_view_says_nothing_of_what_it_does_not_show() {
        // The second view is enlarged twice about the upper left corner: it shows the upper left quarter alone.
        let back = [Placement::STILL, Placement { matrix: [[2.0, 0.0], [0.0, 2.0]], ..Placement::STILL }];
        let outputs: Vec<f32> = [[1.0; 16], [3.0; 16]].concat();
        let outputs = Tensor::from_slice(&Device::cpu(), [2, 4, 4, 1], &outputs);
        let mean =
            outputs.mean_of_views(&InverseViews { back: &back, views: 0..2, repeats: 1 }, None).to_vec();
        let shown = |at: usize| at % 4 < 2 && at / 4 < 2;
        assert!((0..16).all(|at| mean[at] == if shown(at) { 2.0 } else { 1.0 }), "{mean:?}");
    }

    #[test]
    fn masks_are_bits_of_signs_or_of_the_largest_class() {
        let device = Device::cpu();
        let mut signs = vec![-1.0; 2 * 70];
        [0, 1, 63, 64, 69, 70, 139].into_iter().for_each(|at| signs[at] = 0.5);
        signs[2] = 0.0;
        let packed =
            |shape: [usize; 4], logits: &[f32]| Tensor::from_slice(&device, shape, logits).pack_masks();
        let two = packed([2, 7, 10, 1], &signs);
        // Background, the first class, the second, and the first of equals.
        let logits = [3.0, 1.0, 2.0, 0.0, 1.0, 0.5, 0.0, 1.0, 2.0, 1.0, 4.0, 4.0];
        let words = PackedMasks::words(&[two, packed([1, 2, 2, 3], &logits)]).unwrap();
        assert_eq!(words, [vec![1 << 63 | 3, 1 << 5 | 1, 1, 1 << 5], vec![0b1010, 0b0100]]);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            signs[100] = bad;
            let found = PackedMasks::words(&[packed([1, 2, 2, 3], &logits), packed([2, 7, 10, 1], &signs)]);
            assert_eq!(found, None);
        }
    }
    #[test]
    fn masks_with_pixels_take_those_near_the_highest_logit() {
        let device = Device::cpu();
        let pack = |shape: [usize; 4], logits: &[f32]| {
            Tensor::from_slice(&device, shape, logits).pack_masks_with_pixels()
        };
        // One that has a pixel stays as it is; of the other, the pixels within 1 of −3.
        let one = pack([2, 1, 4, 1], &[-0.5, 0.25, -0.1, -9.0, -3.5, -3.0, -4.5, -9.0]);
        // The second class is nearest at the second pixel, by −1; at the first pixel the first class is, by −1.5.
        let two = pack([1, 1, 3, 3], &[2.0, 0.5, -4.0, 3.0, 1.0, 2.0, 5.0, 0.0, 0.0]);
        assert_eq!(PackedMasks::words(&[one, two]).unwrap(), [vec![0b0010, 0b0011], vec![0b001, 0b010]]);
        assert_eq!(PackedMasks::words(&[pack([1, 1, 2, 1], &[f32::NAN, -1.0])]), None);
    }
}
