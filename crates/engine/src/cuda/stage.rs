//! Copies to a GPU that run beside its computing: the next batch crosses while the present one is trained on.

use super::driver::or_fail;
use super::error::{DeviceError, fail};
use super::pool::Pinned;
use super::tensors::buffer;
use super::{Arg, Buffer, Cuda, Grid};
use crate::backend::Element;
use crate::shape::Shape;
use crate::tensor::Tensor;
use cudarc::driver::sys;

/// Where the bytes behind values begin, so that a GPU reads them at full speed.
const ALIGNMENT: usize = 256;

/// Memory that a GPU reads by itself, and its counterpart there. With two of them, one is filled while the
/// other's values are used.
pub(crate) struct Stage {
    cuda: Cuda,
    /// The copies' own.
    stream: sys::CUstream,
    /// When the copy is done.
    arrived: sys::CUevent,
    /// When tensors have been made of it, so that the next copy may begin.
    taken: sys::CUevent,
    pinned: Pinned,
    buffer: Buffer,
    /// Where values and bytes lie, and how many bytes they have.
    parts: [(usize, usize); 2],
}

// SAFETY: the driver's handles may be used from any thread that has made the context current, which every
// call here does first; the pinned memory is the stage's alone.
unsafe impl Send for Stage {}

impl Stage {
    /// An empty one.
    pub fn new(cuda: &Cuda) -> Self {
        cuda.make_current();
        let mut stream = std::ptr::null_mut();
        let mut events = [std::ptr::null_mut(); 2];
        // SAFETY: places for handles that the driver fills.
        unsafe {
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            or_fail(sys::cuStreamCreate(&mut stream, flags), "preparing copies");
            for event in &mut events {
                let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
                or_fail(sys::cuEventCreate(event, flags), "preparing copies");
            }
        }
        let [arrived, taken] = events;
        let buffer = Buffer::new(cuda, 1, Element::F32);
        let (pinned, parts) = (Pinned::default(), [(0, 0); 2]);
        Self { cuda: cuda.clone(), stream, arrived, taken, pinned, buffer, parts }
    }

    /// Begins to copy. The sources may be changed when this returns, which is as soon as they lie in memory
    /// that the GPU reads.
    pub fn send(&mut self, values: &[f32], bytes: &[u8]) {
        self.cuda.make_current();
        self.wait(); // Nothing reads the pinned memory any more.
        let values: &[u8] = bytemuck::cast_slice(values);
        let bytes_at = values.len().next_multiple_of(ALIGNMENT);
        let total = bytes_at + bytes.len();
        self.parts = [(0, values.len()), (bytes_at, bytes.len())];
        self.pinned.grow(total);
        let Some(memory) = self.pinned.memory else {
            let reason = format!("the system has not got {} MiB for it", total.div_ceil(1 << 20));
            fail(DeviceError::Failed { during: "taking memory for copies".into(), reason })
        };
        if self.buffer.len() * 4 < total {
            self.buffer = Buffer::new(&self.cuda, total.div_ceil(4), Element::F32);
            // The pool hands out what work in its stream's queue may still read.
            self.mark_taken();
        }
        // SAFETY: the pinned memory holds both, is nobody else's, and no copy from it is under way.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr(), memory, values.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.add(bytes_at), bytes.len());
        }
        // SAFETY: own stream and events; the buffer is at least as long, and the pinned memory stays as it is
        // until `wait`.
        unsafe {
            or_fail(sys::cuStreamWaitEvent(self.stream, self.taken, 0), "copying to the GPU");
            let to = self.buffer.pointer();
            or_fail(sys::cuMemcpyHtoDAsync_v2(to, memory.cast(), total, self.stream), "copying to the GPU");
            or_fail(sys::cuEventRecord(self.arrived, self.stream), "copying to the GPU");
        }
    }

    /// The values that were sent. Panics unless they fill the shape.
    pub fn values(&self, shape: impl Into<Shape>) -> Tensor {
        let [part, _] = self.parts;
        self.take(part, shape.into(), 4, |from, out, count| self.cuda.copy(from, out.pointer(), count * 4))
    }

    /// The bytes that were sent, as f32 from 0 to 255. Panics unless they fill the shape.
    pub fn bytes(&self, shape: impl Into<Shape>) -> Tensor {
        let [_, part] = self.parts;
        self.take(part, shape.into(), 1, |from, out, count| {
            let args = [Arg::Pointer(from), out.arg(), Arg::count(count)];
            self.cuda.launch("cast_bytes", Grid::over(count), &args);
        })
    }

    fn take(
        &self,
        (at, length): (usize, usize),
        shape: Shape,
        size: usize,
        make: impl FnOnce(u64, &Buffer, usize),
    ) -> Tensor {
        assert_eq!(length, shape.volume() * size, "bytes for a tensor of shape {shape}");
        self.cuda.make_current();
        let waiting = self.cuda.stream();
        // SAFETY: own event, the device's stream.
        or_fail(unsafe { sys::cuStreamWaitEvent(waiting, self.arrived, 0) }, "waiting for a copy");
        let out = self.cuda.floats(shape);
        make(self.buffer.pointer() + at as u64, buffer(&out), shape.volume());
        self.mark_taken();
        out
    }

    /// The next copy comes after all that is in the device's queue now.
    fn mark_taken(&self) {
        // SAFETY: own event, the device's stream.
        or_fail(unsafe { sys::cuEventRecord(self.taken, self.cuda.stream()) }, "preparing copies");
    }

    fn wait(&self) {
        // SAFETY: own stream.
        or_fail(unsafe { sys::cuStreamSynchronize(self.stream) }, "copying to the GPU");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        _ = self.cuda.enter();
        // SAFETY: own handles, not used again; the copy is waited for before its memory is given back. A
        // device that failed refuses these calls, which then change nothing.
        unsafe {
            sys::cuStreamSynchronize(self.stream);
            sys::cuEventDestroy_v2(self.arrived);
            sys::cuEventDestroy_v2(self.taken);
            sys::cuStreamDestroy_v2(self.stream);
        }
        self.pinned.free();
    }
}
