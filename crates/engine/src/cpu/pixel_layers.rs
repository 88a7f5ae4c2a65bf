//! The layers of a head, a chunk of pixels through all of them at a time, so that what lies between them never leaves
//! the cache. The backward pass computes it again.

use super::device::Cpu;
use super::elementwise::Compiled;
use super::epilogue::{Finish, pad};
use super::matmul::{add_products, add_rows, row_product, rows_times, transpose};
use super::parallel::{Output, Parts, for_each_task};
use super::scratch;
use super::simd::Isa;
use crate::backend::{Epilogue, LayersShape, PixelLayers};
use crate::tensor::Tensor;

impl PixelLayers for Cpu {
    fn forward(&self, shape: &LayersShape, operands: &[Tensor]) -> Tensor {
        let samples = shape.batch * shape.repeats;
        self.filled([samples, shape.height, shape.width, shape.outputs()], |out| {
            forward(self.isa, shape, &values(operands), out);
        })
    }

    fn backward(&self, shape: &LayersShape, operands: &[Tensor], dy: &Tensor) -> Vec<Tensor> {
        let mut gradients: Vec<Tensor> =
            operands.iter().map(|operand| self.filled(operand.shape(), |_| ())).collect();
        let mut written: Vec<&mut [f32]> = gradients.iter_mut().map(Tensor::values_mut).collect();
        backward(self.isa, shape, &values(operands), dy.values(), &mut written);
        gradients
    }
}

fn values(operands: &[Tensor]) -> Vec<&[f32]> {
    operands.iter().map(Tensor::values).collect()
}

impl LayersShape {
    fn outputs(&self) -> usize {
        self.widths[self.widths.len() - 1]
    }

    /// Values of a pixel that a chunk keeps: what every layer is given.
    fn kept(&self) -> usize {
        self.widths[..self.widths.len() - 1].iter().sum()
    }

    /// Pixels of a chunk: what is kept of them has 64 KiB, of which the second-level cache holds several.
    fn chunk(&self) -> usize {
        (16_384 / self.kept().max(1)).clamp(12, 256).min(self.height * self.width)
    }

    /// Images cut into chunks.
    fn chunks(&self) -> Chunks {
        let (pixels, size) = (self.height * self.width, self.chunk());
        let per_image = if size == 0 { 0 } else { pixels.div_ceil(size) };
        Chunks { pixels, size, per_image, count: self.batch * per_image }
    }

    fn check(&self, operands: &[&[f32]], out: usize) {
        let (pixels, samples) = (self.batch * self.height * self.width, self.batch * self.repeats);
        let mut expected = vec![pixels * self.widths[0], samples * self.widths[0]];
        expected.extend(self.widths.windows(2).flat_map(|pair| [pair[0] * pair[1], pair[1]]));
        assert!(operands.iter().map(|operand| operand.len()).eq(expected), "{self:?}: operands");
        assert_eq!(out, pixels * self.repeats * self.outputs(), "{self:?}: output of {out} values");
    }
}

#[derive(Clone, Copy)]
struct Chunks {
    /// Of an image.
    pixels: usize,
    size: usize,
    per_image: usize,
    count: usize,
}

impl Chunks {
    /// Image, first pixel and number of pixels.
    fn get(self, chunk: usize) -> (usize, usize, usize) {
        let (image, first) = (chunk / self.per_image, chunk % self.per_image * self.size);
        (image, first, self.size.min(self.pixels - first))
    }
}

/// One layer, its operands as kernels want them.
struct Layer<'a> {
    isa: Isa,
    inputs: usize,
    outputs: usize,
    weight: &'a [f32],
    /// Rows of the weight and the bias, padded to whole vectors.
    matrix: &'a [f32],
    bias: &'a [f32],
    /// Rows of the transposed weight, padded; empty in the forward pass.
    transposed: &'a [f32],
}

