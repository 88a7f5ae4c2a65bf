//! Numbers, and marks of sides, drawn into pictures: signs of three by five dots, enlarged.

use image::{Rgb, RgbImage};

/// Five rows of three dots each, the most significant bit at the upper left.
const GLYPHS: [(char, u16); 15] = [
    ('0', 0b111_101_101_101_111),
    ('1', 0b010_110_010_010_111),
    ('2', 0b111_001_111_100_111),
    ('3', 0b111_001_111_001_111),
    ('4', 0b101_101_111_001_001),
    ('5', 0b111_100_111_001_111),
    ('6', 0b111_100_111_101_111),
    ('7', 0b111_001_010_010_010),
    ('8', 0b111_101_111_101_111),
    ('9', 0b111_101_111_001_111),
    ('.', 0b000_000_000_000_010),
    ('+', 0b000_010_111_010_000),
    ('A', 0b010_101_111_101_101),
    ('R', 0b110_101_110_101_101),
    ('S', 0b011_100_010_001_110),
];

/// Width and height of a dot.
const DOT: u32 = 2;
/// Height of a line of digits.
pub const HEIGHT: u32 = 5 * DOT;

/// Draws digits, points, plus signs and the letters A, R and S with their upper left corner at (x, y), as far as the picture
/// reaches; other characters leave a gap.
pub fn draw(picture: &mut RgbImage, x: u32, y: u32, text: &str, colour: [u8; 3]) {
    for (at, character) in text.chars().enumerate() {
        let Some((_, dots)) = GLYPHS.iter().find(|(known, _)| *known == character) else { continue };
        for bit in (0..15).filter(|bit| dots >> (14 - bit) & 1 == 1) {
            let (left, top) = (x + (4 * at as u32 + bit % 3) * DOT, y + bit / 3 * DOT);
            for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                if left + dx < picture.width() && top + dy < picture.height() {
                    picture.put_pixel(left + dx, top + dy, Rgb(colour));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_told_apart_and_stay_inside() {
        let drawn = |text: &str| {
            let mut picture = RgbImage::new(20, 12);
            draw(&mut picture, 1, 1, text, [255; 3]);
            picture.into_raw()
        };
        let all: std::collections::BTreeSet<_> =
            "0123456789.+ARS".chars().map(|c| drawn(&c.to_string())).collect();
        assert_eq!(all.len(), 15);
        assert_eq!(drawn("?"), drawn(""));
        assert_ne!(drawn("1234567"), drawn(""), "what lies beyond the edge is left out");
    }
}
