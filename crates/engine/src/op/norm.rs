//! Normalisation of matrices: by features over a batch, and by length of rows.

use super::Operation;
use crate::backend::Element;
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

/// Mean and (biased) variance of each feature over a batch.
#[derive(Debug, Clone)]
pub struct BatchStatistics {
    /// [features]
    pub mean: Tensor,
    /// [features]
    pub variance: Tensor,
}

impl Var {
    /// The values in f32.
    fn as_f32(&self) -> Tensor {
        self.backend().cast(self.tensor().clone(), Element::F32)
    }

    /// Batch normalisation without scale and shift, by this batch's own statistics.
    ///
    /// ```text
    /// y = (x − mean) / √(variance + ε)      mean, variance over the batch, per feature
    /// ```
    ///
    /// # Shapes
    /// [batch, features] → the same
    pub fn batch_norm(&self, epsilon: f32) -> (Self, BatchStatistics) {
        self.shape().matrix("batch_norm");
        let [y, mean, variance, statistics] = self.backend().batch_norm(&self.as_f32(), epsilon);
        let op = BatchNorm { y: y.clone(), statistics, epsilon };
        (Self::record(&[self], y, op), BatchStatistics { mean, variance })
    }

    /// Batch normalisation by given statistics: what prediction uses.
    ///
    /// # Shapes
    /// [batch, features], statistics [features] → [batch, features]
    pub fn batch_norm_by(&self, statistics: &BatchStatistics, epsilon: f32) -> Self {
        let [_, features] = self.shape().matrix("batch_norm_by");
        let BatchStatistics { mean, variance } = statistics;
        assert!(
            *mean.shape() == [features] && *variance.shape() == [features],
            "batch_norm_by: mean {} and variance {} for {}",
            mean.shape(),
            variance.shape(),
            self.shape()
        );
        let out = self.backend().batch_norm_by(self.as_f32(), Some(mean), variance, epsilon);
        Self::record(&[self], out, BatchNormBy { variance: variance.clone(), epsilon })
    }

    /// Rows scaled to length one.
    ///
    /// ```text
    /// y = x / max(|x|, 1e-12)
    /// ```
    ///
    /// # Shapes
    /// [rows, features] → the same
    pub fn l2_normalise(&self) -> Self {
        self.shape().matrix("l2_normalise");
        let [y, inverse] = self.backend().l2_normalise(&self.as_f32());
        Self::record(&[self], y.clone(), L2Normalise { y, inverse })
    }
}

pub(crate) struct BatchNorm {
    y: Tensor,
    statistics: Tensor,
    epsilon: f32,
}

impl Operation for BatchNorm {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "batch norm".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { y, statistics, epsilon: _ } = self;
        vec![y, statistics]
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { y, statistics, epsilon } = self;
        flow.add(0, |backend| {
            backend.batch_norm_backward(&y, backend.cast(dy, Element::F32), &statistics, epsilon)
        });
    }
}

pub(crate) struct BatchNormBy {
    variance: Tensor,
    epsilon: f32,
}

impl Operation for BatchNormBy {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "batch norm by given statistics".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { variance, epsilon: _ } = self;
        vec![variance]
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { variance, epsilon } = self;
        flow.add(0, |backend| {
            backend.batch_norm_by(backend.cast(dy, Element::F32), None, &variance, epsilon)
        });
    }
}

pub(crate) struct L2Normalise {
    y: Tensor,
    /// One over the rows' lengths.
    inverse: Tensor,
}

impl Operation for L2Normalise {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "l2 normalise".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { y, inverse } = self;
        vec![y, inverse]
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |backend| {
            backend.l2_normalise_backward(&self.y, &self.inverse, backend.cast(dy, Element::F32))
        });
    }
}