/// Lends the layers; `transposed`: with transposed weights, too.
fn with_layers<T>(
    isa: Isa,
    widths: &[usize],
    parameters: &[&[f32]],
    transposed: bool,
    work: impl FnOnce(&[Layer]) -> T,
) -> T {
    let padded = |columns: usize| columns.next_multiple_of(isa.for_channels(columns).lanes());
    let sizes = |k: usize, n: usize| [(k + 1) * padded(n), if transposed { n * padded(k) } else { 0 }];
    let pairs = || widths.windows(2).map(|pair| (pair[0], pair[1]));
    let total = pairs().flat_map(|(k, n)| sizes(k, n)).sum();
    // One transposed weight, before its rows are padded.
    let largest = pairs().map(|(k, n)| k * n).max().unwrap_or(0);
    scratch::with(total + largest, |space| {
        let (mut space, plain) = space.split_at_mut(total);
        let mut layers = Vec::with_capacity(widths.len() - 1);
        for ((k, n), parameters) in pairs().zip(parameters.chunks_exact(2)) {
            let (weight, bias) = (parameters[0], parameters[1]);
            let [matrix_size, transposed_size] = sizes(k, n);
            let (matrix, rest) = space.split_at_mut(matrix_size);
            let (back, rest) = rest.split_at_mut(transposed_size);
            space = rest;
            pad(weight, n, padded(n), matrix);
            let (matrix, bias_row) = matrix.split_at_mut(k * padded(n));
            pad(bias, n, padded(n), bias_row);
            if transposed {
                transpose(weight, n, &mut plain[..k * n]);
                pad(&plain[..k * n], k, padded(k), back);
            }
            layers.push(Layer {
                isa,
                inputs: k,
                outputs: n,
                weight,
                matrix,
                bias: bias_row,
                transposed: back,
            });
        }
        work(&layers)
    })
}

impl Layer<'_> {
    /// `x · weight + bias` for some pixels.
    fn apply(&self, x: &[f32], relu: bool, out: &mut [f32]) {
        let Self { inputs, outputs, weight, .. } = *self;
        assert!(x.len() / inputs == out.len() / outputs && x.len().is_multiple_of(inputs));
        if outputs == 1 {
            let bias = self.bias[0];
            return self.isa.run(Compiled(
                #[inline(always)]
                || {
                    for (out, row) in out.iter_mut().zip(x.chunks_exact(inputs)) {
                        let value = row_product(row, weight) + bias;
                        *out = if relu && value < 0.0 { 0.0 } else { value };
                    }
                },
            ));
        }
        let epilogue = Epilogue { bias: Some(self.bias), relu, ..Epilogue::NONE };
        let isa = self.isa.for_channels(outputs);
        rows_times(isa, [x, self.matrix], [inputs, outputs], Finish::new(epilogue, 0), out);
    }

    /// `dy · weightᵀ` where x, what the layer was given, is positive.
    fn back(&self, dy: &[f32], x: &[f32], dx: &mut [f32]) {
        let epilogue = Epilogue { mask: Some(x), ..Epilogue::NONE };
        assert!(x.len() == dx.len() && x.len() / self.inputs == dy.len() / self.outputs);
        let isa = self.isa.for_channels(self.inputs);
        rows_times(isa, [dy, self.transposed], [self.outputs, self.inputs], Finish::new(epilogue, 0), dx);
    }

    /// How weight gradients are summed: sides changed over where the output is one column, which fills the vectors.
    fn sum_sizes(&self) -> [usize; 2] {
        if self.outputs == 1 { [1, self.inputs] } else { [self.inputs, self.outputs] }
    }

    fn sum_stride(&self) -> usize {
        let [_, columns] = self.sum_sizes();
        columns.next_multiple_of(self.isa.for_channels(columns).lanes())
    }

    /// Values of the sums for weight and bias.
    fn sum_len(&self) -> [usize; 2] {
        [self.sum_sizes()[0] * self.sum_stride(), self.outputs]
    }

    /// Adds what some pixels give to the sums for weight and bias, which begin with zeros.
    fn add_gradients(&self, x: &[f32], dy: &[f32], weight: &mut [f32], bias: &mut [f32]) {
        let (sizes, count) = (self.sum_sizes(), dy.len() / self.outputs);
        let sides = if self.outputs == 1 { [dy, x] } else { [x, dy] };
        assert!(weight.len() == sizes[0] * self.sum_stride() && x.len() == count * self.inputs);
        add_products(self.isa.for_channels(sizes[1]), sides, sizes, 0..count, weight.as_mut_ptr(), true);
        self.isa.run(Compiled(
            #[inline(always)]
            || add_rows(dy, bias),
        ));
    }
}

