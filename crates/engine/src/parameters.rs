//! Named tensors of a model: those that are trained, and those that are only kept with it.

use crate::tensor::Tensor;

/// Which parameter of a [`Parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParameterId(pub(crate) usize);

/// A named tensor.
#[derive(Debug, Clone)]
pub struct Parameter {
    name: String,
    tensor: Tensor,
    group: usize,
    trainable: bool,
}

impl Parameter {
    /// Its name, unique in its model: `encoder.block0.conv1.weight`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The optimiser's group it belongs to.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Whether gradients reach it.
    pub fn trainable(&self) -> bool {
        self.trainable
    }
}

/// All tensors of a model, in the order they were added.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    entries: Vec<Parameter>,
}

impl Parameters {
    /// No parameters yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a trained tensor in optimiser group 0. Panics if the name is taken.
    pub fn add(&mut self, name: impl Into<String>, tensor: Tensor) -> ParameterId {
        self.add_to_group(name, tensor, 0)
    }

    /// Adds a trained tensor in an optimiser group of its own rate and decay.
    pub fn add_to_group(&mut self, name: impl Into<String>, tensor: Tensor, group: usize) -> ParameterId {
        self.push(Parameter { name: name.into(), tensor, group, trainable: true })
    }

    /// Adds a tensor that is saved with the model but gets no gradient: a codebook, a running mean.
    pub fn add_state(&mut self, name: impl Into<String>, tensor: Tensor) -> ParameterId {
        self.push(Parameter { name: name.into(), tensor, group: 0, trainable: false })
    }

    fn push(&mut self, parameter: Parameter) -> ParameterId {
        assert!(self.find(&parameter.name).is_none(), "two parameters are named {}", parameter.name);
        self.entries.push(parameter);
        ParameterId(self.entries.len() - 1)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.entries.iter()
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = ParameterId> + use<> {
        (0..self.entries.len()).map(ParameterId)
    }

    /// The parameter of that name.
    pub fn find(&self, name: &str) -> Option<ParameterId> {
        self.entries.iter().position(|parameter| parameter.name == name).map(ParameterId)
    }

    /// One parameter.
    pub fn get(&self, id: ParameterId) -> &Parameter {
        &self.entries[id.0]
    }

    /// Replaces a value. Panics if the shape changes.
    pub fn set(&mut self, id: ParameterId, tensor: Tensor) {
        let parameter = &mut self.entries[id.0];
        assert!(
            tensor.shape() == parameter.tensor.shape(),
            "parameter {} keeps its shape {}, it cannot become {}",
            parameter.name,
            parameter.tensor.shape(),
            tensor.shape()
        );
        parameter.tensor = tensor;
    }

    /// Every parameter's id, group and value to be changed, in order.
    pub(crate) fn with_ids_mut(&mut self) -> impl Iterator<Item = (ParameterId, usize, &mut Tensor)> {
        let entries = self.entries.iter_mut().enumerate();
        entries.map(|(index, parameter)| (ParameterId(index), parameter.group, &mut parameter.tensor))
    }

    /// Changes a value in place.
    pub fn modify(&mut self, id: ParameterId, change: impl FnOnce(&mut [f32])) {
        self.entries[id.0].tensor.modify(change);
    }

    /// How many values are trained.
    pub fn trained_values(&self) -> usize {
        self.iter()
            .filter(|parameter| parameter.trainable)
            .map(|parameter| parameter.tensor.shape().volume())
            .sum()
    }
}
