//! Values with a shape, on a device.

use crate::cpu::Isa;
use crate::cpu::memory::{Buffer, Pool};
use crate::cuda::{self, Cuda, DeviceError, Element, Precision};
use crate::shape::Shape;
use std::fmt;
use std::sync::Arc;

/// Where tensors live and are computed. Cheap to clone; clones share their memory pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Device {
    /// This machine's processor.
    Cpu(Cpu),
    /// An NVIDIA GPU.
    Cuda(Cuda),
}

/// The processor: its instruction set and the buffers that one step leaves for the next.
#[derive(Clone)]
pub struct Cpu {
    pub(crate) isa: Isa,
    pool: Arc<Pool>,
}

impl Device {
    /// The processor, with the best instruction set it has.
    pub fn cpu() -> Self {
        Self::cpu_with(Isa::best())
    }

    /// The processor, with a given instruction set.
    pub fn cpu_with(isa: Isa) -> Self {
        Self::Cpu(Cpu { isa, pool: Arc::default() })
    }

    /// An NVIDIA GPU by its number. Opening one compiles the kernels, which takes seconds.
    pub fn cuda(number: usize, precision: Precision) -> Result<Self, DeviceError> {
        Cuda::open(number, precision).map(Self::Cuda)
    }

    /// How many buffers were newly allocated so far, rather than reused from earlier tensors.
    pub fn allocations(&self) -> usize {
        match self {
            Self::Cpu(cpu) => cpu.pool.allocations(),
            Self::Cuda(cuda) => cuda.allocations(),
        }
    }

    /// A processor's peak in GFLOP/s of f32 multiply-adds, as measured now; takes a moment. None for a
    /// GPU, whose peak depends on the precision.
    pub fn peak_gflops(&self) -> Option<f64> {
        match self {
            Self::Cpu(cpu) => Some(crate::cpu::peak::gflops(cpu.isa)),
            Self::Cuda(_) => None,
        }
    }

    /// The most memory that tensors took at once so far.
    pub fn peak_bytes(&self) -> usize {
        match self {
            Self::Cpu(cpu) => cpu.pool.peak_bytes(),
            Self::Cuda(cuda) => cuda.peak_bytes(),
        }
    }

    /// Waits until all work given to the device is done, for those who time it.
    pub fn synchronise(&self) {
        if let Self::Cuda(cuda) = self {
            cuda.synchronise();
        }
    }
}

impl Cpu {
    /// Refuses tensors that would need more memory than this at once, as if the machine had no more: with
    /// [`DeviceError::OutOfMachineMemory`]. What kernels work with in between does not count.
    pub fn limit_memory(&self, bytes: usize) {
        self.pool.limit(bytes);
    }

    /// The memory that tensors take now.
    pub fn live_bytes(&self) -> usize {
        self.pool.live_bytes()
    }
}

impl fmt::Debug for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cpu({:?})", self.isa)
    }
}

/// f32 values with a shape. Clones share the values; a shared tensor is copied when it is changed.
#[derive(Clone)]
pub struct Tensor {
    shape: Shape,
    storage: Storage,
}

/// The values, tied to their device.
#[derive(Clone)]
enum Storage {
    Cpu(Cpu, Arc<Buffer>),
    Cuda(Arc<cuda::Buffer>),
}

impl Tensor {
    /// A tensor from values. Panics unless they fill the shape.
    pub fn from_slice(device: &Device, shape: impl Into<Shape>, values: &[f32]) -> Self {
        let shape = shape.into();
        assert_eq!(values.len(), shape.volume(), "{} values for a tensor of shape {shape}", values.len());
        let mut tensor = Self::uninitialised(device, shape);
        match &tensor.storage {
            Storage::Cpu(..) => tensor.values_mut().copy_from_slice(values),
            Storage::Cuda(buffer) => buffer.cuda().upload(bytemuck::cast_slice(values), buffer.pointer()),
        }
        tensor
    }

    /// A tensor whose values are all the same.
    pub fn full(device: &Device, shape: impl Into<Shape>, value: f32) -> Self {
        let mut tensor = Self::uninitialised(device, shape);
        match tensor.on_gpu() {
            None => tensor.values_mut().fill(value),
            Some(_) => cuda::ops::elementwise::fill(&tensor, value),
        }
        tensor
    }

    /// A tensor of zeros.
    pub fn zeros(device: &Device, shape: impl Into<Shape>) -> Self {
        Self::full(device, shape, 0.0)
    }

