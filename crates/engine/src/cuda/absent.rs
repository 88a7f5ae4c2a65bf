//! The device where there can be none: on platforms without NVIDIA's driver it cannot be opened, so that
//! none of its methods is ever called.

use super::Buffer;
use super::error::DeviceError;
use super::launch::{Arg, Boxes, Grid, KernelTime, Precision};
use crate::joined::CudaMemory;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// An NVIDIA GPU, of which this platform has none.
#[derive(Debug, Clone)]
pub struct Cuda(Nothing);

#[derive(Debug, Clone)]
enum Nothing {}

impl Cuda {
    pub(crate) fn open(number: usize, _: Precision, _: Option<usize>) -> Result<Self, DeviceError> {
        Err(DeviceError::Unsuitable(format!("cuda:{number} was asked for, but this platform has no CUDA")))
    }

    /// The GPU's name.
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// How it computes.
    pub fn precision(&self) -> Precision {
        match self.0 {}
    }

    pub(crate) fn identity(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn memory(&self, _: u64, _: usize) -> CudaMemory {
        match self.0 {}
    }

    pub(crate) fn multiprocessors(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn shared_bytes(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn shared_per_block(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn hopper(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn allocations(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn peak_bytes(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn recent_peak_bytes(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn allocate(&self, _: usize) -> u64 {
        match self.0 {}
    }

    pub(super) fn give_back(&self, _: u64, _: usize) {
        match self.0 {}
    }

    pub(crate) fn launch(&self, _: &str, _: Grid, _: &[Arg]) {
        match self.0 {}
    }

    pub(super) fn tensor_map(&self, _: &Buffer, _: Boxes) -> Arg {
        match self.0 {}
    }

    pub(super) fn copy_in(&self, _: &[u8], _: u64) {
        match self.0 {}
    }

    pub(crate) fn download(&self, _: &mut [(u64, &mut [u8])]) {
        match self.0 {}
    }

    /// Bytes of the GPU's memory that nobody holds.
    pub fn free_bytes(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn copy(&self, _: u64, _: u64, _: usize) {
        match self.0 {}
    }

    /// Waits until all work is done.
    pub fn synchronise(&self) {
        match self.0 {}
    }

    /// Runs `work` with every kernel timed; the slowest kernels come first.
    pub fn timing(&self, _: impl FnOnce()) -> Vec<KernelTime> {
        match self.0 {}
    }
}

/// Copies to a GPU beside its computing, of which this platform has none.
pub(crate) struct Stage(Nothing);

impl Stage {
    /// An empty one.
    pub fn new(cuda: &Cuda) -> Self {
        match cuda.0 {}
    }

    /// Begins to copy.
    pub fn send(&mut self, _: &[f32], _: &[u8]) {
        match self.0 {}
    }

    /// The values that were sent.
    pub fn values(&self, _: impl Into<Shape>) -> Tensor {
        match self.0 {}
    }

    /// The bytes that were sent.
    pub fn bytes(&self, _: impl Into<Shape>) -> Tensor {
        match self.0 {}
    }
}
