//! Convolutions by Hopper's matrix products of a warpgroup: how pixels are cut into units, and the launches.

use super::conv::unsummed;
use super::launch::Boxes;
use super::tensors::{arg, buffer, optional};
use super::{Arg, Buffer, Cuda, Grid, Precision};
use crate::backend::{ConvShape, Element, Epilogue};
use crate::tensor::Tensor;

/// The shared memory of a block that these kernels are made for.
pub(super) const HOPPER_SHARED: usize = 227 << 10;
/// What a block has of it besides tiles: barriers, the driver's reserve, and the tiles' alignment.
const RESERVED: usize = 3 << 10;
/// Tiles begin at multiples of it: the swizzle depends on the bits of an address below it, and repeats there.
pub(super) const ALIGNMENT: usize = 1024;
/// The most bytes of weights of a step that takes three taps.
const STEP_BYTES: usize = 24 << 10;
/// The most buffers for pixels and slots for weights that the kernel has barriers for.
pub(super) const BUFFERS: usize = 4;
pub(super) const SLOTS: usize = 56;
/// The most slots of the weight gradient's kernels.
pub(super) const WEIGHT_SLOTS: usize = 8;
/// Threads of theirs: in bf16, in tf32, and in tf32 of 32 channels.
pub(super) const BF16_THREADS: usize = 416;
pub(super) const TF32_THREADS: usize = 512;
pub(super) const NARROW_TF32_THREADS: usize = 640;
/// Channels in and out of their blocks, and units of a step: from 64 channels on, and of multiples of 32 below.
pub(super) const WIDE_CHANNELS: usize = 64;
pub(super) const WIDE_UNITS: usize = 1;
pub(super) const NARROW_CHANNELS: usize = 32;
pub(super) const NARROW_UNITS: usize = 2;
/// Pixels of a line of a square of eight by eight with its neighbours.
pub(super) const BOX_WIDTH: usize = 10;

/// How output pixels fall into units of 64: squares of eight by eight, or chunks of the image line by line, with two
/// further columns that count for nothing. A unit's box is what is copied for it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Units {
    linear: bool,
    per_image: usize,
    /// Pixels of a line of the box, and lines.
    box_width: usize,
    lines: usize,
}

impl Units {
    fn squares(shape: ConvShape) -> Self {
        let per_image = shape.height.div_ceil(8) * shape.width.div_ceil(8);
        Self { linear: false, per_image, box_width: BOX_WIDTH, lines: BOX_WIDTH }
    }

    /// Of a 1x1 convolution, to which a batch is one line.
    fn of_line(pixels: usize) -> Self {
        Self { linear: false, per_image: pixels.div_ceil(64), box_width: 64, lines: 1 }
    }

    /// The fewer, and of as many those that read fewer pixels.
    fn new(shape: ConvShape) -> Self {
        let box_width = shape.width + 2;
        let per_image = (shape.height * box_width - 2).div_ceil(64);
        let chunks = Self { linear: true, per_image, box_width, lines: 3 + 65usize.div_ceil(box_width) };
        let squares = Self::squares(shape);
        let cost = |units: &Self| (units.per_image, units.box_width * units.lines);
        if box_width <= 31 && cost(&chunks) < cost(&squares) { chunks } else { squares }
    }

    fn arg(self, shape: ConvShape) -> Arg {
        let [batch, height, width] = [shape.batch, shape.height, shape.width];
        let along = width.div_ceil(8);
        let linear = usize::from(self.linear);
        Arg::sizes([batch, height, width, self.box_width, linear, self.per_image, along, self.lines])
    }
}

/// Bytes of a box of rows, up to where the next one may begin.
fn box_bytes([lines, box_width]: [usize; 2], row: usize) -> usize {
    (lines * box_width * row).next_multiple_of(ALIGNMENT)
}

