//! A sum over the processes that compute one step together.

use super::Operation;
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;
use std::sync::Arc;

/// What adds up tensors over ranks.
pub trait SumOverRanks {
    /// The sums of a tensor's values over all ranks, in its shape. All ranks call it in the same order.
    fn sum(&self, tensor: Tensor) -> Tensor;
}

impl Var {
    /// The sum of a value over all ranks. Every rank's loss depends on every rank's value, so the gradient is summed
    /// up over them, too.
    pub fn sum_over_ranks(&self, ranks: Arc<dyn SumOverRanks>) -> Self {
        let out = ranks.sum(self.tensor().clone());
        assert_eq!(out.shape(), self.shape(), "a sum over ranks keeps its shape");
        Self::record(&[self], out, RankSum(ranks))
    }
}

pub(crate) struct RankSum(Arc<dyn SumOverRanks>);

impl Operation for RankSum {
    const ACCUMULATES: bool = false;

    fn name(&self) -> String {
        "sum over ranks".into()
    }

    fn saved(&self) -> Vec<&Tensor> {
        Vec::new()
    }

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |_| self.0.sum(dy));
    }
}
