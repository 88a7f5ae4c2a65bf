//! NVIDIA GPUs from compute capability 8.0 on: an implementation of [`Backend`](crate::backend::Backend).
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
//! | `sources`, `program` | the kernels and the numbers that they share with launches; compiling them |
//! | `driver` | finding the GPU and loading kernels |
//! | `device`, `launch` | the stream, launches and copies; what a kernel is launched with |
//! | `absent` | `device` on platforms without CUDA |
//! | `memory`, `pool` | buffers, and those that are free |
//! | `timer` | time by kernel |
//! | `tensors` | making, casting and reading tensors |
//! | `values`, `images`, `views`, `conv`, `conv_hopper`, `norms`, `rows`, `products`, `training` | the backend's kernels, by family: their launches |
//! | `resident` | images that stay on the GPU, and batches of them |
//! | `stage` | copies that run beside the computing |
#![allow(unsafe_code)]
#![cfg_attr(not(any(unix, windows)), allow(dead_code, reason = "no device can be opened there"))]

mod conv;
mod conv_hopper;
#[cfg_attr(not(any(unix, windows)), path = "absent.rs")]
mod device;
#[cfg(any(unix, windows))]
mod driver;
mod error;
mod images;
mod launch;
#[cfg(any(unix, windows))]
mod library;
mod memory;
mod norms;
#[cfg(any(unix, windows))]
mod pool;
mod products;
#[cfg(any(unix, windows))]
mod program;
mod resident;
mod rows;
#[cfg(any(unix, windows))]
mod sources;
#[cfg(any(unix, windows))]
mod stage;
mod tensors;
#[cfg(any(unix, windows))]
mod timer;
mod training;
mod values;
mod views;

pub use device::Cuda;
#[cfg(not(any(unix, windows)))]
pub(crate) use device::Stage;
pub(crate) use error::fail;
pub use error::{DeviceError, catching};
use launch::{Arg, Grid};
pub use launch::{KernelTime, Precision};
pub(crate) use memory::Buffer;
pub use resident::{Intensity, Pick, Rescale, ResidentImages};
#[cfg(any(unix, windows))]
pub(crate) use stage::Stage;
