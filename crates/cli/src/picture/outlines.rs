//! The outlines of several masks over one picture, each in its own colour.

use image::{Rgb, RgbImage};
use multivalued_data::Mask;

use super::{enlarged, reduced};

/// Colours of raters, told apart on grey pictures and by most colour-blind eyes.
pub const RATERS: [[u8; 3]; 8] = [
    [86, 180, 233],
    [230, 159, 0],
    [0, 200, 140],
    [240, 228, 66],
    [213, 94, 0],
    [204, 121, 167],
    [120, 120, 255],
    [255, 255, 255],
];
/// Smallest and largest edge of what is drawn.
const EDGE: u32 = 320;
const MOST_EDGE: u32 = 640;
/// Pixels of a stretch in one colour, where outlines share their way.
const STRETCH: u32 = 6;

/// The part of an image that shows all masks and some of what is around them: columns and rows from where to
/// where. All of it where nothing is marked.
pub fn around(masks: &[&Mask]) -> [u32; 4] {
    let [width, height] = masks.first().map_or([0, 0], |mask| [mask.width(), mask.height()]);
    let marked = |x: usize, y: usize| masks.iter().any(|mask| (0..mask.classes()).any(|c| mask.get(c, x, y)));
    let found = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).filter(|&(x, y)| marked(x, y));
    let bounds = found.fold(None, |bounds: Option<[usize; 4]>, (x, y)| {
        let [left, top, right, bottom] = bounds.unwrap_or([x, y, x, y]);
        Some([left.min(x), top.min(y), right.max(x), bottom.max(y)])
    });
    let [left, top, right, bottom] = bounds.unwrap_or([0, 0, width.max(1) - 1, height.max(1) - 1]);
    // As much again on each side as is marked, so that the surroundings can be judged.
    let margin = (right - left).max(bottom - top) / 2 + 8;
    [
        left.saturating_sub(margin),
        top.saturating_sub(margin),
        width.min(right + margin + 1),
        height.min(bottom + margin + 1),
    ]
    .map(|edge| edge as u32)
}

/// A part of the picture, as [`around`] gives it, with the outline of each mask. Where outlines share their way
/// their colours alternate.
pub fn outlines(picture: &RgbImage, masks: &[&Mask], [left, top, right, bottom]: [u32; 4]) -> RgbImage {
    let part = image::imageops::crop_imm(picture, left, top, right - left, bottom - top).to_image();
    let mut tile = enlarged(&reduced(&part, MOST_EDGE), EDGE);
    // A pixel of the tile lies in this pixel of the masks.
    let (across, down) = (tile.width(), tile.height());
    let column = |x: u32| (left + x * (right - left) / across) as usize;
    let row = |y: u32| (top + y * (bottom - top) / down) as usize;
    for (x, y) in (0..down).flat_map(|y| (0..across).map(move |x| (x, y))) {
        let at = |x: u32, y: u32| (column(x), row(y));
        let here = at(x, y);
        let neighbours = [
            at(x.saturating_sub(1), y),
            at((x + 1).min(across - 1), y),
            at(x, y.saturating_sub(1)),
            at(x, (y + 1).min(down - 1)),
        ];
        let is_edge = |mask: &Mask| {
            (0..mask.classes()).any(|class| {
                mask.get(class, here.0, here.1) && neighbours.iter().any(|&(x, y)| !mask.get(class, x, y))
            })
        };
        let edges: Vec<usize> = (0..masks.len()).filter(|&at| is_edge(masks[at])).collect();
        if !edges.is_empty() {
            let rater = edges[((x + y) / STRETCH) as usize % edges.len()];
            tile.put_pixel(x, y, Rgb(RATERS[rater % RATERS.len()]));
        }
    }
    tile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rater_has_a_line_and_shared_lines_alternate() {
        let square = |from: usize, to: usize| {
            Mask::from_fn(200, 100, |x, y| (from..to).contains(&x) && (from..to).contains(&y))
        };
        let (small, large) = (square(40, 50), square(40, 60));
        let masks = [&small, &large, &large];
        let part = around(&masks);
        assert_eq!(part, [23, 23, 77, 77]);
        let tile = outlines(&RgbImage::new(200, 100), &masks, part);
        assert!(tile.width() >= EDGE);
        let count = |rater: usize| tile.pixels().filter(|pixel| pixel.0 == RATERS[rater]).count();
        assert!(count(0) > 100 && count(1) > 100 && count(2) > 100 && count(3) == 0);
        let nothing = Mask::empty(30, 20, 1);
        assert_eq!(around(&[&nothing]), [0, 0, 30, 20]);
        let big = Mask::from_fn(2000, 1500, |x, y| x > 5 && y > 5);
        let tile = outlines(&RgbImage::new(2000, 1500), &[&big], around(&[&big]));
        assert!(tile.width() <= MOST_EDGE);
    }
}
