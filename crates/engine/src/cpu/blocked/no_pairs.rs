//! What stands for windows by pairs where the processor's kind has no vectors for them: nothing ever makes a [`Pairs`].

use super::RowsTimesMatrix;

#[derive(Clone, Copy)]
pub(crate) enum Pairs {}

pub(crate) trait PairKernel {
    fn run(self, pairs: Pairs);
}

impl Pairs {
    pub fn run<K: PairKernel>(self, kernel: K) {
        kernel.run(self);
    }

    pub fn interleave(self, _: &[f32], _: usize, _: &mut [f32]) {
        match self {}
    }
}

impl RowsTimesMatrix {
    pub unsafe fn run_windows(self, pairs: Pairs) {
        match pairs {}
    }
}
