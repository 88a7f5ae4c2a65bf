//! The kernels: their sources, which instances a precision needs, and their compilation by NVRTC.

use super::conv::{LARGE_TILE, ROW};
use super::error::DeviceError;
use super::launch::Precision;
use super::rows::SUM;
use super::training::PIECE;
use super::values::numbered;
use crate::backend::{Binary, Distance, Unary};
use cudarc::nvrtc::sys;
use std::ffi::{CStr, CString};

const PRELUDE: &str = include_str!("kernels/prelude.cuh");
const WGMMA: &str = include_str!("kernels/wgmma.cuh");
const TENSOR_CORE: &str = include_str!("kernels/tensor_core.cuh");

/// A source file and the kernels to be made of it.
pub(super) struct Source {
    name: &'static str,
    text: String,
    kernels: Vec<String>,
}

/// The numbers that launches and kernels share, by source file.
fn constants(source: &str) -> Vec<(&'static str, i32)> {
    let unary = |operation| numbered(operation).0;
    match source {
        "conv.cu" => vec![("ROW", ROW as i32)],
        "conv_narrow.cu" => vec![("ROW", ROW as i32), ("MOST_HALO", LARGE_TILE.halo as i32)],
        "elementwise.cu" => vec![
            ("ADD", Binary::Add as i32),
            ("SUB", Binary::Sub as i32),
            ("MUL", Binary::Mul as i32),
            ("DIV", Binary::Div as i32),
            ("NEGATIVE_MUL", Binary::NegativeMul as i32),
            ("SCALE", unary(Unary::Scale(1.0))),
            ("ADD_SCALAR", unary(Unary::AddScalar(0.0))),
            ("EXP", unary(Unary::Exp)),
            ("LN", unary(Unary::Ln)),
            ("SIGMOID", unary(Unary::Sigmoid)),
            ("RELU", unary(Unary::Relu)),
            ("EXCEEDS", unary(Unary::Exceeds(0.0))),
        ],
        "reduce.cu" => vec![
            ("SUM", SUM),
            ("BINARY_CROSS_ENTROPY", Distance::BinaryCrossEntropy as i32),
            ("SQUARED_ERROR", Distance::SquaredError as i32),
        ],
        "optim.cu" => vec![("PIECE", PIECE as i32)],
        _ => Vec::new(),
    }
}

