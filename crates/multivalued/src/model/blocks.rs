//! What the networks are made of: convolutions, normalisations and the residual block of three 3x3
//! convolutions (paper §4.1).

use multivalued_data::draw::Draw;
use multivalued_engine::{Device, ParameterId, Parameters, Tape, Tensor, Var};

/// Makes a model's parameters; each tensor's start depends on the seed and its name alone, so that
/// adding a layer leaves the others as they were.
pub(crate) struct Init<'a> {
    pub device: &'a Device,
    pub parameters: &'a mut Parameters,
    pub seed: u64,
}

impl Init<'_> {
    /// Uniform in ±limit.
    pub fn uniform(&mut self, name: &str, shape: &[usize], limit: f64) -> ParameterId {
        let mut draw = Draw::new(self.seed, &["parameter", name], 0);
        let values: Vec<f32> =
            (0..shape.iter().product()).map(|_| draw.uniform(-limit, limit) as f32).collect();
        self.parameters.add(name, Tensor::from_slice(self.device, shape, &values))
    }

    pub fn full(&mut self, name: &str, shape: &[usize], value: f32) -> ParameterId {
        self.parameters.add(name, Tensor::full(self.device, shape, value))
    }

    /// A tensor that is kept with the model but not trained.
    pub fn state(&mut self, name: &str, shape: &[usize], values: &[f32]) -> ParameterId {
        self.parameters.add_state(name, Tensor::from_slice(self.device, shape, values))
    }
}

/// A convolution with bias.
pub(crate) struct Conv {
    pub(super) weight: ParameterId,
    pub(super) bias: ParameterId,
}

impl Conv {
    /// Starts uniform in ±1/√(values summed per output), as PyTorch's does.
    pub fn new(init: &mut Init, name: &str, kernel: usize, inputs: usize, outputs: usize) -> Self {
        let limit = 1.0 / ((kernel * kernel * inputs) as f64).sqrt();
        Self {
            weight: init.uniform(&format!("{name}.weight"), &[kernel, kernel, inputs, outputs], limit),
            bias: init.uniform(&format!("{name}.bias"), &[outputs], limit),
        }
    }

    /// Its weight and bias.
    pub fn get(&self, tape: &Tape) -> [Var; 2] {
        [tape.get(self.weight), tape.get(self.bias)]
    }

    pub fn forward(&self, tape: &Tape, x: &Var) -> Var {
        x.conv2d(&tape.get(self.weight), Some(&tape.get(self.bias)))
    }

    /// As [`forward`](Self::forward), in f32 on every device.
    pub fn logits(&self, tape: &Tape, x: &Var) -> Var {
        x.conv2d_logits(&tape.get(self.weight), Some(&tape.get(self.bias)))
    }

    pub fn forward_relu(&self, tape: &Tape, x: &Var) -> Var {
        x.conv2d_relu(&tape.get(self.weight), Some(&tape.get(self.bias)))
    }
}

/// A linear layer with bias.
pub(crate) struct Linear {
    weight: ParameterId,
    bias: ParameterId,
}

impl Linear {
    pub fn new(init: &mut Init, name: &str, inputs: usize, outputs: usize) -> Self {
        let limit = 1.0 / (inputs as f64).sqrt();
        Self {
            weight: init.uniform(&format!("{name}.weight"), &[inputs, outputs], limit),
            bias: init.uniform(&format!("{name}.bias"), &[outputs], limit),
        }
    }

    pub fn forward(&self, tape: &Tape, x: &Var) -> Var {
        x.linear(&tape.get(self.weight), &tape.get(self.bias))
    }
}

/// Group normalisation with its scale and shift.
pub(super) struct Norm {
    pub groups: usize,
    pub scale: ParameterId,
    pub shift: ParameterId,
}

pub(crate) const NORM_EPSILON: f32 = 1e-5;

/// How many groups channels are normalised in: whole ones of about the size asked for.
pub(crate) fn norm_groups(channels: usize, group_size: usize) -> usize {
    let most = (channels / group_size).max(1);
    (1..=most).rev().find(|groups| channels.is_multiple_of(*groups)).unwrap_or(1)
}

impl Norm {
    fn new(init: &mut Init, name: &str, channels: usize, group_size: usize) -> Self {
        Self {
            groups: norm_groups(channels, group_size),
            scale: init.full(&format!("{name}.scale"), &[channels], 1.0),
            shift: init.full(&format!("{name}.shift"), &[channels], 0.0),
        }
    }

    fn forward_relu(&self, tape: &Tape, x: &Var) -> Var {
        x.group_norm_relu(self.groups, &tape.get(self.scale), &tape.get(self.shift), NORM_EPSILON)
    }

    fn forward_add_relu(&self, tape: &Tape, x: &Var, residual: &Var) -> Var {
        x.group_norm_add_relu(
            self.groups,
            &tape.get(self.scale),
            &tape.get(self.shift),
            NORM_EPSILON,
            residual,
        )
    }
}

/// Three 3x3 convolutions with a skip around them; the skip is a 1x1 convolution where channels change.
///
/// ```text
/// y = relu(n₃(c₃(relu(n₂(c₂(relu(n₁(c₁(x)))))))) + skip(x))
/// ```
///
/// Paper: §4.1, "residual blocks, each with three 3x3 convolutions". Differs: group normalisation after
/// each convolution (`model.norm_group`, 0 for none), without which the codebook collapses.
pub(crate) struct ResidualBlock {
    pub(super) convs: [Conv; 3],
    pub(super) norms: Option<[Norm; 3]>,
    pub(super) skip: Option<Conv>,
}

impl ResidualBlock {
    pub fn new(init: &mut Init, name: &str, inputs: usize, outputs: usize, norm_group: usize) -> Self {
        let convs = [(1, inputs), (2, outputs), (3, outputs)]
            .map(|(i, inputs)| Conv::new(init, &format!("{name}.conv{i}"), 3, inputs, outputs));
        let norms = (norm_group > 0)
            .then(|| [1, 2, 3].map(|i| Norm::new(init, &format!("{name}.norm{i}"), outputs, norm_group)));
        let skip = (inputs != outputs).then(|| Conv::new(init, &format!("{name}.skip"), 1, inputs, outputs));
        Self { convs, norms, skip }
    }

    /// # Shapes
    /// [batch, height, width, inputs] → [batch, height, width, outputs]
    pub fn forward(&self, tape: &Tape, x: &Var) -> Var {
        let skip = self.skip.as_ref().map_or_else(|| x.clone(), |skip| skip.forward(tape, x));
        let [c1, c2, c3] = &self.convs;
        match &self.norms {
            Some([n1, n2, n3]) => {
                let inner = n1.forward_relu(tape, &c1.forward(tape, x));
                let inner = n2.forward_relu(tape, &c2.forward(tape, &inner));
                n3.forward_add_relu(tape, &c3.forward(tape, &inner), &skip)
            }
            None => {
                let inner = c2.forward_relu(tape, &c1.forward_relu(tape, x));
                inner.conv2d_add_relu(&tape.get(c3.weight), Some(&tape.get(c3.bias)), &skip)
            }
        }
    }
}
