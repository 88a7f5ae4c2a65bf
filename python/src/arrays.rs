//! NumPy arrays as images and masks, and back. What comes in is borrowed and read while the interpreter is free; what
//! goes out is handed over without a copy. The Python side has checked shapes and made arrays contiguous.

use multivalued_data::{Image, Mask};
use numpy::{
    PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods, ToPyArray,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure::guarded;

/// An image's array: (height, width) or (height, width, channels).
pub enum ImageArray<'py> {
    U8(PyReadonlyArrayDyn<'py, u8>),
    U16(PyReadonlyArrayDyn<'py, u16>),
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
}

/// By the array's type. Trying one type after another makes an error of each that does not fit, with the types' names,
/// which NumPy's Python code writes: that takes long, and a Ctrl-C during it is lost.
impl<'py> FromPyObject<'_, 'py> for ImageArray<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let dtype = object.cast::<PyUntypedArray>()?.dtype();
        Ok(match (dtype.kind(), dtype.itemsize()) {
            (b'u', 1) => Self::U8(object.extract()?),
            (b'u', 2) => Self::U16(object.extract()?),
            (b'f', 4) => Self::F32(object.extract()?),
            _ => Self::F64(object.extract()?),
        })
    }
}

/// An image as it lies in NumPy's memory.
pub struct Pixels<'a> {
    size: [usize; 3],
    values: Values<'a>,
}

enum Values<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl ImageArray<'_> {
    /// The memory of the array.
    pub fn pixels(&self) -> PyResult<Pixels<'_>> {
        let (shape, values) = match self {
            Self::U8(array) => (array.shape(), Values::U8(array.as_slice()?)),
            Self::U16(array) => (array.shape(), Values::U16(array.as_slice()?)),
            Self::F32(array) => (array.shape(), Values::F32(array.as_slice()?)),
            Self::F64(array) => (array.shape(), Values::F64(array.as_slice()?)),
        };
        let size = match *shape {
            [height, width] => [height, width, 1],
            [height, width, channels @ 1..=4] => [height, width, channels],
            _ => return Err(PyValueError::new_err(format!("an image of shape {shape:?}"))),
        };
        Ok(Pixels { size, values })
    }
}

impl Pixels<'_> {
    /// The image, plane by plane.
    pub fn image(&self) -> Image {
        fn planar<T: Copy>(values: &[T], channels: usize, f32_of: impl Fn(T) -> f32) -> Vec<f32> {
            let plane = |channel| values.iter().skip(channel).step_by(channels);
            (0..channels).flat_map(plane).map(|&value| f32_of(value)).collect()
        }
        let [height, width, channels] = self.size;
        let pixels = match self.values {
            Values::U8(values) => planar(values, channels, f32::from),
            Values::U16(values) => planar(values, channels, f32::from),
            Values::F32(values) => planar(values, channels, |value| value),
            Values::F64(values) => planar(values, channels, |value| value as f32),
        };
        Image::new(width, height, channels, pixels)
    }
}

/// An image's pixels as an array (height, width), or with its channels last.
pub fn image_array<'py>(py: Python<'py>, image: &Image) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    let (height, width, channels) = (image.height(), image.width(), image.channels());
    let planes = image.pixels().to_pyarray(py);
    match channels {
        1 => planes.reshape(vec![height, width]),
        _ => planes.reshape(vec![channels, height, width])?.permute(Some(vec![1, 2, 0])),
    }
}

/// Masks of one size, side by side, each with its weight.
#[derive(FromPyObject)]
pub struct MaskSet<'py> {
    /// Planes (masks, classes, height, width) of zeros and ones.
    #[pyo3(item("planes"))]
    planes: PyReadonlyArrayDyn<'py, u8>,
    /// One for each mask.
    #[pyo3(item("weights"))]
    weights: Vec<f64>,
    /// How many draws the weights were counted from, where they were.
    #[pyo3(item("draws"))]
    draws: Option<usize>,
}

/// The same as it lies in NumPy's memory.
#[derive(Clone, Copy)]
pub struct Planes<'a> {
    /// Masks, classes, height, width.
    pub size: [usize; 4],
    bytes: &'a [u8],
    pub weights: &'a [f64],
    pub draws: Option<usize>,
}

impl MaskSet<'_> {
    /// The memory of the array.
    pub fn planes(&self) -> PyResult<Planes<'_>> {
        let shape = self.planes.shape();
        let &[count, classes, height, width] = shape else {
            return Err(PyValueError::new_err(format!("masks of shape {shape:?}")));
        };
        if self.weights.len() != count {
            return Err(PyValueError::new_err(format!("{} weights for {count} masks", self.weights.len())));
        }
        let bytes = self.planes.as_slice()?;
        let size = [count, classes, height, width];
        Ok(Planes { size, bytes, weights: &self.weights, draws: self.draws })
    }
}

impl Planes<'_> {
    /// The masks, bit by bit.
    pub fn masks(&self) -> Vec<Mask> {
        let [_, classes, height, width] = self.size;
        let plane = height * width;
        if plane == 0 {
            return vec![Mask::empty(width, height, classes); self.size[0]];
        }
        let mask = |planes: &[u8]| {
            let mut words = Vec::with_capacity(plane.div_ceil(64) * classes);
            planes.chunks_exact(plane).for_each(|plane| pack(plane, &mut words));
            Mask::from_words(width, height, classes, words).expect("as many words as the size needs")
        };
        self.bytes.chunks_exact(plane * classes).map(mask).collect()
    }
}

/// Adds bytes, each 0 or 1, as the bits of words.
fn pack(bytes: &[u8], words: &mut Vec<u64>) {
    let (whole, rest) = bytes.as_chunks::<64>();
    words.extend(whole.iter().map(packed));
    if !rest.is_empty() {
        let mut last = [0; 64];
        last[..rest.len()].copy_from_slice(rest);
        words.push(packed(&last));
    }
}

/// The lowest bits of 64 bytes as a word.
fn packed(bytes: &[u8; 64]) -> u64 {
    /// Moves the lowest bit of byte k to bit 56 + k.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut word = 0;
    for (at, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let bits = (u64::from_le_bytes(*eight) & 0x0101_0101_0101_0101).wrapping_mul(GATHER) >> 56;
        word |= bits << (8 * at);
    }
    word
}

/// Masks as one array: (masks, height, width) of bools where there is one class, of labels where there are several.
pub fn mask_array<'py>(py: Python<'py>, masks: &[&Mask], size: [usize; 3]) -> PyResult<Bound<'py, PyAny>> {
    let [width, height, classes] = size;
    let shape = vec![masks.len(), height, width];
    let labels: Vec<u8> = guarded(py, || Ok(masks.iter().flat_map(|mask| mask.labels()).collect()))?;
    let array = numpy::PyArray1::from_vec(py, labels).reshape(shape)?.into_any();
    match classes {
        // 0 and 1 are what bools are made of: the same memory under another name.
        1 => array.call_method1("view", ("bool",)),
        _ => Ok(array),
    }
}
