//! The reference network that both sides time: residual encoders for image and pair, a residual
//! decoder with skips, and a code that enters the 1x1 head as a bias.

use multivalued_engine::{Corners, Device, ParameterId, Parameters, Tape, Tensor, Var};

const CODES: usize = 256;
const HIDDEN: usize = 32;
const GROUPS: usize = 8;
const EPSILON: f32 = 1e-5;

/// Makes parameters with uniform values of the usual size.
struct Builder<'a> {
    device: &'a Device,
    parameters: Parameters,
    random: u64,
}

impl Builder<'_> {
    fn uniform(&mut self, shape: &[usize], limit: f32) -> ParameterId {
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|_| {
                // A linear congruential generator does for weights whose values do not matter.
                self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((self.random >> 40) as f32 / (1u64 << 24) as f32 * 2.0 - 1.0) * limit
            })
            .collect();
        let name = format!("parameter{}", self.parameters.len());
        self.parameters.add(name, Tensor::from_slice(self.device, shape, &values))
    }

    fn conv(&mut self, kernel: usize, inputs: usize, outputs: usize) -> Conv {
        let limit = 1.0 / ((kernel * kernel * inputs) as f32).sqrt();
        Conv {
            weight: self.uniform(&[kernel, kernel, inputs, outputs], limit),
            bias: self.uniform(&[outputs], limit),
        }
    }

    fn norm(&mut self, channels: usize) -> Norm {
        let name = self.parameters.len();
        let [scale, shift] = [("scale", 1.0), ("shift", 0.0)].map(|(kind, value)| {
            self.parameters.add(format!("{kind}{name}"), Tensor::full(self.device, [channels], value))
        });
        Norm { scale, shift }
    }

    fn residual(&mut self, inputs: usize, outputs: usize, group_norm: bool) -> Residual {
        let convs = [inputs, outputs, outputs].map(|inputs| self.conv(3, inputs, outputs));
        let norms = group_norm.then(|| [(); 3].map(|()| self.norm(outputs)));
        let skip = (inputs != outputs).then(|| self.conv(1, inputs, outputs));
        Residual { convs, norms, skip }
    }

    fn encoder(&mut self, mut inputs: usize, channels: &[usize], group_norm: bool) -> Vec<Residual> {
        channels
            .iter()
            .map(|&outputs| {
                let block = self.residual(inputs, outputs, group_norm);
                inputs = outputs;
                block
            })
            .collect()
    }
}

#[derive(Clone, Copy)]
struct Conv {
    weight: ParameterId,
    bias: ParameterId,
}

impl Conv {
    fn plain(self, tape: &Tape, x: &Var) -> Var {
        x.conv2d(&tape.get(self.weight), Some(&tape.get(self.bias)))
    }

    /// Weights and bias.
    fn get(self, tape: &Tape) -> [Var; 2] {
        [tape.get(self.weight), tape.get(self.bias)]
    }

    fn relu(self, tape: &Tape, x: &Var) -> Var {
        x.conv2d_relu(&tape.get(self.weight), Some(&tape.get(self.bias)))
    }
}

#[derive(Clone, Copy)]
struct Norm {
    scale: ParameterId,
    shift: ParameterId,
}

struct Residual {
    convs: [Conv; 3],
    norms: Option<[Norm; 3]>,
    skip: Option<Conv>,
}

impl Residual {
    fn forward(&self, tape: &Tape, x: &Var) -> Var {
        let skip = self.skip.map_or_else(|| x.clone(), |skip| skip.plain(tape, x));
        let [a, b, c] = self.convs;
        let Some([na, nb, nc]) = self.norms else {
            let inner = b.relu(tape, &a.relu(tape, x));
            return inner.conv2d_add_relu(&tape.get(c.weight), Some(&tape.get(c.bias)), &skip);
        };
        let normed = |norm: Norm, x: &Var| {
            x.group_norm_relu(GROUPS, &tape.get(norm.scale), &tape.get(norm.shift), EPSILON)
        };
        let inner = normed(nb, &b.plain(tape, &normed(na, &a.plain(tape, x))));
        c.plain(tape, &inner).group_norm_add_relu(
            GROUPS,
            &tape.get(nc.scale),
            &tape.get(nc.shift),
            EPSILON,
            &skip,
        )
    }
}

