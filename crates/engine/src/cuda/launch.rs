//! What a kernel is launched with, and how a GPU is told to compute.

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
    /// `Tiling` of the convolution kernels.
    Ints([i32; 7]),
}

impl Arg {
    pub const NULL: Self = Self::Pointer(0);

    pub fn size(value: usize) -> Self {
        Self::Int(int(value))
    }

    pub fn sizes(values: [usize; 7]) -> Self {
        Self::Ints(values.map(int))
    }

    pub fn count(value: usize) -> Self {
        Self::Long(value as i64)
    }

    pub fn flag(value: bool) -> Self {
        Self::Int(i32::from(value))
    }
}

/// As kernels count along an axis.
fn int(size: usize) -> i32 {
    i32::try_from(size).unwrap_or_else(|_| panic!("a size of {size}: a GPU takes sizes below 2³¹"))
}

/// How many blocks of how many threads, and their shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub blocks: [usize; 3],
    pub threads: [usize; 2],
    pub shared: usize,
}

impl Grid {
    pub fn blocks(x: usize, y: usize, z: usize) -> Self {
        Self { blocks: [x, y, z], threads: [256, 1], shared: 0 }
    }

    /// Enough blocks for `units` of work, one per thread, up to what a loop over them keeps busy.
    pub fn over(units: usize) -> Self {
        Self::blocks(units.div_ceil(256).clamp(1, 132 * 16), 1, 1)
    }

    /// A warp per row.
    pub fn warps(rows: usize) -> Self {
        Self::blocks(rows.div_ceil(8).max(1), 1, 1)
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
