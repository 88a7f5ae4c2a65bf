//! What can go wrong with a GPU, and how it reaches the caller.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Why a GPU cannot be used, or stopped working.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A library is not there.
    #[error("{library} was not found; {remedy}")]
    Library {
        /// The library's file name.
        library: String,
        /// How to get it.
        remedy: String,
    },
    /// The driver is too old.
    #[error(
        "the NVIDIA driver supports CUDA {driver}, but {library} is of CUDA {needed}; update the driver, or install a {library} of its version"
    )]
    OldDriver {
        /// CUDA version the driver supports.
        driver: String,
        /// The library that needs more.
        library: String,
        /// The version it needs.
        needed: String,
    },
    /// The GPU asked for is not there, or too old.
    #[error("{0}")]
    Unsuitable(String),
    /// The GPU's memory is full.
    #[error(
        "out of GPU memory: {wanted_mib} MiB more were asked for while tensors hold {held_mib} MiB and {free_mib} MiB are free; use a smaller batch, or precision bf16"
    )]
    OutOfMemory {
        /// What was asked for.
        wanted_mib: usize,
        /// What tensors hold.
        held_mib: usize,
        /// What the GPU has left for everyone.
        free_mib: usize,
    },
    /// This machine's memory is full.
    #[error(
        "out of memory: {wanted_mib} MiB more were asked for while tensors hold {held_mib} MiB; use a smaller batch or smaller images"
    )]
    OutOfMachineMemory {
        /// What was asked for.
        wanted_mib: usize,
        /// What tensors hold.
        held_mib: usize,
    },
    /// More than a GPU's kernels can count.
    #[error(
        "{what} is {size}, and a GPU takes at most {most} at once; use a smaller batch or smaller images"
    )]
    TooLarge {
        /// What is too large.
        what: String,
        /// How large it is.
        size: usize,
        /// What is possible.
        most: usize,
    },
    /// The driver reported an error: a lost device, a failed kernel.
    #[error("the GPU failed in {during}: {reason}")]
    Failed {
        /// What was being done.
        during: String,
        /// What the driver says.
        reason: String,
    },
}

/// Ends the operation with an error that [`catching`] returns. The panic hook is not run: nothing here is
/// a bug of the program.
pub(crate) fn fail(error: DeviceError) -> ! {
    resume_unwind(Box::new(error))
}

/// Runs `work` and returns the error of a device that failed in it.
///
/// ```
/// use multivalued_engine::{Device, Tensor, catching};
///
/// let sum = catching(|| Tensor::full(&Device::cpu(), [2], 1.0).to_vec().iter().sum::<f32>());
/// assert_eq!(sum, Ok(2.0));
/// ```
pub fn catching<T>(work: impl FnOnce() -> T) -> Result<T, DeviceError> {
    // What `work` was changing is not looked at again after a device error but to be dropped.
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| match payload.downcast::<DeviceError>() {
        Ok(error) => *error,
        Err(other) => resume_unwind(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_error_is_returned_and_other_panics_go_on() {
        let error = DeviceError::Unsuitable("none".into());
        assert_eq!(catching(|| -> () { fail(DeviceError::Unsuitable("none".into())) }), Err(error));
        assert!(catch_unwind(|| catching(|| resume_unwind(Box::new("a bug")))).is_err());
    }
}
