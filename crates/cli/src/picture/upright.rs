//! Pictures the way a reader of scans expects them, the radiological convention: the patient's right is on the left,
//! the front (or, in upright planes, the head) is up. Files keep the order of their pixels; only pictures are turned.

use image::{RgbImage, imageops};
use multivalued_data::{Geometry, Mask};

/// What has to be done to a picture whose rows and columns are those of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upright {
    transposed: bool,
    mirrored: bool,
    upside_down: bool,
    /// What lies to the left and at the top then: R, A, S; none where the file does not say.
    marks: Option<[char; 2]>,
}

impl Upright {
    /// As a geometry demands it; nothing is done without one.
    pub fn of(geometry: Option<&Geometry>) -> Self {
        let still = Self { transposed: false, mirrored: false, upside_down: false, marks: None };
        let Some(affine) = geometry.and_then(|geometry| geometry.affine) else { return still };
        // Which way of the world (right, anterior, superior) a column and a row lead, mostly.
        let towards = |axis: usize| {
            let along = [0, 1, 2].map(|row| affine[row][axis]);
            let largest = (0..3).max_by(|&a, &b| along[a].abs().total_cmp(&along[b].abs())).unwrap_or(0);
            (largest, along[largest] > 0.0)
        };
        let (columns, rows) = (towards(0), towards(1));
        if columns.0 == rows.0 {
            return still;
        }
        // Right to left goes across before front to back does, which goes across before head to feet.
        let transposed = columns.0 > rows.0;
        let (across, down) = if transposed { (rows, columns) } else { (columns, rows) };
        // What is towards right, front or head is to be at the left or at the top.
        let mark = |axis: usize| ['R', 'A', 'S'][axis];
        Self {
            transposed,
            mirrored: across.1,
            upside_down: down.1,
            marks: Some([mark(across.0), mark(down.0)]),
        }
    }

    /// What lies to the left, and at the top.
    pub fn marks(&self) -> Option<[char; 2]> {
        self.marks
    }

    /// The convention in words, where the file says where its pixels lie.
    pub fn caption(&self) -> Option<String> {
        let side = |mark: char| match mark {
            'R' => "the patient's right",
            'A' => "the front",
            _ => "the head",
        };
        let [left, top] = self.marks?;
        Some(format!("radiological convention: left is {}, up is {}", side(left), side(top)))
    }

    /// A picture, turned.
    pub fn turned(&self, picture: RgbImage) -> RgbImage {
        let picture = match self.transposed {
            true => imageops::rotate90(&imageops::flip_vertical(&picture)),
            false => picture,
        };
        let picture = if self.mirrored { imageops::flip_horizontal(&picture) } else { picture };
        if self.upside_down { imageops::flip_vertical(&picture) } else { picture }
    }

    /// What belongs to columns and rows, as they are after turning.
    pub fn turned_size<T>(&self, [across, down]: [T; 2]) -> [T; 2] {
        if self.transposed { [down, across] } else { [across, down] }
    }

    /// A mask, turned as its picture is.
    pub fn turned_mask(&self, mask: &Mask) -> Mask {
        if !(self.transposed || self.mirrored || self.upside_down) {
            return mask.clone();
        }
        let [width, height] = self.turned_size([mask.width(), mask.height()]);
        let mut turned = Mask::empty(width, height, mask.classes());
        for class in 0..mask.classes() {
            for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                let from = [
                    if self.mirrored { width - 1 - x } else { x },
                    if self.upside_down { height - 1 - y } else { y },
                ];
                let [column, row] = self.turned_size(from);
                if mask.get(class, column, row) {
                    turned.set(class, x, y, true);
                }
            }
        }
        turned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Rgb;

    fn upright(columns: [f32; 3], rows: [f32; 3]) -> Upright {
        let affine = [0, 1, 2].map(|row| [columns[row], rows[row], 0.1, 7.0]);
        Upright::of(Some(&Geometry { spacing: [1.0; 3], affine: Some(affine) }))
    }

    /// Where the first pixel of a file of 3x2 pixels ends up.
    fn first(upright: &Upright) -> ((u32, u32), (u32, u32)) {
        let mut picture = RgbImage::new(3, 2);
        picture.put_pixel(0, 0, Rgb([255; 3]));
        let turned = upright.turned(picture);
        let at = turned.enumerate_pixels().find(|(.., pixel)| pixel.0 == [255; 3]).unwrap();
        let mask = upright.turned_mask(&Mask::from_fn(3, 2, |x, y| x == 0 && y == 0));
        assert_eq!((mask.width() as u32, mask.height() as u32), turned.dimensions());
        assert!(mask.get(0, at.0 as usize, at.1 as usize), "a mask is turned as its picture is");
        (turned.dimensions(), (at.0, at.1))
    }

    #[test]
    fn right_is_left_and_front_or_head_is_up() {
        // As DICOM stores axial slices: columns to the left, rows to the back. Nothing is to be done.
        let axial = upright([-0.7, 0.1, 0.0], [0.1, -0.7, 0.0]);
        assert_eq!((first(&axial), axial.marks()), (((3, 2), (0, 0)), Some(['R', 'A'])));
        // As NIfTI often does: columns to the right, rows to the front.
        assert_eq!(first(&upright([0.7, 0.0, 0.0], [0.0, 0.7, 0.0])), ((3, 2), (2, 1)));
        assert_eq!(first(&upright([-1.0, 0.0, 0.0], [0.0, 1.0, 0.0])), ((3, 2), (0, 1)));
        // Columns to the front, rows to the right: transposed, and both turned.
        assert_eq!(first(&upright([0.0, 1.0, 0.0], [1.0, 0.0, 0.0])), ((2, 3), (1, 2)));
        assert_eq!(first(&upright([0.0, -1.0, 0.0], [-1.0, 0.0, 0.0])), ((2, 3), (0, 0)));
        // A sagittal slice: front to the left, head up.
        let sagittal = upright([0.0, 1.0, 0.1], [0.0, -0.1, 1.0]);
        assert_eq!((first(&sagittal), sagittal.marks()), (((3, 2), (2, 1)), Some(['A', 'S'])));
        assert!(sagittal.caption().unwrap().contains("left is the front, up is the head"));
        // A coronal one, stored head to feet.
        assert_eq!(first(&upright([-1.0, 0.0, 0.0], [0.0, 0.0, -1.0])), ((3, 2), (0, 0)));
    }

    #[test]
    fn a_file_that_says_nothing_is_shown_as_it_is() {
        let unknown = Upright::of(None);
        assert_eq!((first(&unknown), unknown.caption()), (((3, 2), (0, 0)), None));
        let no_affine = Upright::of(Some(&Geometry { spacing: [1.0; 3], affine: None }));
        assert_eq!(no_affine, unknown);
        assert_eq!(upright([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]), unknown, "two axes that are one");
    }
}
