//! The sizes of a tensor: up to four of them, copied freely.
//!
//! Sizes whose product no memory could hold are refused when a shape is made, so that whoever multiplies
//! sizes of one shape need not fear to overflow.

use std::fmt;
use std::ops::Deref;

/// The most values of a tensor: so many f32 are the most bytes that can be addressed.
const MOST_VALUES: usize = isize::MAX as usize / size_of::<f32>();

/// Sizes from the outermost axis to the innermost. Images are [batch, height, width, channels].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    sizes: [usize; 4],
    rank: usize,
}

impl Shape {
    /// How many values a tensor of this shape has.
    pub fn volume(&self) -> usize {
        self.iter().product()
    }

    /// The innermost size; 1 for a scalar.
    pub fn last(&self) -> usize {
        self.sizes[..self.rank].last().copied().unwrap_or(1)
    }

    /// As an image's [batch, height, width, channels]. Panics for another number of axes.
    pub(crate) fn image(&self, what: &str) -> [usize; 4] {
        self.exactly(what, "an image [batch, height, width, channels]")
    }

    /// As a matrix's [rows, columns]. Panics for another number of axes.
    pub(crate) fn matrix(&self, what: &str) -> [usize; 2] {
        self.exactly(what, "a matrix [rows, columns]")
    }

    fn exactly<const N: usize>(&self, what: &str, meant: &str) -> [usize; N] {
        match <[usize; N]>::try_from(&**self) {
            Ok(sizes) => sizes,
            Err(_) => panic!("{what} takes {meant}, not {self}"),
        }
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.sizes[..self.rank]
    }
}

impl From<&[usize]> for Shape {
    fn from(sizes: &[usize]) -> Self {
        assert!(sizes.len() <= 4, "a tensor has at most four axes, not {sizes:?}");
        // An empty tensor's other sizes count as well: parts of the product are used, too.
        let volume = sizes.iter().try_fold(1usize, |volume, &size| volume.checked_mul(size.max(1)));
        assert!(
            volume.is_some_and(|volume| volume <= MOST_VALUES),
            "a tensor of shape {sizes:?} is too large: at most {MOST_VALUES} values can be addressed"
        );
        let mut shape = Self { sizes: [1; 4], rank: sizes.len() };
        shape.sizes[..sizes.len()].copy_from_slice(sizes);
        shape
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(sizes: [usize; N]) -> Self {
        Self::from(&sizes[..])
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
