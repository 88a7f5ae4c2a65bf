//! Losses, one value per sample; `.mean()` averages them over the batch.

use super::Operation;
use crate::backend::{Distance, Element};
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// Probabilities from logits.
    ///
    /// ```text
    /// y[i, j] = exp(x[i, j]) / Σ_k exp(x[i, k])
    /// ```
    ///
    /// # Shapes
    /// [rows, classes] → the same
    pub fn softmax(&self) -> Self {
        self.shape().matrix("softmax");
        let backend = self.backend();
        let y = backend.softmax(&backend.cast(self.tensor().clone(), Element::F32));
        Self::record(&[self], y.clone(), Softmax { y })
    }

    /// Softmax cross-entropy against one class per row.
    ///
    /// ```text
    /// loss[i] = ln Σ_k exp(x[i, k]) − x[i, class_i]
    /// ```
    ///
    /// # Shapes
    /// logits [rows, classes], one class index per row → [rows]
    pub fn cross_entropy(&self, classes: &[usize]) -> Self {
        let [rows, count] = self.shape().matrix("cross_entropy");
        assert!(
            classes.len() == rows,
            "cross_entropy: {} classes for logits of shape {}",
            classes.len(),
            self.shape()
        );
        if let Some(wrong) = classes.iter().find(|&&class| class >= count) {
            panic!("cross_entropy: class {wrong} for logits of shape {}", self.shape());
        }
        let mut targets = vec![0.0; rows * count];
        for (row, &class) in classes.iter().enumerate() {
            targets[row * count + class] = 1.0;
        }
        self.cross_entropy_soft(&Tensor::from_slice(&self.device(), [rows, count], &targets))
    }

    /// Softmax cross-entropy against a distribution per row.
    ///
    /// ```text
    /// loss[i] = Σ_k target[i, k] · (ln Σ_l exp(x[i, l]) − x[i, k])
    /// ```
    ///
    /// # Shapes
    /// logits and targets [rows, classes] → [rows]
    pub fn cross_entropy_soft(&self, targets: &Tensor) -> Self {
        self.shape().matrix("cross_entropy_soft");
        assert!(
            targets.shape() == self.shape(),
            "cross_entropy_soft: targets of shape {} for logits of shape {}",
            targets.shape(),
            self.shape()
        );
        let backend = self.backend();
        let [logits, targets] = [self.tensor(), targets].map(|x| backend.cast(x.clone(), Element::F32));
        let out = backend.cross_entropy(&logits, &targets);
        Self::record(&[self], out, CrossEntropy { logits, targets })
    }

    /// Binary cross-entropy of logits, averaged within each sample; with K samples of logits for each
    /// target, that target is used K times.
    ///
    /// ```text
    /// loss[i] = mean_p softplus(x[i, p]) − t[i / K, p] · x[i, p]
    /// ```
    ///
    /// # Shapes
    /// logits [batch·K, …], targets [batch, …] → [batch·K]
    pub fn bce_with_logits(&self, targets: &Tensor) -> Self {
        let (shape, target_shape) = (self.shape(), targets.shape());
        assert!(
            shape.len() == target_shape.len()
                && !shape.is_empty()
                && shape[1..] == target_shape[1..]
                && target_shape[0] > 0
                && shape[0] % target_shape[0] == 0,
            "bce_with_logits: targets of shape {target_shape} for logits of shape {shape}"
        );
        let targets = self.backend().cast(targets.clone(), Element::F32);
        let repeats = shape[0] / target_shape[0];
        self.row_distance(None, Distance::BinaryCrossEntropy, [self.tensor().clone(), targets], repeats)
    }

    /// Squared error, averaged within each sample.
    ///
    /// ```text
    /// loss[i] = mean_p (x[i, p] − y[i, p])²
    /// ```
    ///
    /// # Shapes
    /// two tensors [batch, …] → [batch]
    pub fn squared_error(&self, other: &Self) -> Self {
        let shape = self.shape();
        assert!(
            shape == other.shape(),
            "squared_error takes two tensors of one shape, not {shape} and {}",
            other.shape()
        );
        assert!(!shape.is_empty(), "squared_error takes samples, not {shape}");
        let sides = [self, other].map(|side| self.backend().cast(side.tensor().clone(), Element::F32));
        self.row_distance(Some(other), Distance::SquaredError, sides, 1)
    }

    fn row_distance(
        &self,
        other: Option<&Self>,
        distance: Distance,
        [x, y]: [Tensor; 2],
        repeats: usize,
    ) -> Self {
        let out = self.backend().row_distance(distance, &x, &y, repeats);
        Self::record_optional(&[Some(self), other], out, RowDistance { distance, x, y, repeats })
    }
}

pub(crate) struct Softmax {
    y: Tensor,
}

impl Operation for Softmax {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "softmax".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { y } = self;
        vec![y]
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |backend| backend.softmax_backward(&self.y, backend.cast(dy, Element::F32)));
    }
}

pub(crate) struct CrossEntropy {
    logits: Tensor,
    targets: Tensor,
}

impl Operation for CrossEntropy {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "cross entropy".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { logits, targets } = self;
        vec![logits, targets]
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { logits, targets } = self;
        flow.add(0, |backend| {
            backend.cross_entropy_backward(&logits, &targets, &backend.cast(dy, Element::F32))
        });
    }
}

pub(crate) struct RowDistance {
    distance: Distance,
    x: Tensor,
    y: Tensor,
    repeats: usize,
}

impl Operation for RowDistance {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        match self.distance {
            Distance::BinaryCrossEntropy => "binary cross entropy".into(),
            Distance::SquaredError => "squared error".into(),
        }
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { distance: _, x, y, repeats: _ } = self;
        vec![x, y]
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { distance, x, y, repeats } = self;
        let dy = flow.device().backend().cast(dy, Element::F32);
        // The second operand, if any, is at the same distance from the other side.
        for (operand, sign) in [(0, 1.0), (1, -1.0)] {
            flow.add(operand, |backend| {
                backend.row_distance_backward(distance, [&x, &y, &dy], repeats, sign)
            });
        }
    }
}
