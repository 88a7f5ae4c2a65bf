//! The operations once more, in f64 and as their formulas say, for the tests to compare with: no
//! blocking, no vectors, nothing shared with the engine.

use crate::operation::Operation;
use multivalued_engine::Corners;

/// Values with their sizes.
#[derive(Debug, Clone)]
pub struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

impl Array {
    fn new(shape: &[usize], value: impl FnMut(usize) -> f64) -> Self {
        Self { shape: shape.to_vec(), values: (0..shape.iter().product()).map(value).collect() }
    }

    /// Value by value, under the same shape.
    fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(&self.shape, |i| f(self.values[i]))
    }

    fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self::new(&self.shape, |i| f(self.values[i], other.values[i]))
    }

    fn image(&self) -> [usize; 4] {
        self.shape[..].try_into().expect("an image")
    }

    /// Rows and the number of values in each.
    fn rows(&self) -> (usize, usize) {
        (self.shape[0], self.shape[1..].iter().product())
    }

    /// One value per row.
    fn per_row(&self, f: impl Fn(usize, &[f64]) -> f64) -> Self {
        let (rows, size) = self.rows();
        Self::new(&[rows], |row| f(row, &self.values[row * size..(row + 1) * size]))
    }

    /// New values for each row.
    fn by_row(&self, f: impl Fn(usize, &[f64]) -> Vec<f64>) -> Self {
        let (rows, size) = self.rows();
        let rows = (0..rows).flat_map(|row| f(row, &self.values[row * size..(row + 1) * size]));
        Self { shape: self.shape.clone(), values: rows.collect() }
    }
}

fn conv(x: &Array, weight: &Array, bias: Option<&Array>) -> Array {
    let ([batch, height, width, inputs], [kernel, _, _, outputs]) = (x.image(), weight.image());
    let radius = kernel / 2;
    let mut out =
        Array::new(&[batch, height, width, outputs], |i| bias.map_or(0.0, |b| b.values[i % outputs]));
    for (pixel, out) in out.values.chunks_exact_mut(outputs).enumerate() {
        let (n, i, j) = (pixel / (height * width), pixel / width % height, pixel % width);
        for a in 0..kernel {
            for b in 0..kernel {
                let (y, z) = (i + a, j + b);
                if y < radius || y >= height + radius || z < radius || z >= width + radius {
                    continue;
                }
                let from = ((n * height + y - radius) * width + z - radius) * inputs;
                for c in 0..inputs {
                    let value = x.values[from + c];
                    let weights = &weight.values[((a * kernel + b) * inputs + c) * outputs..][..outputs];
                    out.iter_mut().zip(weights).for_each(|(out, weight)| *out += value * weight);
                }
            }
        }
    }
    out
}

fn group_norm(x: &Array, groups: usize, scale: &Array, shift: &Array, epsilon: f32) -> Array {
    let [batch, height, width, channels] = x.image();
    let (pixels, size) = (height * width, channels / groups);
    let mut out = x.clone();
    for n in 0..batch {
        for g in 0..groups {
            let members: Vec<usize> = (0..pixels)
                .flat_map(|p| (0..size).map(move |c| (n * pixels + p) * channels + g * size + c))
                .collect();
            let count = members.len() as f64;
            let mean = members.iter().map(|&i| x.values[i]).sum::<f64>() / count;
            let variance = members.iter().map(|&i| (x.values[i] - mean).powi(2)).sum::<f64>() / count;
            for i in members {
                let c = i % channels;
                let normal = (x.values[i] - mean) / (variance + f64::from(epsilon)).sqrt();
                out.values[i] = normal * scale.values[c] + shift.values[c];
            }
        }
    }
    out
}

/// (x − mean) / √(variance + ε), by feature; without statistics, by the batch's own.
fn batch_norm(x: &Array, statistics: Option<(&Array, &Array)>, epsilon: f32) -> Array {
    let (rows, features) = x.rows();
    let column = |f: usize| (0..rows).map(move |i| x.values[i * features + f]);
    let own: Vec<(f64, f64)> = (0..features)
        .map(|f| match statistics {
            Some((mean, variance)) => (mean.values[f], variance.values[f]),
            None => {
                let mean = column(f).sum::<f64>() / rows as f64;
                (mean, column(f).map(|x| (x - mean).powi(2)).sum::<f64>() / rows as f64)
            }
        })
        .collect();
    Array::new(&x.shape, |i| {
        let (mean, variance) = own[i % features];
        (x.values[i] - mean) / (variance + f64::from(epsilon)).sqrt()
    })
}

