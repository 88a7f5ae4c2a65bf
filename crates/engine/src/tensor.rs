//! Values with a shape, on a device.

use crate::backend::{Backend, Element};
use crate::cpu::memory::Buffer;
use crate::cpu::{Cpu, Isa};
use crate::cuda::{self, Cuda, DeviceError, Precision};
use crate::joined::Exposed;
use crate::shape::Shape;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where tensors live and are computed. Cheap to clone; clones share their memory pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Device {
    /// This machine's processor.
    Cpu(Cpu),
    /// An NVIDIA GPU.
    Cuda(Cuda),
}

impl Device {
    /// The processor, with the best instruction set it has.
    pub fn cpu() -> Self {
        Self::cpu_with(Isa::best())
    }

    /// The processor, with a given instruction set.
    pub fn cpu_with(isa: Isa) -> Self {
        Self::Cpu(Cpu::new(isa))
    }

    /// An NVIDIA GPU by its number. Opening one compiles the kernels, which takes seconds.
    pub fn cuda(number: usize, precision: Precision) -> Result<Self, DeviceError> {
        Cuda::open(number, precision, None).map(Self::Cuda)
    }

    /// As [`cuda`](Self::cuda), as if the GPU gave a block no more shared memory than so many bytes, as others do.
    #[doc(hidden)]
    pub fn cuda_limited(number: usize, precision: Precision, shared: usize) -> Result<Self, DeviceError> {
        Cuda::open(number, precision, Some(shared)).map(Self::Cuda)
    }

    /// Its kernels.
    pub(crate) fn backend(&self) -> &dyn Backend {
        match self {
            Self::Cpu(cpu) => cpu,
            Self::Cuda(cuda) => cuda,
        }
    }

    /// How many buffers were newly allocated so far, rather than reused from earlier tensors.
    pub fn allocations(&self) -> usize {
        self.backend().allocations()
    }

    /// A processor's peak in GFLOP/s of f32 multiply-adds, as measured now; takes a moment. None for a
    /// GPU, whose peak depends on the precision.
    pub fn peak_gflops(&self) -> Option<f64> {
        match self {
            Self::Cpu(cpu) => Some(cpu.peak_gflops()),
            Self::Cuda(_) => None,
        }
    }

    /// The most memory that tensors took at once so far.
    pub fn peak_bytes(&self) -> usize {
        self.backend().peak_bytes()
    }

    /// Whether it computes beside this machine's processor, which can prepare what comes next meanwhile.
    pub fn is_asynchronous(&self) -> bool {
        matches!(self, Self::Cuda(_))
    }

    /// Bytes of the device's own memory that nobody holds; none for the processor, whose memory is the machine's.
    pub fn free_bytes(&self) -> Option<usize> {
        match self {
            Self::Cpu(_) => None,
            Self::Cuda(cuda) => Some(cuda.free_bytes()),
        }
    }

    /// Waits until all work given to the device is done, for those who time it.
    pub fn synchronise(&self) {
        self.backend().synchronise();
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
        device.backend().upload(shape, values)
    }

    /// A tensor whose values are all the same.
    pub fn full(device: &Device, shape: impl Into<Shape>, value: f32) -> Self {
        device.backend().full(shape.into(), value)
    }

    /// A tensor of zeros.
    pub fn zeros(device: &Device, shape: impl Into<Shape>) -> Self {
        Self::full(device, shape, 0.0)
    }

    /// A tensor of a processor's buffer.
    pub(crate) fn of_cpu(cpu: &Cpu, buffer: Buffer, shape: Shape) -> Self {
        debug_assert_eq!(buffer.len(), shape.volume());
        Self { shape, storage: Storage::Cpu(cpu.clone(), Arc::new(buffer)) }
    }

    /// A tensor of a GPU's buffer.
    pub(crate) fn of_gpu(buffer: cuda::Buffer, shape: Shape) -> Self {
        debug_assert_eq!(buffer.len(), shape.volume());
        Self { shape, storage: Storage::Cuda(Arc::new(buffer)) }
    }