/// Channels out of a block: as few blocks as possible, and of those the narrowest.
fn columns(outputs: usize) -> usize {
    [16, 32, 64, 96, 128].into_iter().min_by_key(|&n| (outputs.div_ceil(n), n)).unwrap_or(128)
}

/// Taps that are copied at a time: a row of the kernel where its weights are few.
fn taps_at_once(kernel: usize, columns: usize, row: usize) -> usize {
    if kernel == 3 && columns * row * 3 <= STEP_BYTES { 3 } else { 1 }
}

/// The name of the kernel for blocks of so many channels out that copies so many bytes of channels at a time.
pub(super) fn conv_kernel(precision: Precision, kernel: usize, columns: usize, row: usize) -> String {
    let taps = taps_at_once(kernel, columns, row);
    format!("conv_wgmma<{}, {kernel}, {taps}, {columns}, {row}>", precision.name())
}

/// How a convolution's blocks use their shared memory.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Plan {
    /// Channels out, and bytes of channels that are copied at a time.
    columns: usize,
    row: usize,
    /// Taps that are copied at a time.
    taps: usize,
    /// For weights, and for pixels.
    slots: usize,
    buffers: usize,
    /// Blocks of a multiprocessor, and what each asks for.
    occupancy: usize,
    shared: usize,
}

impl Plan {
    /// `shared`: of a multiprocessor.
    fn new(shape: ConvShape, element: Element, units: Units, shared: usize) -> Self {
        let (columns, bytes) = (columns(shape.outputs), shape.inputs * element.size());
        // Long chunks leave no room for long rows.
        let row = if bytes.is_multiple_of(128) && !units.linear { 128 } else { 64 };
        let taps = taps_at_once(shape.kernel, columns, row);
        let (slot, pair) = (taps * columns * row, 2 * box_bytes([units.lines, units.box_width], row));
        let all = shape.taps() / taps * bytes.div_ceil(row);
        let room = |blocks: usize| shared / blocks - RESERVED;
        let fits = |blocks: &usize| all <= SLOTS && all * slot + 2 * pair <= room(*blocks);
        let (occupancy, slots) = match (if columns <= 32 { [3, 2] } else { [2, 2] }).iter().find(|b| fits(b))
        {
            // All weights stay.
            Some(&blocks) => (blocks, all),
            None => (2, ((room(2) - 2 * pair) / slot).clamp(2, 8)),
        };
        let buffers = ((room(occupancy).saturating_sub(slots * slot)) / pair).clamp(2, BUFFERS);
        let shared = slots * slot + buffers * pair + ALIGNMENT;
        Self { columns, row, taps, slots, buffers, occupancy, shared }
    }
}

impl Cuda {
    /// Whether the kernel for Hopper takes a convolution of images of this type.
    pub(super) fn takes_hopper_conv(&self, shape: ConvShape, element: Element) -> bool {
        let aligned = (shape.inputs * element.size()).is_multiple_of(16) && shape.outputs.is_multiple_of(8);
        self.hopper() && self.precision() != Precision::F32 && aligned
    }

