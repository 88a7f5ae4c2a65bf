//! The kernels' sources, which instances a precision needs, and the numbers that they share with launches.

use super::launch::{LONG_BLOCK, Precision, WARPS};
use super::values::numbered;
use super::{conv, conv_hopper, products, resident, tensors, training};
use crate::backend::{Binary, Distance, LEAST_LENGTH, Unary};
use crate::views::PACKED;

const PRELUDE: &str = include_str!("kernels/prelude.cuh");
const WGMMA: &str = include_str!("kernels/wgmma.cuh");
const TENSOR_CORE: &str = include_str!("kernels/tensor_core.cuh");

/// A source file and the kernels to be made of it.
pub(super) struct Source {
    pub name: &'static str,
    pub text: String,
    pub kernels: Vec<String>,
}

/// The numbers that launches and kernels share, by source file, as a kernel's source would have them.
pub(super) fn constants(source: &str) -> Vec<(&'static str, String)> {
    let mut constants: Vec<_> =
        integers(source).into_iter().map(|(name, value)| (name, value.to_string())).collect();
    if source == "reduce.cu" {
        constants.push(("LEAST_LENGTH", format!("{LEAST_LENGTH:e}f")));
    }
    constants
}

fn integers(source: &str) -> Vec<(&'static str, i32)> {
    let unary = |operation| numbered(operation).0;
    let sizes = |sizes: &[(&'static str, usize)]| -> Vec<_> {
        sizes.iter().map(|&(name, size)| (name, size as i32)).collect()
    };
    match source {
        "conv.cu" => {
            sizes(&[("ROW", conv::ROW), ("TILE", conv::TILE.tile), ("RESULT_PADDING", conv::RESULT_PADDING)])
        }
        "conv_narrow.cu" => sizes(&[
            ("ROW", conv::ROW),
            ("MOST_HALO", conv::LARGE_TILE.halo),
            ("OUTPUTS", conv::NARROW_OUTPUTS),
        ]),
        "conv_weight.cu" => sizes(&[
            ("TILE", conv::TILE.tile),
            ("BF16_PADDING", conv::BF16_PADDING),
            ("F32_PADDING", conv::F32_PADDING),
        ]),
        "conv_wgmma.cu" => sizes(&[
            ("ALIGNMENT", conv_hopper::ALIGNMENT),
            ("BUFFERS", conv_hopper::BUFFERS),
            ("SLOTS", conv_hopper::SLOTS),
        ]),
        "conv_weight_wgmma.cu" => sizes(&[
            ("ALIGNMENT", conv_hopper::ALIGNMENT),
            ("BOX_WIDTH", conv_hopper::BOX_WIDTH),
            ("SLOTS", conv_hopper::WEIGHT_SLOTS),
            ("THREADS", conv_hopper::BF16_THREADS),
            ("WIDE_CHANNELS", conv_hopper::WIDE_CHANNELS),
            ("WIDE_UNITS", conv_hopper::WIDE_UNITS),
            ("NARROW_CHANNELS", conv_hopper::NARROW_CHANNELS),
            ("NARROW_UNITS", conv_hopper::NARROW_UNITS),
        ]),
        "conv_weight_tf32.cu" => sizes(&[
            ("ALIGNMENT", conv_hopper::ALIGNMENT),
            ("BOX_WIDTH", conv_hopper::BOX_WIDTH),
            ("SLOTS", conv_hopper::WEIGHT_SLOTS),
            ("THREADS", conv_hopper::TF32_THREADS),
            ("NARROW_THREADS", conv_hopper::NARROW_TF32_THREADS),
            ("WIDE_CHANNELS", conv_hopper::WIDE_CHANNELS),
            ("WIDE_UNITS", conv_hopper::WIDE_UNITS),
            ("NARROW_CHANNELS", conv_hopper::NARROW_CHANNELS),
            ("NARROW_UNITS", conv_hopper::NARROW_UNITS),
        ]),
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
            ("SQUARE", products::SQUARE as i32),
            ("LINES", products::LINES as i32),
        ],
        "images.cu" => vec![
            ("LONG_BLOCK", LONG_BLOCK as i32),
            ("PACKED", PACKED as i32),
            ("RANGE", resident::RANGE),
            ("Z_SCORE", resident::Z_SCORE),
        ],
        "reduce.cu" => vec![
            ("BINARY_CROSS_ENTROPY", Distance::BinaryCrossEntropy as i32),
            ("SQUARED_ERROR", Distance::SquaredError as i32),
            ("SUMS", training::SUMS as i32),
            ("COLUMNS", tensors::COLUMNS as i32),
            ("LINES", tensors::LINES as i32),
        ],
        "norm.cu" => sizes(&[("WARPS", WARPS)]),
        "matmul.cu" => sizes(&[("TILE", products::TILE), ("FEW", products::FEW)]),
        "optim.cu" => sizes(&[("PIECE", training::PIECE)]),
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
        kernels
            .iter()
            .flat_map(|k| [32, LONG_BLOCK].map(|threads| format!("{k}<{threads}>")))
            .collect::<Vec<_>>()
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
    let convs = |taps: usize| [32, 64, 128].map(|n| conv::conv_kernel(precision, taps, n)).to_vec();
    let weights = |taps: usize| {
        [[16, 32], [32, 32], [64, 64]].map(|tile| conv::weight_kernel(precision, taps, tile)).to_vec()
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
                typed(&["binary", "unary", "unary_backward", "fill", "broadcast_rows"]),
                typed(&["gather_rows", "scatter_rows", "sum_repeats"]),
                plain(&["transpose"]),
                casts,
            ],
        ),
        source(
            "elementwise.cu",
            &[PRELUDE, elementwise],
            vec![vectors(&["copy_channels", "sample_bias", "broadcast_pixels", "resize", "resize_backward"])],
        ),
        source(
            "images.cu",
            &[PRELUDE, include_str!("kernels/images.cu")],
            vec![
                plain(&[
                    "gather_images<float>",
                    "gather_images<unsigned char>",
                    "adjust_images",
                    "cast_bytes",
                ]),
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
    let common = [PRELUDE, TENSOR_CORE, WGMMA].concat();
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
            .flat_map(|k| [64, 128].map(|row| conv_hopper::conv_kernel(precision, k, n, row)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn is_of_name(letter: char) -> bool {
        letter.is_ascii_alphanumeric() || letter == '_'
    }

    /// A source without comments, strings and macros' bodies, and the macros' names.
    fn code_and_macros(text: &str) -> (String, BTreeSet<&str>) {
        let (mut code, mut macros, mut within) = (String::new(), BTreeSet::new(), false);
        for line in text.lines() {
            let name = line.strip_prefix("#define ").and_then(|rest| rest.split(|c| !is_of_name(c)).next());
            macros.extend(name);
            within |= name.is_some();
            if !within {
                let line = line.split("//").next().unwrap_or_default();
                code.extend(line.split('"').step_by(2).flat_map(|part| [part, " "]));
            }
            within &= line.ends_with('\\');
        }
        (code, macros)
    }

    /// Names, and marks one by one.
    fn tokens(code: &str) -> Vec<&str> {
        let (mut tokens, mut rest) = (Vec::new(), code.trim());
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()).max(first.len_utf8());
            tokens.push(&rest[..end]);
            rest = rest[end..].trim_start();
        }
        tokens
    }

    /// Names in capitals that a source uses but does not define, be it as a macro, a constant, a template's parameter
    /// or a member of an enum.
    fn undefined(text: &str) -> BTreeSet<String> {
        let (code, macros) = code_and_macros(text);
        let tokens = tokens(&code);
        let (mut used, mut defined, mut in_enum) = (BTreeSet::new(), macros, false);
        for (at, &token) in tokens.iter().enumerate() {
            let beside = |step: isize| tokens.get(at.wrapping_add_signed(step)).copied().unwrap_or_default();
            in_enum = token == "enum" || in_enum && token != "}";
            let of_capitals = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            if token.len() > 1
                && token.starts_with(|c: char| c.is_ascii_uppercase())
                && token.chars().all(of_capitals)
            {
                used.insert(token);
                let declared = ["int", "class"].contains(&beside(-1)) || beside(1) == "=" && beside(2) != "=";
                defined.extend((in_enum || declared).then_some(token));
            }
        }
        used.difference(&defined).map(|name| name.to_string()).collect()
    }

    #[test]
    fn kernels_name_the_numbers_that_they_share_with_launches() {
        for source in Precision::ALL.iter().flat_map(|&precision| sources(precision, true)) {
            let constants = constants(source.name);
            let given: BTreeSet<String> = constants.iter().map(|(name, _)| name.to_string()).collect();
            assert_eq!(undefined(&source.text), given, "{}", source.name);
            // Smaller numbers stand for other things, too.
            let (code, _) = code_and_macros(&source.text);
            for (name, literal) in constants {
                if literal.parse::<i32>().is_ok_and(|value| value <= 256) {
                    continue;
                }
                let is_there = tokens(&code).windows(tokens(&literal).len()).any(|t| t == tokens(&literal));
                assert!(!is_there, "{}: {literal} is {name}", source.name);
            }
        }
    }

    #[test]
    fn names_that_a_source_does_not_define_are_found() {
        let text = "// IN_COMMENT\n#define MACRO(X) X + \\\n    IN_MACRO\nenum Kind { ONE, TWO };\n\
                    template <class T, int SIZE> void f() { constexpr int A1 = B1, B2 = SIZE; g(\"TEXT\", MACRO(C1)); }\n\
                    if (D1 == ONE) { return TWO; }";
        assert_eq!(undefined(text).into_iter().collect::<Vec<_>>(), ["B1", "C1", "D1"]);
    }
}
