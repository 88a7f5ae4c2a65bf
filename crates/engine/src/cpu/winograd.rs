//! 3x3 convolution by Winograd's F(4x4, 3x3): an output tile of 4x4 pixels takes 36 products per pair of channels
//! instead of 144. Exact in real arithmetic; [`transforms`] says what it costs in f32.
//!
//! ```text
//! forward          Y  = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A       per tile: d 6x6 input, g 3x3 weights, Y 4x4
//! weight gradient  dg = Gᵀ [ Σ_tiles (A dY Aᵀ) ⊙ (Bᵀ d B) ] G
//! ```
//!
//! Summed over input channels, each of the 36 positions of a tile is a matrix product of tiles by
//! channels. Tiles are taken in blocks ([`Blocks`]) whose transforms stay in the cache.
//! After Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.

mod forward;
mod strips;
mod transforms;
mod weight_gradient;

pub(crate) use forward::forward;
pub(crate) use weight_gradient::weight_gradient;

use super::parallel::for_each_task;
use super::simd::Isa;
use crate::backend::ConvShape;
use std::ops::Range;

/// Positions of a transformed tile.
const POSITIONS: usize = 36;

/// The instruction set to use if the shape gains from Winograd's form, else none: channels must fill
/// whole vectors, and be enough to pay for the transforms (measured on Zen 4).
pub(crate) fn suits(isa: Isa, shape: ConvShape) -> Option<Isa> {
    let fits =
        |isa: Isa| [shape.inputs, shape.outputs].iter().all(|channels| channels.is_multiple_of(isa.lanes()));
    let enough = shape.inputs * shape.outputs >= 64;
    [isa, isa.for_channels(8)].into_iter().find(|&isa| enough && fits(isa))
}

/// Values between two positions that have `values` each: a cache line more than they need, since
/// positions a power of two apart would fall into the same few sets of the cache.
fn position_stride(values: usize) -> usize {
    values + 16
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
        let (per_row, rows) = (shape.width.div_ceil(4), shape.height.div_ceil(4));
        Self { shape, per_row, rows, count: shape.batch * per_row * rows }
    }

    /// Image, and the tile's first output row and column.
    #[inline(always)]
    fn place(self, tile: usize) -> (usize, usize, usize) {
        let (row, column) = (tile / self.per_row, tile % self.per_row);
        (row / self.rows, row % self.rows * 4, column * 4)
    }
}

/// How the tiles are cut into blocks that are transformed, multiplied and transformed back.
#[derive(Clone, Copy)]
struct Blocks {
    tiles: usize,
    per_block: usize,
    /// Whether tasks share a block, each taking some of its tiles or positions: where the weights are too many to
    /// read them anew for every task. Otherwise a task has blocks of its own.
    shared: bool,
}

impl Blocks {
    fn new(tiles: Tiles) -> Self {
        let ConvShape { inputs, outputs, .. } = tiles.shape;
        let values = POSITIONS * (inputs + outputs);
        // About 3/4 of a common 1 MiB second level; shared blocks stay in the third.
        let (own, common) = (192 * 1024, 3 * 1024 * 1024);
        let shared = POSITIONS * inputs * outputs > own;
        let per_block = if shared {
            (common / values).clamp(48, 1024)
        } else {
            // No more than leaves a few tasks.
            (own / values).min(tiles.count.div_ceil(8)).clamp(12, 384)
        };
        Self { tiles: tiles.count, per_block: per_block.next_multiple_of(4), shared }
    }

    fn count(self) -> usize {
        self.tiles.div_ceil(self.per_block)
    }

    /// The tiles of a block.
    fn get(self, block: usize) -> Range<usize> {
        block * self.per_block..self.tiles.min((block + 1) * self.per_block)
    }

    /// Runs the tasks of one block, in parallel where it is shared.
    fn for_each_task(self, count: usize, task: impl Fn(usize) + Send + Sync) {
        if self.shared {
            for_each_task(count, task);
        } else {
            (0..count).for_each(task);
        }
    }

    /// Runs `work` with ranges of a block's tiles that together are all of them.
    fn for_tiles(self, count: usize, work: impl Fn(Range<usize>) + Send + Sync) {
        let chunk = if self.shared { 12 } else { count };
        self.for_each_task(count.div_ceil(chunk), |task| work(task * chunk..count.min((task + 1) * chunk)));
    }
}
