//! Normalisation by groups of channels within an image.

use super::{Operation, with_parts};
use crate::backend::NormShape;
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// Group normalisation with a scale and a shift per channel.
    ///
    /// ```text
    /// y = (x − mean) / √(variance + ε) · scale + shift      mean, variance over a group's pixels and channels
    /// ```
    ///
    /// # Shapes
    /// [batch, height, width, channels], scale and shift [channels] → the same; `groups` divides channels
    pub fn group_norm(&self, groups: usize, scale: &Self, shift: &Self, epsilon: f32) -> Self {
        self.grouped(groups, scale, shift, epsilon, None, false)
    }

    /// `relu(group_norm)` in one sweep.
    pub fn group_norm_relu(&self, groups: usize, scale: &Self, shift: &Self, epsilon: f32) -> Self {
        self.grouped(groups, scale, shift, epsilon, None, true)
    }

    /// `relu(group_norm + residual)` in one sweep.
    pub fn group_norm_add_relu(
        &self,
        groups: usize,
        scale: &Self,
        shift: &Self,
        epsilon: f32,
        residual: &Self,
    ) -> Self {
        self.grouped(groups, scale, shift, epsilon, Some(residual), true)
    }

    fn grouped(
        &self,
        groups: usize,
        scale: &Self,
        shift: &Self,
        epsilon: f32,
        residual: Option<&Self>,
        relu: bool,
    ) -> Self {
        let [batch, height, width, channels] = self.shape().image("group_norm");
        assert!(
            groups > 0 && channels % groups == 0,
            "group_norm: {groups} groups do not divide the channels of {}",
            self.shape()
        );
        assert!(
            *scale.shape() == [channels] && *shift.shape() == [channels],
            "group_norm: scale {} and shift {} for an image of shape {}",
            scale.shape(),
            shift.shape(),
            self.shape()
        );
        if let Some(residual) = residual {
            assert!(
                residual.shape() == self.shape(),
                "group_norm: residual {} for an image of shape {}",
                residual.shape(),
                self.shape()
            );
        }
        let shape = NormShape { batch, pixels: height * width, channels, groups };
        let (x, backend) = (self.tensor().clone(), self.backend());
        let added = residual.map(|residual| backend.cast(residual.tensor().clone(), x.element()));
        let affine = [scale.tensor(), shift.tensor()];
        let [out, statistics] = backend.group_norm(shape, &x, affine, epsilon, added.as_ref(), relu);
        let (scale_values, y) = (scale.tensor().clone(), relu.then(|| out.clone()));
        let op = GroupNorm { shape, x, scale: scale_values, statistics, y, residual: residual.is_some() };
        Self::record_optional(&[Some(self), Some(scale), Some(shift), residual], out, op)
    }
}

/// The operands' numbers; the image is the first.
const SCALE: usize = 1;
const SHIFT: usize = 2;
const RESIDUAL: usize = 3;

pub(crate) struct GroupNorm {
    shape: NormShape,
    x: Tensor,
    scale: Tensor,
    statistics: Tensor,
    /// The result, where it is a relu's.
    y: Option<Tensor>,
    residual: bool,
}

impl Operation for GroupNorm {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        let name = format!("group norm of {}", self.shape.groups);
        with_parts(name, &[("residual", self.residual), ("relu", self.y.is_some())])
    }

    fn saved(&self) -> Vec<&Tensor> {
        let Self { shape: _, x, scale, statistics, y, residual: _ } = self;
        [x, scale, statistics].into_iter().chain(y).collect()
    }

    fn relu_result(&self) -> Option<&Tensor> {
        self.y.as_ref()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        let Self { shape, x, scale, statistics, y, .. } = self;
        let device = flow.device();
        let backend = device.backend();
        let (dy, _) = backend.mask_and_sum(dy, flow.mask(y.as_ref()), x.element(), None);
        drop(y);
        flow.add(RESIDUAL, |_| dy.clone());
        if !flow.wants(0) && !flow.wants(SCALE) && !flow.wants(SHIFT) {
            return;
        }
        let [dx, d_scale, d_shift] = backend.group_norm_backward(shape, &x, dy, &scale, &statistics);
        flow.add(0, |_| dx);
        flow.add(SCALE, |_| d_scale);
        flow.add(SHIFT, |_| d_shift);
    }
}
