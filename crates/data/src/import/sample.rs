//! The number types that files store, in either byte order, and whole files of them as they are stored.

use std::path::Path;

use super::Size;
use crate::memory::{claim, reserved};
use crate::{Geometry, Result};

/// The stored number types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl Sample {
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    fn full_scale(self) -> Option<f32> {
        match self {
            Self::U8 => Some(255.0),
            Self::U16 => Some(65_535.0),
            _ => None,
        }
    }
}

/// How many samples lie between one slice, channel, row or column and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    pub slice: usize,
    pub channel: usize,
    pub row: usize,
    pub column: usize,
}

impl Steps {
    /// Slice by slice, channel by channel, row by row.
    pub fn planar(size: Size) -> Self {
        let plane = size.width * size.height;
        Self { slice: plane * size.channels, channel: plane, row: size.width, column: 1 }
    }

    /// Row by row, the channels of a pixel side by side.
    pub fn interleaved(size: Size) -> Self {
        let row = size.width * size.channels;
        Self { slice: row * size.height, channel: 1, row, column: size.channels }
    }
}

/// A file's samples as they are stored: a volume takes the memory of its own number type, and only the
/// slice at hand is made f32.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Samples {
    pub size: Size,
    pub bytes: Vec<u8>,
    pub sample: Sample,
    pub big_endian: bool,
    pub steps: Steps,
    /// Slope and intercept that make values of stored numbers.
    pub scale: Option<(f64, f64)>,
    pub geometry: Option<Geometry>,
}

impl Samples {
    /// The largest value of the stored type, where it is an 8- or 16-bit one.
    pub fn full_scale(&self) -> Option<f32> {
        self.sample.full_scale().filter(|_| self.scale.is_none())
    }

    /// Whether every value is a number that f32 has, whatever the bytes.
    pub fn always_finite(&self) -> bool {
        !matches!(self.sample, Sample::F32 | Sample::F64) && self.scale.is_none()
    }

    /// Bytes that a slice takes as f32.
    pub fn slice_bytes(&self) -> u64 {
        (self.size.width * self.size.height * self.size.channels * size_of::<f32>()) as u64
    }

    /// Adds the planes of one slice to `values`: channel c, row y, column x lies at
    /// `(c * height + y) * width + x`.
    pub fn add_slice(&self, z: usize, values: &mut Vec<f32>) {
        macro_rules! numbers {
            ($type:ty, $size:literal) => {{
                let words = self.bytes.as_chunks::<$size>().0;
                if self.big_endian {
                    self.add(words, z, values, |&word| <$type>::from_be_bytes(word) as f32);
                } else {
                    self.add(words, z, values, |&word| <$type>::from_le_bytes(word) as f32);
                }
            }};
        }
        let start = values.len();
        match self.sample {
            Sample::U8 => self.add(&self.bytes, z, values, |&byte| f32::from(byte)),
            Sample::I8 => self.add(&self.bytes, z, values, |&byte| f32::from(byte.cast_signed())),
            Sample::U16 => numbers!(u16, 2),
            Sample::I16 => numbers!(i16, 2),
            Sample::U32 => numbers!(u32, 4),
            Sample::I32 => numbers!(i32, 4),
            Sample::U64 => numbers!(u64, 8),
            Sample::I64 => numbers!(i64, 8),
            Sample::F32 => numbers!(f32, 4),
            Sample::F64 => numbers!(f64, 8),
        }
        if let Some((slope, inter)) = self.scale {
            for value in &mut values[start..] {
                *value = (f64::from(*value) * slope + inter) as f32;
            }
        }
    }

    fn add<T>(&self, stored: &[T], z: usize, values: &mut Vec<f32>, value: impl Fn(&T) -> f32) {
        let Size { width, height, channels, .. } = self.size;
        for channel in 0..channels {
            for y in 0..height {
                let first = z * self.steps.slice + channel * self.steps.channel + y * self.steps.row;
                let row = &stored[first..=first + (width - 1) * self.steps.column];
                match self.steps.column {
                    1 => values.extend(row.iter().map(&value)),
                    step => values.extend(row.iter().step_by(step).map(&value)),
                }
            }
        }
    }

    /// One slice, in memory that is claimed for the file first.
    pub fn slice(&self, path: &Path, z: usize) -> Result<Vec<f32>> {
        let _room = claim(path, self.slice_bytes())?;
        let mut values = reserved(path, self.slice_bytes() as usize / size_of::<f32>())?;
        self.add_slice(z, &mut values);
        Ok(values)
    }

    /// The geometry of one slice: the volume's, moved along the third axis.
    pub fn slice_geometry(&self, z: usize) -> Option<Geometry> {
        let mut geometry = self.geometry.clone()?;
        if let Some(affine) = &mut geometry.affine {
            for row in affine {
                row[3] += row[2] * z as f32;
            }
        }
        Some(geometry)
    }

    /// All values, slice by slice.
    #[cfg(test)]
    pub fn values(&self) -> Vec<f32> {
        let mut values = Vec::new();
        (0..self.size.depth).for_each(|z| self.add_slice(z, &mut values));
        values
    }
}
