//! Transforms of several tiles side by side: first down all columns, then along all rows. Each is a plain loop with few
//! streams of memory and all of its values in registers, and neighbouring tiles share the columns that overlap.

use super::transforms::Transform;
use super::{POSITIONS, Tiles};
use crate::cpu::parallel::Output;
use crate::cpu::scratch;
use crate::cpu::simd::{Kernel, Simd};
use std::ops::Range;

/// Some neighbouring tiles of one row of tiles.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    pub image: usize,
    /// The first output row and column.
    pub top: usize,
    pub left: usize,
    /// The first tile, counted from the first of the block.
    pub tile: usize,
    pub tiles: usize,
}

/// The most vectors of a row of a strip, for one vector of channels: what lies between its two transforms has 18 KiB,
/// about half of the first-level cache.
const fn row_vectors(lanes: usize) -> usize {
    6 * most_tiles(lanes)
}

/// The most tiles of a strip.
const fn most_tiles(lanes: usize) -> usize {
    128 / lanes
}

/// Values that lie between the two transforms.
pub(super) const fn between_len(lanes: usize) -> usize {
    6 * row_vectors(lanes) * lanes
}

/// Where six vectors of tile `t` begin in row `i` of what lies between the two transforms.
#[inline(always)]
pub(super) const fn six_vectors(lanes: usize, i: usize, t: usize) -> usize {
    (i * row_vectors(lanes) + 6 * t) * lanes
}

/// Whether two vectors of `channels` are transformed at a time, which fill a cache line.
const fn in_pairs(lanes: usize, channels: usize) -> bool {
    2 * lanes <= 16 && 2 * lanes <= channels
}

impl Tiles {
    /// Values of a line of zeros that stands for the lines above and below an image.
    pub fn zeros_len(self, lanes: usize, channels: usize) -> usize {
        (4 * self.per_row.min(most_tiles(lanes)) + 2) * channels
    }

    /// The strips that make up `range` of the tiles from `first` on, each of at most `most` tiles.
    #[inline(always)]
    fn strips_of(self, most: usize, first: usize, range: Range<usize>) -> impl Iterator<Item = Strip> {
        let mut tile = range.start;
        std::iter::from_fn(
            #[inline(always)]
            move || {
                let (image, top, left) = self.place(first + tile);
                let tiles = (range.end - tile).min(self.per_row - left / 4).min(most);
                let strip = Strip { image, top, left, tile, tiles };
                tile += tiles;
                (tiles > 0).then_some(strip)
            },
        )
    }

    /// The strips that make up `range` of the tiles from `first` on.
    #[inline(always)]
    pub fn strips(self, lanes: usize, first: usize, range: Range<usize>) -> impl Iterator<Item = Strip> {
        self.strips_of(most_tiles(lanes), first, range)
    }
}

/// The transform of a range of a block's tiles, each from `N` x `N` pixels: its own four by four, and with six by six those
/// around them.
pub(super) struct TransformTiles<'a, T, const N: usize> {
    pub transform: T,
    pub tiles: Tiles,
    /// The block's first tile.
    pub first: usize,
    /// Counted from there.
    pub range: Range<usize>,
    /// The batch.
    pub values: &'a [f32],
    pub channels: usize,
    /// Of [`Tiles::zeros_len`].
    pub zeros: &'a [f32],
    /// Between two positions.
    pub stride: usize,
    /// [36, tiles of the block, channels]
    pub out: &'a Output<'a>,
}

impl<T: Transform<N>, const N: usize> Kernel for TransformTiles<'_, T, N> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let channels = self.channels;
        let most = most_tiles(S::LANES) / if in_pairs(S::LANES, channels) { 2 } else { 1 };
        scratch::with(
            between_len(S::LANES),
            #[inline(always)]
            |between| {
                for strip in self.tiles.strips_of(most, self.first, self.range.clone()) {
                    let len = (POSITIONS - 1) * self.stride + strip.tiles * channels;
                    let out = self.out.at(strip.tile * channels, len);
                    let mut channel = 0;
                    while channel < channels {
                        // SAFETY: channels are whole vectors (`suits`), every position of a tile has `channels` values
                        // of its own, and the strip is short enough for what lies between.
                        unsafe {
                            let (between, out) = (between.as_mut_ptr(), out.add(channel));
                            if in_pairs(S::LANES, channels - channel) {
                                self.down::<S, 2>(s, strip, channel, between);
                                self.along::<S, 2>(s, between, strip.tiles, out);
                                channel += 2 * S::LANES;
                            } else {
                                self.down::<S, 1>(s, strip, channel, between);
                                self.along::<S, 1>(s, between, strip.tiles, out);
                                channel += S::LANES;
                            }
                        }
                    }
                }
            },
        );
    }
}