    /// A tensor with whatever values an earlier one left: the caller writes all of them.
    pub(crate) fn uninitialised(device: &Device, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        let storage = match device {
            Device::Cpu(cpu) => Storage::Cpu(cpu.clone(), Arc::new(cpu.pool.take(shape.volume()))),
            Device::Cuda(cuda) => {
                Storage::Cuda(Arc::new(cuda::Buffer::new(cuda, shape.volume(), Element::F32)))
            }
        };
        Self { shape, storage }
    }

    /// A tensor of a GPU's buffer.
    pub(crate) fn from_gpu(buffer: cuda::Buffer, shape: Shape) -> Self {
        debug_assert_eq!(buffer.len(), shape.volume());
        Self { shape, storage: Storage::Cuda(Arc::new(buffer)) }
    }

    /// Its buffer, where it is on a GPU.
    pub(crate) fn on_gpu(&self) -> Option<&cuda::Buffer> {
        match &self.storage {
            Storage::Cpu(..) => None,
            Storage::Cuda(buffer) => Some(buffer),
        }
    }

    /// Its buffer on a GPU, to be changed; copied first where it is shared.
    pub(crate) fn gpu_mut(&mut self) -> &cuda::Buffer {
        let Storage::Cuda(buffer) = &mut self.storage else { panic!("a tensor on the GPU is needed here") };
        if Arc::get_mut(buffer).is_none() {
            let copy = cuda::Buffer::new(buffer.cuda(), buffer.len(), buffer.element());
            let bytes = buffer.len() * buffer.element().size();
            buffer.cuda().copy(buffer.pointer(), copy.pointer(), bytes);
            *buffer = Arc::new(copy);
        }
        let unique = Arc::get_mut(buffer).expect("a buffer just made unique");
        unique.forget_twins();
        unique
    }

    /// Whether no other tensor has its values.
    pub(crate) fn is_unshared(&self) -> bool {
        match &self.storage {
            Storage::Cpu(_, buffer) => Arc::strong_count(buffer) == 1,
            Storage::Cuda(buffer) => Arc::strong_count(buffer) == 1,
        }
    }

    /// A tensor of another shape on the same device, to be filled by `write`.
    pub(crate) fn filled(&self, shape: impl Into<Shape>, write: impl FnOnce(&mut [f32])) -> Self {
        let mut tensor = Self::uninitialised(&self.device(), shape);
        write(tensor.values_mut());
        tensor
    }

