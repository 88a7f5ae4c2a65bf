//! The compilation of kernels by NVRTC.

use super::error::DeviceError;
use super::sources::{Source, constants};
use cudarc::nvrtc::sys;
use std::ffi::{CStr, CString};

/// Machine code, and the name in it of each kernel.
pub(super) struct Compiled {
    pub image: Vec<u8>,
    pub kernels: Vec<(String, CString)>,
}

/// Whether NVRTC can compile matrix products of a warpgroup.
pub(super) fn knows_hopper() -> bool {
    version() >= (12, 0)
}

/// NVRTC's own version: major, minor.
pub(super) fn version() -> (i32, i32) {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: two places for two numbers.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    (major, minor)
}

impl Source {
    /// Machine code for one architecture, such as 90 for sm_90.
    pub fn compile(&self, architecture: i32) -> Result<Compiled, DeviceError> {
        let text = CString::new(self.text.as_str()).expect("sources hold no zero bytes");
        let name = CString::new(self.name).expect("names hold no zero bytes");
        let mut program = std::ptr::null_mut();
        // SAFETY: strings end in zero and outlive the call; no headers are given.
        let created = unsafe {
            let none = std::ptr::null();
            sys::nvrtcCreateProgram(&mut program, text.as_ptr(), name.as_ptr(), 0, none, none)
        };
        self.check(created, "creation")?;
        let result = self.build(program, architecture);
        // SAFETY: the program is not used again.
        unsafe { sys::nvrtcDestroyProgram(&mut program) };
        result
    }

    fn build(&self, program: sys::nvrtcProgram, architecture: i32) -> Result<Compiled, DeviceError> {
        let expressions: Vec<CString> = self
            .kernels
            .iter()
            .map(|kernel| CString::new(kernel.as_str()).expect("names hold no zero bytes"))
            .collect();
        for expression in &expressions {
            // SAFETY: a string that ends in zero.
            self.check(unsafe { sys::nvrtcAddNameExpression(program, expression.as_ptr()) }, "naming")?;
        }
        let defined = constants(self.name).into_iter().map(|(name, value)| format!("-D{name}={value}"));
        // Hopper's matrix products are of that one architecture.
        let features = if architecture == 90 && knows_hopper() { "a" } else { "" };
        let target = format!("--gpu-architecture=sm_{architecture}{features}");
        let options: Vec<CString> = [target, "--std=c++17".into()]
            .into_iter()
            .chain(defined)
            .map(|option| CString::new(option).expect("options hold no zero bytes"))
            .collect();
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: as many options as are counted, alive during the call.
        let compiled = unsafe { sys::nvrtcCompileProgram(program, pointers.len() as i32, pointers.as_ptr()) };
        if compiled != sys::nvrtcResult::NVRTC_SUCCESS {
            return Err(self.failed(&log(program)));
        }
        let mut size = 0;
        // SAFETY: the image is as large as its size says; lowered names live as long as the program.
        unsafe {
            self.check(sys::nvrtcGetCUBINSize(program, &mut size), "size")?;
            let mut image = vec![0u8; size];
            self.check(sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()), "machine code")?;
            let mut kernels = Vec::new();
            for (kernel, expression) in self.kernels.iter().zip(&expressions) {
                let mut lowered = std::ptr::null();
                let found = sys::nvrtcGetLoweredName(program, expression.as_ptr(), &mut lowered);
                self.check(found, kernel)?;
                kernels.push((kernel.clone(), CStr::from_ptr(lowered).to_owned()));
            }
            Ok(Compiled { image, kernels })
        }
    }

    fn check(&self, result: sys::nvrtcResult, what: &str) -> Result<(), DeviceError> {
        match result {
            sys::nvrtcResult::NVRTC_SUCCESS => Ok(()),
            other => Err(self.failed(&format!("{what}: {other:?}"))),
        }
    }

    fn failed(&self, reason: &str) -> DeviceError {
        DeviceError::Failed { during: format!("compiling {}", self.name), reason: reason.trim().into() }
    }
}

/// What the compiler wrote.
fn log(program: sys::nvrtcProgram) -> String {
    let mut size = 0;
    // SAFETY: the log is as long as its size says.
    unsafe {
        sys::nvrtcGetProgramLogSize(program, &mut size);
        let mut text = vec![0u8; size];
        sys::nvrtcGetProgramLog(program, text.as_mut_ptr().cast());
        String::from_utf8_lossy(&text).trim_end_matches('\0').to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::launch::Precision;
    use super::super::sources::sources;

    #[test]
    fn every_kernel_compiles_where_nvrtc_is_found() {
        if let Err(error) = super::super::library::load_nvrtc() {
            println!("skipped: {error}");
            return;
        }
        // The kernels of Hopper, and those of the GPUs before it and beside it.
        for (capability, hopper) in [(90, true), (80, false), (86, false), (89, false)] {
            for precision in Precision::ALL {
                for source in sources(precision, hopper) {
                    let what = format!("{} for {capability}, {precision:?}", source.name);
                    let compiled =
                        source.compile(capability).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(compiled.kernels.len(), source.kernels.len(), "{what}");
                    assert!(compiled.image.starts_with(b"\x7fELF"), "{what}");
                }
            }
        }
    }
}
