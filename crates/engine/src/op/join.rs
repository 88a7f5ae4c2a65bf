//! Channel concat, chosen rows, other shapes.

use super::Operation;
use crate::backend::Element;
use crate::shape::Shape;
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// Images side by side along their channels.
    ///
    /// # Shapes
    /// [batch, height, width, c₁], [batch, height, width, c₂], … → [batch, height, width, c₁ + c₂ + …]
    pub fn concat_channels(images: &[&Self]) -> Self {
        let first = images.first().expect("concat_channels takes at least one image");
        let [batch, height, width, _] = first.shape().image("concat_channels");
        let parts: Vec<(usize, Element)> = images
            .iter()
            .map(|image| {
                let [b, h, w, channels] = image.shape().image("concat_channels");
                assert!(
                    [b, h, w] == [batch, height, width],
                    "concat_channels: images of shapes {} and {} differ in more than their channels",
                    first.shape(),
                    image.shape()
                );
                (channels, image.tensor().element())
            })
            .collect();
        let total = parts.iter().try_fold(0usize, |total, (count, _)| total.checked_add(*count));
        let Some(total) = total else {
            let counts: Vec<usize> = parts.iter().map(|(count, _)| *count).collect();
            panic!("concat_channels: {counts:?} channels are too many")
        };
        let tensors: Vec<&Tensor> = images.iter().map(|image| image.tensor()).collect();
        let shape = Shape::from([batch, height, width, total]);
        Self::record(images, first.backend().concat_channels(&tensors, shape), Concat { parts })
    }

    /// Chosen rows, in the order given; a row may be chosen several times.
    ///
    /// # Shapes
    /// [rows, …] and k indices → [k, …]
    pub fn gather_rows(&self, indices: &[usize]) -> Self {
        let shape = self.shape();
        let rows = *shape.first().unwrap_or_else(|| panic!("gather_rows takes rows, not {shape}"));
        if let Some(&wrong) = indices.iter().find(|&&index| index >= rows) {
            panic!("gather_rows: row {wrong} of a tensor of shape {shape}");
        }
        let mut out_shape = shape.to_vec();
        out_shape[0] = indices.len();
        let out = self.backend().gather_rows(self.tensor(), indices, Shape::from(&out_shape[..]));
        let op = GatherRows { indices: indices.to_vec(), shape, operand_type: self.tensor().element() };
        Self::record(&[self], out, op)
    }

    /// The same values under another shape of the same volume.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Self {
        Self::record(&[self], self.tensor().reshaped(shape), Reshape { from: self.shape() })
    }
}

pub(crate) struct Concat {
    /// The channels and the type of each image.
    parts: Vec<(usize, Element)>,
}

impl Operation for Concat {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "concat channels".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let mut first = 0;
        for (operand, (count, operand_type)) in self.parts.into_iter().enumerate() {
            flow.add_channels(operand, &dy, first, count, operand_type);
            first += count;
        }
    }
}

pub(crate) struct GatherRows {
    indices: Vec<usize>,
    shape: Shape,
    operand_type: Element,
}

impl Operation for GatherRows {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "gather rows".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { indices, shape, operand_type } = self;
        flow.add(0, |backend| backend.scatter_rows(&backend.cast(dy, operand_type), &indices, shape));
    }
}

pub(crate) struct Reshape {
    from: Shape,
}

impl Operation for Reshape {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "reshape".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |_| dy.reshaped(self.from));
    }
}
