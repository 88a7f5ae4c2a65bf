//! The networks of `model/` and `baseline/` as a graph, layer by layer from their named parameters. Images are
//! channels-first, as ONNX has them. That both say the same is what `check` finds out.

mod input;

use super::graph::{Attribute, Graph};
use crate::model::{Model, NORM_EPSILON, norm_groups};
use crate::recipe::{CodeEntry, MethodKind, Recipe};
use multivalued_engine::Parameters;

/// The images' name in the graph.
pub(super) const IMAGE: &str = "image";
/// The name of the samples' noise, where the model draws samples.
pub(super) const NOISE: &str = "noise";

/// Adds the layers of one model to a graph.
pub(super) struct Layers<'a> {
    pub graph: &'a mut Graph,
    /// What the model's names begin with.
    pub scope: &'a str,
    pub parameters: &'a Parameters,
    pub recipe: &'a Recipe,
}

/// What a model gives, by the names of the edges.
pub(super) struct Stated {
    /// [batch, outputs (+ 1 for the empty mask)]
    pub probabilities: String,
    /// [batch, outputs, channels, height, width]
    pub logits: String,
}

/// What makes several outputs of one image different.
struct Codes {
    /// Added to the layer that codes enter; [1 or batch, outputs, width, 1, 1].
    bias: String,
    /// How many outputs, as a list of one size.
    count: String,
}

