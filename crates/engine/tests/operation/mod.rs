//! Every operation of the engine as a value, so that golden, property and thread tests walk one list.

use multivalued_engine::{
    BatchStatistics, Corners, Device, ParameterId, Parameters, Shape, Tape, Tensor, Var,
};

/// The gradients by operand; none where no gradient reaches one.
pub type Gradients = Vec<Option<Vec<f32>>>;

/// An operation with the arguments that are not tensors.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    Conv2d,
    Conv2dRelu,
    /// The last operand is the residual; with three operands there is no bias.
    Conv2dAddRelu,
    GroupNorm {
        groups: usize,
        epsilon: f32,
    },
    GroupNormRelu {
        groups: usize,
        epsilon: f32,
    },
    GroupNormAddRelu {
        groups: usize,
        epsilon: f32,
    },
    BatchNorm {
        epsilon: f32,
    },
    BatchNormBy {
        epsilon: f32,
    },
    L2Normalise,
    ResizeBilinear {
        height: usize,
        width: usize,
        corners: Corners,
    },
    /// To the size of the second operand, whose channels come after its own.
    ResizeConcat {
        corners: Corners,
    },
    ConcatChannels,
    GatherRows {
        indices: Vec<usize>,
    },
    Reshape {
        shape: Vec<usize>,
    },
    Linear,
    Matmul,
    Transpose,
    BatchedMatmul {
        batch: usize,
    },
    BatchedInnerProducts {
        batch: usize,
    },
    AddSampleBias,
    AddSampleBiasRelu,
    Softmax,
    CrossEntropy {
        classes: Vec<usize>,
    },
    CrossEntropySoft,
    BceWithLogits,
    SquaredError,
    Sum,
    Mean,
    SumRows,
    GlobalAveragePool,
    BroadcastRows {
        shape: Vec<usize>,
    },
    BroadcastPixels {
        height: usize,
        width: usize,
    },
    Add,
    Sub,
    Mul,
    Div,
    Scale {
        factor: f32,
    },
    AddScalar {
        value: f32,
    },
    Exp,
    Ln,
    Sigmoid,
    Relu,
    StraightThrough,
    StopGradient,
}

impl Operation {
    /// Whether operand `i` is a plain tensor in the method's signature, and so has no gradient.
    pub fn is_constant(&self, i: usize) -> bool {
        i > 0 && matches!(self, Self::BatchNormBy { .. } | Self::CrossEntropySoft | Self::BceWithLogits)
    }

    /// The engine's method.
    pub fn apply(&self, x: &[Var]) -> Var {
        match self {
            Self::Conv2d => x[0].conv2d(&x[1], x.get(2)),
            Self::Conv2dRelu => x[0].conv2d_relu(&x[1], x.get(2)),
            Self::Conv2dAddRelu if x.len() == 3 => x[0].conv2d_add_relu(&x[1], None, &x[2]),
            Self::Conv2dAddRelu => x[0].conv2d_add_relu(&x[1], Some(&x[2]), &x[3]),
            Self::GroupNorm { groups, epsilon } => x[0].group_norm(*groups, &x[1], &x[2], *epsilon),
            Self::GroupNormRelu { groups, epsilon } => x[0].group_norm_relu(*groups, &x[1], &x[2], *epsilon),
            Self::GroupNormAddRelu { groups, epsilon } => {
                x[0].group_norm_add_relu(*groups, &x[1], &x[2], *epsilon, &x[3])
            }
            Self::BatchNorm { epsilon } => x[0].batch_norm(*epsilon).0,
            Self::BatchNormBy { epsilon } => {
                let [mean, variance] = [1, 2].map(|i| x[i].tensor().clone());
                x[0].batch_norm_by(&BatchStatistics { mean, variance }, *epsilon)
            }
            Self::L2Normalise => x[0].l2_normalise(),
            Self::ResizeBilinear { height, width, corners } => {
                x[0].resize_bilinear(*height, *width, *corners)
            }
            Self::ResizeConcat { corners } => x[0].resize_concat(&x[1], *corners),
            Self::ConcatChannels => Var::concat_channels(&x.iter().collect::<Vec<_>>()),
            Self::GatherRows { indices } => x[0].gather_rows(indices),
            Self::Reshape { shape } => x[0].reshape(&shape[..]),
            Self::Linear => x[0].linear(&x[1], &x[2]),
            Self::Matmul => x[0].matmul(&x[1]),
            Self::Transpose => x[0].transpose(),
            Self::BatchedMatmul { batch } => x[0].batched_matmul(&x[1], *batch),
            Self::BatchedInnerProducts { batch } => x[0].batched_inner_products(&x[1], *batch),
            Self::AddSampleBias => x[0].add_sample_bias(&x[1]),
            Self::AddSampleBiasRelu => x[0].add_sample_bias_relu(&x[1]),
            Self::Softmax => x[0].softmax(),
            Self::CrossEntropy { classes } => x[0].cross_entropy(classes),
            Self::CrossEntropySoft => x[0].cross_entropy_soft(x[1].tensor()),
            Self::BceWithLogits => x[0].bce_with_logits(x[1].tensor()),
            Self::SquaredError => x[0].squared_error(&x[1]),
            Self::Sum => x[0].sum(),
            Self::Mean => x[0].mean(),
            Self::SumRows => x[0].sum_rows(),
            Self::GlobalAveragePool => x[0].global_average_pool(),
            Self::BroadcastRows { shape } => x[0].broadcast_rows(&shape[..]),
            Self::BroadcastPixels { height, width } => x[0].broadcast_pixels(*height, *width),
            Self::Add => x[0].add(&x[1]),
            Self::Sub => x[0].sub(&x[1]),
            Self::Mul => x[0].mul(&x[1]),
            Self::Div => x[0].div(&x[1]),
            Self::Scale { factor } => x[0].scale(*factor),
            Self::AddScalar { value } => x[0].add_scalar(*value),
            Self::Exp => x[0].exp(),
            Self::Ln => x[0].ln(),
            Self::Sigmoid => x[0].sigmoid(),
            Self::Relu => x[0].relu(),
            Self::StraightThrough => x[0].straight_through(&x[1]),
            Self::StopGradient => x[0].stop_gradient(),
        }
    }

    /// The output, and the gradients of ⟨seed, output⟩ with respect to the operands.
    /// `seed(len)` gives the gradient of an output of `len` values.
    pub fn run(
        &self,
        device: &Device,
        operands: &[(Vec<usize>, Vec<f32>)],
        seed: impl FnOnce(usize) -> Vec<f32>,
    ) -> (Shape, Vec<f32>, Gradients) {
        let mut parameters = Parameters::new();
        let ids: Vec<ParameterId> = operands
            .iter()
            .enumerate()
            .map(|(i, (shape, values))| {
                let tensor = Tensor::from_slice(device, &shape[..], values);
                match self.is_constant(i) {
                    true => parameters.add_state(format!("{i}"), tensor),
                    false => parameters.add(format!("{i}"), tensor),
                }
            })
            .collect();
        let tape = Tape::recording(&parameters);
        let x: Vec<Var> = ids.iter().map(|&id| tape.get(id)).collect();
        let out = self.apply(&x);
        let (shape, values) = (out.shape(), out.tensor().to_vec());
        let seed = Tensor::from_slice(device, shape, &seed(values.len()));
        let gradients = tape.backward(&out.mul(&Var::constant(seed)).sum());
        let gradients = ids.iter().map(|&id| gradients.get(id).map(Tensor::to_vec)).collect();
        (shape, values, gradients)
    }
}
