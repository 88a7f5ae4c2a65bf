//! Where a computation's time goes, kernel by kernel.

use super::driver::or_fail;
use super::launch::KernelTime;
use cudarc::driver::sys;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Events around every launch, between `begin` and `end`.
#[derive(Default)]
pub(super) struct Timer {
    launches: Mutex<Option<Vec<Launch>>>,
}

struct Launch {
    kernel: String,
    start: sys::CUevent,
    end: sys::CUevent,
}

/// The event after a launch, still to be recorded.
pub(super) struct End(sys::CUevent);

impl End {
    pub fn record(self, stream: sys::CUstream) {
        // SAFETY: an event just made, on the device's own stream.
        or_fail(unsafe { sys::cuEventRecord(self.0, stream) }, "timing");
    }
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Launch>>> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self) {
        *self.lock() = Some(Vec::new());
    }

    /// Records that a launch begins, while launches are timed.
    pub fn start(&self, stream: sys::CUstream, kernel: impl FnOnce() -> String) -> Option<End> {
        let mut launches = self.lock();
        let launches = launches.as_mut()?;
        let [start, end] = [(); 2].map(|()| {
            let mut event = std::ptr::null_mut();
            // SAFETY: a place for a handle.
            or_fail(unsafe { sys::cuEventCreate(&mut event, 0) }, "timing");
            event
        });
        End(start).record(stream);
        launches.push(Launch { kernel: kernel(), start, end });
        Some(End(end))
    }

    /// The times of all launches since `begin`, which must have ended; the slowest kernels first.
    pub fn end(&self) -> Vec<KernelTime> {
        let launches = self.lock().take().unwrap_or_default();
        let mut times: HashMap<String, KernelTime> = HashMap::new();
        for Launch { kernel, start, end } in launches {
            let mut milliseconds = 0.0f32;
            // SAFETY: two events that have happened and are not used again.
            unsafe {
                sys::cuEventElapsedTime_v2(&mut milliseconds, start, end);
                sys::cuEventDestroy_v2(start);
                sys::cuEventDestroy_v2(end);
            }
            let none = KernelTime { kernel: kernel.clone(), launches: 0, milliseconds: 0.0 };
            let time = times.entry(kernel).or_insert(none);
            time.launches += 1;
            time.milliseconds += f64::from(milliseconds);
        }
        let mut times: Vec<KernelTime> = times.into_values().collect();
        times.sort_by(|a, b| b.milliseconds.total_cmp(&a.milliseconds));
        times
    }
}
