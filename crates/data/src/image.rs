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
