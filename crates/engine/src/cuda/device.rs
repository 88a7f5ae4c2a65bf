//! A GPU: its one stream and its memory.

mod copies;
mod launches;

use super::conv_hopper::HOPPER_SHARED;
use super::driver::{self, checked, or_fail};
use super::error::{DeviceError, fail};
use super::launch::{KernelTime, Precision};
use super::library;
use super::pool::{Pinned, Pool, Spare, size_class};
use super::program;
use super::timer::Timer;
use crate::joined::CudaMemory;
use cudarc::driver::sys::{self, CUresult};
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

    /// Bytes of the GPU's memory that nobody holds.
    pub fn free_bytes(&self) -> usize {
        self.make_current();
        let (mut free, mut total) = (0, 0);
        // SAFETY: places for two numbers.
        unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) };
        free
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
