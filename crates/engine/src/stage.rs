//! Values on their way to a device. A GPU is sent the next batch while it computes with the present one.

use crate::cuda;
use crate::shape::Shape;
use crate::tensor::{Device, Tensor};

/// f32 values and bytes that were sent to a device. With two of them, one is filled while the other's values are used.
pub struct Stage(Kind);

enum Kind {
    /// In this machine's memory, where the processor finds them.
    Cpu {
        device: Device,
        values: Vec<f32>,
        bytes: Vec<u8>,
    },
    Cuda(cuda::Stage),
}

impl Stage {
    /// An empty one.
    pub fn new(device: &Device) -> Self {
        Self(match device {
            Device::Cpu(_) => Kind::Cpu { device: device.clone(), values: Vec::new(), bytes: Vec::new() },
            Device::Cuda(cuda) => Kind::Cuda(cuda::Stage::new(cuda)),
        })
    }

    /// Begins to send. The sources may be changed when this returns.
    pub fn send(&mut self, new_values: &[f32], new_bytes: &[u8]) {
        match &mut self.0 {
            Kind::Cpu { values, bytes, .. } => {
                values.clear();
                values.extend_from_slice(new_values);
                bytes.clear();
                bytes.extend_from_slice(new_bytes);
            }
            Kind::Cuda(stage) => stage.send(new_values, new_bytes),
        }
    }

    /// The values that were sent. Panics unless they fill the shape.
    pub fn values(&self, shape: impl Into<Shape>) -> Tensor {
        match &self.0 {
            Kind::Cpu { device, values, .. } => Tensor::from_slice(device, shape, values),
            Kind::Cuda(stage) => stage.values(shape),
        }
    }

    /// The bytes that were sent, as f32 from 0 to 255. Panics unless they fill the shape.
    pub fn bytes(&self, shape: impl Into<Shape>) -> Tensor {
        match &self.0 {
            Kind::Cpu { device, bytes, .. } => {
                let values: Vec<f32> = bytes.iter().copied().map(f32::from).collect();
                Tensor::from_slice(device, shape, &values)
            }
            Kind::Cuda(stage) => stage.bytes(shape),
        }
    }
}
