//! An image of one to four f32 planes, with the geometry it came with.

/// Where the pixels lie in the world; kept so that outputs can be written back in the input's space.
#[derive(Debug, Clone, PartialEq)]
pub struct Geometry {
    /// Distance between pixel centres along x, y (and z for a slice of a volume), in the file's unit.
    pub spacing: [f32; 3],
    /// Voxel to world, row by row, as NIfTI's `srow_x`, `srow_y`, `srow_z`; none where the file has none.
    pub affine: Option<[[f32; 4]; 3]>,
}

/// Planar pixels: plane c, row y, column x lies at `(c * height + y) * width + x`.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    width: usize,
    height: usize,
    channels: usize,
    pixels: Vec<f32>,
    /// Spacing and affine, where the source had them.
    pub geometry: Option<Geometry>,
}

impl Image {
    /// An image from planar pixels. Panics unless there are one to four planes of the stated size.
    pub fn new(width: usize, height: usize, channels: usize, pixels: Vec<f32>) -> Self {
        assert!((1..=4).contains(&channels), "an image has 1 to 4 channels, not {channels}");
        assert_eq!(
            pixels.len(),
            width * height * channels,
            "{channels} planes of {width}x{height} need {} pixels, got {}",
            width * height * channels,
            pixels.len()
        );
        Self { width, height, channels, pixels, geometry: None }
    }

    /// The planes of several images of one size as those of one, with the geometry of the middle one.
    pub fn joined(images: &[&Self]) -> Self {
        let middle = images[images.len() / 2];
        let pixels = images.iter().flat_map(|image| &image.pixels).copied().collect();
        let channels = images.iter().map(|image| image.channels).sum();
        Self { geometry: middle.geometry.clone(), ..Self::new(middle.width, middle.height, channels, pixels) }
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Planes.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Why no network can take the image: it has no pixels, or values that are no numbers.
    pub fn fault(&self) -> Option<String> {
        if self.pixels.is_empty() {
            return Some(format!(
                "the image has {}x{} pixels, that is none; leave it out",
                self.width, self.height
            ));
        }
        let bad = |value: &&f32| !value.is_finite();
        let first = self.pixels.iter().position(|value| bad(&value))?;
        let (x, y) = (first % self.width, first / self.width % self.height);
        let count = self.pixels.iter().filter(bad).count();
        let all = self.pixels.len();
        Some(format!(
            "{count} of {all} values are NaN or infinite, the first at column {x}, row {y}; repair the image or leave it out"
        ))
    }

    /// All planes, one after the other.
    pub fn pixels(&self) -> &[f32] {
        &self.pixels
    }

    /// All planes, to be changed in place.
    pub fn pixels_mut(&mut self) -> &mut [f32] {
        &mut self.pixels
    }

    /// One plane, row by row.
    pub fn plane(&self, channel: usize) -> &[f32] {
        let size = self.width * self.height;
        &self.pixels[channel * size..(channel + 1) * size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_pixels_or_with_values_that_are_no_numbers_have_a_fault() {
        assert_eq!(Image::new(4, 3, 2, vec![f32::MAX; 24]).fault(), None);
        for [width, height] in [[0, 3], [4, 0], [0, 0]] {
            let fault = Image::new(width, height, 1, Vec::new()).fault().unwrap();
            assert!(fault.contains(&format!("{width}x{height} pixels")), "{fault}");
        }
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut image = Image::new(4, 3, 2, vec![0.0; 24]);
            [18, 23].into_iter().for_each(|at| image.pixels_mut()[at] = bad);
            let fault = image.fault().unwrap();
            assert!(fault.contains("2 of 24 values") && fault.contains("column 2, row 1"), "{fault}");
        }
    }
}