/// What every layer is given for some pixels of one sample, one after the other in `kept`.
fn inputs_of_layers(layers: &[Layer], x: &[f32], bias: &[f32], kept: &mut [f32]) {
    let (first, mut rest) = kept.split_at_mut(x.len());
    layers[0].isa.run(Compiled(
        #[inline(always)]
        || {
            for (out, x) in first.chunks_exact_mut(bias.len()).zip(x.chunks_exact(bias.len())) {
                for ((out, x), bias) in out.iter_mut().zip(x).zip(bias) {
                    let value = x + bias;
                    *out = if value < 0.0 { 0.0 } else { value };
                }
            }
        },
    ));
    let count = x.len() / bias.len();
    let mut given: &[f32] = first;
    for layer in &layers[..layers.len() - 1] {
        let (next, after) = rest.split_at_mut(count * layer.outputs);
        layer.apply(given, true, next);
        (given, rest) = (next, after);
    }
}

fn forward(isa: Isa, shape: &LayersShape, operands: &[&[f32]], out: &mut [f32]) {
    shape.check(operands, out.len());
    let (channels, outputs, chunks) = (shape.widths[0], shape.outputs(), shape.chunks());
    let out = Output::new(out);
    with_layers(isa, &shape.widths, &operands[2..], false, |layers| {
        for_each_task(chunks.count, |chunk| {
            let (image, first, count) = chunks.get(chunk);
            let x = &operands[0][(image * chunks.pixels + first) * channels..][..count * channels];
            scratch::with(count * shape.kept(), |kept| {
                for sample in image * shape.repeats..(image + 1) * shape.repeats {
                    inputs_of_layers(layers, x, &operands[1][sample * channels..][..channels], kept);
                    let last = &layers[layers.len() - 1];
                    let given = &kept[kept.len() - count * last.inputs..];
                    // SAFETY: the pixels of this chunk in this sample, which no other task has.
                    let out =
                        unsafe { out.slice((sample * chunks.pixels + first) * outputs, count * outputs) };
                    last.apply(given, false, out);
                }
            });
        });
    });
}

/// Writes the gradients of all operands.
fn backward(isa: Isa, shape: &LayersShape, operands: &[&[f32]], dy: &[f32], gradients: &mut [&mut [f32]]) {
    shape.check(operands, dy.len());
    assert!(gradients.iter().map(|gradient| gradient.len()).eq(operands.iter().map(|operand| operand.len())));
    let (channels, chunks) = (shape.widths[0], shape.chunks());
    if chunks.count * shape.repeats == 0 {
        return gradients.iter_mut().for_each(|gradient| gradient.fill(0.0));
    }
    let [dx, sample_bias, parameters @ ..] = gradients else { panic!("an image and a bias") };
    with_layers(isa, &shape.widths, &operands[2..], true, |layers| {
        let size = layers.iter().flat_map(Layer::sum_len).sum();
        let parts = Parts::new(chunks.count, 1, size);
        // A part has whole chunks in a row, so it meets few images, each with its samples.
        let images = |part| {
            let range = parts.range(part);
            range.start / chunks.per_image..range.end.div_ceil(chunks.per_image)
        };
        let most = (0..parts.count).map(|part| images(part).len()).max().unwrap_or(0);
        let bias_size = most * shape.repeats * channels;
        scratch::with(parts.count * (size + bias_size), |partial| {
            partial.fill(0.0);
            let (sums, biases) = partial.split_at_mut(parts.count * size);
            let (sums_out, biases_out, dx) = (Output::new(sums), Output::new(biases), Output::new(dx));
            for_each_task(parts.count, |part| {
                // SAFETY: each part has its own sums.
                let (sums, biases) = unsafe {
                    (sums_out.slice(part * size, size), biases_out.slice(part * bias_size, bias_size))
                };
                let first_image = images(part).start;
                for chunk in parts.range(part) {
                    let (image, _, _) = chunks.get(chunk);
                    let biases = &mut biases[(image - first_image) * shape.repeats * channels..];
                    chunk_backward(shape, layers, operands, dy, chunk, sums, biases, &dx);
                }
            });
            let mut at = 0;
            for (layer, gradients) in layers.iter().zip(parameters.chunks_exact_mut(2)) {
                let [weight, bias] = layer.sum_len();
                let (stride, columns) = (layer.sum_stride(), layer.sum_sizes()[1]);
                gradients.iter_mut().for_each(|gradient| gradient.fill(0.0));
                for sums in sums.chunks_exact(size) {
                    let rows = sums[at..at + weight].chunks_exact(stride);
                    add(gradients[0], rows.flat_map(|row| &row[..columns]));
                    add(gradients[1], &sums[at + weight..at + weight + bias]);
                }
                at += weight + bias;
            }
            sample_bias.fill(0.0);
            for (part, sums) in biases.chunks_exact(bias_size).enumerate() {
                let values = images(part).start * shape.repeats * channels;
                let len = images(part).len() * shape.repeats * channels;
                add(&mut sample_bias[values..values + len], &sums[..len]);
            }
        });
    });
}

