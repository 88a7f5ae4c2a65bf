//! Tensors, a gradient tape and kernels: only what the method needs, each operation at the hardware's
//! speed.
//!
//! | module | what it is for |
//! |---|---|
//! | [`tensor`], [`shape`] | values with a shape on a device; buffers reused from step to step |
//! | [`tape`] | [`Tape`] records what is done to parameters, [`Tape::backward`] gives their gradients |
//! | `op` | the operations, as methods of [`Var`]: shape rule, forward and one backward pass, each once for all devices |
//! | `backend` | the kernels that operations are written over |
//! | `views` | views of images moved and moved back, and masks as bits |
//! | [`joined`] | many tensors as one run of values, and its memory |
//! | [`parameters`], [`optim`], [`store`] | named tensors, Adam, safetensors files |
//! | `cpu` | the kernels of processors, by instruction set |
//! | `cuda` | those of NVIDIA GPUs; `unsafe` is in these two alone |
//!
//! ```
//! use multivalued_engine::{Device, Parameters, Tape, Tensor, Var};
//!
//! let device = Device::cpu();
//! let mut parameters = Parameters::new();
//! let weight = parameters.add("weight", Tensor::full(&device, [2, 1], 0.5));
//! let x = Var::constant(Tensor::from_slice(&device, [1, 2], &[3.0, 4.0]));
//!
//! let tape = Tape::recording(&parameters);
//! let loss = x.matmul(&tape.get(weight)).sum();
//! assert_eq!(loss.item(), 3.5);
//! let gradients = tape.backward(&loss);
//! assert_eq!(gradients.get(weight).unwrap().to_vec(), [3.0, 4.0]);
//! ```
//!
//! Errors in files are [`store::StoreError`]s, those of a GPU [`DeviceError`]s (see [`catching`]); a
//! wrong shape is a broken invariant of the caller and panics with both shapes in the sentence.

// In a browser there are no threads: the same loops run one after the other.
#[cfg(target_arch = "wasm32")]
extern crate multivalued_sequential as rayon;

mod backend;
mod cpu;
mod cuda;
pub mod joined;
mod op;
pub mod optim;
pub mod parameters;
pub mod shape;
mod stage;
pub mod store;
pub mod tape;
pub mod tensor;
mod views;

pub use backend::shapes::Corners;
pub use cpu::{Cpu, Isa};
pub use cuda::{
    Cuda, DeviceError, Intensity, KernelTime, Pick, Precision, Rescale, ResidentImages, catching,
};
pub use joined::{CudaMemory, Exposed, Places};
pub use op::{BatchStatistics, SumOverRanks};
pub use optim::{Adam, AdamOptions, Group, Stepped, Updated};
pub use parameters::{Parameter, ParameterId, Parameters};
pub use shape::Shape;
pub use stage::Stage;
pub use tape::listing::{Listed, Listing, Operand, Source};
pub use tape::{Gradients, Tape, Var};
pub use tensor::{Device, Tensor};
pub use views::{InverseViews, NEAR_HIGHEST, PackedMasks, Placement};
