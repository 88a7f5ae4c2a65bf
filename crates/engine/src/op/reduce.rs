//! Sums and means, of all values, of each row, of each image's pixels; and their counterparts, which broadcast.

use super::Operation;
use crate::backend::Element;
use crate::shape::Shape;
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// The sum of all values.
    pub fn sum(&self) -> Self {
        self.sums(1, 1.0, Shape::from([]), "sum")
    }

    /// The mean of all values.
    pub fn mean(&self) -> Self {
        self.sums(1, 1.0 / self.shape().volume() as f64, Shape::from([]), "mean")
    }

    /// The sum of each row.
    ///
    /// # Shapes
    /// [rows, …] → [rows]
    pub fn sum_rows(&self) -> Self {
        let shape = self.shape();
        let rows = *shape.first().unwrap_or_else(|| panic!("sum_rows takes rows, not {shape}"));
        self.sums(rows, 1.0, Shape::from([rows]), "sum rows")
    }

    fn sums(&self, rows: usize, factor: f64, out: Shape, name: &'static str) -> Self {
        let (shape, operand_type) = (self.shape(), self.tensor().element());
        let sums = self.backend().sum_rows(self.tensor(), rows, factor).reshaped(out);
        Self::record(&[self], sums, SumRows { factor, shape, operand_type, name })
    }

    /// Each value along a whole row.
    ///
    /// ```text
    /// y[row, …] = x[row]
    /// ```
    ///
    /// # Shapes
    /// [rows] → [rows, …]
    pub fn broadcast_rows(&self, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        assert!(
            self.shape().len() == 1 && shape.first() == self.shape().first(),
            "broadcast_rows: {} does not give rows of {shape}",
            self.shape()
        );
        let backend = self.backend();
        let values = backend.cast(self.tensor().clone(), Element::F32);
        let out = backend.broadcast_rows(&values, shape, 1.0, Element::F32);
        Self::record(&[self], out, BroadcastRows { rows: self.shape()[0] })
    }

    /// The mean of each channel over an image's pixels.
    ///
    /// # Shapes
    /// [batch, height, width, channels] → [batch, channels]
    pub fn global_average_pool(&self) -> Self {
        self.shape().image("global_average_pool");
        let op = MeanPixels { shape: self.shape(), operand_type: self.tensor().element() };
        Self::record(&[self], self.backend().mean_pixels(self.tensor()), op)
    }

    /// Each channel's value at every pixel of an image.
    ///
    /// ```text
    /// y[n, i, j, c] = x[n, c]
    /// ```
    ///
    /// # Shapes
    /// [batch, channels] → [batch, height, width, channels]
    pub fn broadcast_pixels(&self, height: usize, width: usize) -> Self {
        let [batch, channels] = self.shape().matrix("broadcast_pixels");
        let backend = self.backend();
        let rows = backend.cast(self.tensor().clone(), Element::F32);
        let shape = Shape::from([batch, height, width, channels]);
        Self::record(
            &[self],
            backend.broadcast_pixels(&rows, shape, 1.0, Element::F32),
            BroadcastPixels { batch },
        )
    }
}

pub(crate) struct SumRows {
    factor: f64,
    shape: Shape,
    operand_type: Element,
    name: &'static str,
}

impl Operation for SumRows {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        self.name.into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { factor, shape, operand_type, .. } = self;
        flow.add(0, |backend| {
            backend.broadcast_rows(&backend.cast(dy, Element::F32), shape, factor, operand_type)
        });
    }
}

pub(crate) struct BroadcastRows {
    rows: usize,
}

impl Operation for BroadcastRows {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "broadcast rows".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |backend| backend.sum_rows(&dy, self.rows, 1.0));
    }
}

pub(crate) struct MeanPixels {
    shape: Shape,
    operand_type: Element,
}

impl Operation for MeanPixels {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "mean of pixels".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { shape, operand_type } = self;
        let pixels = (shape[1] * shape[2]) as f32;
        flow.add(0, |backend| {
            backend.broadcast_pixels(&backend.cast(dy, Element::F32), shape, pixels, operand_type)
        });
    }
}

pub(crate) struct BroadcastPixels {
    batch: usize,
}

impl Operation for BroadcastPixels {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "broadcast pixels".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |backend| {
            let (_, sums) = backend.mask_and_sum(dy, None, Element::F32, Some(self.batch));
            sums.expect("sums were asked for")
        });
    }
}
