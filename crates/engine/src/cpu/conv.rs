//! Convolution of channels-last images, stride 1, zero padding: 1x1 as a matrix product, 3x3 either
//! directly or, where channels fill the vectors, by Winograd's algorithm ([`super::winograd`]).
//!
//! The direct 3x3 form copies a block of rows into a zero-padded strip; a window is then three runs
//! of 3·channels contiguous values, which the register-blocked products read where they lie.

use super::blocked::pairs::{PairKernel, Pairs};
use super::blocked::{OuterProducts, RowsTimesMatrix, Runs};
use super::epilogue::{Finish, with_padded};
use super::matmul::{column_sums, matmul, matmul_backward, matmul_tn};
use super::parallel::{Output, Parts, for_each_task};
use super::simd::{Isa, Kernel, Simd};
use super::{scratch, winograd};
use crate::backend::{ConvShape, Epilogue};
use crate::shape::Shape;

/// Panics where the buffers are not of the sizes that the shape says: kernels read them without looking.
fn check(shape: ConvShape, x: usize, weights: usize, out: usize) {
    assert!(shape.kernel == 1 || shape.kernel == 3, "kernel {}x{0}: only 1x1 and 3x3", shape.kernel);
    let image = |channels| Shape::from([shape.pixels(), channels]).volume();
    assert_eq!(x, image(shape.inputs), "{shape:?}: input of {x} values");
    assert_eq!(weights, shape.weight_shape().volume(), "{shape:?}: weights");
    assert_eq!(out, image(shape.outputs), "{shape:?}: output of {out} values");
}

/// `out = epilogue(x ⋆ weights)`.
pub(crate) fn forward(
    isa: Isa,
    shape: ConvShape,
    x: &[f32],
    weights: &[f32],
    epilogue: Epilogue<[f32]>,
    out: &mut [f32],
) {
    check(shape, x.len(), weights.len(), out.len());
    if out.is_empty() {
        return;
    }
    if let Some(bias) = epilogue.bias {
        assert_eq!(bias.len(), shape.outputs, "{shape:?}: bias of {} values", bias.len());
    }
    for values in [epilogue.residual, epilogue.mask].into_iter().flatten() {
        assert_eq!(values.len(), out.len(), "{shape:?}: residual or mask of {} values", values.len());
    }
    if shape.kernel == 1 {
        matmul(isa, x, weights, shape.inputs, shape.outputs, epilogue, out);
    } else if let Some(pairs) = by_pairs(isa, shape) {
        direct_forward_by_pairs(pairs, shape, x, weights, epilogue, out);
    } else if let Some(isa) = winograd::suits(isa, shape) {
        winograd::forward(isa, shape, x, weights, epilogue, out);
    } else {
        direct_forward(isa, shape, x, weights, epilogue, out);
    }
}

/// What computes the windows of a 3x3 convolution by pairs, where that takes less time than Winograd's algorithm, whose
/// transforms would have half-empty vectors (measured on Zen 5).
fn by_pairs(isa: Isa, shape: ConvShape) -> Option<Pairs> {
    let ConvShape { inputs, outputs, .. } = shape;
    isa.pairs().filter(|_| inputs % 16 == 8 && outputs % 16 == 8 && inputs * outputs <= 256)
}

/// [`forward`] with weights [kernel, kernel, outputs, inputs] that are turned around and transposed first: how a
/// gradient goes back through a convolution.
pub(crate) fn flipped_forward(
    isa: Isa,
    shape: ConvShape,
    x: &[f32],
    weights: &[f32],
    epilogue: Epilogue<[f32]>,
    out: &mut [f32],
) {
    let (taps, size) = (shape.taps(), shape.inputs * shape.outputs);
    scratch::with(weights.len(), |flipped| {
        let to = Output::new(flipped);
        for_each_task(taps, |tap| {
            let from = &weights[(taps - 1 - tap) * size..][..size];
            // SAFETY: each task has its own tap.
            super::matmul::transpose(from, shape.inputs, unsafe { to.slice(tap * size, size) });
        });
        forward(isa, shape, x, flipped, epilogue, out);
    });
}

/// The gradients of the weights and, if wanted, of the bias.
pub(crate) fn weight_gradient(
    isa: Isa,
    shape: ConvShape,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    db: Option<&mut [f32]>,
) {
    check(shape, x.len(), dw.len(), dy.len());
    if let Some(db) = db {
        assert_eq!(db.len(), shape.outputs, "{shape:?}: bias gradient of {} values", db.len());
        column_sums(isa, dy, shape.outputs, db);
    }
    if x.is_empty() || dy.is_empty() {
        return dw.fill(0.0);
    }
    if shape.kernel == 1 {
        matmul_tn(isa, x, dy, shape.inputs, shape.outputs, dw);
    } else if let Some(isa) = winograd::suits(isa, shape) {
        winograd::weight_gradient(isa, shape, x, dy, dw);
    } else {
        direct_weight_gradient(isa, shape, x, dy, dw);
    }
}