    /// As `run_conv`, with the weights [taps, outputs, inputs] cast.
    pub(super) fn run_hopper_conv(
        &self,
        shape: ConvShape,
        x: &Tensor,
        weight: &Buffer,
        flipped: bool,
        epilogue: Epilogue,
        out: &Tensor,
    ) {
        let line = ConvShape { batch: 1, height: 1, width: shape.pixels(), ..shape };
        let (shape, units) = match shape.kernel {
            1 => (line, Units::of_line(line.width)),
            _ => (shape, Units::new(shape)),
        };
        let element = x.element();
        let plan = Plan::new(shape, element, units, self.shared_bytes());
        let Plan { columns, row, taps, slots, buffers, occupancy, shared } = plan;
        let (tiles, blocks_y) =
            ((shape.batch * units.per_image).div_ceil(2), shape.outputs.div_ceil(columns));
        let blocks = (self.multiprocessors() * occupancy).div_ceil(blocks_y).min(tiles);
        let channels = row / element.size();
        let weights = Boxes {
            sizes: &[shape.inputs, shape.outputs, shape.taps()],
            of: &[channels, columns, taps],
            row,
        };
        let args = [
            self.image_map(shape, shape.inputs, x, [units.lines, units.box_width], row),
            self.tensor_map(weight, weights),
            optional(epilogue.bias),
            optional(epilogue.residual),
            optional(epilogue.mask),
            arg(out),
            units.arg(shape),
            Arg::size(shape.inputs),
            Arg::size(shape.outputs),
            Arg::flag(epilogue.relu),
            Arg::flag(flipped),
            Arg::flag(out.element() == Element::F32),
            Arg::size(slots),
            Arg::size(buffers),
        ];
        let kernel = conv_kernel(self.precision(), shape.kernel, columns, row);
        self.launch(&kernel, Grid { shared, ..Grid::blocks(blocks, blocks_y, 1) }, &args);
    }

    /// Boxes of so many lines and columns of an image.
    fn image_map(
        &self,
        shape: ConvShape,
        channels: usize,
        image: &Tensor,
        [lines, box_width]: [usize; 2],
        row: usize,
    ) -> Arg {
        let (sizes, at_once) =
            ([channels, shape.width, shape.height, shape.batch], row / image.element().size());
        self.tensor_map(buffer(image), Boxes { sizes: &sizes, of: &[at_once, box_width, lines, 1], row })
    }

    /// Whether the kernel for Hopper takes the gradient of a convolution's weights.
    pub(super) fn takes_hopper_weight(&self, shape: ConvShape) -> bool {
        let channels = [shape.inputs, shape.outputs].iter().all(|size| size.is_multiple_of(NARROW_CHANNELS));
        self.hopper() && self.precision() != Precision::F32 && shape.kernel == 3 && channels
    }

