//! 3x3 convolution by Winograd's F(2x2, 3x3): an output tile of 2x2 pixels takes 16 products per pair
//! of channels instead of 36. Exact in real arithmetic; in f32 its error is that of a few more
//! additions, far below what the larger tiles cost.
//!
//! ```text
//! forward          Y  = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A       per tile: d 4x4 input, g 3x3 weights, Y 2x2
//! weight gradient  dg = Gᵀ [ Σ_tiles (A dY Aᵀ) ⊙ (Bᵀ d B) ] G
//!
//!      | 1  0 -1  0 |       | 1   0   0  |        | 1  1  1  0 |
//! Bᵀ = | 0  1  1  0 |   G = | ½   ½   ½  |   Aᵀ = | 0  1 -1 -1 |
//!      | 0 -1  1  0 |       | ½  -½   ½  |
//!      | 0  1  0 -1 |       | 0   0   1  |
//! ```
//!
//! Summed over input channels, each of the 16 positions of a tile is a matrix product of tiles by
//! channels. Tiles are taken in blocks whose transforms stay in the second-level cache.
//! After Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.

mod forward;
mod weight_gradient;

pub(crate) use forward::forward;
pub(crate) use weight_gradient::weight_gradient;

use super::simd::{Isa, Simd};
use crate::backend::ConvShape;

/// What a shape's channels must be, multiplied, for the transforms to pay: in a forward pass, and in a
/// weight gradient, whose direct form is the better of the two direct forms. Measured on Zen 4.
pub(crate) const FORWARD_PAYS: usize = 128;
pub(crate) const WEIGHT_GRADIENT_PAYS: usize = 1024;

/// The instruction set to use if the shape gains from Winograd's form, else none: channels must fill
/// whole vectors, and their product reach `pays`.
pub(crate) fn suits(isa: Isa, shape: ConvShape, pays: usize) -> Option<Isa> {
    let fits =
        |isa: Isa| [shape.inputs, shape.outputs].iter().all(|channels| channels.is_multiple_of(isa.lanes()));
    let enough = shape.inputs * shape.outputs >= pays;
    [isa, isa.for_channels(8)].into_iter().find(|&isa| enough && fits(isa))
}

/// Values of cache a block of transformed tiles may take (about 3/4 of a common 1 MiB second level).
const BLOCK_VALUES: usize = 192 * 1024;

/// Values between two positions of `count` transformed tiles: a cache line more than they need, since
/// positions a power of two apart would fall into the same few sets of the cache.
fn position_stride(count: usize, channels: usize) -> usize {
    count * channels + 16
}

/// The tiles of all images, numbered row by row.
#[derive(Clone, Copy)]
struct Tiles {
    shape: ConvShape,
    per_row: usize,
    rows: usize,
    count: usize,
}

impl Tiles {
    fn new(shape: ConvShape) -> Self {
        let (per_row, rows) = (shape.width.div_ceil(2), shape.height.div_ceil(2));
        Self { shape, per_row, rows, count: shape.batch * per_row * rows }
    }

    /// Image, and the tile's first output row and column.
    #[inline(always)]
    fn place(self, tile: usize) -> (usize, usize, usize) {
        let (row, column) = (tile / self.per_row, tile % self.per_row);
        (row / self.rows, row % self.rows * 2, column * 2)
    }

    /// Tiles per block for `values` transformed values a tile: whole register blocks, and no more
    /// than leaves a few tasks.
    fn per_block(self, values: usize, budget: usize) -> usize {
        (budget / values).min(self.count.div_ceil(4)).clamp(12, 384).next_multiple_of(12)
    }
}

/// A square of pixels: where it starts and how far apart its rows are (its columns lie side by side).
#[derive(Clone, Copy)]
struct Square {
    start: *const f32,
    row_stride: usize,
}

impl Tiles {
    /// The `N` x `N` pixels of an image from (`top`, `left`) on, which may lie outside by one: in place
    /// where they are all inside, else copied into `border` with zeros around.
    ///
    /// # Safety
    /// `image` must hold the batch with `channels` channels, `border` N·N·channels values.
    #[inline(always)]
    unsafe fn square<const N: usize>(
        self,
        values: &[f32],
        channels: usize,
        (image, top, left): (usize, isize, isize),
        border: *mut f32,
    ) -> Square {
        let (height, width) = (self.shape.height as isize, self.shape.width as isize);
        let n = N as isize;
        let start = ((image as isize * height + top) * width + left) * channels as isize;
        if top >= 0 && left >= 0 && top + n <= height && left + n <= width {
            // SAFETY: all N rows and columns are inside the image, as just checked.
            let start = unsafe { values.as_ptr().offset(start) };
            return Square { start, row_stride: self.shape.width * channels };
        }
        for i in 0..n {
            for j in 0..n {
                // SAFETY: `border` has room for N·N pixels; pixels are read only where inside.
                unsafe {
                    let to = border.offset((i * n + j) * channels as isize);
                    if top + i >= 0 && top + i < height && left + j >= 0 && left + j < width {
                        let from = values.as_ptr().offset(start + (i * width + j) * channels as isize);
                        std::ptr::copy_nonoverlapping(from, to, channels);
                    } else {
                        std::ptr::write_bytes(to, 0, channels);
                    }
                }
            }
        }
        Square { start: border, row_stride: N * channels }
    }

    /// The 4x4 input pixels of a tile.
    ///
    /// # Safety
    /// As [`Self::square`].
    #[inline(always)]
    unsafe fn input(self, x: &[f32], tile: usize, border: *mut f32) -> Square {
        let (image, top, left) = self.place(tile);
        // SAFETY: forwarded.
        unsafe {
            self.square::<4>(x, self.shape.inputs, (image, top as isize - 1, left as isize - 1), border)
        }
    }
}

/// `Bᵀ` applied to four vectors.
#[inline(always)]
fn input_combine<S: Simd>(s: S, d: [S::V; 4]) -> [S::V; 4] {
    [s.sub(d[0], d[2]), s.add(d[1], d[2]), s.sub(d[2], d[1]), s.sub(d[1], d[3])]
}