fn encode(tape: &Tape, blocks: &[Residual], x: &Var) -> Vec<Var> {
    let mut features: Vec<Var> = Vec::new();
    for block in blocks {
        let input = match features.last() {
            Some(above) => {
                above.resize_bilinear(above.shape()[1] / 2, above.shape()[2] / 2, Corners::HalfPixel)
            }
            None => x.clone(),
        };
        features.push(block.forward(tape, &input));
    }
    features
}

/// The network and its parameters.
pub struct Network {
    image_encoder: Vec<Residual>,
    pair_encoder: Vec<Residual>,
    embedding: Conv,
    classifier: (ParameterId, ParameterId),
    decoder: Vec<Residual>,
    head_features: Conv,
    head_code: ParameterId,
    head: [Conv; 2],
    codes: ParameterId,
    /// Everything that is trained.
    pub parameters: Parameters,
}

impl Network {
    /// A network for one-channel images.
    pub fn new(device: &Device, channels: &[usize], group_norm: bool) -> Self {
        let mut b = Builder { device, parameters: Parameters::new(), random: 1 };
        let deepest = *channels.last().expect("at least one level");
        let image_encoder = b.encoder(1, channels, group_norm);
        let pair_encoder = b.encoder(2, channels, group_norm);
        let embedding = b.conv(1, deepest, CODES);
        let limit = 1.0 / (deepest as f32).sqrt();
        let classifier = (b.uniform(&[deepest, CODES], limit), b.uniform(&[CODES], limit));
        let decoder = channels
            .windows(2)
            .rev()
            .map(|pair| b.residual(pair[0] + pair[1], pair[0], group_norm))
            .collect();
        let limit = 1.0 / ((channels[0] + CODES) as f32).sqrt();
        let head_features = b.conv(1, channels[0], HIDDEN);
        let head_code = b.uniform(&[CODES, HIDDEN], limit);
        let head = [b.conv(1, HIDDEN, HIDDEN), b.conv(1, HIDDEN, 1)];
        let codes = b.uniform(&[CODES, CODES], 0.1);
        let parameters = b.parameters;
        Self {
            image_encoder,
            pair_encoder,
            embedding,
            classifier,
            decoder,
            head_features,
            head_code,
            head,
            codes,
            parameters,
        }
    }

    /// The decoder's features and the classifier's input.
    fn embed(&self, tape: &Tape, x: &Var) -> (Var, Var) {
        let features = encode(tape, &self.image_encoder, x);
        let deepest = features.last().expect("at least one level");
        let mut decoded = deepest.clone();
        for (block, skip) in self.decoder.iter().zip(features.iter().rev().skip(1)) {
            decoded = block.forward(tape, &decoded.resize_concat(skip, Corners::HalfPixel));
        }
        let (weight, bias) = self.classifier;
        let logits = deepest.global_average_pool().linear(&tape.get(weight), &tape.get(bias));
        (decoded, logits)
    }

    fn decode(&self, tape: &Tape, features: &Var, codes: &Var) -> Var {
        let bias = codes.matmul(&tape.get(self.head_code));
        let layers = self.head.map(|layer| layer.get(tape));
        self.head_features
            .plain(tape, features)
            .pixel_layers(&bias, &layers.each_ref().map(|layer| layer.each_ref()))
    }

    /// The loss of one training step.
    pub fn loss(&self, tape: &Tape, x: &Var, y: &Var) -> Var {
        let pair = encode(tape, &self.pair_encoder, &Var::concat_channels(&[x, y]));
        let deepest = pair.last().expect("at least one level");
        let code = self.embedding.plain(tape, deepest).global_average_pool();
        let (features, _) = self.embed(tape, x);
        self.decode(tape, &features, &code).bce_with_logits(y.tensor()).mean()
    }

    /// The logits of `count` hypotheses of each image.
    pub fn predict(&self, x: &Var, count: usize) -> Vec<f32> {
        let tape = Tape::frozen(&self.parameters);
        let (features, _) = self.embed(&tape, x);
        let codes = tape
            .get(self.codes)
            .gather_rows(&(0..x.shape()[0] * count).map(|row| row % count).collect::<Vec<_>>());
        self.decode(&tape, &features, &codes).tensor().to_vec()
    }
}