impl<T: Transform<N>, const N: usize> TransformTiles<'_, T, N> {
    /// The transform down each column of `V` vectors of channels, with zeros left and right of the image.
    ///
    /// # Safety
    /// The channels from `channel` on must fill the vectors, and `between` have room for them.
    #[inline(always)]
    unsafe fn down<S: Simd, const V: usize>(&self, s: S, strip: Strip, channel: usize, between: *mut f32) {
        let [height, width] = [self.tiles.shape.height, self.tiles.shape.width];
        let border = (N - 4) / 2;
        let [top, left] = [strip.top, strip.left].map(|first| first as isize - border as isize);
        let columns = 4 * strip.tiles + 2 * border;
        let inside = (-left).max(0) as usize..columns.min((width as isize - left) as usize);
        let image = &self.values[strip.image * height * width * self.channels..];
        let mut lines = [self.zeros.as_ptr(); N];
        for (i, line) in lines.iter_mut().enumerate() {
            let y = top + i as isize;
            if (0..height as isize).contains(&y) {
                // Where the strip begins left of the image, its first column is not read.
                let start = (y * width as isize + left) * self.channels as isize;
                *line = image.as_ptr().wrapping_offset(start);
            }
            *line = line.wrapping_add(channel);
        }
        let at = |i: usize, j: usize, v: usize| (i * row_vectors(S::LANES) + j * V + v) * S::LANES;
        for j in (0..inside.start).chain(inside.end..columns) {
            for i in 0..6 {
                for v in 0..V {
                    // SAFETY: a row has room for all columns.
                    unsafe { s.store(between.add(at(i, j, v)), s.splat(0.0)) };
                }
            }
        }
        // The next strip is most often the one below. Its lines are asked for here, since these loops are too short for the
        // hardware to foresee them.
        let below = 4 * width * self.channels;
        for j in inside {
            for line in &lines[N - 4..] {
                s.prefetch(line.wrapping_add(j * self.channels + below));
            }
            for v in 0..V {
                let mut column = [s.splat(0.0); N];
                for i in 0..N {
                    // SAFETY: a line inside the image, or zeros; column `j` is inside.
                    column[i] = unsafe { s.load(lines[i].add(j * self.channels + v * S::LANES)) };
                }
                let column = self.transform.of(s, column);
                for i in 0..6 {
                    // SAFETY: as above.
                    unsafe { s.store(between.add(at(i, j, v)), column[i]) };
                }
            }
        }
    }

    /// The transform along the rows, to the positions in `out`.
    ///
    /// # Safety
    /// `between` must be what `down` wrote, and `out` have `V` vectors at each position of `tiles` tiles.
    #[inline(always)]
    unsafe fn along<S: Simd, const V: usize>(&self, s: S, between: *const f32, tiles: usize, out: *mut f32) {
        for i in 0..6 {
            // SAFETY: as granted; `i * 6 + j` is a position.
            unsafe {
                let from = between.add(i * row_vectors(S::LANES) * S::LANES);
                let out = out.add(i * 6 * self.stride);
                for t in 0..tiles {
                    for v in 0..V {
                        let mut row = [s.splat(0.0); N];
                        for j in 0..N {
                            row[j] = s.load(from.add(((4 * t + j) * V + v) * S::LANES));
                        }
                        let row = self.transform.of(s, row);
                        for j in 0..6 {
                            s.store(out.add(j * self.stride + t * self.channels + v * S::LANES), row[j]);
                        }
                    }
                }
            }
        }
    }
}
