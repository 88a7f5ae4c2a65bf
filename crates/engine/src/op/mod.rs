//! The operations. Each stands in one file: its method of [`Var`](crate::Var) with formula and shape rule, what it
//! saves when it is recorded, and its one backward pass. Both are written over [`Backend`](crate::backend::Backend), so
//! that they hold on every device.
//!
//! A new operation is a struct here that implements [`Operation`], its name in the list below, and where no kernel
//! serves it one more kernel per device.

mod bias;
mod conv;
mod elementwise;
mod group_norm;
mod join;
mod loss;
mod matmul;
mod norm;
mod pixel_layers;
mod ranks;
mod reduce;
mod resize;

use crate::parameters::ParameterId;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;
use bias::SampleBias;
use conv::Conv;
use elementwise::{Arithmetic, Pointwise, StraightThrough};
use group_norm::GroupNorm;
use join::{Concat, GatherRows, Reshape};
use loss::{CrossEntropy, RowDistance, Softmax};
use matmul::{MatMul, Transpose};
pub use norm::BatchStatistics;
use norm::{BatchNorm, BatchNormBy, L2Normalise};
use pixel_layers::Layers;
use ranks::RankSum;
pub use ranks::SumOverRanks;
use reduce::{BroadcastPixels, BroadcastRows, MeanPixels, SumRows};
use resize::Resize;

/// An operation that was computed: what it has to keep for its backward pass. What listings show has no default, so
/// that a new operation is not shown without its name or its memory.
pub(crate) trait Operation: Sized {
    /// Whether its gradient for the first operand is given to [`Flow::accumulate`]. The peephole pass lets such an
    /// operation mask that gradient by the operand's relu.
    const ACCUMULATES: bool;

    /// What a listing calls it.
    fn name(&self) -> String;

    /// Hands its operands' gradients on, given that of its result.
    fn backward(self, dy: Tensor, flow: &mut Flow);

    /// The tensors that it keeps. Written by naming all fields, so that a new one is not forgotten here.
    fn saved(&self) -> Vec<&Tensor>;

    /// Its result where that is a relu's, so that no gradient passes where it is zero; such an operation asks
    /// [`Flow::mask`] for what is still to be masked.
    fn relu_result(&self) -> Option<&Tensor> {
        None
    }
}

macro_rules! operations {
    ($($name:ident),*) => {
        /// Any operation, as a tape holds it.
        pub(crate) enum Op {
            $($name($name)),*
        }

        impl Op {
            pub fn accumulates(&self) -> bool {
                match self { $(Self::$name(_) => $name::ACCUMULATES),* }
            }

            pub fn name(&self) -> String {
                match self { $(Self::$name(op) => op.name()),* }
            }

            pub fn backward(self, dy: Tensor, flow: &mut Flow) {
                match self { $(Self::$name(op) => op.backward(dy, flow)),* }
            }

            pub fn saved(&self) -> Vec<&Tensor> {
                match self { $(Self::$name(op) => op.saved()),* }
            }

            pub fn relu_result(&self) -> Option<&Tensor> {
                match self { $(Self::$name(op) => op.relu_result()),* }
            }
        }

        $(impl From<$name> for Op {
            fn from(op: $name) -> Self {
                Self::$name(op)
            }
        })*
    };
}

operations!(
    Leaf,
    Arithmetic,
    BatchNorm,
    BatchNormBy,
    BroadcastPixels,
    BroadcastRows,
    Concat,
    Conv,
    CrossEntropy,
    GatherRows,
    GroupNorm,
    L2Normalise,
    Layers,
    MatMul,
    MeanPixels,
    Pointwise,
    RankSum,
    Reshape,
    Resize,
    RowDistance,
    SampleBias,
    Softmax,
    StraightThrough,
    SumRows,
    Transpose
);

/// A parameter, where gradients end.
pub(crate) struct Leaf(pub ParameterId);

impl Operation for Leaf {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "parameter".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.set_parameter(self.0, dy);
    }
}

/// `conv 3x3 + bias + relu`: a name, and what is done in the same sweep.
fn with_parts(name: String, parts: &[(&str, bool)]) -> String {
    parts.iter().filter(|(_, there)| *there).fold(name, |name, (part, _)| name + " + " + part)
}