impl Layers<'_> {
    /// Everything from the raw image to what the model states of it. `model` is the method's own; none for a baseline.
    pub fn stated(&mut self, model: Option<&Model>) -> Stated {
        let image = self.prepared();
        match (self.recipe.method.kind, model) {
            (MethodKind::Multivalued, Some(model)) => self.multivalued(&image, model),
            (MethodKind::ProbabilisticUnet, _) => self.probabilistic_unet(&image),
            _ => self.unet(&image),
        }
    }

    fn multivalued(&mut self, image: &str, model: &Model) -> Stated {
        let active = model.active_codes();
        let levels = self.encoder("image_encoder", image);
        let deepest = &levels[levels.len() - 1];
        let mut probabilities = self.classifier(deepest, &active);
        let codes = self.codes(&active);
        let logits = match self.recipe.model.code_entry {
            CodeEntry::Head => {
                let features = self.decoder(&levels);
                if self.recipe.model.empty_head {
                    probabilities = self.with_empty(&probabilities, &features, deepest);
                }
                self.head(&features, &codes)
            }
            CodeEntry::Bottleneck => self.bottleneck(&levels, &codes),
        };
        Stated { probabilities, logits }
    }

    fn unet(&mut self, image: &str) -> Stated {
        let levels = self.encoder("image_encoder", image);
        let features = self.decoder(&levels);
        let entry = self.conv("generator.entry", &features);
        let entered = self.add("Relu", &[&entry]);
        let one = self.graph.wholes(&[1]);
        let logits = self.finish(&entered, &one);
        let (certain, shape) = (self.graph.scalar(1.0), [self.shape(image, 0, 1), one]);
        let shape = self.joined(&shape.each_ref().map(String::as_str), 0);
        Stated { probabilities: self.add("Expand", &[&certain, &shape]), logits }
    }

    fn probabilistic_unet(&mut self, image: &str) -> Stated {
        let prior = self.encoder("prior", image);
        let pooled = self.pooled(&prior[prior.len() - 1]);
        let mean = self.linear("prior.mean", &pooled);
        let log_deviation = self.linear("prior.log_deviation", &pooled);
        let deviation = self.add("Exp", &[&log_deviation]);
        // One row for all samples of an image.
        let [mean, deviation] = [mean, deviation].map(|row| self.unsqueezed(&row, &[1]));
        let moved = self.add("Mul", &[NOISE, &deviation]);
        let latent = self.add("Add", &[&moved, &mean]);
        let weight = self.matrix("generator.code.weight");
        let bias = self.add("MatMul", &[&latent, &weight]);
        let codes = Codes { bias: self.unsqueezed(&bias, &[3, 4]), count: self.shape(NOISE, 1, 2) };

        let levels = self.encoder("image_encoder", image);
        let features = self.decoder(&levels);
        let logits = self.head(&features, &codes);
        let count = self.as_real(&codes.count);
        let one = self.graph.scalar(1.0);
        let share = self.add("Div", &[&one, &count]);
        let shape = self.shape(NOISE, 0, 2);
        Stated { probabilities: self.add("Expand", &[&share, &shape]), logits }
    }

    /// The features of every level, the finest first; each the one before, halved.
    fn encoder(&mut self, name: &str, image: &str) -> Vec<String> {
        let mut levels: Vec<String> = Vec::new();
        for level in 0..self.recipe.model.channels.len() {
            let input = match levels.last().cloned() {
                None => image.to_owned(),
                Some(finer) => {
                    let size = self.shape(&finer, 2, 4);
                    let [two, one] = [2, 1].map(|value| self.graph.wholes(&[value]));
                    let half = self.add("Div", &[&size, &two]);
                    let half = self.add("Max", &[&half, &one]);
                    self.resized(&finer, &half)
                }
            };
            levels.push(self.block(&format!("{name}.block{level}"), &input));
        }
        levels
    }

    /// From the deepest level up, each enlarged to the next one's size.
    fn decoder(&mut self, levels: &[String]) -> String {
        let mut x = levels[levels.len() - 1].clone();
        for (level, skip) in levels.iter().enumerate().rev().skip(1) {
            let size = self.shape(skip, 2, 4);
            let enlarged = self.resized(&x, &size);
            let both = self.joined(&[&enlarged, skip], 1);
            x = self.block(&format!("generator.block{level}"), &both);
        }
        x
    }

    fn block(&mut self, name: &str, x: &str) -> String {
        let skip = format!("{name}.skip");
        let skip = if self.has(&skip) { self.conv(&skip, x) } else { x.to_owned() };
        let mut inner = x.to_owned();
        for layer in 1..=3 {
            inner = self.conv(&format!("{name}.conv{layer}"), &inner);
            if self.recipe.model.norm_group > 0 {
                inner = self.norm(&format!("{name}.norm{layer}"), &inner);
            }
            if layer < 3 {
                inner = self.add("Relu", &[&inner]);
            }
        }
        let sum = self.add("Add", &[&inner, &skip]);
        self.add("Relu", &[&sum])
    }

    /// Group normalisation: that of instances, a group of channels side by side taken for one.
    fn norm(&mut self, name: &str, x: &str) -> String {
        let (dims, scale) = self.values(&format!("{name}.scale"));
        let (_, shift) = self.values(&format!("{name}.shift"));
        let channels = dims[0];
        let groups = norm_groups(channels, self.recipe.model.norm_group);
        let side_by_side = self.graph.wholes(&[0, groups as i64, -1]);
        let grouped = self.add("Reshape", &[x, &side_by_side]);
        let mut of_groups = |value: f32| {
            let name = format!("{value:?} of {groups} groups");
            match self.graph.constants.iter().any(|(other, _)| *other == name) {
                true => name,
                false => self.graph.constant(name, &[groups], vec![value; groups]),
            }
        };
        let (ones, zeros) = (of_groups(1.0), of_groups(0.0));
        let epsilon = [("epsilon", Attribute::Real(NORM_EPSILON))];
        let normal = self.add_with("InstanceNormalization", &[&grouped, &ones, &zeros], &epsilon);
        let shape = self.shape(x, 0, 4);
        let normal = self.add("Reshape", &[&normal, &shape]);
        let dims = [1, channels, 1, 1];
        let scale = self.graph.constant(format!("{}{name}.scale", self.scope), &dims, scale);
        let shift = self.graph.constant(format!("{}{name}.shift", self.scope), &dims, shift);
        let scaled = self.add("Mul", &[&normal, &scale]);
        self.add("Add", &[&scaled, &shift])
    }

    /// How probable each code that takes part is; with a head for the empty mask, if there is anything.
    fn classifier(&mut self, deepest: &str, active: &[usize]) -> String {
        let mut features = self.pooled(deepest);
        if self.has("classifier.hidden") {
            features = self.linear("classifier.hidden", &features);
            features = self.add("Relu", &[&features]);
        }
        let h = self.linear("classifier.projection", &features);
        let (dims, frame) = self.values("classifier.frame");
        let rows: Vec<f32> = (0..dims[1])
            .flat_map(|i| active.iter().map(move |&code| (code, i)))
            .map(|(code, i)| frame[code * dims[1] + i])
            .collect();
        let name = format!("{}classifier.frame", self.scope);
        let frame = self.graph.constant(name, &[dims[1], active.len()], rows);
        let logits = self.add("MatMul", &[&h, &frame]);
        self.softmax(&logits, 1)
    }

    /// The codes' probabilities beside that of the empty mask, which leaves them the rest.
    fn with_empty(&mut self, codes: &str, finest: &str, deepest: &str) -> String {
        let pooled = [
            ("empty.finest", self.attended("empty.finest_attention", finest)),
            ("empty.deepest", self.attended("empty.deepest_attention", deepest)),
            ("empty.mean", self.pooled(deepest)),
        ];
        let [a, b, c] = pooled.map(|(layer, features)| self.linear(layer, &features));
        let sum = self.add("Add", &[&a, &b]);
        let sum = self.add("Add", &[&sum, &c]);
        let hidden = self.add("Relu", &[&sum]);
        let logit = self.linear("empty.output", &hidden);
        let empty = self.add("Sigmoid", &[&logit]);
        let one = self.graph.scalar(1.0);
        let rest = self.add("Sub", &[&one, &empty]);
        let codes = self.add("Mul", &[codes, &rest]);
        self.joined(&[&codes, &empty], 1)
    }

    /// The mean of features over pixels, each weighted by how much it matters.
    fn attended(&mut self, attention: &str, features: &str) -> String {
        let logits = self.conv(attention, features);
        let column = self.graph.wholes(&[0, -1, 1]);
        let logits = self.add("Reshape", &[&logits, &column]);
        let weights = self.softmax(&logits, 1);
        let rows = self.graph.wholes(&[0, 0, -1]);
        let features = self.add("Reshape", &[features, &rows]);
        let sums = self.add("MatMul", &[&features, &weights]);
        let flat = self.graph.wholes(&[0, -1]);
        self.add("Reshape", &[&sums, &flat])
    }

    /// What codes add to the layer they enter: a product that no image changes.
    fn codes(&mut self, active: &[usize]) -> Codes {
        let (code_dims, codes) = self.values("codebook.codes");
        let (dims, weight) = self.values("generator.code.weight");
        let width = dims[1];
        let sum = |code: usize, channel: usize| -> f32 {
            let terms = (0..code_dims[1])
                .map(|i| f64::from(codes[code * code_dims[1] + i]) * f64::from(weight[i * width + channel]));
            terms.sum::<f64>() as f32
        };
        let sum = &sum;
        let values = active.iter().flat_map(|&code| (0..width).map(move |channel| sum(code, channel)));
        let name = format!("{}codes", self.scope);
        let bias = self.graph.constant(name, &[1, active.len(), width, 1, 1], values.collect());
        Codes { bias, count: self.graph.wholes(&[active.len() as i64]) }
    }

    /// Codes that enter the last 1x1 layers.
    fn head(&mut self, features: &str, codes: &Codes) -> String {
        let entry = self.conv("generator.entry", features);
        let entered = self.entered(&entry, codes);
        self.finish(&entered, &codes.count)
    }

    /// Codes that enter the deepest level: the decoder runs for each of them.
    fn bottleneck(&mut self, levels: &[String], codes: &Codes) -> String {
        let deepest = levels.len() - 1;
        let entry = self.conv("generator.entry", &levels[deepest]);
        let mut repeated = Vec::new();
        for level in &levels[..deepest] {
            let shape = [self.shape(level, 0, 1), codes.count.clone(), self.shape(level, 1, 4)];
            let shape = self.joined(&shape.each_ref().map(String::as_str), 0);
            let one = self.unsqueezed(level, &[1]);
            let all = self.add("Expand", &[&one, &shape]);
            repeated.push(self.outputs_as_images(&all));
        }
        repeated.push(self.entered(&entry, codes));
        let features = self.decoder(&repeated);
        self.finish(&features, &codes.count)
    }

    /// [batch, width, h, w] and what codes add → [batch·outputs, width, h, w].
    fn entered(&mut self, entry: &str, codes: &Codes) -> String {
        let one = self.unsqueezed(entry, &[1]);
        let sum = self.add("Add", &[&one, &codes.bias]);
        let entered = self.add("Relu", &[&sum]);
        self.outputs_as_images(&entered)
    }

    /// [batch, outputs, channels, h, w] → [batch·outputs, channels, h, w].
    fn outputs_as_images(&mut self, outputs: &str) -> String {
        let shape = [self.graph.wholes(&[-1]), self.shape(outputs, 2, 5)];
        let shape = self.joined(&shape.each_ref().map(String::as_str), 0);
        self.add("Reshape", &[outputs, &shape])
    }

    /// The layers after the one that codes enter → [batch, outputs, channels, h, w].
    fn finish(&mut self, entered: &str, count: &str) -> String {
        let mut x = entered.to_owned();
        for layer in 0..self.recipe.model.head_hidden {
            x = self.conv(&format!("generator.hidden{layer}"), &x);
            x = self.add("Relu", &[&x]);
        }
        let logits = self.conv("generator.output", &x);
        let shape = [self.graph.wholes(&[-1]), count.to_owned(), self.shape(&logits, 1, 4)];
        let shape = self.joined(&shape.each_ref().map(String::as_str), 0);
        self.add("Reshape", &[&logits, &shape])
    }

    /// A convolution that keeps the size; weights go from [k, k, inputs, outputs] to [outputs, inputs, k, k].
    fn conv(&mut self, name: &str, x: &str) -> String {
        let (dims, values) = self.values(&format!("{name}.weight"));
        let [height, width, inputs, outputs] = dims[..] else { unreachable!("kernels have four axes") };
        let mut turned = Vec::with_capacity(values.len());
        for (output, input) in (0..outputs).flat_map(|output| (0..inputs).map(move |input| (output, input))) {
            turned.extend((0..height * width).map(|tap| values[(tap * inputs + input) * outputs + output]));
        }
        let weight = format!("{}{name}.weight", self.scope);
        let weight = self.graph.constant(weight, &[outputs, inputs, height, width], turned);
        let bias = self.matrix(&format!("{name}.bias"));
        let (rows, columns) = ((height / 2) as i64, (width / 2) as i64);
        let pads = [("pads", Attribute::Wholes(vec![rows, columns, rows, columns]))];
        self.add_with("Conv", &[x, &weight, &bias], &pads)
    }

    fn linear(&mut self, name: &str, x: &str) -> String {
        let weight = self.matrix(&format!("{name}.weight"));
        let bias = self.matrix(&format!("{name}.bias"));
        let product = self.add("MatMul", &[x, &weight]);
        self.add("Add", &[&product, &bias])
    }

    fn pooled(&mut self, features: &str) -> String {
        let pixels = self.graph.wholes(&[2, 3]);
        self.add_with("ReduceMean", &[features, &pixels], &[("keepdims", Attribute::Whole(0))])
    }

    fn softmax(&mut self, logits: &str, axis: i64) -> String {
        self.add_with("Softmax", &[logits], &[("axis", Attribute::Whole(axis))])
    }

    fn resized(&mut self, x: &str, size: &str) -> String {
        let sizes = self.shape(x, 0, 2);
        let sizes = self.joined(&[&sizes, size], 0);
        let how = [("mode", "linear"), ("coordinate_transformation_mode", "half_pixel")];
        let how = how.map(|(name, value)| (name, Attribute::Text(value.into())));
        self.add_with("Resize", &[x, "", "", &sizes], &how)
    }

    fn joined(&mut self, parts: &[&str], axis: i64) -> String {
        self.add_with("Concat", parts, &[("axis", Attribute::Whole(axis))])
    }

    fn unsqueezed(&mut self, x: &str, axes: &[i64]) -> String {
        let axes = self.graph.wholes(axes);
        self.add("Unsqueeze", &[x, &axes])
    }

    /// The lengths of some axes.
    fn shape(&mut self, x: &str, start: i64, end: i64) -> String {
        let range = [("start", Attribute::Whole(start)), ("end", Attribute::Whole(end))];
        self.add_with("Shape", &[x], &range)
    }

    fn as_real(&mut self, x: &str) -> String {
        // The number of f32 in `onnx.proto`.
        self.add_with("Cast", &[x], &[("to", Attribute::Whole(1))])
    }

    fn add(&mut self, operation: &str, inputs: &[&str]) -> String {
        self.add_with(operation, inputs, &[])
    }

    fn add_with(&mut self, operation: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> String {
        self.graph.add(self.scope, operation, inputs, attributes)
    }

    fn has(&self, layer: &str) -> bool {
        self.parameters.find(&format!("{layer}.weight")).is_some()
    }

    /// A parameter's shape and values.
    fn values(&self, name: &str) -> (Vec<usize>, Vec<f32>) {
        let id = self.parameters.find(name).unwrap_or_else(|| panic!("networks of this recipe have {name}"));
        let tensor = self.parameters.get(id).tensor();
        (tensor.shape().to_vec(), tensor.to_vec())
    }

    /// A parameter as it is.
    fn matrix(&mut self, name: &str) -> String {
        let (dims, values) = self.values(name);
        self.graph.constant(format!("{}{name}", self.scope), &dims, values)
    }
}
