//! An operation that is computed elsewhere, such as a sum over several processes.

use super::Operation;
use crate::tape::Var;
use crate::tape::flow::Flow;
use crate::tensor::Tensor;

impl Var {
    /// What `forward` makes of the value; gradients go back through `backward`. Both give a tensor of the shape that
    /// they were given, and `backward` is called only where a gradient comes.
    pub fn elsewhere(
        &self,
        forward: impl FnOnce(&Tensor) -> Tensor,
        backward: impl FnOnce(Tensor) -> Tensor + 'static,
    ) -> Self {
        let out = forward(self.tensor());
        assert_eq!(out.shape(), self.shape(), "what is computed elsewhere keeps its shape");
        Self::record(&[self], out, Elsewhere(Box::new(backward)))
    }
}

pub(crate) struct Elsewhere(Box<dyn FnOnce(Tensor) -> Tensor>);

impl Operation for Elsewhere {
    const NAME: &'static str = "elsewhere";

    fn backward(self, dy: Tensor, flow: &mut Flow) {
        flow.add(0, |_| (self.0)(dy));
    }
}