/// Whether [`pointwise_backward`] takes a convolution: a 1x1 one, but of a single channel, which has a product of its
/// own.
pub(crate) fn backward_is_fused(shape: ConvShape) -> bool {
    shape.kernel == 1 && shape.inputs > 1 && shape.outputs > 0
}

/// The gradients of image, weights and where asked for bias of a 1x1 convolution, of `[x, dy, weights]`.
pub(crate) fn pointwise_backward(
    isa: Isa,
    shape: ConvShape,
    [x, dy, weights]: [&[f32]; 3],
    epilogue: Epilogue<[f32]>,
    dx: &mut [f32],
    dw: &mut [f32],
    mut db: Option<&mut [f32]>,
) {
    check(shape, x.len(), dw.len(), dy.len());
    assert!(dx.len() == x.len() && weights.len() == dw.len(), "{shape:?}: gradients");
    assert!(db.as_ref().is_none_or(|db| db.len() == shape.outputs), "{shape:?}: bias gradient");
    for values in [epilogue.residual, epilogue.mask].into_iter().flatten() {
        assert_eq!(values.len(), dx.len(), "{shape:?}: residual or mask of {} values", values.len());
    }
    if x.is_empty() {
        db.iter_mut().for_each(|db| db.fill(0.0));
        return dw.fill(0.0);
    }
    scratch::with(weights.len(), |transposed| {
        super::matmul::transpose(weights, shape.outputs, transposed);
        matmul_backward(isa, [x, dy, transposed], [shape.inputs, shape.outputs], epilogue, dx, dw, db);
    });
}

/// Blocks of rows that a direct convolution works on at a time.
#[derive(Clone, Copy)]
struct RowBlocks {
    rows: usize,
    per_image: usize,
    count: usize,
}

impl RowBlocks {
    fn new(shape: ConvShape) -> Self {
        // A padded strip of about 64 KiB: it stays in the second-level cache while every block of
        // output channels reads it.
        let strip_row = (shape.width + 2) * shape.inputs;
        let rows = (16_384 / strip_row).clamp(1, 16).min(shape.height);
        let per_image = shape.height.div_ceil(rows);
        Self { rows, per_image, count: shape.batch * per_image }
    }

    /// Image, first row and number of rows of a block.
    fn get(self, block: usize, height: usize) -> (usize, usize, usize) {
        let (image, first) = (block / self.per_image, block % self.per_image * self.rows);
        (image, first, self.rows.min(height - first))
    }
}

/// Copies rows `first - 1 ..= first + rows` of an image into a strip with a zero border.
fn pad_rows(shape: ConvShape, x: &[f32], image: usize, first: usize, rows: usize, strip: &mut [f32]) {
    let (c, row) = (shape.inputs, shape.width * shape.inputs);
    for (i, padded) in strip.chunks_exact_mut(row + 2 * c).take(rows + 2).enumerate() {
        let y = first + i;
        if y == 0 || y > shape.height {
            padded.fill(0.0);
        } else {
            let from = (image * shape.height + y - 1) * row;
            padded[..c].fill(0.0);
            padded[c..c + row].copy_from_slice(&x[from..from + row]);
            padded[c + row..].fill(0.0);
        }
    }
}

fn direct_forward(
    isa: Isa,
    shape: ConvShape,
    x: &[f32],
    weights: &[f32],
    epilogue: Epilogue<[f32]>,
    out: &mut [f32],
) {
    let outputs = shape.outputs;
    let isa = isa.for_channels(outputs);
    with_padded(weights, outputs, isa.lanes(), |weights| {
        epilogue.with_padded_bias(outputs, isa.lanes(), |epilogue| {
            let weights = (weights, outputs.next_multiple_of(isa.lanes()));
            direct_rows_forward(shape, x, weights, epilogue, out, |rows| isa.run(rows));
        });
    });
}

/// [`direct_forward`] where inputs and outputs come in eights.
fn direct_forward_by_pairs(
    pairs: Pairs,
    shape: ConvShape,
    x: &[f32],
    weights: &[f32],
    epilogue: Epilogue<[f32]>,
    out: &mut [f32],
) {
    scratch::with(weights.len(), |interleaved| {
        pairs.interleave(weights, shape.outputs, interleaved);
        let weights = (&*interleaved, 2 * shape.outputs);
        direct_rows_forward(shape, x, weights, epilogue, out, |rows| pairs.run(rows));
    });
}

