//! Where pixels come from, and the way back.

use crate::{Image, Mask};

/// Where each pixel of a changed image comes from: `[x, y] = from + matrix · [to_x, to_y]`. Flips, quarter
/// turns and crops alone give whole numbers, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// Width and height of the result.
    pub size: [usize; 2],
    /// The source of its first pixel.
    pub from: [f64; 2],
    /// How the source moves with a pixel's column and row.
    pub matrix: [[f64; 2]; 2],
}

impl Placement {
    /// Of an image that stays as it is.
    pub(super) fn still(size: [usize; 2]) -> Self {
        Self { size, from: [0.0; 2], matrix: [[1.0, 0.0], [0.0, 1.0]] }
    }
}

/// Where each pixel of the result comes from: `centre + matrix · (pixel + corner)`.
pub(super) struct Motion {
    pub source: [usize; 2],
    pub target: [usize; 2],
    pub matrix: [[f64; 2]; 2],
    pub corner: [f64; 2],
    pub centre: [f64; 2],
}

impl Motion {
    /// The way back.
    pub fn inverse(&self) -> Self {
        let [[a, b], [c, d]] = self.matrix;
        let determinant = a * d - b * c;
        Self {
            source: self.target,
            target: self.source,
            matrix: [[d, -b], [-c, a]].map(|row| row.map(|entry| entry / determinant)),
            corner: self.centre.map(|place| -place),
            centre: self.corner.map(|place| -place),
        }
    }

    /// The same, counted from the first pixel.
    pub fn placement(&self) -> Placement {
        let Self { target, matrix, corner, centre, .. } = self;
        let from = |axis: usize| centre[axis] + matrix[axis][0] * corner[0] + matrix[axis][1] * corner[1];
        Placement { size: *target, from: [0, 1].map(from), matrix: *matrix }
    }

    pub fn origins(&self) -> impl Iterator<Item = [f64; 2]> {
        let [width, height] = self.target;
        (0..height).flat_map(move |row| {
            let y = row as f64 + self.corner[1];
            (0..width).map(move |column| {
                let x = column as f64 + self.corner[0];
                [0, 1].map(|axis| self.centre[axis] + self.matrix[axis][0] * x + self.matrix[axis][1] * y)
            })
        })
    }

    /// The nearest source pixel of each pixel of the result.
    pub fn nearest(&self) -> Vec<[usize; 2]> {
        let near = |[x, y]: [f64; 2]| {
            [
                within((x + 0.5).floor() as i64, self.source[0]),
                within((y + 0.5).floor() as i64, self.source[1]),
            ]
        };
        self.origins().map(near).collect()
    }

    pub fn mask(&self, mask: &Mask, nearest: &[[usize; 2]]) -> Mask {
        let [width, height] = self.target;
        let mut moved = Mask::empty(width, height, mask.classes());
        for class in 0..mask.classes() {
            for (at, &[x, y]) in nearest.iter().enumerate() {
                if mask.get(class, x, y) {
                    moved.set(class, at % width, at / width, true);
                }
            }
        }
        moved
    }

    pub fn image(&self, image: &Image) -> Image {
        let [width, height] = self.source;
        let mut pixels = vec![0.0; self.target[0] * self.target[1] * image.channels()];
        let size = self.target[0] * self.target[1];
        for (at, [x, y]) in self.origins().enumerate() {
            let (left, top) = (x.floor(), y.floor());
            let (right_share, lower_share) = ((x - left) as f32, (y - top) as f32);
            let columns = [within(left as i64, width), within(left as i64 + 1, width)];
            let rows = [within(top as i64, height), within(top as i64 + 1, height)];
            for channel in 0..image.channels() {
                let plane = image.plane(channel);
                let [upper, lower] = rows.map(|row| {
                    let [a, b] = columns.map(|column| plane[row * width + column]);
                    a + (b - a) * right_share
                });
                pixels[channel * size + at] = upper + (lower - upper) * lower_share;
            }
        }
        Image::new(self.target[0], self.target[1], image.channels(), pixels)
    }
}

/// An index beyond the border becomes the border's own: … 0 0 | 0 1 … n-1 | n-1 n-1 …
fn within(index: i64, length: usize) -> usize {
    index.clamp(0, length as i64 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn indices_beyond_the_border() {
        let indices: Vec<_> = (-2..5).map(|index| within(index, 3)).collect();
        assert_eq!(indices, [0, 0, 0, 1, 2, 2, 2]);
    }
}
