//! The CUDA device: NVIDIA GPUs from compute capability 8.0 on.
//!
//! All kernels are our own (`kernels/*.cu`), compiled for the GPU at hand by NVRTC when a device is
//! opened; the driver and NVRTC are loaded at run time, so that building needs neither, and one program
//! serves machines with and without a GPU. Convolutions run on the tensor cores with bias, residual,
//! relu and change of type folded into them, which is why neither cuDNN nor cuBLAS is needed.
//!
//! Work is queued on one stream and nothing waits for it but reading values ([`Tensor::to_vec`] and
//! [`Tensor::item`](crate::Tensor::item)). What fails there cannot be returned from the operation that
//! caused it: it unwinds as a [`DeviceError`], and [`catching`] turns it into a `Result`.
//!
//! | file | what it is for |
//! |---|---|
//! | `library` | finding the driver and NVRTC |
//! | `program` | compiling kernels |
//! | `driver` | finding the GPU and loading kernels |
//! | `device`, `memory` | the stream, launches and copies; buffers and their pool |
//! | `timer` | time by kernel |
//! | `ops` | the operations, with their gradients |
//! | `resident` | images that stay on the GPU, and batches of them |
#![allow(unsafe_code)]

mod device;
mod driver;
mod error;
mod library;
mod memory;
pub(crate) mod ops;
mod program;
mod resident;
mod timer;

pub(crate) use device::{Arg, Grid};
pub use device::{Cuda, Precision};
pub use error::{DeviceError, catching};
pub(crate) use memory::{Buffer, Element};
pub use resident::{Pick, ResidentImages};
pub use timer::KernelTime;
