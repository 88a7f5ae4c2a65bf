//! Rows of images: kept, extended, cropped and resized.

use multivalued_engine::{Corners, Device, Tensor, Var};
use std::ops::Range;

/// Features of a whole image, channels last, in this machine's memory.
pub(crate) struct Field {
    pub size: [usize; 2],
    pub channels: usize,
    pub values: Vec<f32>,
}

impl Field {
    pub(super) fn empty(size: [usize; 2], channels: usize) -> Self {
        Self { size, channels, values: Vec::with_capacity(size[0] * size[1] * channels) }
    }

    pub(super) fn rows(&self, device: &Device, rows: Range<usize>) -> Var {
        let row = self.size[1] * self.channels;
        let shape = [1, rows.len(), self.size[1], self.channels];
        Var::constant(Tensor::from_slice(device, shape, &self.values[rows.start * row..rows.end * row]))
    }

    pub(super) fn whole(&self, device: &Device) -> Var {
        self.rows(device, 0..self.size[0])
    }

    /// Adds rows below those that are there.
    pub(super) fn push(&mut self, rows: &Var) {
        self.values.extend(rows.tensor().to_vec());
    }
}

/// Some rows with those that `reach` further, as far as there are any.
pub(super) fn extended(rows: &Range<usize>, reach: usize, height: usize) -> Range<usize> {
    rows.start.saturating_sub(reach)..(rows.end + reach).min(height)
}

/// Of rows that were computed, those that were wanted.
pub(super) fn cropped(x: &Var, computed: &Range<usize>, wanted: &Range<usize>) -> Var {
    if computed == wanted {
        return x.clone();
    }
    let [_, rows, width, channels] = *x.shape() else { unreachable!("features are images") };
    let numbers: Vec<usize> = (wanted.start - computed.start..wanted.end - computed.start).collect();
    let chosen = x.reshape([rows, width, channels]).gather_rows(&numbers);
    chosen.reshape([1, wanted.len(), width, channels])
}

/// Rows of a line that are the source of some rows of its resized one.
pub(super) fn sources(from: usize, to: usize, rows: &Range<usize>) -> Range<usize> {
    let tap = |row: usize| Corners::HalfPixel.tap(from, to, row);
    tap(rows.start).0..tap(rows.end - 1).1 + 1
}

/// Some rows of an image in another height, from the rows `given` of it.
pub(super) fn rows_resized(
    x: &Var,
    given: &Range<usize>,
    [from, to]: [usize; 2],
    rows: &Range<usize>,
) -> Var {
    let [_, _, width, channels] = *x.shape() else { unreachable!("features are images") };
    let mut weights = vec![0.0; rows.len() * given.len()];
    for (line, row) in weights.chunks_exact_mut(given.len()).zip(rows.clone()) {
        let (first, second, share) = Corners::HalfPixel.tap(from, to, row);
        line[first - given.start] += 1.0 - share;
        line[second - given.start] += share;
    }
    let weights = Tensor::from_slice(&x.device(), [rows.len(), given.len()], &weights);
    let resized = Var::constant(weights).matmul(&x.reshape([given.len(), width * channels]));
    resized.reshape([1, rows.len(), width, channels])
}