    /// The gradients of the weights, [taps, inputs, outputs], and where asked for of the bias.
    pub(super) fn run_hopper_weight(
        &self,
        shape: ConvShape,
        x: &Tensor,
        dy: &Tensor,
        bias: bool,
    ) -> (Tensor, Option<Tensor>) {
        let (inputs, outputs) = (shape.inputs, shape.outputs);
        let narrow = !(inputs.is_multiple_of(WIDE_CHANNELS) && outputs.is_multiple_of(WIDE_CHANNELS));
        let (units, tf32) = (Units::squares(shape), self.precision() == Precision::Tf32);
        // Units of a step, parts of each block's sums, channels of a block.
        let (at_once, parts_each, channels) = match narrow {
            true => (NARROW_UNITS, 2, NARROW_CHANNELS),
            false => (WIDE_UNITS, 1, WIDE_CHANNELS),
        };
        // In tf32 a row has half of 64 channels, and the gradient lies there twice.
        let (row, halves, copies) = if tf32 { (128, channels / 32, 2) } else { (2 * channels, 1, 1) };
        let (x_box, dy_box) = ([units.lines, units.box_width], [8, 8]);
        let bytes = at_once * halves * (box_bytes(x_box, row) + copies * box_bytes(dy_box, row));
        let slots = ((HOPPER_SHARED - RESERVED) / bytes).min(WEIGHT_SLOTS);
        let [blocks_y, blocks_z] = [inputs / channels, outputs / channels];
        let steps = (shape.batch * units.per_image).div_ceil(at_once);
        let splits = (self.multiprocessors() / (blocks_y * blocks_z)).clamp(1, steps);
        let floats = |count: usize| Buffer::new(self, count, Element::F32);
        let (parts, bias_parts) = (splits * parts_each, if tf32 { splits } else { splits * 2 });
        let partial = floats(parts * 9 * inputs * outputs);
        let bias_partial = bias.then(|| floats(bias_parts * outputs));
        let args = [
            self.image_map(shape, inputs, x, x_box, row),
            self.image_map(shape, outputs, dy, dy_box, row),
            partial.arg(),
            bias_partial.as_ref().map_or(Arg::NULL, Buffer::arg),
            units.arg(shape),
            Arg::size(inputs),
            Arg::size(outputs),
            Arg::size(slots),
        ];
        let (kernel, threads) = match (tf32, narrow) {
            (false, _) => ("conv_weight_wgmma", BF16_THREADS),
            (true, false) => ("conv_weight_tf32", TF32_THREADS),
            (true, true) => ("conv_weight_tf32", NARROW_TF32_THREADS),
        };
        let shared = slots * bytes + ALIGNMENT;
        let grid = Grid { shared, threads: [threads, 1], ..Grid::blocks(splits, blocks_y, blocks_z) };
        self.launch(&format!("{kernel}<{}>", u8::from(narrow)), grid, &args);
        let bias = bias_partial.map(|partial| unsummed(partial, bias_parts, [outputs]));
        (unsummed(partial, parts, shape.weight_shape()), bias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(height: usize, width: usize) -> ConvShape {
        ConvShape { batch: 1, height, width, inputs: 8, outputs: 8, kernel: 3 }
    }

    #[test]
    fn units_cover_the_image_and_their_boxes_the_neighbours() {
        for (height, width) in [(160, 160), (80, 80), (40, 40), (20, 20), (10, 10), (1, 1), (7, 300), (45, 3)]
        {
            let units = Units::new(shape(height, width));
            // A box may be no larger in any direction.
            assert!(units.box_width <= 256 && units.lines <= 256, "{height}x{width}: {units:?}");
            if units.linear {
                // The last line's two further columns need not be there.
                assert!(units.per_image * 64 + 2 >= height * (width + 2), "{height}x{width}: {units:?}");
                // A unit may begin anywhere in a line.
                let last = units.box_width - 1 + 64 + 2 * units.box_width + 2;
                assert!(units.lines * units.box_width >= last, "{height}x{width}: {units:?}");
            } else {
                assert_eq!(units.per_image, height.div_ceil(8) * width.div_ceil(8));
            }
        }
        let used = |size: usize| (size * size) as f64 / (Units::new(shape(size, size)).per_image * 64) as f64;
        assert!([160, 80, 40, 20, 10].iter().all(|&size| used(size) > 0.75), "share of a unit that is used");
    }

    #[test]
    fn blocks_are_as_wide_as_channels_need() {
        let widths = [8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384].map(columns);
        assert_eq!(widths, [16, 16, 32, 32, 64, 64, 96, 128, 96, 128, 128]);
    }

    #[test]
    fn what_blocks_need_fits_a_multiprocessor() {
        const MULTIPROCESSOR: usize = 228 << 10;
        for size in [3, 10, 20, 28, 29, 30, 160] {
            let units = [Units::new(shape(size, size)), Units::of_line(size * size)];
            for inputs in [8, 16, 32, 64, 96, 128, 192, 256, 384, 1024, 1824] {
                for outputs in [8, 16, 32, 64, 96, 128, 192, 384] {
                    let elements = [Element::Bf16, Element::F32];
                    let kernels = elements.iter().flat_map(|&element| [(element, 3), (element, 1)]);
                    for (element, kernel) in kernels {
                        let shape = ConvShape { inputs, outputs, kernel, ..shape(size, size) };
                        let units = units[usize::from(kernel == 1)];
                        let plan = Plan::new(shape, element, units, MULTIPROCESSOR);
                        let each = plan.shared + 2048;
                        assert!(
                            each * plan.occupancy <= MULTIPROCESSOR,
                            "{size} {inputs} {outputs}: {plan:?}"
                        );
                        assert!(plan.slots <= SLOTS && plan.buffers <= BUFFERS, "{plan:?}");
                    }
                }
            }
        }
    }
}
