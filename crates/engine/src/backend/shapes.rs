//! What kernels are told besides their tensors: element types and sizes.

use crate::shape::Shape;
use crate::tensor::Tensor;

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    F32,
    Bf16,
}

impl Element {
    /// In bytes.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// The sizes of a head's layers: images [batch, height, width, widths[0]], each used `repeats` times, and layers from
/// each width to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayersShape {
    pub batch: usize,
    pub height: usize,
    pub width: usize,
    pub repeats: usize,
    pub widths: Vec<usize>,
}

/// The sizes of a convolution: images [batch, height, width, inputs] to [batch, height, width, outputs], weights
/// [kernel, kernel, inputs, outputs].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConvShape {
    pub batch: usize,
    pub height: usize,
    pub width: usize,
    pub inputs: usize,
    pub outputs: usize,
    /// 1 or 3.
    pub kernel: usize,
}

impl ConvShape {
    pub fn pixels(self) -> usize {
        Shape::from([self.batch, self.height, self.width]).volume()
    }

    pub fn taps(self) -> usize {
        self.kernel * self.kernel
    }

    /// The same convolution seen from its output: what the data gradient computes.
    pub fn reversed(self) -> Self {
        Self { inputs: self.outputs, outputs: self.inputs, ..self }
    }

    pub fn image_shape(self) -> Shape {
        Shape::from([self.batch, self.height, self.width, self.inputs])
    }

    pub fn output_shape(self) -> Shape {
        self.reversed().image_shape()
    }

    pub fn weight_shape(self) -> Shape {
        Shape::from([self.kernel, self.kernel, self.inputs, self.outputs])
    }
}

/// What happens to a finished sum before it is written: `relu(sum + bias + residual)`, kept only where the mask is
/// positive; each optional.
pub(crate) struct Epilogue<'a, T: ?Sized = Tensor> {
    pub bias: Option<&'a T>,
    /// Laid out as the output is.
    pub residual: Option<&'a T>,
    pub relu: bool,
    /// Laid out as the output is.
    pub mask: Option<&'a T>,
}

impl<T: ?Sized> Epilogue<'_, T> {
    pub const NONE: Self = Self { bias: None, residual: None, relu: false, mask: None };
}

impl<T: ?Sized> Clone for Epilogue<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Epilogue<'_, T> {}

/// Images [batch, pixels, channels]; the channels fall into `groups` of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NormShape {
    pub batch: usize,
    pub pixels: usize,
    pub channels: usize,
    pub groups: usize,
}

/// Where the pixel grids of input and output are laid on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corners {
    /// The centres of the corner pixels coincide.
    Aligned,
    /// The outer edges of the corner pixels coincide (PyTorch's and OpenCV's default).
    HalfPixel,
}

impl Corners {
    /// Where an output of a resized line comes from: two inputs, and the second one's weight.
    pub fn tap(self, from: usize, to: usize, output: usize) -> (usize, usize, f32) {
        let position = match self {
            Self::Aligned if to == 1 => 0.0,
            Self::Aligned => output as f64 * (from - 1) as f64 / (to - 1) as f64,
            Self::HalfPixel => ((output as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0),
        };
        let first = (position.floor() as usize).min(from - 1);
        let weight = position - first as f64;
        (first, (first + 1).min(from - 1), weight as f32)
    }
}

/// Neighbouring channels of images, from `first` on; how many is said by whoever reads them.
pub(crate) struct Channels<'a, T: ?Sized = Tensor> {
    pub images: &'a T,
    /// Of a pixel of these images, all channels.
    pub width: usize,
    pub first: usize,
}

impl<T: ?Sized> Clone for Channels<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Channels<'_, T> {}

impl<'a> Channels<'a> {
    pub fn all(images: &'a Tensor) -> Self {
        Self { images, width: images.shape().last(), first: 0 }
    }

    /// Of images of the processor.
    pub fn values(self) -> Channels<'a, [f32]> {
        Channels { images: self.images.values(), width: self.width, first: self.first }
    }
}

/// Images [batch, height, width, channels] before and after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResizeShape {
    pub batch: usize,
    pub from: [usize; 2],
    pub to: [usize; 2],
    pub channels: usize,
    pub corners: Corners,
}

impl ResizeShape {
    pub fn image_shape(self) -> Shape {
        Shape::from([self.batch, self.from[0], self.from[1], self.channels])
    }

    /// With so many channels of other images after its own.
    pub fn output_shape(self, more: usize) -> Shape {
        Shape::from([self.batch, self.to[0], self.to[1], self.channels + more])
    }
}