    /// Its sizes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        match &self.storage {
            Storage::Cpu(cpu, _) => Device::Cpu(cpu.clone()),
            Storage::Cuda(buffer) => Device::Cuda(buffer.cuda().clone()),
        }
    }

    /// The instruction set its device computes with.
    pub(crate) fn isa(&self) -> Isa {
        match &self.storage {
            Storage::Cpu(cpu, _) => cpu.isa,
            Storage::Cuda(_) => panic!("{OTHER_DEVICE}"),
        }
    }

    /// The same values under another shape of the same volume.
    pub fn reshaped(&self, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        assert_eq!(
            shape.volume(),
            self.shape.volume(),
            "a tensor of shape {} cannot be seen as {shape}: the volumes differ",
            self.shape
        );
        Self { shape, storage: self.storage.clone() }
    }

    /// A copy of the values in memory. Waits for the device that computes them.
    pub fn to_vec(&self) -> Vec<f32> {
        Self::to_vecs(&[self]).pop().unwrap_or_default()
    }

    /// The values of several tensors of one device, which is waited for only once.
    pub fn to_vecs(tensors: &[&Self]) -> Vec<Vec<f32>> {
        let Some(cuda) = tensors.first().and_then(|first| first.on_gpu()).map(cuda::Buffer::cuda) else {
            return tensors.iter().map(|tensor| tensor.values().to_vec()).collect();
        };
        let wide: Vec<Self> = tensors.iter().map(|tensor| cuda::ops::wide(tensor)).collect();
        let mut values: Vec<Vec<f32>> = wide.iter().map(|tensor| vec![0.0; tensor.shape.volume()]).collect();
        let mut parts: Vec<(u64, &mut [u8])> = wide
            .iter()
            .zip(&mut values)
            .map(|(tensor, values)| {
                let buffer = cuda::ops::buffer(tensor);
                assert_eq!(buffer.cuda().identity(), cuda.identity(), "{OTHER_DEVICE}");
                (buffer.pointer(), bytemuck::cast_slice_mut(&mut values[..]))
            })
            .collect();
        cuda.download(&mut parts);
        values
    }

    /// Whether two tensors share their values, so that they are the same until one is changed.
    pub fn shares_values(&self, other: &Self) -> bool {
        match (&self.storage, &other.storage) {
            (Storage::Cpu(_, a), Storage::Cpu(_, b)) => Arc::ptr_eq(a, b),
            (Storage::Cuda(a), Storage::Cuda(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The value of a tensor that has only one. Panics for any other.
    pub fn item(&self) -> f32 {
        assert_eq!(
            self.shape.volume(),
            1,
            "only a single value is an item, not a tensor of shape {}",
            self.shape
        );
        match &self.storage {
            Storage::Cpu(..) => self.values()[0],
            Storage::Cuda(_) => self.to_vec()[0],
        }
    }

    pub(crate) fn values(&self) -> &[f32] {
        match &self.storage {
            Storage::Cpu(_, buffer) => buffer,
            Storage::Cuda(_) => panic!("{OTHER_DEVICE}"),
        }
    }

    /// The values, to be changed; copied first where they are shared.
    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        let Storage::Cpu(cpu, buffer) = &mut self.storage else { panic!("{OTHER_DEVICE}") };
        if Arc::get_mut(buffer).is_none() {
            let mut copy = cpu.pool.take(buffer.len());
            copy.copy_from_slice(buffer);
            *buffer = Arc::new(copy);
        }
        Arc::get_mut(buffer).expect("a buffer just made unique")
    }

    /// Moves the values towards another tensor's: `x ← x + share · (other − x)`.
    pub fn lerp(&mut self, other: &Self, share: f32) {
        Self::lerp_all(vec![(self, other)], share);
    }

    /// As [`lerp`](Self::lerp) for many pairs of tensors on one device, which a GPU does at once.
    pub fn lerp_all(mut pairs: Vec<(&mut Self, &Self)>, share: f32) {
        for (a, b) in &pairs {
            assert_eq!(a.shape, b.shape, "lerp takes two tensors of one shape");
        }
        if pairs.first().is_some_and(|(a, _)| a.on_gpu().is_some()) {
            return cuda::ops::optim::lerp(pairs, share);
        }
        // What may need memory comes first: where there is none, nothing has moved.
        pairs.iter_mut().for_each(|(a, _)| _ = a.values_mut());
        for (a, b) in pairs {
            let isa = a.isa();
            crate::cpu::elementwise::update(isa, a.values_mut(), b.values(), |a, b| a + share * (b - a));
        }
    }

    /// Changes the values in place (of this tensor only: clones keep theirs).
    pub fn modify(&mut self, change: impl FnOnce(&mut [f32])) {
        if self.on_gpu().is_none() {
            return change(self.values_mut());
        }
        let mut values = self.to_vec();
        change(&mut values);
        *self = Self::from_slice(&self.device(), self.shape, &values);
    }
}

/// What mixing tensors of two devices in one operation ends with.
pub(crate) const OTHER_DEVICE: &str = "operands of one operation are on different devices";

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the values: reading them would wait for a GPU, and may fail.
        match &self.storage {
            Storage::Cpu(cpu, _) => write!(f, "Tensor{} on {cpu:?}", self.shape),
            Storage::Cuda(buffer) => write!(f, "Tensor{} on {:?}", self.shape, buffer.cuda()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_clone_leaves_the_original_alone() {
        let a = Tensor::full(&Device::cpu(), [2, 3], 1.0);
        let mut b = a.clone();
        assert!(b.shares_values(&a));
        b.modify(|values| values[0] = 5.0);
        assert_eq!((a.values()[0], b.values()[0]), (1.0, 5.0));
        assert!(!b.shares_values(&a));
    }

    #[test]
    fn dropped_buffers_are_reused() {
        let device = Device::cpu();
        drop(Tensor::zeros(&device, [1000]));
        let before = device.allocations();
        drop(Tensor::zeros(&device, [10, 100]));
        assert_eq!(device.allocations(), before);
        let kept = [Tensor::zeros(&device, [1000]), Tensor::zeros(&device, [1000])];
        assert_eq!(device.allocations(), before + 1, "{kept:?}");
    }

    #[test]
    fn a_tensor_is_shown_by_its_shape_and_device() {
        let device = Device::cpu_with(Isa::PORTABLE);
        assert_eq!(format!("{:?}", Tensor::zeros(&device, [2, 3])), "Tensor[2, 3] on Cpu(Portable)");
    }

    #[test]
    #[should_panic(expected = "shape [2, 3] cannot be seen as [7]")]
    fn reshaping_to_another_volume_names_both_shapes() {
        Tensor::zeros(&Device::cpu(), [2, 3]).reshaped([7]);
    }
}
