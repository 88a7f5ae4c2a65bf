//! What is asked of the driver when a device is opened: which GPU, whether versions fit, loading kernels;
//! and its results as errors.

use super::conv::needed_shared;
use super::error::{DeviceError, fail};
use super::launch::Precision;
use super::{program, sources};
use cudarc::driver::sys::{self, CUresult};
use std::collections::HashMap;
use std::ffi::CStr;

/// The driver's own words.
fn describe(result: CUresult) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the driver gives a string of its own, or none.
    unsafe {
        if sys::cuGetErrorString(result, &mut text) == CUresult::CUDA_SUCCESS && !text.is_null() {
            return CStr::from_ptr(text).to_string_lossy().into_owned();
        }
    }
    format!("{result:?}")
}

/// The driver's result as ours.
pub(super) fn checked(result: CUresult, during: &str) -> Result<(), DeviceError> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(DeviceError::Failed { during: during.into(), reason: describe(other) }),
    }
}

/// As [`checked`], where an operation cannot return an error.
pub(super) fn or_fail(result: CUresult, during: &str) {
    if let Err(error) = checked(result, during) {
        fail(error);
    }
}

/// A GPU that was found.
pub(super) struct Found {
    pub device: sys::CUdevice,
    pub name: String,
    /// Compute capability, 90 for 9.0.
    pub capability: i32,
    pub multiprocessors: usize,
    /// Shared memory of a multiprocessor.
    pub shared_bytes: usize,
    /// The most of it that a block may have.
    pub shared_per_block: usize,
}

/// Shared memory that a block may need besides what its launch asks for.
pub(super) const OWN_SHARED: usize = 2048;
/// Shared memory of a multiprocessor that a block has besides what it may use.
pub(super) const RESERVED_SHARED: usize = 1024;

/// Refuses a GPU that gives a block less shared memory than the kernels of a precision may need.
pub(super) fn check_shared(
    name: &str,
    precision: Precision,
    shared_per_block: usize,
) -> Result<(), DeviceError> {
    let needed = |precision| needed_shared(precision) + OWN_SHARED;
    if needed(precision) <= shared_per_block {
        return Ok(());
    }
    let working = Precision::ALL.into_iter().find(|&other| needed(other) <= shared_per_block);
    let remedy = match working {
        Some(working) => format!("use precision {working}, which works there"),
        None => "no precision works there; use the CPU".into(),
    };
    Err(DeviceError::Unsuitable(format!(
        "{name} gives a block {shared_per_block} bytes of shared memory, precision {precision} needs {}; {remedy}",
        needed(precision)
    )))
}

/// The GPU of that number.
pub(super) fn find(number: usize) -> Result<Found, DeviceError> {
    let (mut count, mut device) = (0, 0);
    // SAFETY: places for what the driver fills; a name has at most 256 bytes.
    unsafe {
        checked(sys::cuInit(0), "starting the driver")?;
        checked(sys::cuDeviceGetCount(&mut count), "counting GPUs")?;
        if number >= count as usize {
            let there = match count {
                0 => "no GPU is there".into(),
                1 => "only cuda:0 is there".into(),
                _ => format!("only cuda:0 to cuda:{} are there", count - 1),
            };
            return Err(DeviceError::Unsuitable(format!("cuda:{number} was asked for, but {there}")));
        }
        checked(sys::cuDeviceGet(&mut device, number as i32), "finding the GPU")?;
        let mut name = [0u8; 256];
        checked(sys::cuDeviceGetName(name.as_mut_ptr().cast(), 256, device), "finding the GPU")?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned();
        use sys::CUdevice_attribute as A;
        let [major, minor, multiprocessors, shared, per_block] = [
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        ]
        .map(|attribute| attribute_of(device, attribute));
        if major < 8 {
            return Err(DeviceError::Unsuitable(format!(
                "{name} has compute capability {major}.{minor}; 8.0 (Ampere) or later is needed"
            )));
        }
        let [multiprocessors, shared_bytes, shared_per_block] =
            [multiprocessors, shared, per_block].map(|size| size.max(1) as usize);
        let capability = major * 10 + minor;
        Ok(Found { device, name, capability, multiprocessors, shared_bytes, shared_per_block })
    }
}

fn attribute_of(device: sys::CUdevice, attribute: sys::CUdevice_attribute) -> i32 {
    let mut value = 0;
    // SAFETY: a place for a number.
    unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
    value
}

/// A driver cannot load what a later major version of NVRTC made.
pub(super) fn check_versions() -> Result<(), DeviceError> {
    let mut driver = 0;
    // SAFETY: a place for a number.
    checked(unsafe { sys::cuDriverGetVersion(&mut driver) }, "asking the driver")?;
    let (major, minor) = program::version();
    if driver / 1000 < major {
        return Err(DeviceError::OldDriver {
            driver: format!("{}.{}", driver / 1000, driver % 1000 / 10),
            library: "NVRTC".into(),
            needed: format!("{major}.{minor}"),
        });
    }
    Ok(())
}

/// Compiles all sources side by side and loads what comes out.
pub(super) fn load_kernels(
    precision: Precision,
    capability: i32,
    hopper: bool,
    shared_per_block: usize,
) -> Result<HashMap<String, sys::CUfunction>, DeviceError> {
    let sources = sources::sources(precision, hopper);
    let compiled: Vec<_> = std::thread::scope(|scope| {
        let jobs: Vec<_> = sources.iter().map(|source| scope.spawn(|| source.compile(capability))).collect();
        jobs.into_iter().map(|job| job.join().expect("the compiler does not panic")).collect()
    });
    let most = (shared_per_block - OWN_SHARED) as i32;
    let mut kernels = HashMap::new();
    for compiled in compiled {
        let compiled = compiled?;
        let mut module = std::ptr::null_mut();
        // SAFETY: an image just made; names end in zero. Modules stay loaded with the context.
        unsafe {
            checked(sys::cuModuleLoadData(&mut module, compiled.image.as_ptr().cast()), "loading kernels")?;
            for (kernel, name) in compiled.kernels {
                let mut function = std::ptr::null_mut();
                checked(sys::cuModuleGetFunction(&mut function, module, name.as_ptr()), &kernel)?;
                if kernel.starts_with("conv") {
                    use sys::CUfunction_attribute as A;
                    let attribute = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                    checked(sys::cuFuncSetAttribute(function, attribute, most), &kernel)?;
                    let attribute = A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
                    checked(sys::cuFuncSetAttribute(function, attribute, 100), &kernel)?;
                }
                kernels.insert(kernel, function);
            }
        }
    }
    Ok(kernels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_with_too_little_shared_memory_is_refused() {
        const KIB: usize = 1024;
        // Hopper, an A100 (8.0), and GPUs of compute capability 8.6, 8.9 and 12.0.
        for limit in [227 * KIB, 163 * KIB, 99 * KIB] {
            for precision in Precision::ALL {
                assert_eq!(check_shared("a GPU", precision, limit), Ok(()), "{precision} {limit}");
            }
        }
        let text = check_shared("an old GPU", Precision::Bf16, 64 * KIB).unwrap_err().to_string();
        for wanted in ["an old GPU gives a block 65536 bytes", "precision bf16 needs"] {
            assert!(text.contains(wanted), "{text}");
        }
        assert!(text.ends_with("no precision works there; use the CPU"), "{text}");
    }
}
