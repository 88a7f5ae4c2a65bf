//! The part of an image in which any of some masks has a pixel of a class: boundaries and components are looked for
//! there alone.

use crate::Mask;

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    left: usize,
    top: usize,
    pub width: usize,
    pub height: usize,
}

impl Window {
    /// The smallest window around a class of all masks; without pixels where no mask has the class.
    pub fn around<'m>(masks: impl Iterator<Item = &'m Mask>, class: usize) -> Self {
        let (mut left, mut right, mut top, mut bottom) = (usize::MAX, 0, usize::MAX, 0);
        for mask in masks {
            each_pixel(mask, class, |x, y| {
                (left, right) = (left.min(x), right.max(x + 1));
                (top, bottom) = (top.min(y), bottom.max(y + 1));
            });
        }
        match right {
            0 => Self { left: 0, top: 0, width: 0, height: 0 },
            _ => Self { left, top, width: right - left, height: bottom - top },
        }
    }

    /// A class of a mask inside the window, row by row. The window holds all of it.
    pub fn of(&self, mask: &Mask, class: usize) -> Vec<bool> {
        let mut inside = vec![false; self.width * self.height];
        each_pixel(mask, class, |x, y| inside[(y - self.top) * self.width + x - self.left] = true);
        inside
    }
}

fn each_pixel(mask: &Mask, class: usize, mut each: impl FnMut(usize, usize)) {
    for (word, &bits) in mask.plane(class).iter().enumerate() {
        let mut rest = bits;
        while rest != 0 {
            let bit = word * 64 + rest.trailing_zeros() as usize;
            each(bit % mask.width(), bit / mask.width());
            rest &= rest - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_all_masks_and_nothing_around_them() {
        let a = Mask::from_fn(70, 9, |x, y| x == 66 && y == 3);
        let b = Mask::from_fn(70, 9, |x, y| (64..66).contains(&x) && y == 5);
        let window = Window::around([&a, &b].into_iter(), 0);
        assert_eq!(window, Window { left: 64, top: 3, width: 3, height: 3 });
        assert_eq!(window.of(&a, 0).iter().position(|&set| set), Some(2));
        assert_eq!(window.of(&b, 0)[6..], [true, true, false]);
        let none = Window::around([&Mask::empty(70, 9, 1)].into_iter(), 0);
        assert_eq!((none.width, none.height), (0, 0));
    }
}
