//! Images and masks as coloured tiles: the picture, what was drawn over it, and sheets of both.

mod sheet;
mod text;
mod upright;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, Rgb, RgbImage};
use multivalued_data::{Image, Mask};

pub use sheet::{Exhibit, sheet, spread};
pub use upright::Upright;

/// Colours of what readers drew, one per class.
pub const ANNOTATION: [[u8; 3]; 4] = [[64, 156, 255], [32, 190, 160], [150, 130, 255], [90, 200, 90]];
/// Colours of what the model says, one per class.
pub const HYPOTHESIS: [[u8; 3]; 4] = [[255, 150, 40], [255, 90, 110], [240, 200, 40], [230, 120, 220]];

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

/// The picture as the eye expects it: its own darkest value black, its brightest white; three or four
/// planes as colours, otherwise the first plane as grey.
pub fn input(image: &Image) -> RgbImage {
    let scaled = |channel: usize| {
        let plane = image.plane(channel);
        let low = plane.iter().copied().fold(f32::INFINITY, f32::min);
        let high = plane.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let unit = if high > low { 255.0 / (high - low) } else { 0.0 };
        plane.iter().map(|value| ((value - low) * unit) as u8).collect::<Vec<_>>()
    };
    let planes = match image.channels() {
        3 | 4 => [scaled(0), scaled(1), scaled(2)],
        _ => [scaled(0), scaled(0), scaled(0)],
    };
    let width = image.width();
    RgbImage::from_fn(width as u32, image.height() as u32, |x, y| {
        let at = y as usize * width + x as usize;
        Rgb(planes.each_ref().map(|plane| plane[at]))
    })
}

/// The darkened picture under a mask: tinted inside, its outline in full colour. Panics unless both
/// have the same size.
pub fn overlay(picture: &RgbImage, mask: &Mask, colours: &[[u8; 3]]) -> RgbImage {
    let (width, height) = (mask.width(), mask.height());
    assert_eq!(picture.dimensions(), (width as u32, height as u32), "a mask lies on a picture of its size");
    let mut tile = picture.clone();
    tile.pixels_mut().for_each(|pixel| pixel.0 = mixed(pixel.0, [0; 3], 0.35));
    for class in 0..mask.classes() {
        let colour = colours[class % colours.len()];
        for y in 0..height {
            for x in (0..width).filter(|&x| mask.get(class, x, y)) {
                let neighbours = [(x.wrapping_sub(1), y), (x + 1, y), (x, y.wrapping_sub(1)), (x, y + 1)];
                let outside = |&(x, y): &(usize, usize)| x >= width || y >= height || !mask.get(class, x, y);
                let share = if neighbours.iter().any(outside) { 1.0 } else { 0.55 };
                let pixel = tile.get_pixel_mut(x as u32, y as u32);
                pixel.0 = mixed(pixel.0, colour, share);
            }
        }
    }
    tile
}

fn mixed(from: [u8; 3], to: [u8; 3], share: f32) -> [u8; 3] {
    std::array::from_fn(|c| (f32::from(from[c]) * (1.0 - share) + f32::from(to[c]) * share).round() as u8)
}

/// Small pictures enlarged by a whole factor until they can be seen, large ones left as they are.
pub fn enlarged(tile: &RgbImage, at_least: u32) -> RgbImage {
    let edge = tile.width().max(tile.height()).max(1);
    let factor = at_least.div_ceil(edge).max(1);
    RgbImage::from_fn(tile.width() * factor, tile.height() * factor, |x, y| {
        *tile.get_pixel(x / factor, y / factor)
    })
}

/// Large pictures reduced by a whole factor until no edge is longer than this, small ones left as they are.
pub fn reduced(tile: &RgbImage, at_most: u32) -> RgbImage {
    match tile.width().max(tile.height()).div_ceil(at_most) {
        0 | 1 => tile.clone(),
        factor => {
            let edge = |length: u32| (length / factor).max(1);
            image::imageops::thumbnail(tile, edge(tile.width()), edge(tile.height()))
        }
    }
}

/// A PNG file's bytes.
pub fn png(tile: &RgbImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes)
        .write_image(tile.as_raw(), tile.width(), tile.height(), ExtendedColorType::Rgb8)
        .expect("writing to memory does not fail");
    bytes
}

/// A picture's file in few bytes, and its media type: grey ones as PNG, coloured ones as JPEG.
pub fn compact(picture: &RgbImage) -> (&'static str, Vec<u8>) {
    let (width, height) = picture.dimensions();
    let mut bytes = Vec::new();
    if picture.pixels().all(|pixel| pixel.0[0] == pixel.0[1] && pixel.0[1] == pixel.0[2]) {
        let grey: Vec<u8> = picture.pixels().map(|pixel| pixel.0[0]).collect();
        PngEncoder::new_with_quality(&mut bytes, CompressionType::Best, FilterType::Adaptive)
            .write_image(&grey, width, height, ExtendedColorType::L8)
            .expect("writing to memory does not fail");
        return ("image/png", bytes);
    }
    JpegEncoder::new_with_quality(&mut bytes, 90)
        .encode(picture.as_raw(), width, height, ExtendedColorType::Rgb8)
        .expect("writing to memory does not fail");
    ("image/jpeg", bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_tinted_inside_and_outlined() {
        let picture = input(&Image::new(5, 5, 1, (0..25).map(|v| v as f32).collect()));
        assert_eq!((picture.get_pixel(0, 0).0, picture.get_pixel(4, 4).0), ([0; 3], [255; 3]));
        let mask = Mask::from_fn(5, 5, |x, y| (1..4).contains(&x) && (1..4).contains(&y));
        let tile = overlay(&picture, &mask, &HYPOTHESIS);
        assert_eq!(tile.get_pixel(1, 1).0, HYPOTHESIS[0], "the outline");
        assert_ne!(tile.get_pixel(2, 2).0, HYPOTHESIS[0], "the inside lets the picture through");
        assert_eq!(tile.get_pixel(4, 4).0, [166; 3], "outside the picture is darkened");
    }

    #[test]
    fn grey_pictures_stay_as_they_are_in_few_bytes_and_colours_nearly() {
        let grey = input(&Image::new(40, 30, 1, (0..1200).map(|v| (v % 97) as f32).collect()));
        let (kind, bytes) = compact(&grey);
        assert_eq!((kind, image::load_from_memory(&bytes).unwrap().into_rgb8()), ("image/png", grey));
        let colour = RgbImage::from_fn(40, 30, |x, y| Rgb([6 * x as u8, 8 * y as u8, 90]));
        let (kind, bytes) = compact(&colour);
        let read = image::load_from_memory(&bytes).unwrap().into_rgb8();
        let apart = colour.as_raw().iter().zip(read.as_raw()).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(kind == "image/jpeg" && apart < Some(40), "{apart:?}");
    }

    #[test]
    fn constant_and_many_channelled_pictures_have_a_look_too() {
        assert_eq!(input(&Image::new(2, 1, 1, vec![7.0, 7.0])).get_pixel(0, 0).0, [0; 3]);
        let colour = input(&Image::new(2, 1, 3, vec![0.0, 1.0, 1.0, 0.0, 0.0, 1.0]));
        assert_eq!((colour.get_pixel(0, 0).0, colour.get_pixel(1, 0).0), ([0, 255, 0], [255, 0, 255]));
        assert_eq!(enlarged(&colour, 5).dimensions(), (6, 3));
        assert_eq!(reduced(&RgbImage::new(1000, 3), 256).dimensions(), (250, 1));
        assert_eq!(reduced(&colour, 2), colour);
    }
}
