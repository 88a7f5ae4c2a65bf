//! Many tensors as one run of values, and the memory that it lies in, for those who add it up over several processes.

use crate::shape::Shape;
use crate::tensor::{Device, Tensor};

/// Where a tensor's values lie, to be changed from outside.
#[derive(Debug)]
pub enum Exposed<'a> {
    /// In this machine's memory.
    Host(&'a mut [f32]),
    /// On a GPU.
    Cuda(CudaMemory),
}

/// f32 values on a GPU. They are as all work queued on the stream leaves them, and work that is queued there later
/// sees what was written to them in the stream's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaMemory {
    /// Of the first value.
    pub address: u64,
    /// How many values.
    pub count: usize,
    /// The GPU's number.
    pub device: usize,
    /// The driver's handle of the stream.
    pub stream: u64,
}

/// Values from one place on may be read by four at once.
const ALIGNED: usize = 4;

/// Which values lie where in one run of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Places {
    len: usize,
}

impl Places {
    /// The place of the next so many values.
    pub fn take(&mut self, count: usize) -> usize {
        let first = self.len;
        self.len = (first + count).next_multiple_of(ALIGNED);
        first
    }

    /// All values, those between two places included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has a place.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Tensor {
    /// A tensor of so many values: those of some tensors, each from its place on, and zeros elsewhere. A GPU copies
    /// them all at once. The tensors are spent: of gradients on a GPU, which are still to be added up, the sums are
    /// in the result alone.
    pub fn joined(device: &Device, parts: Vec<(usize, Self)>, len: usize) -> Self {
        for (first, part) in &parts {
            assert!(first + part.shape().volume() <= len, "{} values at {first} of {len}", part.shape());
        }
        device.backend().join(parts, len)
    }

    /// Some of its values, from a place of [`Places`] on. On a GPU they are the same memory, so that neither may be
    /// changed any more.
    pub fn part(&self, first: usize, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        assert!(first + shape.volume() <= self.shape().volume(), "{shape} at {first} of {}", self.shape());
        self.backend().part(self, first, shape)
    }
}
