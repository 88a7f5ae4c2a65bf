//! The processor as a device: its memory, and the tensors that its kernels fill.

use super::memory::{Buffer, Pool};
use super::simd::Isa;
use crate::backend::{Element, Memory};
use crate::shape::Shape;
use crate::tensor::Tensor;
use std::fmt;
use std::sync::Arc;

/// The processor: its instruction set and the buffers that one step leaves for the next.
#[derive(Clone)]
pub struct Cpu {
    pub(super) isa: Isa,
    pool: Arc<Pool>,
}

impl Cpu {
    pub(crate) fn new(isa: Isa) -> Self {
        Self { isa, pool: Arc::default() }
    }

    /// Refuses tensors that would need more memory than this at once, as if the machine had no more: with
    /// [`DeviceError::OutOfMachineMemory`](crate::DeviceError::OutOfMachineMemory). What kernels work with in between
    /// does not count.
    pub fn limit_memory(&self, bytes: usize) {
        self.pool.limit(bytes);
    }

    /// The memory that tensors take now.
    pub fn live_bytes(&self) -> usize {
        self.pool.live_bytes()
    }

    /// Its peak in GFLOP/s of f32 multiply-adds, as measured now.
    pub(crate) fn peak_gflops(&self) -> f64 {
        super::peak::gflops(self.isa)
    }

    /// A buffer with whatever values an earlier one left.
    pub(crate) fn buffer(&self, len: usize) -> Buffer {
        self.pool.take(len)
    }

    /// A tensor to be filled by `write`.
    pub(super) fn filled(&self, shape: impl Into<Shape>, write: impl FnOnce(&mut [f32])) -> Tensor {
        let mut tensor = self.empty(shape.into(), Element::F32);
        write(tensor.values_mut());
        tensor
    }
}

impl fmt::Debug for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cpu({:?})", self.isa)
    }
}

impl Memory for Cpu {
    fn activation(&self) -> Element {
        Element::F32
    }

    fn empty(&self, shape: Shape, _: Element) -> Tensor {
        Tensor::of_cpu(self, self.buffer(shape.volume()), shape)
    }

    fn full(&self, shape: Shape, value: f32) -> Tensor {
        self.filled(shape, |out| out.fill(value))
    }

    fn upload(&self, shape: Shape, values: &[f32]) -> Tensor {
        self.filled(shape, |out| out.copy_from_slice(values))
    }

    fn cast(&self, x: Tensor, _: Element) -> Tensor {
        x
    }

    fn read(&self, tensors: &[&Tensor]) -> Vec<Vec<f32>> {
        tensors.iter().map(|tensor| tensor.values().to_vec()).collect()
    }

    fn join(&self, parts: Vec<(usize, Tensor)>, len: usize) -> Tensor {
        self.filled(Shape::from([len]), |out| {
            out.fill(0.0);
            for (first, part) in &parts {
                out[*first..][..part.shape().volume()].copy_from_slice(part.values());
            }
        })
    }

    fn part(&self, x: &Tensor, first: usize, shape: Shape) -> Tensor {
        self.filled(shape, |out| out.copy_from_slice(&x.values()[first..][..shape.volume()]))
    }

    fn synchronise(&self) {}

    fn allocations(&self) -> usize {
        self.pool.allocations()
    }

    fn peak_bytes(&self) -> usize {
        self.pool.peak_bytes()
    }

    fn recent_peak_bytes(&self) -> usize {
        self.pool.recent_peak_bytes()
    }
}
