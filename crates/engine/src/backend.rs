//! What a device can compute: the kernels that the operations under `op` are written over.
//!
//! A kernel knows nothing of gradients, and checks no shapes: its operation has done so. It takes tensors of its
//! own device and gives new ones. Tensors that are taken by value may be written over where nobody else holds
//! them. Results have the element type of the first operand and sums are f32, unless a kernel says otherwise.

pub(crate) mod shapes;

use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::views::{InverseViews, Placement};
pub(crate) use shapes::{Channels, ConvShape, Element, Epilogue, LayersShape, NormShape, ResizeShape};

/// A device's kernels.
pub(crate) trait Backend:
    Memory + Values + Images + Views + Norms + Rows + Products + Training
{
}

impl<T: Memory + Values + Images + Views + Norms + Rows + Products + Training> Backend for T {}

/// Where values lie, and in which type.
pub(crate) trait Memory {
    /// How activations are stored.
    fn activation(&self) -> Element;
    /// A tensor whose values are still to be written.
    fn empty(&self, shape: Shape, element: Element) -> Tensor;
    /// f32 values that are all the same.
    fn full(&self, shape: Shape, value: f32) -> Tensor;
    /// f32 values from this machine's memory.
    fn upload(&self, shape: Shape, values: &[f32]) -> Tensor;
    /// The values in another element type; themselves where they have it already.
    fn cast(&self, x: Tensor, to: Element) -> Tensor;
    /// The values of some tensors, for which the device is waited for once.
    fn read(&self, tensors: &[&Tensor]) -> Vec<Vec<f32>>;
    /// So many values: those of each tensor from its place on, zeros elsewhere. The tensors are spent.
    fn join(&self, parts: Vec<(usize, Tensor)>, len: usize) -> Tensor;
    /// The values of a shape from a place on; may share them.
    fn part(&self, x: &Tensor, first: usize, shape: Shape) -> Tensor;
    /// Waits until all work given to the device is done.
    fn synchronise(&self);
    /// How many buffers were newly allocated so far.
    fn allocations(&self) -> usize;
    /// The most memory that tensors took at once so far.
    fn peak_bytes(&self) -> usize;
    /// The most memory that tensors took at once since this was last asked; right after it, what they take now.
    fn recent_peak_bytes(&self) -> usize;
}

/// An operation of two values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// a · (−b)
    NegativeMul,
}

/// An operation of one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unary {
    Scale(f32),
    AddScalar(f32),
    Exp,
    Ln,
    Sigmoid,
    /// A NaN stays NaN.
    Relu,
    /// 1 where |x| is larger, else 0.
    Exceeds(f32),
}

/// Value by value.
pub(crate) trait Values {
    /// In f32 where the operands' types differ.
    fn binary(&self, operation: Binary, a: Tensor, b: &Tensor) -> Tensor;
    fn unary(&self, operation: Unary, x: Tensor) -> Tensor;
    /// `dy · f'(x)`, in the type of `saved`: the result where the derivative is a function of it (exp, sigmoid,
    /// relu), else the operand (ln). Of no other operation: their derivatives are constants.
    fn unary_backward(&self, operation: Unary, saved: &Tensor, dy: Tensor) -> Tensor;
    /// dy where y is positive, in the type asked for, and where asked for the sums over the rows of each segment,
    /// [segments, channels].
    fn mask_and_sum(
        &self,
        dy: Tensor,
        y: Option<&Tensor>,
        to: Element,
        segments: Option<usize>,
    ) -> (Tensor, Option<Tensor>);
}