/// Adds values to sums.
fn add<'a>(sums: &mut [f32], values: impl IntoIterator<Item = &'a f32>) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// One chunk of an image on its backward pass, all samples of it: adds to the sums of the layers and of the samples'
/// biases, and writes the image's gradient.
fn chunk_backward(
    shape: &LayersShape,
    layers: &[Layer],
    operands: &[&[f32]],
    dy: &[f32],
    chunk: usize,
    sums: &mut [f32],
    biases: &mut [f32],
    dx: &Output,
) {
    let (channels, outputs, chunks) = (shape.widths[0], shape.outputs(), shape.chunks());
    let (image, first, count) = chunks.get(chunk);
    let at = (image * chunks.pixels + first) * channels;
    let x = &operands[0][at..at + count * channels];
    // SAFETY: the pixels of this chunk, which no other task has.
    let dx = unsafe { dx.slice(at, count * channels) };
    let widest = shape.widths[..shape.widths.len() - 1].iter().max().copied().unwrap_or(0);
    scratch::with(count * (shape.kept() + 2 * widest), |space| {
        let (kept, gradients) = space.split_at_mut(count * shape.kept());
        for k in 0..shape.repeats {
            let sample = image * shape.repeats + k;
            inputs_of_layers(layers, x, &operands[1][sample * channels..][..channels], kept);
            let dy = &dy[(sample * chunks.pixels + first) * outputs..][..count * outputs];
            let (mut from, mut to) = gradients.split_at_mut(count * widest);
            let (mut given_end, mut sums_end) = (kept.len(), sums.len());
            for (i, layer) in layers.iter().enumerate().rev() {
                let dy = if i + 1 == layers.len() { dy } else { &from[..count * layer.outputs] };
                let given_start = given_end - count * layer.inputs;
                let given = &kept[given_start..given_end];
                let [weight, bias] = layer.sum_len();
                let (weight_sum, bias_sum) = sums[sums_end - weight - bias..sums_end].split_at_mut(weight);
                layer.add_gradients(given, dy, weight_sum, bias_sum);
                layer.back(dy, given, &mut to[..count * layer.inputs]);
                (from, to) = (to, from);
                (given_end, sums_end) = (given_start, sums_end - weight - bias);
            }
            let d = &from[..count * channels];
            let bias = &mut biases[k * channels..][..channels];
            layers[0].isa.run(Compiled(
                #[inline(always)]
                || {
                    add_rows(d, bias);
                    if k == 0 {
                        dx.copy_from_slice(d);
                    } else {
                        dx.iter_mut().zip(d).for_each(|(dx, d)| *dx += d);
                    }
                },
            ));
        }
    });
}
