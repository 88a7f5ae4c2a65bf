//! A segmentation, bit-packed: one plane of bits per foreground class, so that intersections and
//! unions are population counts.

use std::ops::Range;

/// Bit planes, one per foreground class (background is the absence of all). Pixel (x, y) of a class
/// is bit `(y * width + x) % 64` of word `(y * width + x) / 64` of that plane; bits past the last
/// pixel are zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mask {
    width: usize,
    height: usize,
    classes: usize,
    words: Vec<u64>,
}

impl Mask {
    /// An empty mask of `classes` foreground classes.
    pub fn empty(width: usize, height: usize, classes: usize) -> Self {
        assert!(classes >= 1, "a mask has at least one foreground class");
        let words = vec![0; (width * height).div_ceil(64) * classes];
        Self { width, height, classes, words }
    }

    /// A one-class mask whose pixel (x, y) is set where `inside(x, y)`.
    pub fn from_fn(width: usize, height: usize, mut inside: impl FnMut(usize, usize) -> bool) -> Self {
        let mut mask = Self::empty(width, height, 1);
        for y in 0..height {
            for x in 0..width {
                if inside(x, y) {
                    mask.set(0, x, y, true);
                }
            }
        }
        mask
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Foreground classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The bits of one class.
    pub fn plane(&self, class: usize) -> &[u64] {
        let words = (self.width * self.height).div_ceil(64);
        &self.words[class * words..(class + 1) * words]
    }

    /// All planes' words, one plane after the other.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Whether a pixel belongs to a class.
    pub fn get(&self, class: usize, x: usize, y: usize) -> bool {
        let bit = y * self.width + x;
        self.plane(class)[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Puts a pixel into a class or takes it out.
    pub fn set(&mut self, class: usize, x: usize, y: usize, inside: bool) {
        assert!(
            x < self.width && y < self.height,
            "pixel ({x}, {y}) of a {}x{} mask",
            self.width,
            self.height
        );
        let bit = y * self.width + x;
        let word = class * (self.width * self.height).div_ceil(64) + bit / 64;
        if inside {
            self.words[word] |= 1 << (bit % 64);
        } else {
            self.words[word] &= !(1 << (bit % 64));
        }
    }

    /// Pixels in a class.
    pub fn area(&self, class: usize) -> usize {
        self.plane(class).iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no pixel is in any class.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// A mask from its words, as [`Mask::words`] gives them; none where their number does not fit the
    /// size or a bit past the last pixel is set.
    pub fn from_words(width: usize, height: usize, classes: usize, words: Vec<u64>) -> Option<Self> {
        let pixels = width.checked_mul(height)?;
        let per_plane = pixels.div_ceil(64);
        if classes == 0 || per_plane.checked_mul(classes)? != words.len() {
            return None;
        }
        let stray = if pixels % 64 == 0 { 0 } else { u64::MAX << (pixels % 64) };
        let clean = per_plane == 0 || words.chunks(per_plane).all(|plane| plane[per_plane - 1] & stray == 0);
        clean.then_some(Self { width, height, classes, words })
    }

    /// Label numbers row by row: 0 for background, 1 for the first class and so on; where classes
    /// overlap, the last one. Panics with more than 255 classes.
    pub fn labels(&self) -> Vec<u8> {
        let mut labels = vec![0; self.width * self.height];
        for class in 0..self.classes {
            let label = u8::try_from(class + 1).expect("a label map has at most 255 classes");
            for (word, &bits) in self.plane(class).iter().enumerate() {
                let mut rest = bits;
                while rest != 0 {
                    labels[word * 64 + rest.trailing_zeros() as usize] = label;
                    rest &= rest - 1;
                }
            }
        }
        labels
    }

    /// Puts the pixels `columns` of row `y` into a class, a word at a time.
    pub fn fill_row(&mut self, class: usize, y: usize, columns: Range<usize>) {
        assert!(
            columns.end <= self.width && y < self.height,
            "columns {columns:?} of row {y} of a {}x{} mask",
            self.width,
            self.height
        );
        if columns.is_empty() {
            return;
        }
        let plane = class * (self.width * self.height).div_ceil(64);
        let (first, last) = (y * self.width + columns.start, y * self.width + columns.end - 1);
        let (from, to) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
        let words = &mut self.words[plane + first / 64..=plane + last / 64];
        if let [only] = words {
            *only |= from & to;
        } else {
            let end = words.len() - 1;
            words[0] |= from;
            words[1..end].fill(u64::MAX);
            words[end] |= to;
        }
    }

    /// The pixels in both masks.
    pub fn intersection(&self, other: &Self) -> Self {
        self.combined(other, |a, b| a & b)
    }

    /// The pixels in either mask.
    pub fn union(&self, other: &Self) -> Self {
        self.combined(other, |a, b| a | b)
    }

    /// The pixels in this mask and not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        self.combined(other, |a, b| a & !b)
    }

    fn combined(&self, other: &Self, word: impl Fn(u64, u64) -> u64) -> Self {
        let size = |mask: &Self| (mask.width, mask.height, mask.classes);
        assert_eq!(size(self), size(other), "two masks must have the same width, height and classes");
        let words = self.words.iter().zip(&other.words).map(|(&a, &b)| word(a, b)).collect();
        Self { words, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fill_as_single_pixels_do() {
        for (start, end) in [(0, 0), (0, 1), (3, 9), (0, 70), (69, 70), (5, 66)] {
            for y in 0..3 {
                let mut filled = Mask::empty(70, 3, 2);
                filled.fill_row(1, y, start..end);
                let mut expected = Mask::empty(70, 3, 2);
                (start..end).for_each(|x| expected.set(1, x, y, true));
                assert_eq!(filled, expected, "columns {start}..{end} of row {y}");
            }
        }
    }

    #[test]
    fn set_algebra_is_pixelwise() {
        let a = Mask::from_fn(9, 9, |x, _| x < 5);
        let b = Mask::from_fn(9, 9, |_, y| y < 4);
        assert_eq!(a.intersection(&b), Mask::from_fn(9, 9, |x, y| x < 5 && y < 4));
        assert_eq!(a.union(&b), Mask::from_fn(9, 9, |x, y| x < 5 || y < 4));
        assert_eq!(a.difference(&b), Mask::from_fn(9, 9, |x, y| x < 5 && y >= 4));
    }
}