/// Images, channels last.
pub(crate) trait Images {
    /// `epilogue(x ⋆ weight)`; `flipped`: with the weight [k, k, outputs, inputs] turned around and its channels
    /// swapped, as a gradient goes back through a convolution. Takes activations, and f32 weights and bias.
    fn conv(
        &self,
        shape: ConvShape,
        x: &Tensor,
        weight: &Tensor,
        flipped: bool,
        epilogue: Epilogue,
        to: Element,
    ) -> Tensor;
    /// The gradient of the weight, and where asked for of the bias.
    fn conv_weight_gradient(
        &self,
        shape: ConvShape,
        x: &Tensor,
        dy: &Tensor,
        bias: bool,
    ) -> (Tensor, Option<Tensor>);
    /// Both at once: the gradient of x, which is `epilogue(dy ⋆ weight)` flipped, and those of weight and bias.
    fn conv_backward(
        &self,
        shape: ConvShape,
        [x, dy, weight]: [&Tensor; 3],
        epilogue: Epilogue,
        to: Element,
        bias: bool,
    ) -> (Tensor, Tensor, Option<Tensor>) {
        conv_backward_unfused(self, shape, [x, dy, weight], epilogue, to, bias)
    }
    /// With the channels of `beside` after its own, where there are images beside; `out` is the result's shape.
    fn resize(&self, shape: ResizeShape, x: &Tensor, beside: Option<&Tensor>, out: Shape) -> Tensor;
    /// The gradient of x added to what has come `accumulated`, kept only where the mask is positive; both optional. All
    /// of one type.
    fn resize_backward(
        &self,
        shape: ResizeShape,
        dy: Channels,
        accumulated: Option<Channels>,
        mask: Option<&Tensor>,
    ) -> Tensor;
    /// In f32 where the images' types differ.
    fn concat_channels(&self, images: &[&Tensor], shape: Shape) -> Tensor;
    /// As many channels as the shape has, from `first` on.
    fn slice_channels(&self, image: &Tensor, first: usize, shape: Shape) -> Tensor;
    /// `relu(x[n, …, c] + bias[n·K + k, c])`, relu optional; bias in f32.
    fn add_sample_bias(&self, x: &Tensor, bias: &Tensor, relu: bool, shape: Shape) -> Tensor;
    /// `Σ_k x[n·K + k, …]`
    fn sum_repeats(&self, x: &Tensor, repeats: usize, shape: Shape) -> Tensor;
    /// The kernels of a head's layers in one, where the device has them.
    fn pixel_layers(&self) -> Option<&dyn PixelLayers> {
        None
    }
    /// The mean of each channel over an image's pixels, [batch, channels] in f32.
    fn mean_pixels(&self, x: &Tensor) -> Tensor;
    /// `out[n, …, c] = rows[n, c] / divisor`; rows in f32.
    fn broadcast_pixels(&self, rows: &Tensor, shape: Shape, divisor: f32, to: Element) -> Tensor;
}

/// The layers of a head, a chunk of pixels at a time. `operands`: the image, the samples' bias, and weight and bias of
/// every layer; all in f32.
pub(crate) trait PixelLayers {
    /// The last layer's values, [batch·repeats, height, width, outputs].
    fn forward(&self, shape: &LayersShape, operands: &[Tensor]) -> Tensor;
    /// The gradients of all operands.
    fn backward(&self, shape: &LayersShape, operands: &[Tensor], dy: &Tensor) -> Vec<Tensor>;
}

/// [`Images::conv_backward`] by one kernel after the other.
pub(crate) fn conv_backward_unfused(
    kernels: &(impl Images + ?Sized),
    shape: ConvShape,
    [x, dy, weight]: [&Tensor; 3],
    epilogue: Epilogue,
    to: Element,
    bias: bool,
) -> (Tensor, Tensor, Option<Tensor>) {
    let dx = kernels.conv(shape.reversed(), dy, weight, true, epilogue, to);
    let (dw, db) = kernels.conv_weight_gradient(shape, x, dy, bias);
    (dx, dw, db)
}

/// Views of images, channels last, and masks.
pub(crate) trait Views {
    /// Every image as every placement shows it, [images·placements, …]; in f32.
    fn move_images(&self, x: &Tensor, placements: &[Placement]) -> Tensor;
    /// The mean of outputs [images·views·repeats, …] over the views of an image that show a pixel, added to what came
    /// before, which has the same shape; in f32.
    fn mean_of_views(
        &self,
        outputs: &Tensor,
        inverse: &InverseViews,
        before: Option<Tensor>,
        shape: Shape,
    ) -> Tensor;
    /// The masks of logits, of shape [masks, classes, parts]: sixteen pixels in a value, as a whole number whose lowest
    /// bit is the first pixel; parts of whole words of 64 pixels. And one value that is not zero where a logit is not
    /// finite. `with_pixels`: of a mask that would be empty, the pixels near its highest logit.
    fn pack_masks(&self, logits: &Tensor, with_pixels: bool, shape: Shape) -> [Tensor; 2];
}

/// The least length that a row is divided by to be of length one.
pub(crate) const LEAST_LENGTH: f64 = 1e-12;