/// A direct convolution with weights and their stride as the kernel takes them, and the bias padded to whole vectors.
fn direct_rows_forward(
    shape: ConvShape,
    x: &[f32],
    (weights, stride): (&[f32], usize),
    epilogue: Epilogue<[f32]>,
    out: &mut [f32],
    run: impl Fn(DirectRows) + Send + Sync,
) {
    let blocks = RowBlocks::new(shape);
    let strip_row = (shape.width + 2) * shape.inputs;
    let out_row = shape.width * shape.outputs;
    let out = Output::new(out);
    for_each_task(blocks.count, |block| {
        let (image, first, rows) = blocks.get(block, shape.height);
        scratch::with((rows + 2) * strip_row, |strip| {
            pad_rows(shape, x, image, first, rows, strip);
            let at = (image * shape.height + first) * out_row;
            run(DirectRows {
                rows,
                strip_row,
                out_row,
                product: RowsTimesMatrix {
                    x: strip.as_ptr(),
                    row_stride: shape.inputs,
                    rows: shape.width,
                    runs: Runs { count: 3, len: 3 * shape.inputs, stride: strip_row },
                    matrix: weights.as_ptr(),
                    matrix_stride: stride,
                    columns: shape.outputs,
                    finish: Finish::new(epilogue, at),
                    out: out.at(at, rows * out_row),
                    out_stride: shape.outputs,
                },
            });
        });
    });
}

/// The output rows of one strip, one after the other.
struct DirectRows {
    rows: usize,
    strip_row: usize,
    out_row: usize,
    product: RowsTimesMatrix,
}

impl DirectRows {
    /// The product of one output row.
    ///
    /// # Safety
    /// There must be such a row.
    #[inline(always)]
    unsafe fn row(&self, row: usize) -> RowsTimesMatrix {
        // SAFETY: as granted.
        unsafe {
            RowsTimesMatrix {
                x: self.product.x.add(row * self.strip_row),
                finish: self.product.finish.add(row * self.out_row, 0),
                out: self.product.out.add(row * self.out_row),
                ..self.product
            }
        }
    }
}

// SAFETY of both: the strip holds rows + 2 padded rows, so that three runs of 3·inputs values start at each of `width`
// pixels of a row; weights and bias are padded to whole vectors, or the weights interleaved; the output rows (and those
// of residual and mask) are this task's own, and sizes were checked.
impl Kernel for DirectRows {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for row in 0..self.rows {
            // SAFETY: see above.
            unsafe { self.row(row).run(s) }
        }
    }
}

impl PairKernel for DirectRows {
    #[inline(always)]
    fn run(self, pairs: Pairs) {
        for row in 0..self.rows {
            // SAFETY: see above.
            unsafe { self.row(row).run_windows(pairs) }
        }
    }
}

fn direct_weight_gradient(isa: Isa, shape: ConvShape, x: &[f32], dy: &[f32], dw: &mut [f32]) {
    let isa = isa.for_channels(shape.outputs);
    let stride = shape.outputs.next_multiple_of(isa.lanes());
    let size = 9 * shape.inputs * stride;
    let blocks = RowBlocks::new(shape);
    let strip_row = (shape.width + 2) * shape.inputs;
    let parts = Parts::new(blocks.count, 1, size);
    scratch::with(parts.count * size, |partial| {
        let sums = Output::new(partial);
        for_each_task(parts.count, |part| {
            let sum = sums.at(part * size, size);
            let range = parts.range(part);
            for block in range.clone() {
                let (image, first, rows) = blocks.get(block, shape.height);
                scratch::with((rows + 2) * strip_row, |strip| {
                    pad_rows(shape, x, image, first, rows, strip);
                    let at = (image * shape.height + first) * shape.width * shape.outputs;
                    let dy = &dy[at..at + rows * shape.width * shape.outputs];
                    with_padded(dy, shape.outputs, isa.lanes(), |dy| {
                        isa.run(DirectWeightRows {
                            window: 3 * shape.inputs,
                            products: OuterProducts {
                                x: strip.as_ptr(),
                                x_step: shape.inputs,
                                rows: 3 * shape.inputs,
                                y: dy.as_ptr(),
                                y_step: stride,
                                runs: Runs { count: rows, len: shape.width, stride: strip_row },
                                y_run_stride: shape.width * stride,
                                columns: stride,
                                out: sum,
                                out_stride: stride,
                                add: block > range.start,
                            },
                        });
                    });
                });
            }
        });
        parts.sum(partial, shape.outputs, stride, dw);
    });
}

/// The three kernel rows of a weight gradient over one strip.
struct DirectWeightRows {
    window: usize,
    products: OuterProducts,
}

impl Kernel for DirectWeightRows {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for kernel_row in 0..3 {
            // SAFETY: the strip has two rows more than the runs, so shifting by up to two rows stays
            // inside, as does a window of 3·inputs values at each of `width` pixels; dy and the sums
            // are padded to whole vectors; the sums are this part's own.
            unsafe {
                let products = OuterProducts {
                    x: self.products.x.add(kernel_row * self.products.runs.stride),
                    out: self.products.out.add(kernel_row * self.window * self.products.out_stride),
                    ..self.products
                };
                products.run(s);
            }
        }
    }
}
