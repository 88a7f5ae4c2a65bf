//! Words and numbers drawn into pictures.

use image::{Rgb, RgbImage};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

/// What stands for a character that the font does not have.
const UNKNOWN: char = '?';

/// The size of letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(RasterHeight);

impl Size {
    /// Letters that grow with the pictures they belong to.
    pub fn beside(edge: u32) -> Self {
        Self(match edge {
            ..192 => RasterHeight::Size16,
            192..384 => RasterHeight::Size24,
            _ => RasterHeight::Size32,
        })
    }

    /// The height of a line.
    pub fn height(self) -> u32 {
        self.0.val() as u32
    }

    /// The width of every letter.
    pub fn letter(self) -> u32 {
        get_raster_width(FontWeight::Regular, self.0) as u32
    }

    /// Text that is no wider than this; what is too long ends with two dots.
    pub fn fitted(self, text: &str, width: u32) -> String {
        let room = (width / self.letter()) as usize;
        match text.chars().count() <= room {
            true => text.to_owned(),
            false => text.chars().take(room.saturating_sub(2)).chain("..".chars()).take(room).collect(),
        }
    }
}

/// Draws a line of text with its upper left corner at (x, y), as far as the picture reaches.
pub fn draw(picture: &mut RgbImage, x: u32, y: u32, text: &str, size: Size, colour: [u8; 3]) {
    for (at, character) in text.chars().enumerate() {
        let known = |character| get_raster(character, FontWeight::Regular, size.0);
        let Some(letter) = known(character).or_else(|| known(UNKNOWN)) else { continue };
        let left = x + at as u32 * size.letter();
        for (row, values) in letter.rows().enumerate() {
            for (column, &ink) in values.iter().enumerate().filter(|(_, ink)| **ink > 0) {
                let (px, py) = (left + column as u32, y + row as u32);
                if px < picture.width() && py < picture.height() {
                    let pixel = picture.get_pixel_mut(px, py);
                    *pixel = Rgb(super::mixed(pixel.0, colour, f32::from(ink) / 255.0));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_told_apart_and_stay_inside() {
        let drawn = |text: &str| {
            let mut picture = RgbImage::new(40, 20);
            draw(&mut picture, 1, 1, text, Size::beside(96), [255; 3]);
            picture.into_raw()
        };
        let signs = "0123456789.+ARSempty";
        let all: std::collections::BTreeSet<_> = signs.chars().map(|c| drawn(&c.to_string())).collect();
        assert_eq!(all.len(), signs.len());
        assert_eq!(drawn("\u{4e00}"), drawn("?"), "what the font lacks is shown as such");
        assert_ne!(drawn("a word beyond the edge"), drawn(""));
    }

    #[test]
    fn letters_grow_and_long_words_are_cut() {
        let [small, middle, large] = [96, 200, 512].map(Size::beside);
        assert!(small.height() < middle.height() && middle.height() < large.height());
        let width = 6 * small.letter();
        assert_eq!(small.fitted("reader", width), "reader");
        assert_eq!(small.fitted("radiologist", width), "radi..");
        assert_eq!(small.fitted("radiologist", small.letter()), ".");
    }
}