/// Normalisation.
pub(crate) trait Norms {
    /// `relu((x − mean) / √(variance + ε) · scale + shift + residual)`, residual and relu optional; and what the
    /// backward pass needs of the groups, [batch·groups, 2].
    fn group_norm(
        &self,
        shape: NormShape,
        x: &Tensor,
        affine: [&Tensor; 2],
        epsilon: f32,
        residual: Option<&Tensor>,
        relu: bool,
    ) -> [Tensor; 2];
    /// The gradients of x, scale and shift, for dy past relu and residual.
    fn group_norm_backward(
        &self,
        shape: NormShape,
        x: &Tensor,
        dy: Tensor,
        scale: &Tensor,
        statistics: &Tensor,
    ) -> [Tensor; 3];
    /// The normalised batch, mean and variance of each feature, and what the backward pass needs of them: 1/σ of f64 on
    /// the processor, the variance on a GPU, whose kernel takes epsilon for it. All in f32, as the kernels below.
    fn batch_norm(&self, x: &Tensor, epsilon: f32) -> [Tensor; 4];
    fn batch_norm_backward(&self, y: &Tensor, dy: Tensor, statistics: &Tensor, epsilon: f32) -> Tensor;
    /// `(x − mean) / √(variance + ε)`, or without the mean, which is its gradient.
    fn batch_norm_by(&self, x: Tensor, mean: Option<&Tensor>, variance: &Tensor, epsilon: f32) -> Tensor;
    /// Rows of length one, and one over their lengths before, which count as [`LEAST_LENGTH`] at least.
    fn l2_normalise(&self, x: &Tensor) -> [Tensor; 2];
    fn l2_normalise_backward(&self, y: &Tensor, inverse: &Tensor, dy: Tensor) -> Tensor;
}

/// A distance of two rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Distance {
    /// `softplus(x) − y · x`, x a logit.
    BinaryCrossEntropy,
    /// `(x − y)²`
    SquaredError,
}

/// Rows of values.
pub(crate) trait Rows {
    /// `factor · Σ_i x[row, i]`, [rows]
    fn sum_rows(&self, x: &Tensor, rows: usize, factor: f64) -> Tensor;
    /// `out[row, i] = values[row] · factor`; values in f32.
    fn broadcast_rows(&self, values: &Tensor, shape: Shape, factor: f64, to: Element) -> Tensor;
    /// `mean_i f(x[row, i], y[row / repeats, i])`, [rows]; y in f32.
    fn row_distance(&self, distance: Distance, x: &Tensor, y: &Tensor, repeats: usize) -> Tensor;
    /// Its gradient towards x, times `sign`; dy in f32.
    fn row_distance_backward(
        &self,
        distance: Distance,
        x_y_and_dy: [&Tensor; 3],
        repeats: usize,
        sign: f32,
    ) -> Tensor;
    /// Of each row, in f32, as the kernels below.
    fn softmax(&self, logits: &Tensor) -> Tensor;
    fn softmax_backward(&self, y: &Tensor, dy: Tensor) -> Tensor;
    /// `Σ_k target[row, k] · (ln Σ_l exp(logit[row, l]) − logit[row, k])`
    fn cross_entropy(&self, logits: &Tensor, targets: &Tensor) -> Tensor;
    fn cross_entropy_backward(&self, logits: &Tensor, targets: &Tensor, dy: &Tensor) -> Tensor;
    /// Rows by their numbers, as a tensor of that shape.
    fn gather_rows(&self, x: &Tensor, indices: &[usize], shape: Shape) -> Tensor;
    /// Each row of dy added to the row of that number; others are zero.
    fn scatter_rows(&self, dy: &Tensor, indices: &[usize], shape: Shape) -> Tensor;
}

/// A matrix of a batch as it enters a product.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub tensor: &'a Tensor,
    pub transposed: bool,
}

/// Matrices, in f32.
pub(crate) trait Products {
    /// `a_i · b_i (+ bias)` for each of a batch: [batch·m, k] · [batch·k, n] → [batch·m, n], with either stored
    /// transposed, not both.
    fn matmul(&self, a: Matrix, b: Matrix, bias: Option<&Tensor>, sizes: [usize; 4]) -> Tensor;
    fn transpose(&self, x: &Tensor) -> Tensor;
}

/// One parameter of an update, with its moments and what its group says.
pub(crate) struct Update<'a> {
    pub value: &'a mut Tensor,
    pub moments: &'a mut [Tensor; 2],
    pub gradient: &'a Tensor,
    pub rate: f32,
    pub decay: f32,
}

/// What all parameters share in a step of Adam.
pub(crate) struct AdamStep {
    /// The largest norm that is not clipped.
    pub max_norm: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    /// What the moments are divided by: 1 − β₁ᵗ and √(1 − β₂ᵗ).
    pub corrections: [f32; 2],
}

/// Changes of parameters.
pub(crate) trait Training {
    /// Moves the parameters, and gives the norm of all gradients, or a loss that is not finite; where what it
    /// gives is not finite, nothing moves.
    fn adam(&self, updates: Vec<Update>, step: &AdamStep, loss: Option<&Tensor>) -> Tensor;
    /// a ← a + share · (b − a), for all pairs.
    fn lerp(&self, pairs: Vec<(&mut Tensor, &Tensor)>, share: f32);
}
