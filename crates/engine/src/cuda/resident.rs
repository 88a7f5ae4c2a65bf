//! Images that stay on a GPU: a training set is copied there once, and each batch is gathered from it,
//! moved and changed on the way, without a pixel crossing from the host.

use super::launch::LONG_BLOCK;
use super::tensors::arg;
use super::{Arg, Buffer, Grid};
use crate::shape::Shape;
use crate::tensor::{Device, Tensor};
use crate::views::Placement;

/// Images of one size on a GPU: values as f32, or annotations as bytes.
pub struct ResidentImages {
    buffer: Buffer,
    /// Images, height, width, channels.
    shape: [usize; 4],
    /// As kernels name it.
    element: &'static str,
}

/// An image of a batch, and where its pixels come from: `[x, y] = from + matrix · [to_x, to_y]`, from
/// the border where that lies beyond it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// Which image; none for one of zeros.
    pub image: Option<usize>,
    /// The source of the first pixel, x and y.
    pub from: [f64; 2],
    /// How the source moves with a pixel's column and row.
    pub matrix: [[f64; 2]; 2],
}

impl Pick {
    /// An image as it is.
    pub fn plain(image: usize) -> Self {
        Self::placed(image, Placement::STILL)
    }

    pub(super) fn placed(image: usize, Placement { from, matrix }: Placement) -> Self {
        Self { image: Some(image), from, matrix }
    }
}

/// What happens to an image's values: `value · gain + mean · (1 − gain) + range · (offset + noise · z)`, mean
/// and range those of the gathered image over all channels, z normal draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intensity {
    /// Contrast about the mean.
    pub gain: f32,
    /// Brightness, as a share of the range.
    pub offset: f32,
    /// Standard deviation of the noise, as a share of the range.
    pub noise: f32,
    /// Names the noise: the same stream gives the same draws.
    pub stream: u64,
}

/// The range that values are brought to at last, each channel of an image by itself; what does not vary
/// becomes 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rescale {
    /// The smallest value becomes 0, the largest 1.
    MinMax,
    /// `low` becomes 0 and `high` 1, values beyond are cut off.
    Range {
        /// What becomes 0.
        low: f32,
        /// What becomes 1.
        high: f32,
    },
    /// Mean 0 and variance 1.
    ZScore,
}

/// The kernel's numbers of a [`Rescale`].
const MIN_MAX: i32 = 0;
pub(super) const RANGE: i32 = 1;
pub(super) const Z_SCORE: i32 = 2;

impl ResidentImages {
    /// Images of f32 values, channels last, to be sampled bilinearly. Panics unless they fill the shape, and for a
    /// device that has no memory of its own ([`Device::free_bytes`]).
    pub fn of_values(device: &Device, shape: [usize; 4], values: &[f32]) -> Self {
        Self::new(device, shape, bytemuck::cast_slice(values), 4, "float")
    }

    /// Images of whole numbers from 0 to 255, to be sampled by the nearest pixel; they become f32 when they
    /// are gathered.
    pub fn of_bytes(device: &Device, shape: [usize; 4], values: &[u8]) -> Self {
        Self::new(device, shape, values, 1, "unsigned char")
    }

    fn new(device: &Device, shape: [usize; 4], bytes: &[u8], size: usize, element: &'static str) -> Self {
        let Device::Cuda(cuda) = device else { panic!("images stay on a GPU, not on {device:?}") };
        let volume = Shape::from(shape).volume();
        assert_eq!(bytes.len(), volume * size, "values for images of shape {shape:?}");
        assert!(shape[1] > 0 && shape[2] > 0, "images of shape {shape:?} have no pixels to take");
        Self { buffer: Buffer::upload(cuda, bytes), shape, element }
    }

    /// A batch of images of `[height, width]`: [picks, height, width, channels]. Flips, quarter turns and
    /// whole shifts change no value. Panics for an image that is not there.
    pub fn gather(&self, picks: &[Pick], size: [usize; 2]) -> Tensor {
        gather(&self.buffer, self.element, self.shape, picks, size)
    }

    /// As [`gather`](Self::gather), the values then changed, each image by its own intensity, and brought to
    /// a range. Panics unless there are as many intensities as picks.
    pub fn gather_adjusted(
        &self,
        picks: &[Pick],
        size: [usize; 2],
        intensities: &[Intensity],
        rescale: Rescale,
    ) -> Tensor {
        assert_eq!(picks.len(), intensities.len(), "an intensity for every image");
        let out = self.gather(picks, size);
        let table: Vec<[u32; 6]> = intensities
            .iter()
            .map(|&Intensity { gain, offset, noise, stream }| {
                let [gain, offset, noise] = [gain, offset, noise].map(f32::to_bits);
                [gain, offset, noise, 0, stream as u32, (stream >> 32) as u32]
            })
            .collect();
        let cuda = self.buffer.cuda();
        let table = Buffer::upload(cuda, bytemuck::cast_slice(&table));
        let (kind, low, high) = match rescale {
            Rescale::MinMax => (MIN_MAX, 0.0, 1.0),
            Rescale::Range { low, high } => (RANGE, low, high),
            Rescale::ZScore => (Z_SCORE, 0.0, 1.0),
        };
        let mut args = vec![arg(&out), table.arg(), Arg::count(size[0] * size[1])];
        args.extend([Arg::size(self.shape[3]), Arg::Int(kind), Arg::Float(low), Arg::Float(high)]);
        let grid = Grid { threads: [LONG_BLOCK, 1], ..Grid::blocks(picks.len(), 1, 1) };
        cuda.launch("adjust_images", grid, &args);
        out
    }
}

/// Some of the images in a buffer, moved.
pub(super) fn gather(
    from: &Buffer,
    element: &str,
    [images, height, width, channels]: [usize; 4],
    picks: &[Pick],
    [to_height, to_width]: [usize; 2],
) -> Tensor {
    let cuda = from.cuda();
    let table: Vec<[f64; 7]> = picks
        .iter()
        .map(|&Pick { image, from: [x, y], matrix: [[a, b], [c, d]] }| {
            assert!(image.is_none_or(|image| image < images), "image {image:?} of {images}");
            [image.map_or(-1.0, |image| image as f64), x, y, a, b, c, d]
        })
        .collect();
    let table = Buffer::upload(cuda, bytemuck::cast_slice(&table));
    let out = cuda.floats([picks.len(), to_height, to_width, channels]);
    let count = out.shape().volume();
    let mut args = vec![from.arg(), table.arg(), arg(&out)];
    args.extend([height, width, channels, to_height, to_width].map(Arg::size));
    args.push(Arg::count(count));
    cuda.launch(&format!("gather_images<{element}>"), Grid::over(count), &args);
    out
}
