//! Images that stay on a GPU: a training set is copied there once, and each batch is gathered from it,
//! flipped and turned on the way, without a pixel crossing from the host.

use super::ops::{arg, empty};
use super::{Arg, Buffer, Cuda, Element, Grid};
use crate::tensor::Tensor;

/// Images of one size on a GPU, as f32 or as bytes.
pub struct ResidentImages {
    buffer: Buffer,
    /// Images, height, width, channels.
    shape: [usize; 4],
    /// As kernels name it.
    element: &'static str,
}

/// An image of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// Which image; none for one of zeros.
    pub image: Option<usize>,
    /// Where its pixels come from, about the centre: `[x, y] = turn · [to_x, to_y]`, a signed
    /// permutation; only square images can swap their axes.
    pub turn: [[i8; 2]; 2],
}

impl Pick {
    /// An image as it is.
    pub fn plain(image: usize) -> Self {
        Self { image: Some(image), turn: [[1, 0], [0, 1]] }
    }
}

impl ResidentImages {
    /// Images of f32 values, channels last. Panics unless they fill the shape.
    pub fn of_values(cuda: &Cuda, shape: [usize; 4], values: &[f32]) -> Self {
        Self::new(cuda, shape, bytemuck::cast_slice(values), 4, "float")
    }

    /// Images of whole numbers from 0 to 255, which become f32 when they are gathered.
    pub fn of_bytes(cuda: &Cuda, shape: [usize; 4], values: &[u8]) -> Self {
        Self::new(cuda, shape, values, 1, "unsigned char")
    }

    fn new(cuda: &Cuda, shape: [usize; 4], bytes: &[u8], size: usize, element: &'static str) -> Self {
        let volume: usize = shape.iter().product();
        assert_eq!(bytes.len(), volume * size, "values for images of shape {shape:?}");
        let buffer = Buffer::new(cuda, bytes.len().div_ceil(4), Element::F32);
        cuda.upload(bytes, buffer.pointer());
        Self { buffer, shape, element }
    }

    /// A batch: [picks, height, width, channels]. Panics for an image that is not there.
    pub fn gather(&self, picks: &[Pick]) -> Tensor {
        let [images, height, width, channels] = self.shape;
        let cuda = self.buffer.cuda();
        let table: Vec<[i32; 5]> = picks
            .iter()
            .map(|&Pick { image, turn: [[a, b], [c, d]] }| {
                assert!(image.is_none_or(|image| image < images), "image {image:?} of {images}");
                assert!((a != 0 && d != 0) || height == width, "{height}x{width} images cannot be turned");
                let [a, b, c, d] = [a, b, c, d].map(i32::from);
                [image.map_or(-1, |image| image as i32), a, b, c, d]
            })
            .collect();
        let held = Buffer::new(cuda, table.len() * 5, Element::F32);
        cuda.upload(bytemuck::cast_slice(&table), held.pointer());
        let out = empty(cuda, [picks.len(), height, width, channels], Element::F32);
        let count = picks.len() * height * width * channels;
        let mut args = vec![self.buffer.arg(), held.arg(), arg(&out)];
        args.extend([height, width, channels].map(Arg::size));
        args.push(Arg::count(count));
        cuda.launch(&format!("gather_images<{}>", self.element), Grid::over(count), &args);
        out
    }
}