    /// A tensor of some values of another one's buffer, from a place on.
    pub(crate) fn of_gpu_part(&self, first: usize, shape: Shape) -> Self {
        let Storage::Cuda(buffer) = &self.storage else { panic!("{OTHER_DEVICE}") };
        Self::of_gpu(cuda::Buffer::part(buffer, first, shape.volume()), shape)
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
        let unique = self.gpu_unshared();
        unique.forget_casts();
        unique
    }

    /// As [`gpu_mut`](Self::gpu_mut), for those who change its casts, too.
    pub(crate) fn gpu_unshared(&mut self) -> &mut cuda::Buffer {
        let Storage::Cuda(buffer) = &mut self.storage else { panic!("a tensor on the GPU is needed here") };
        if Arc::get_mut(buffer).is_none() {
            let copy = cuda::Buffer::new(buffer.cuda(), buffer.len(), buffer.element());
            let bytes = buffer.len() * buffer.element().size();
            buffer.cuda().copy(buffer.pointer(), copy.pointer(), bytes);
            *buffer = Arc::new(copy);
        }
        Arc::get_mut(buffer).expect("a buffer just made unique")
    }

    /// Whether no other tensor has its values.
    pub(crate) fn is_unshared(&self) -> bool {
        match &self.storage {
            Storage::Cpu(_, buffer) => Arc::strong_count(buffer) == 1,
            Storage::Cuda(buffer) => Arc::strong_count(buffer) == 1,
        }
    }

    /// Its device's kernels.
    pub(crate) fn backend(&self) -> &dyn Backend {
        match &self.storage {
            Storage::Cpu(cpu, _) => cpu,
            Storage::Cuda(buffer) => buffer.cuda(),
        }
    }

    /// How its values are stored.
    pub(crate) fn element(&self) -> Element {
        match &self.storage {
            Storage::Cpu(..) => Element::F32,
            Storage::Cuda(buffer) => buffer.element(),
        }
    }

    /// The number of its buffer, which tensors with the same values share, and no other buffer ever has.
    pub(crate) fn buffer_number(&self) -> u64 {
        match &self.storage {
            Storage::Cpu(_, buffer) => buffer.number(),
            Storage::Cuda(buffer) => buffer.number(),
        }
    }

    /// The memory of its values.
    pub(crate) fn bytes(&self) -> usize {
        self.shape.volume() * self.element().size()
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
        tensors.first().map_or_else(Vec::new, |first| first.backend().read(tensors))
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
        self.to_vec()[0]
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
            let mut copy = cpu.buffer(buffer.len());
            copy.copy_from_slice(buffer);
            *buffer = Arc::new(copy);
        }
        Arc::get_mut(buffer).expect("a buffer just made unique")
    }

    /// Where its values lie, to be changed there; copied first where they are shared.
    pub fn exposed(&mut self) -> Exposed<'_> {
        match self.on_gpu() {
            None => Exposed::Host(self.values_mut()),
            Some(_) => {
                let buffer = self.gpu_mut();
                assert_eq!(buffer.element(), Element::F32, "only f32 values are exposed");
                Exposed::Cuda(buffer.cuda().memory(buffer.pointer(), buffer.len()))
            }
        }
    }

    /// Moves the values towards another tensor's: `x ← x + share · (other − x)`.
    pub fn lerp(&mut self, other: &Self, share: f32) {
        Self::lerp_all(vec![(self, other)], share);
    }

    /// As [`lerp`](Self::lerp) for many pairs of tensors on one device, which a GPU does at once.
    pub fn lerp_all(pairs: Vec<(&mut Self, &Self)>, share: f32) {
        for (a, b) in &pairs {
            assert_eq!(a.shape, b.shape, "lerp takes two tensors of one shape");
        }
        if let Some(device) = pairs.first().map(|(a, _)| a.device()) {
            device.backend().lerp(pairs, share);
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

/// The next buffer's number. An address would not do: buffers lie at the same one in turn.
pub(crate) fn buffer_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
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
