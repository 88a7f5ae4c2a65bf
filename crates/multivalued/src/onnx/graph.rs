//! A graph of ONNX operations as data, and how one is put together.

/// Values in rows, the last axis the nearest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Array<T> {
    pub dims: Vec<usize>,
    pub values: Vec<T>,
}

impl<T> Array<T> {
    pub fn new(dims: &[usize], values: Vec<T>) -> Self {
        assert_eq!(dims.iter().product::<usize>(), values.len(), "values of a shape {dims:?}");
        Self { dims: dims.to_vec(), values }
    }
}

/// What flows along the graph's edges: images and weights, or sizes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Real(Array<f32>),
    Whole(Array<i64>),
}

/// What an operation is told beside its inputs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Attribute {
    Real(f32),
    Whole(i64),
    Wholes(Vec<i64>),
    Text(String),
}

/// One operation; all that are used here have one output.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub operation: String,
    /// Empty where an optional input is left out.
    pub inputs: Vec<String>,
    pub output: String,
    pub attributes: Vec<(String, Attribute)>,
}

/// An axis of an input or output: of a known length, or one that the caller chooses.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Axis {
    Fixed(usize),
    Free(String),
}

/// An input or output of the graph; f32.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Port {
    pub name: String,
    pub axes: Vec<Axis>,
}

/// Operations in an order in which each finds its inputs.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Graph {
    pub nodes: Vec<Node>,
    pub constants: Vec<(String, Value)>,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

impl Graph {
    /// Adds an operation, and gives the name of its output. Names say the scope they are in, the operation and its
    /// number.
    pub fn add(
        &mut self,
        scope: &str,
        operation: &str,
        inputs: &[&str],
        attributes: &[(&str, Attribute)],
    ) -> String {
        let output = format!("{scope}{operation}_{}", self.nodes.len());
        self.nodes.push(Node {
            operation: operation.into(),
            inputs: inputs.iter().map(|&name| name.into()).collect(),
            output: output.clone(),
            attributes: attributes.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
        });
        output
    }

    /// Adds values that do not depend on the image, and gives their name.
    pub fn constant(&mut self, name: String, dims: &[usize], values: Vec<f32>) -> String {
        self.constants.push((name.clone(), Value::Real(Array::new(dims, values))));
        name
    }

    /// The same of whole numbers.
    pub fn sizes(&mut self, name: String, dims: &[usize], values: Vec<i64>) -> String {
        self.constants.push((name.clone(), Value::Whole(Array::new(dims, values))));
        name
    }

    /// Adds sizes or numbers of axes, once for each list, and gives their name.
    pub fn wholes(&mut self, values: &[i64]) -> String {
        let text: Vec<String> = values.iter().map(i64::to_string).collect();
        let name = format!("[{}]", text.join(","));
        if !self.constants.iter().any(|(other, _)| *other == name) {
            return self.sizes(name, &[values.len()], values.to_vec());
        }
        name
    }

    /// Adds a single number, once for each, and gives its name.
    pub fn scalar(&mut self, value: f32) -> String {
        let name = format!("{value:?}");
        if !self.constants.iter().any(|(other, _)| *other == name) {
            return self.constant(name, &[], vec![value]);
        }
        name
    }

    /// Calls what an operation gives by the name of an output. Nobody else may ask for it by its old name.
    pub fn output(&mut self, last: &str, port: Port) {
        let node = self.nodes.iter_mut().find(|node| node.output == last).expect("an operation's output");
        node.output.clone_from(&port.name);
        self.outputs.push(port);
    }
}
