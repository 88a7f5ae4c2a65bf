//! A GPU: its one stream, launching kernels, and copies.

use super::Buffer;
use super::conv_hopper::HOPPER_SHARED;
use super::driver::{self, checked, or_fail};
use super::error::{DeviceError, fail};
use super::launch::{Arg, Boxes, Grid, KernelTime, Precision, TensorMap};
use super::library;
use super::pool::{Pinned, Pool, Spare, size_class};
use super::program;
use super::timer::Timer;
use crate::backend::Element;
use crate::joined::CudaMemory;
use crate::tensor::OTHER_DEVICE;
use cudarc::driver::sys::{self, CUresult};
use rayon::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An NVIDIA GPU. Cheap to clone; clones share stream and memory.
#[derive(Clone)]
pub struct Cuda(Arc<Inner>);

struct Inner {
    number: i32,
    name: String,
    precision: Precision,
    multiprocessors: usize,
    /// Shared memory of a multiprocessor.
    shared_bytes: usize,
    /// The most of it that a block may ask for.
    shared_per_block: usize,
    /// Whether it has Hopper's matrix products of a warpgroup.
    hopper: bool,
    context: sys::CUcontext,
    device: sys::CUdevice,
    stream: sys::CUstream,
    kernels: HashMap<String, sys::CUfunction>,
    pool: Mutex<Pool>,
    /// Memory that the GPU can write to directly, for downloads.
    pinned: Spare<Pinned>,
    /// Events around every launch, while launches are timed.
    timer: Timer,
}

// SAFETY: the driver's handles may be used from any thread that has made the context current, which
// every call here does first; the pool is behind a lock.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

