//! What a kernel is launched with, and how a GPU is told to compute.

use super::error::{DeviceError, fail};
use crate::backend::Element;
use std::fmt;

/// How a GPU computes convolutions and stores activations. Parameters, their gradients, moments, losses
/// and matrix products are f32 in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// f32 throughout: three tensor-core products stand for one.
    F32,
    /// f32 values, their products rounded to ten bits of mantissa.
    Tf32,
    /// Activations and their gradients in bf16, sums in f32.
    Bf16,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        })
    }
}

impl Precision {
    /// All of them, the most precise first.
    pub const ALL: [Self; 3] = [Self::F32, Self::Tf32, Self::Bf16];

    /// As kernels name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::Tf32 => "TF32",
            Self::Bf16 => "BF16",
        }
    }

    /// How activations are stored.
    pub(crate) fn activation(self) -> Element {
        match self {
            Self::F32 | Self::Tf32 => Element::F32,
            Self::Bf16 => Element::Bf16,
        }
    }
}

/// An element type as kernels name it.
pub(super) fn name(element: Element) -> &'static str {
    match element {
        Element::F32 => "float",
        Element::Bf16 => "bf16",
    }
}

/// A kernel's argument.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arg {
    Pointer(u64),
    /// A buffer, and the device it is of.
    Buffer(u64, usize),
    Int(i32),
    Long(i64),
    Float(f32),
    /// `Tiling` or `Units` of the convolution kernels.
    Ints([i32; 8]),
    /// Where the tensor memory accelerator (TMA) finds a tile.
    Map(TensorMap),
}

/// A tensor map as the driver encodes it.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct TensorMap(pub [u64; 16]);

/// A tensor that the tensor memory accelerator (TMA) takes boxes of, into rows of shared memory; what lies outside of it
/// is zero. Sizes are those of the innermost dimension first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Boxes<'a> {
    pub sizes: &'a [usize],
    pub of: &'a [usize],
    /// Bytes of a row, 64 or 128.
    pub row: usize,
}

impl Arg {
    pub const NULL: Self = Self::Pointer(0);

    pub fn size(value: usize) -> Self {
        Self::Int(int(value))
    }

    pub fn sizes(values: [usize; 8]) -> Self {
        Self::Ints(values.map(int))
    }

    pub fn count(value: usize) -> Self {
        Self::Long(value as i64)
    }

    pub fn flag(value: bool) -> Self {
        Self::Int(i32::from(value))
    }
}

/// The largest size that kernels count by 32 bits: pixels of a convolution, sizes along an axis.
pub(super) const MOST: usize = i32::MAX as usize;

/// As kernels count along an axis.
fn int(size: usize) -> i32 {
    within("a size that kernels count by 32 bits", size, MOST).unwrap_or_else(|error| fail(error));
    size as i32
}

/// Refuses what is larger than kernels can count.
pub(super) fn within(what: &str, size: usize, most: usize) -> Result<(), DeviceError> {
    match size <= most {
        true => Ok(()),
        false => Err(DeviceError::TooLarge { what: what.into(), size, most }),
    }
}

/// How many blocks of how many threads, and their shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub blocks: [usize; 3],
    pub threads: [usize; 2],
    pub shared: usize,
}

/// Threads of a block that takes a whole row, or a whole image.
pub(super) const LONG_BLOCK: usize = 1024;
/// Warps of any other block.
pub(super) const WARPS: usize = 8;

impl Grid {
    pub fn blocks(x: usize, y: usize, z: usize) -> Self {
        Self { blocks: [x, y, z], threads: [32 * WARPS, 1], shared: 0 }
    }

    /// Enough blocks for `units` of work, one per thread, up to what a loop over them keeps busy.
    pub fn over(units: usize) -> Self {
        Self::blocks(units.div_ceil(256).clamp(1, 132 * 16), 1, 1)
    }

    /// Refuses more blocks than the driver takes in a direction.
    pub fn check(&self, kernel: &str) -> Result<(), DeviceError> {
        let directions = [("first", MOST), ("second", 65_535), ("third", 65_535)];
        let mut each = self.blocks.into_iter().zip(directions);
        each.try_for_each(|(size, (name, most))| {
            within(&format!("{kernel}: the number of blocks in its grid's {name} direction"), size, most)
        })
    }

    /// A warp per row.
    pub fn warps(rows: usize) -> Self {
        Self::blocks(rows.div_ceil(WARPS).max(1), 1, 1)
    }
}

/// A kernel's launches while they were timed.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelTime {
    /// The kernel, with its template arguments and its blocks.
    pub kernel: String,
    /// How often it ran.
    pub launches: usize,
    /// How long in all.
    pub milliseconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::catching;

    #[test]
    fn grids_that_the_driver_would_refuse_are_named_with_their_size() {
        assert_eq!(Grid::blocks(MOST, 65_535, 65_535).check("k"), Ok(()));
        for (grid, size, most) in [
            (Grid::blocks(MOST + 1, 1, 1), MOST + 1, MOST),
            (Grid::blocks(1, 65_536, 1), 65_536, 65_535),
            (Grid::blocks(1, 1, 70_000), 70_000, 65_535),
        ] {
            let text = grid.check("norm_sums").unwrap_err().to_string();
            assert!(text.starts_with("norm_sums: the number of blocks"), "{text}");
            assert!(text.contains(&format!("is {size}, and a GPU takes at most {most}")), "{text}");
            assert!(text.ends_with("use a smaller batch or smaller images"), "{text}");
        }
    }

    #[test]
    fn sizes_above_32_bits_are_an_error_and_no_panic() {
        assert!(matches!(catching(|| Arg::size(MOST)), Ok(Arg::Int(i32::MAX))));
        let text = catching(|| Arg::size(MOST + 1)).unwrap_err().to_string();
        assert!(text.contains("is 2147483648, and a GPU takes at most 2147483647"), "{text}");
    }
}
