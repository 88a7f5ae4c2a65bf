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
//! | `device`, `launch` | the stream, launches and copies; what a kernel is launched with |
//! | `absent` | `device` on platforms without CUDA |
//! | `memory`, `pool` | buffers, and those that are free |
//! | `timer` | time by kernel |
//! | `ops` | the operations, with their gradients |
//! | `resident` | images that stay on the GPU, and batches of them |
//! | `stage` | copies that run beside the computing |
#![allow(unsafe_code)]
#![cfg_attr(not(any(unix, windows)), allow(dead_code, reason = "no device can be opened there"))]

#[cfg_attr(not(any(unix, windows)), path = "absent.rs")]
mod device;
#[cfg(any(unix, windows))]
mod driver;
mod error;
mod launch;
#[cfg(any(unix, windows))]
mod library;
mod memory;
pub(crate) mod ops;
#[cfg(any(unix, windows))]
mod pool;
#[cfg(any(unix, windows))]
mod program;
mod resident;
#[cfg(any(unix, windows))]
mod stage;
#[cfg(any(unix, windows))]
mod timer;

pub use device::Cuda;
#[cfg(not(any(unix, windows)))]
pub use device::Stage;
pub(crate) use error::fail;
pub use error::{DeviceError, catching};
pub(crate) use launch::{Arg, Grid};
pub use launch::{KernelTime, Precision};
pub(crate) use memory::{Buffer, Element};
pub use resident::{Intensity, Pick, Rescale, ResidentImages};
#[cfg(any(unix, windows))]
pub use stage::Stage;