thread_local! {
    /// The context that is current on this thread, so that it is set only when it changes.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

impl Cuda {
    /// `shared_limit`: of the shared memory that a block may have, as if the GPU had no more; for tests.
    pub(crate) fn open(
        number: usize,
        precision: Precision,
        shared_limit: Option<usize>,
    ) -> Result<Self, DeviceError> {
        library::load()?;
        let driver::Found {
            device,
            name,
            capability,
            multiprocessors,
            mut shared_bytes,
            mut shared_per_block,
        } = driver::find(number)?;
        if let Some(limit) = shared_limit {
            shared_per_block = shared_per_block.min(limit);
            shared_bytes = shared_bytes.min(limit + driver::RESERVED_SHARED);
        }
        driver::check_shared(&name, precision, shared_per_block)?;
        let hopper = capability == 90 && shared_per_block >= HOPPER_SHARED && program::knows_hopper();
        driver::check_versions()?;
        let mut context = std::ptr::null_mut();
        let mut stream = std::ptr::null_mut();
        // SAFETY: places for handles that the driver fills.
        unsafe {
            checked(sys::cuDevicePrimaryCtxRetain(&mut context, device), "opening the GPU")?;
            checked(sys::cuCtxSetCurrent(context), "opening the GPU")?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            checked(sys::cuStreamCreate(&mut stream, flags), "opening the GPU")?;
        }
        CURRENT.set(context as usize);
        let kernels = driver::load_kernels(precision, capability, hopper, shared_per_block)?;
        Ok(Self(Arc::new(Inner {
            number: number as i32,
            name,
            precision,
            multiprocessors,
            shared_bytes,
            shared_per_block: shared_per_block - driver::OWN_SHARED,
            hopper,
            context,
            device,
            stream,
            kernels,
            pool: Mutex::default(),
            pinned: Spare::default(),
            timer: Timer::default(),
        })))
    }

    /// The GPU's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How it computes.
    pub fn precision(&self) -> Precision {
        self.0.precision
    }

    /// The same for clones only: a GPU that is opened twice is two devices, each with its own stream.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    pub(crate) fn multiprocessors(&self) -> usize {
        self.0.multiprocessors
    }

    pub(crate) fn shared_bytes(&self) -> usize {
        self.0.shared_bytes
    }

    /// The most shared memory that a launch may ask for.
    pub(crate) fn shared_per_block(&self) -> usize {
        self.0.shared_per_block
    }

    /// Whether the kernels for Hopper are there.
    pub(crate) fn hopper(&self) -> bool {
        self.0.hopper
    }

    /// Values at an address of its memory, as others see them.
    pub(crate) fn memory(&self, address: u64, count: usize) -> CudaMemory {
        CudaMemory { address, count, device: self.0.number as usize, stream: self.0.stream as u64 }
    }

    /// The queue of all work but a [`Stage`](super::Stage)'s copies.
    pub(super) fn stream(&self) -> sys::CUstream {
        self.0.stream
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn allocations(&self) -> usize {
        self.pool().allocations
    }

    pub(crate) fn peak_bytes(&self) -> usize {
        self.pool().peak_bytes
    }

    pub(crate) fn recent_peak_bytes(&self) -> usize {
        self.pool().recent_peak_bytes()
    }

    pub(super) fn make_current(&self) {
        or_fail(self.enter(), "choosing the GPU");
    }

    /// As [`make_current`](Self::make_current), for those who can do nothing about a failure.
    pub(super) fn enter(&self) -> CUresult {
        let context = self.0.context as usize;
        if CURRENT.get() == context {
            return CUresult::CUDA_SUCCESS;
        }
        // SAFETY: a context that lives as long as this device.
        let result = unsafe { sys::cuCtxSetCurrent(self.0.context) };
        if result == CUresult::CUDA_SUCCESS {
            CURRENT.set(context);
        }
        result
    }

    /// Memory for at least so many bytes: a free buffer, or new memory, for which all free buffers are given up
    /// where there is no other.
    pub(super) fn allocate(&self, bytes: usize) -> u64 {
        let bytes = size_class(bytes);
        if let Some(pointer) = self.pool().take(bytes) {
            return pointer;
        }
        self.make_current();
        let mut pointer = 0;
        // SAFETY: a place for an address.
        let mut result = unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes) };
        if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            self.synchronise();
            for free in self.pool().drain() {
                // SAFETY: nothing refers to a free buffer, and no work is under way.
                unsafe { sys::cuMemFree_v2(free) };
            }
            // SAFETY: as above.
            result = unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes) };
        }
        if result == CUresult::CUDA_SUCCESS {
            self.pool().add(bytes);
            return pointer;
        }
        if result != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            or_fail(result, "taking memory");
        }
        let held = self.pool().live_bytes();
        let (wanted_mib, held_mib, free_mib) = (bytes >> 20, held >> 20, self.free_bytes() >> 20);
        fail(DeviceError::OutOfMemory { wanted_mib, held_mib, free_mib })
    }

    pub(super) fn give_back(&self, pointer: u64, bytes: usize) {
        self.pool().put(pointer, size_class(bytes));
    }

    /// Puts a kernel into the queue.
    pub(crate) fn launch(&self, kernel: &str, grid: Grid, args: &[Arg]) {
        let Some(&function) = self.0.kernels.get(kernel) else { panic!("there is no kernel {kernel}") };
        if grid.blocks.contains(&0) {
            return; // Nothing to compute, which the driver would refuse.
        }
        self.make_current();
        let mut pointers: Vec<*mut std::ffi::c_void> = args
            .iter()
            .map(|arg| match arg {
                Arg::Pointer(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Arg::Buffer(value, device) => {
                    // Another device's stream may still be writing it.
                    assert_eq!(*device, self.identity(), "{OTHER_DEVICE}");
                    std::ptr::from_ref(value).cast_mut().cast()
                }
                Arg::Int(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Arg::Long(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Arg::Float(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Arg::Ints(values) => std::ptr::from_ref(values).cast_mut().cast(),
                Arg::Map(map) => std::ptr::from_ref(map).cast_mut().cast(),
            })
            .collect();
        grid.check(kernel).unwrap_or_else(|error| fail(error));
        let [x, y, z] = grid.blocks.map(|size| size as u32);
        let [threads_x, threads_y] = grid.threads.map(|size| size as u32);
        let timed = self.0.timer.start(self.0.stream, || format!("{kernel} {:?}", grid.blocks));
        // SAFETY: the callers in this folder give each kernel the arguments its source declares, and
        // buffers of the sizes its shapes say; the driver copies the arguments before it returns.
        let result = unsafe {
            let (shared, extra) = (grid.shared as u32, std::ptr::null_mut());
            let stream = self.0.stream;
            sys::cuLaunchKernel(
                function,
                x,
                y,
                z,
                threads_x,
                threads_y,
                1,
                shared,
                stream,
                pointers.as_mut_ptr(),
                extra,
            )
        };
        or_fail(result, kernel);
        if let Some(end) = timed {
            end.record(self.0.stream);
        }
    }

    /// Tells the tensor memory accelerator (TMA) of a tensor. f32 values are rounded to tf32 on the way.
    pub(super) fn tensor_map(&self, buffer: &Buffer, boxes: Boxes) -> Arg {
        let pointer = self.own(buffer);
        let (size, kind) = match buffer.element() {
            Element::Bf16 => (2, sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
            Element::F32 => (4, sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32),
        };
        let swizzle = match boxes.row {
            128 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            _ => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        };
        let sizes: Vec<u64> = boxes.sizes.iter().map(|&size| size as u64).collect();
        let of: Vec<u32> = boxes.of.iter().map(|&size| size as u32).collect();
        let (mut strides, ones) = (vec![sizes[0] * size], vec![1; sizes.len()]);
        sizes[1..sizes.len() - 1].iter().for_each(|size| strides.push(strides[strides.len() - 1] * size));
        let mut map = TensorMap([0; 16]);
        // SAFETY: a place of a map's size and alignment; all lists are as long as the rank says, strides one less.
        let result = unsafe {
            sys::cuTensorMapEncodeTiled(
                std::ptr::from_mut(&mut map).cast(),
                kind,
                sizes.len() as u32,
                pointer as *mut std::ffi::c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                of.as_ptr(),
                ones.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        or_fail(result, "describing a tensor to the tensor memory accelerator (TMA)");
        Arg::Map(map)
    }

    /// Copies bytes to the GPU; the source may be changed when this returns.
    pub(super) fn copy_in(&self, bytes: &[u8], to: u64) {
        self.make_current();
        // SAFETY: callers give a buffer at least as long as the bytes. Memory that is not pinned is
        // read before the call returns.
        let result =
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), self.0.stream) };
        or_fail(result, "copying to the GPU");
    }

    /// Copies bytes from some places of the GPU, once all work before is done.
    pub(crate) fn download(&self, parts: &mut [(u64, &mut [u8])]) {
        self.make_current();
        self.0.pinned.lend(|pinned| {
            pinned.grow(parts.iter().map(|(_, bytes)| bytes.len()).sum());
            let mut at = 0;
            for (from, bytes) in parts.iter_mut() {
                // SAFETY: what was asked for above holds all parts.
                let to = pinned.memory.map_or(bytes.as_mut_ptr(), |memory| unsafe { memory.add(at) });
                // SAFETY: callers give buffers at least as long as the bytes; waited for right below.
                let result =
                    unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), *from, bytes.len(), self.0.stream) };
                or_fail(result, "copying from the GPU");
                at += bytes.len();
            }
            self.synchronise();
            let Some(memory) = pinned.memory else { return };
            // SAFETY: as long as all parts, written by the copies that were waited for, and lent to nobody else.
            let mut copied = unsafe { std::slice::from_raw_parts(memory, at) };
            for (_, bytes) in parts {
                let (part, rest) = copied.split_at(bytes.len());
                copied = rest;
                // Side by side: most of the time goes into the first touch of new memory.
                const PART: usize = 1 << 20;
                let pieces = bytes.par_chunks_mut(PART).zip(part.par_chunks(PART));
                pieces.for_each(|(to, from)| to.copy_from_slice(from));
            }
        });
    }

    /// Bytes of the GPU's memory that nobody holds.
    pub fn free_bytes(&self) -> usize {
        self.make_current();
        let (mut free, mut total) = (0, 0);
        // SAFETY: places for two numbers.
        unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) };
        free
    }

    pub(crate) fn copy(&self, from: u64, to: u64, bytes: usize) {
        self.make_current();
        // SAFETY: callers give two buffers at least that long.
        let result = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.0.stream) };
        or_fail(result, "copying on the GPU");
    }

    /// Waits until all work is done.
    pub fn synchronise(&self) {
        self.make_current();
        // SAFETY: the device's own stream.
        or_fail(unsafe { sys::cuStreamSynchronize(self.0.stream) }, "waiting for the GPU");
    }

    /// Runs `work` with every kernel timed; the slowest kernels come first.
    pub fn timing(&self, work: impl FnOnce()) -> Vec<KernelTime> {
        self.synchronise();
        self.0.timer.begin();
        work();
        self.synchronise();
        self.0.timer.end()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let free = self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).drain();
        // SAFETY: the last handle is gone, so that all buffers have come back to the pool; a device that
        // failed refuses these calls, which then change nothing.
        unsafe {
            sys::cuCtxSetCurrent(self.context);
            sys::cuStreamSynchronize(self.stream);
            self.pinned.drain().iter_mut().for_each(Pinned::free);
            for pointer in free {
                sys::cuMemFree_v2(pointer);
            }
            sys::cuStreamDestroy_v2(self.stream);
            sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
        CURRENT.set(0);
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (cuda:{}, {:?})", self.0.name, self.0.number, self.0.precision)
    }
}