fn resize(x: &Array, height: usize, width: usize, corners: Corners) -> Array {
    let [batch, h, w, channels] = x.image();
    let position = |i: usize, from: usize, to: usize| match corners {
        Corners::Aligned if to == 1 => 0.0,
        Corners::Aligned => i as f64 * (from - 1) as f64 / (to - 1) as f64,
        Corners::HalfPixel => ((i as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0),
    };
    Array::new(&[batch, height, width, channels], |i| {
        let (c, column, row) = (i % channels, i / channels % width, i / channels / width % height);
        let n = i / channels / width / height;
        let (y, x_at) = (position(row, h, height), position(column, w, width));
        // The pixels around a position, each counting by how near it is; beyond the last pixel, the last.
        let around = |position: f64, count: usize| {
            let position = position.min((count - 1) as f64);
            let pixels = position.floor() as usize..=position.ceil() as usize;
            pixels.map(move |pixel| (pixel, 1.0 - (position - pixel as f64).abs()))
        };
        let mut sum = 0.0;
        for (a, down) in around(y, h) {
            for (b, across) in around(x_at, w) {
                sum += down * across * x.values[((n * h + a) * w + b) * channels + c];
            }
        }
        sum
    })
}

fn matmul(a: &Array, b: &Array, bias: Option<&Array>) -> Array {
    let ([m, k], [_, n]) = ([a.shape[0], a.shape[1]], [b.shape[0], b.shape[1]]);
    Array::new(&[m, n], |i| {
        let (row, column) = (i / n, i % n);
        let sum: f64 = (0..k).map(|l| a.values[row * k + l] * b.values[l * n + column]).sum();
        sum + bias.map_or(0.0, |bias| bias.values[column])
    })
}

fn add_sample_bias(x: &Array, bias: &Array) -> Array {
    let ([batch, height, width, channels], samples) = (x.image(), bias.shape[0]);
    let (size, repeats) = (height * width * channels, samples / batch);
    Array::new(&[samples, height, width, channels], |i| {
        let sample = i / size;
        x.values[sample / repeats * size + i % size] + bias.values[sample * channels + i % channels]
    })
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let total: f64 = row.iter().map(|x| x.exp()).sum();
    row.iter().map(|x| x.exp() / total).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Operation {
    /// The operation in f64.
    pub fn naive(&self, x: &[Array]) -> Array {
        let out = self.naive_before_relu(x);
        if self.ends_in_relu() { out.map(|x| x.max(0.0)) } else { out }
    }

    /// Whether a relu comes last.
    pub fn ends_in_relu(&self) -> bool {
        matches!(
            self,
            Self::Conv2dRelu
                | Self::Conv2dAddRelu
                | Self::GroupNormRelu { .. }
                | Self::GroupNormAddRelu { .. }
                | Self::AddSampleBiasRelu
                | Self::Relu
        )
    }

    /// What the relu sees where one comes last, else the output.
    pub fn naive_before_relu(&self, x: &[Array]) -> Array {
        match self {
            Self::Conv2d | Self::Conv2dRelu => conv(&x[0], &x[1], x.get(2)),
            Self::Conv2dAddRelu => {
                let bias = (x.len() == 4).then(|| &x[2]);
                conv(&x[0], &x[1], bias).zip(&x[x.len() - 1], |a, b| a + b)
            }
            Self::GroupNorm { groups, epsilon } | Self::GroupNormRelu { groups, epsilon } => {
                group_norm(&x[0], *groups, &x[1], &x[2], *epsilon)
            }
            Self::GroupNormAddRelu { groups, epsilon } => {
                group_norm(&x[0], *groups, &x[1], &x[2], *epsilon).zip(&x[3], |a, b| a + b)
            }
            Self::BatchNorm { epsilon } => batch_norm(&x[0], None, *epsilon),
            Self::BatchNormBy { epsilon } => batch_norm(&x[0], Some((&x[1], &x[2])), *epsilon),
            Self::L2Normalise => {
                x[0].by_row(|_, row| row.iter().map(|v| v / dot(row, row).sqrt().max(1e-12)).collect())
            }
            Self::ResizeBilinear { height, width, corners } => resize(&x[0], *height, *width, *corners),
            Self::ResizeConcat { corners } => {
                let [_, height, width, _] = x[1].image();
                Self::ConcatChannels.naive(&[resize(&x[0], height, width, *corners), x[1].clone()])
            }
            Self::ConcatChannels => {
                let [batch, height, width, _] = x[0].image();
                let counts: Vec<usize> = x.iter().map(|x| x.shape[3]).collect();
                let total = counts.iter().sum();
                Array::new(&[batch, height, width, total], |i| {
                    let (pixel, mut c, mut part) = (i / total, i % total, 0);
                    while c >= counts[part] {
                        c -= counts[part];
                        part += 1;
                    }
                    x[part].values[pixel * counts[part] + c]
                })
            }
            Self::GatherRows { indices } => {
                let (_, size) = x[0].rows();
                let mut shape = x[0].shape.clone();
                shape[0] = indices.len();
                Array::new(&shape, |i| x[0].values[indices[i / size] * size + i % size])
            }
            Self::Reshape { shape } => Array::new(shape, |i| x[0].values[i]),
            Self::Linear => matmul(&x[0], &x[1], Some(&x[2])),
            Self::Matmul => matmul(&x[0], &x[1], None),
            Self::Transpose => {
                let (m, n) = x[0].rows();
                Array::new(&[n, m], |i| x[0].values[i % m * n + i / m])
            }
            Self::BatchedMatmul { batch } => {
                let ((rows, k), n) = (x[0].rows(), x[1].shape[1]);
                Array::new(&[rows, n], |i| {
                    let (row, column) = (i / n, i % n);
                    let part = row / (rows / batch);
                    (0..k).map(|l| x[0].values[row * k + l] * x[1].values[(part * k + l) * n + column]).sum()
                })
            }
            Self::BatchedInnerProducts { batch } => {
                let ((rows, size), (others, _)) = (x[0].rows(), x[1].rows());
                let (m, n) = (rows / batch, others / batch);
                Array::new(&[rows, n], |i| {
                    let (row, column) = (i / n, i % n);
                    let other = row / m * n + column;
                    dot(&x[0].values[row * size..][..size], &x[1].values[other * size..][..size])
                })
            }
            Self::AddSampleBias | Self::AddSampleBiasRelu => add_sample_bias(&x[0], &x[1]),
            Self::Softmax => x[0].by_row(|_, row| softmax(row)),
            Self::CrossEntropy { classes } => x[0].per_row(|i, row| -softmax(row)[classes[i]].ln()),
            Self::CrossEntropySoft => {
                let (_, size) = x[0].rows();
                x[0].per_row(|i, row| {
                    let targets = &x[1].values[i * size..][..size];
                    -softmax(row).iter().zip(targets).map(|(p, t)| t * p.ln()).sum::<f64>()
                })
            }
            Self::BceWithLogits => {
                let ((rows, size), (batch, _)) = (x[0].rows(), x[1].rows());
                let repeats = rows / batch;
                x[0].per_row(|i, row| {
                    let targets = &x[1].values[i / repeats * size..][..size];
                    let terms = row.iter().zip(targets).map(|(x, t)| x.exp().ln_1p() - t * x);
                    terms.sum::<f64>() / size as f64
                })
            }
            Self::SquaredError => {
                let (_, size) = x[0].rows();
                let square = x[0].zip(&x[1], |a, b| (a - b).powi(2));
                square.per_row(|_, row| row.iter().sum::<f64>() / size as f64)
            }
            Self::Sum => Array::new(&[], |_| x[0].values.iter().sum()),
            Self::Mean => Array::new(&[], |_| x[0].values.iter().sum::<f64>() / x[0].values.len() as f64),
            Self::SumRows => x[0].per_row(|_, row| row.iter().sum()),
            Self::BroadcastRows { shape } => {
                let size: usize = shape[1..].iter().product();
                Array::new(shape, |i| x[0].values[i / size])
            }
            Self::BroadcastPixels { height, width } => {
                let (batch, channels) = x[0].rows();
                let size = height * width * channels;
                Array::new(&[batch, *height, *width, channels], |i| {
                    x[0].values[i / size * channels + i % channels]
                })
            }
            Self::GlobalAveragePool => {
                let [batch, height, width, channels] = x[0].image();
                let pixels = height * width;
                Array::new(&[batch, channels], |i| {
                    let (n, c) = (i / channels, i % channels);
                    (0..pixels).map(|p| x[0].values[(n * pixels + p) * channels + c]).sum::<f64>()
                        / pixels as f64
                })
            }
            Self::Add => x[0].zip(&x[1], |a, b| a + b),
            Self::Sub => x[0].zip(&x[1], |a, b| a - b),
            Self::Mul => x[0].zip(&x[1], |a, b| a * b),
            Self::Div => x[0].zip(&x[1], |a, b| a / b),
            Self::Scale { factor } => x[0].map(|x| f64::from(*factor) * x),
            Self::AddScalar { value } => x[0].map(|x| x + f64::from(*value)),
            Self::Exp => x[0].map(f64::exp),
            Self::Ln => x[0].map(f64::ln),
            Self::Sigmoid => x[0].map(|x| 1.0 / (1.0 + (-x).exp())),
            Self::StraightThrough => x[1].clone(),
            Self::Relu | Self::StopGradient => x[0].clone(),
        }
    }
}
