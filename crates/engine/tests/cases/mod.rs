//! Calls of every operation for given sizes, with operands drawn from a seed.

use crate::operation::Operation;
use multivalued_engine::Corners;

/// What the shapes of a call are made of.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub batch: usize,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub other_channels: usize,
    /// Codes per image, rows per group.
    pub repeats: usize,
    pub seed: u64,
}

/// An operation and the shapes of its operands.
pub type Call = (Operation, Vec<Vec<usize>>);

/// Numbers from a seed: SplitMix64.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between -1 and 1.
    pub fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// 3x3 and 1x1 convolutions.
pub fn convolutions(s: Sizes) -> Vec<Call> {
    let Sizes { batch, height, width, channels, other_channels, .. } = s;
    let (x, bias, out) = (
        vec![batch, height, width, channels],
        vec![other_channels],
        vec![batch, height, width, other_channels],
    );
    [1, 3]
        .into_iter()
        .flat_map(|k| {
            let weight = vec![k, k, channels, other_channels];
            let (x, bias, out) = (x.clone(), bias.clone(), out.clone());
            [
                (Operation::Conv2d, vec![x.clone(), weight.clone()]),
                (Operation::Conv2dRelu, vec![x.clone(), weight.clone(), bias.clone()]),
                (Operation::Conv2dAddRelu, vec![x, weight, bias, out]),
            ]
        })
        .collect()
}

/// The other operations on images.
pub fn images(s: Sizes) -> Vec<Call> {
    let Sizes { batch, height, width, channels, other_channels, repeats, .. } = s;
    let x = || vec![batch, height, width, channels];
    let mut numbers = Numbers(s.seed);
    let divisors: Vec<usize> = (1..=channels).filter(|groups| channels % groups == 0).collect();
    let groups = divisors[numbers.below(divisors.len())];
    let epsilon = 1e-3;
    let norm = || vec![x(), vec![channels], vec![channels]];
    let sizes = [1, 2, 3, 5, 9, 45];
    let (to_height, to_width) = (sizes[numbers.below(6)], sizes[numbers.below(6)]);
    let resize = |corners| Operation::ResizeBilinear { height: to_height, width: to_width, corners };
    let beside = || vec![x(), vec![batch, to_height, to_width, other_channels]];
    let indices = (0..5).map(|_| numbers.below(batch)).collect();
    vec![
        (Operation::GroupNorm { groups, epsilon }, norm()),
        (Operation::GroupNormRelu { groups, epsilon }, norm()),
        (Operation::GroupNormAddRelu { groups, epsilon }, [norm(), vec![x()]].concat()),
        (resize(Corners::Aligned), vec![x()]),
        (resize(Corners::HalfPixel), vec![x()]),
        (Operation::ResizeConcat { corners: Corners::HalfPixel }, beside()),
        (Operation::ResizeConcat { corners: Corners::Aligned }, beside()),
        (Operation::ConcatChannels, vec![x(), vec![batch, height, width, other_channels], x()]),
        (Operation::GatherRows { indices }, vec![x()]),
        (Operation::Reshape { shape: vec![batch * height, width * channels] }, vec![x()]),
        (Operation::AddSampleBias, vec![x(), vec![batch * repeats, channels]]),
        (Operation::AddSampleBiasRelu, vec![x(), vec![batch * repeats, channels]]),
        (Operation::GlobalAveragePool, vec![x()]),
        (Operation::BroadcastRows { shape: x() }, vec![vec![batch]]),
        (Operation::BroadcastPixels { height, width }, vec![vec![batch, channels]]),
        (
            Operation::BceWithLogits,
            vec![vec![batch * repeats, height, width, 1], vec![batch, height, width, 1]],
        ),
        (Operation::SquaredError, vec![x(), x()]),
        (Operation::SumRows, vec![x()]),
    ]
}

/// Operations on matrices; height x width are rows here.
pub fn matrices(s: Sizes) -> Vec<Call> {
    let Sizes { batch, height, channels, other_channels, repeats, .. } = s;
    let (rows, columns) = (batch * height, channels);
    let x = || vec![rows, columns];
    let epsilon = 1e-3;
    let mut numbers = Numbers(s.seed);
    let classes = (0..rows).map(|_| numbers.below(columns)).collect();
    let weight = || vec![columns, other_channels];
    vec![
        (Operation::BatchNorm { epsilon }, vec![x()]),
        (Operation::BatchNormBy { epsilon }, vec![x(), vec![columns], vec![columns]]),
        (Operation::L2Normalise, vec![x()]),
        (Operation::Linear, vec![x(), weight(), vec![other_channels]]),
        (Operation::Matmul, vec![x(), weight()]),
        (Operation::Transpose, vec![x()]),
        (
            Operation::BatchedMatmul { batch: repeats },
            vec![vec![repeats * rows, columns], vec![repeats * columns, other_channels]],
        ),
        (
            Operation::BatchedInnerProducts { batch: rows },
            vec![vec![rows * repeats, columns], vec![rows * 2, columns]],
        ),
        (Operation::Softmax, vec![x()]),
        (Operation::CrossEntropy { classes }, vec![x()]),
        (Operation::CrossEntropySoft, vec![x(), x()]),
    ]
}

/// Operations value by value, and sums of all.
pub fn values(s: Sizes) -> Vec<Call> {
    let x = || vec![s.batch, s.height, s.width, s.channels];
    let unary = [
        Operation::Sum,
        Operation::Mean,
        Operation::Scale { factor: -1.5 },
        Operation::AddScalar { value: 0.25 },
        Operation::Exp,
        Operation::Ln,
        Operation::Sigmoid,
        Operation::Relu,
        Operation::StopGradient,
    ];
    let binary = [Operation::Add, Operation::Sub, Operation::Mul, Operation::Div, Operation::StraightThrough];
    let unary = unary.into_iter().map(|operation| (operation, vec![x()]));
    unary.chain(binary.into_iter().map(|operation| (operation, vec![x(), x()]))).collect()
}

/// Values for a call's operands: between -1 and 1, but positive where only that makes sense, and away
/// from zero where the operation divides by them.
pub fn draw((operation, shapes): &Call, numbers: &mut Numbers) -> Vec<(Vec<usize>, Vec<f32>)> {
    let draw = |(i, shape): (usize, &Vec<usize>)| {
        let volume = shape.iter().product();
        let values = (0..volume).map(|_| {
            let value = numbers.signed();
            match (operation, i) {
                (Operation::Ln, 0) | (Operation::Div, 1) | (Operation::BatchNormBy { .. }, 2) => {
                    1.25 + 0.75 * value
                }
                (Operation::BceWithLogits | Operation::CrossEntropySoft, 1) => value.abs(),
                (Operation::L2Normalise, 0) => value + value.signum() * 0.5,
                _ => value,
            }
        });
        (shape.clone(), values.collect())
    };
    shapes.iter().enumerate().map(draw).collect()
}