/// Everything a device of this precision computes with. Independent of each other, so that they can be
/// compiled side by side.
pub(super) fn sources(precision: Precision, hopper: bool) -> Vec<Source> {
    let elements: &[&str] = match precision {
        Precision::Bf16 => &["float", "bf16"],
        Precision::F32 | Precision::Tf32 => &["float"],
    };
    let plain = |kernels: &[&str]| kernels.iter().map(|kernel| kernel.to_string()).collect::<Vec<_>>();
    let typed = |kernels: &[&str]| {
        kernels.iter().flat_map(|k| elements.iter().map(move |t| format!("{k}<{t}>"))).collect::<Vec<_>>()
    };
    let vectors = |kernels: &[&str]| {
        let kinds = || elements.iter().flat_map(|t| [1, 8].map(|v| format!("{t}, {v}")));
        kernels.iter().flat_map(|k| kinds().map(move |kind| format!("{k}<{kind}>"))).collect::<Vec<_>>()
    };
    // A warp for a row, or a block.
    let rows = |kernels: &[&str]| {
        kernels.iter().flat_map(|k| [32, 1024].map(|threads| format!("{k}<{threads}>"))).collect::<Vec<_>>()
    };
    let mut casts = Vec::new();
    let mut masks = vec!["float, float"];
    let p = precision.name();
    if precision == Precision::Bf16 {
        casts.extend(plain(&["cast<float, bf16>", "cast<bf16, float>"]));
        masks.extend(["bf16, bf16", "float, bf16"]);
    }
    let masks: Vec<String> =
        masks.iter().flat_map(|types| [1, 8].map(|v| format!("mask_and_sum<{types}, {v}>"))).collect();
    let convs = |taps: usize| [32, 64, 128].map(|n| format!("conv<{p}, {taps}, {n}>")).to_vec();
    let weights = |taps: usize| {
        ["16, 32", "32, 32", "64, 64"].map(|tile| format!("conv_weight<{p}, {taps}, {tile}>")).to_vec()
    };
    let source = |name, parts: &[&str], kernels: Vec<Vec<String>>| Source {
        name,
        text: parts.concat(),
        kernels: kernels.concat(),
    };
    let elementwise = include_str!("kernels/elementwise.cu");
    let conv = include_str!("kernels/conv.cu");
    let conv_narrow = include_str!("kernels/conv_narrow.cu");
    let conv_weight = include_str!("kernels/conv_weight.cu");
    let mut sources = vec![
        source("conv.cu", &[PRELUDE, TENSOR_CORE, conv], vec![convs(9)]),
        source("conv.cu", &[PRELUDE, TENSOR_CORE, conv], vec![convs(1)]),
        source(
            "conv_narrow.cu",
            &[PRELUDE, TENSOR_CORE, conv_narrow],
            vec![[9, 1].map(|taps| format!("conv_narrow<{p}, {taps}>")).to_vec()],
        ),
        source("conv_weight.cu", &[PRELUDE, TENSOR_CORE, conv_weight], vec![weights(9)]),
        source(
            "conv_weight.cu",
            &[PRELUDE, TENSOR_CORE, conv_weight],
            vec![weights(1), vec![format!("cast_weights<{p}>")]],
        ),
        source(
            "elementwise.cu",
            &[PRELUDE, elementwise],
            vec![
                typed(&["binary", "unary", "unary_backward", "fill", "spread_rows"]),
                typed(&["gather_rows", "gather_rows_backward", "sum_repeats"]),
                plain(&["transpose"]),
                casts,
            ],
        ),
        source(
            "elementwise.cu",
            &[PRELUDE, elementwise],
            vec![vectors(&["copy_channels", "sample_bias", "spread_pixels", "resize", "resize_backward"])],
        ),
        source(
            "images.cu",
            &[PRELUDE, include_str!("kernels/images.cu")],
            vec![
                plain(&["gather_images<float>", "gather_images<unsigned char>", "adjust_images", "widen"]),
                plain(&["mean_of_views", "raise_masks", "pack_masks"]),
            ],
        ),
        source(
            "reduce.cu",
            &[PRELUDE, include_str!("kernels/reduce.cu")],
            vec![
                masks,
                typed(&["row_parts", "row_parts_backward"]),
                plain(&["sum_parts", "sum_many"]),
                rows(&["softmax", "softmax_backward", "cross_entropy", "cross_entropy_backward"]),
                rows(&["l2_normalise", "l2_normalise_backward"]),
            ],
        ),
        source(
            "norm.cu",
            &[PRELUDE, include_str!("kernels/norm.cu")],
            vec![
                vectors(&["norm_sums", "norm_apply", "norm_backward_sums", "norm_backward"]),
                typed(&["norm_statistics"]),
                plain(&["norm_parameter_gradients", "norm_group_means"]),
                plain(&["batch_norm", "batch_norm_backward", "batch_norm_by"]),
            ],
        ),
        source(
            "matmul.cu",
            &[PRELUDE, include_str!("kernels/matmul.cu")],
            vec![plain(&["matmul", "inner_products"])],
        ),
        source(
            "optim.cu",
            &[PRELUDE, TENSOR_CORE, include_str!("kernels/optim.cu")],
            vec![plain(&["gradient_squares", "gradient_norm", "lerp"]), vec![format!("adam<{p}>")]],
        ),
    ];
    if hopper {
        sources.extend(of_hopper(precision));
    }
    sources
}

/// The kernels of GPUs with matrix products of a warpgroup.
fn of_hopper(precision: Precision) -> Vec<Source> {
    let (p, common) = (precision.name(), [PRELUDE, TENSOR_CORE, WGMMA].concat());
    let conv = |kernels: Vec<String>| Source {
        name: "conv_wgmma.cu",
        text: [&common, include_str!("kernels/conv_wgmma.cu")].concat(),
        kernels,
    };
    if precision == Precision::F32 {
        return Vec::new(); // Its three products for one are made of other instructions.
    }
    // By kernel size, channels out, and bytes of channels that are copied at a time.
    let kernels = |n: usize| {
        [3, 1]
            .into_iter()
            .flat_map(|k| [64, 128].map(|row| format!("conv_wgmma<{p}, {k}, {n}, {row}>")))
            .collect()
    };
    let mut sources: Vec<Source> = [16, 32, 64, 96, 128].map(|n| conv(kernels(n))).into();
    let (kernel, name, text) = match precision {
        Precision::Bf16 => {
            ("conv_weight_wgmma", "conv_weight_wgmma.cu", include_str!("kernels/conv_weight_wgmma.cu"))
        }
        _ => ("conv_weight_tf32", "conv_weight_tf32.cu", include_str!("kernels/conv_weight_tf32.cu")),
    };
    sources.push(Source {
        name,
        text: [&common, text].concat(),
        kernels: [0, 1].map(|narrow| format!("{kernel}<{narrow}>")).to_vec(),
    });
    sources
}

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
    use super::*;

    #[test]
    fn every_kernel_compiles_where_nvrtc_is_found() {
        if let Err(error) = super::super::library::load_nvrtc() {
            println!("skipped: {error}");
            return;
        }
        for precision in Precision::ALL {
            for source in sources(precision, true) {
                let compiled = source.compile(90).unwrap_or_else(|error| panic!("{precision:?}: {error}"));
                assert_eq!(compiled.kernels.len(), source.kernels.len());
                assert!(compiled.image.starts_with(b"\x7fELF"), "{precision:?} {}", source.name);
            }
        }
    }
}
