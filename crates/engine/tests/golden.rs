//! Every operation, Adam and a small network against PyTorch in float64 (`reference/engine.py`), on
//! every instruction set of this machine.
//!
//! The rule: values within 1e-5 and gradients within 1e-4 of the golden ones, relative to the largest
//! magnitude of the golden tensor.

mod close;
#[allow(dead_code, reason = "an operation made of two others has no values of its own")]
mod operation;

use close::assert_close;
use multivalued_engine::{
    Adam, AdamOptions, Corners, Device, Group, Isa, Parameters, Stepped, Tape, Tensor, Var,
};
use operation::Operation;
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const VALUES: f64 = 1e-5;
const GRADIENTS: f64 = 1e-4;
const SMALLEST: f64 = 1e-3;

struct Golden {
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    cases: BTreeMap<String, Value>,
}

impl Golden {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reference/golden/engine.safetensors");
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let (_, header) = SafeTensors::read_metadata(&bytes).expect("a safetensors header");
        let cases = header.metadata().as_ref().expect("cases in the metadata");
        let cases = cases.iter().map(|(name, text)| {
            (name.clone(), serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}")))
        });
        let tensors = file.tensors().into_iter().map(|(name, view)| {
            let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            (name, (view.shape().to_vec(), values.collect()))
        });
        Self { tensors: tensors.collect(), cases: cases.collect() }
    }

    fn get(&self, name: &str) -> &(Vec<usize>, Vec<f32>) {
        self.tensors.get(name).unwrap_or_else(|| panic!("no golden tensor {name}"))
    }

    fn exact(&self, name: &str) -> Vec<f64> {
        self.get(name).1.iter().map(|&value| value.into()).collect()
    }

    fn tensor(&self, device: &Device, name: &str) -> Tensor {
        let (shape, values) = self.get(name);
        Tensor::from_slice(device, &shape[..], values)
    }
}

/// The operation a case calls.
fn operation(case: &Value) -> Operation {
    let number = |key: &str| case[key].as_f64().unwrap_or_else(|| panic!("{case}: no {key}")) as f32;
    let count = |key: &str| case[key].as_u64().unwrap_or_else(|| panic!("{case}: no {key}")) as usize;
    let counts = |key: &str| -> Vec<usize> {
        case[key].as_array().expect("a list").iter().map(|n| n.as_u64().expect("a count") as usize).collect()
    };
    match case["op"].as_str().expect("an operation") {
        "conv2d" => Operation::Conv2d,
        "conv2d_relu" => Operation::Conv2dRelu,
        "conv2d_add_relu" => Operation::Conv2dAddRelu,
        "group_norm" => Operation::GroupNorm { groups: count("groups"), epsilon: number("epsilon") },
        "group_norm_relu" => Operation::GroupNormRelu { groups: count("groups"), epsilon: number("epsilon") },
        "group_norm_add_relu" => {
            Operation::GroupNormAddRelu { groups: count("groups"), epsilon: number("epsilon") }
        }
        "batch_norm" => Operation::BatchNorm { epsilon: number("epsilon") },
        "batch_norm_by" => Operation::BatchNormBy { epsilon: number("epsilon") },
        "l2_normalise" => Operation::L2Normalise,
        "resize_bilinear" => Operation::ResizeBilinear {
            height: count("height"),
            width: count("width"),
            corners: match case["corners"].as_str() {
                Some("aligned") => Corners::Aligned,
                Some("half_pixel") => Corners::HalfPixel,
                other => panic!("corners {other:?}"),
            },
        },
        "concat_channels" => Operation::ConcatChannels,
        "gather_rows" => Operation::GatherRows { indices: counts("indices") },
        "reshape" => Operation::Reshape { shape: counts("shape") },
        "linear" => Operation::Linear,
        "matmul" => Operation::Matmul,
        "transpose" => Operation::Transpose,
        "batched_matmul" => Operation::BatchedMatmul { batch: count("batch") },
        "batched_inner_products" => Operation::BatchedInnerProducts { batch: count("batch") },
        "add_sample_bias" => Operation::AddSampleBias,
        "add_sample_bias_relu" => Operation::AddSampleBiasRelu,
        "softmax" => Operation::Softmax,
        "cross_entropy" => Operation::CrossEntropy { classes: counts("classes") },
        "cross_entropy_soft" => Operation::CrossEntropySoft,
        "bce_with_logits" => Operation::BceWithLogits,
        "squared_error" => Operation::SquaredError,
        "sum" => Operation::Sum,
        "mean" => Operation::Mean,
        "sum_rows" => Operation::SumRows,
        "global_average_pool" => Operation::GlobalAveragePool,
        "broadcast_rows" => Operation::BroadcastRows { shape: counts("shape") },
        "broadcast_pixels" => Operation::BroadcastPixels { height: count("height"), width: count("width") },
        "add" => Operation::Add,
        "sub" => Operation::Sub,
        "mul" => Operation::Mul,
        "div" => Operation::Div,
        "scale" => Operation::Scale { factor: number("factor") },
        "add_scalar" => Operation::AddScalar { value: number("value") },
        "exp" => Operation::Exp,
        "ln" => Operation::Ln,
        "sigmoid" => Operation::Sigmoid,
        "relu" => Operation::Relu,
        "straight_through" => Operation::StraightThrough,
        "stop_gradient" => Operation::StopGradient,
        other => panic!("a golden case of the unknown operation {other}"),
    }
}

#[test]
fn every_operation_follows_pytorch() {
    let golden = Golden::read();
    let mut seen = BTreeSet::new();
    for (name, case) in golden.cases.iter().filter(|(_, case)| case.get("op").is_some()) {
        let operation = operation(case);
        seen.insert(case["op"].as_str().unwrap().to_string());
        let operands: Vec<_> =
            (0..).map_while(|i| golden.tensors.get(&format!("{name}/{i}")).cloned()).collect();
        let (out_shape, _) = golden.get(&format!("{name}/out"));
        let (_, seed) = golden.get(&format!("{name}/seed"));
        for isa in Isa::available() {
            let (shape, out, gradients) = operation.run(&Device::cpu_with(isa), &operands, |_| seed.clone());
            let what = format!("{name} on {isa:?}");
            assert_eq!(shape[..], out_shape[..], "{what}: shape of the output");
            assert_close(&what, &out, &golden.exact(&format!("{name}/out")), VALUES, SMALLEST);
            for (i, gradient) in gradients.iter().enumerate() {
                let key = format!("{name}/d{i}");
                assert_eq!(
                    gradient.is_some(),
                    golden.tensors.contains_key(&key),
                    "{what}: gradient of operand {i}"
                );
                if let Some(gradient) = gradient {
                    let what = format!("{what}, gradient of operand {i}");
                    assert_close(&what, gradient, &golden.exact(&key), GRADIENTS, SMALLEST);
                }
            }
        }
    }
    // Every method of `Operation::apply`.
    assert_eq!(seen.len(), 43, "operations with golden values: {seen:?}");
}

#[test]
fn batch_statistics_are_the_biased_ones() {
    let golden = Golden::read();
    let x = golden.tensor(&Device::cpu(), "batch_norm.5x17/0");
    let exact = golden.exact("batch_norm.5x17/0");
    let (_, statistics) = Var::constant(x).batch_norm(1e-5);
    let mean: Vec<f64> = (0..17).map(|f| (0..5).map(|i| exact[i * 17 + f]).sum::<f64>() / 5.0).collect();
    let variance: Vec<f64> =
        (0..17).map(|f| (0..5).map(|i| (exact[i * 17 + f] - mean[f]).powi(2)).sum::<f64>() / 5.0).collect();
    assert_close("mean", &statistics.mean.to_vec(), &mean, VALUES, SMALLEST);
    assert_close("variance", &statistics.variance.to_vec(), &variance, VALUES, SMALLEST);
}

#[test]
fn adam_follows_adamw_with_clipping() {
    let golden = Golden::read();
    let case = &golden.cases["adam"];
    let number = |key: &str| case[key].as_f64().unwrap() as f32;
    for isa in Isa::available() {
        let device = Device::cpu_with(isa);
        let mut parameters = Parameters::new();
        let ids = [0, 1].map(|i| {
            let start = golden.tensor(&device, &format!("adam/{i}"));
            parameters.add_to_group(format!("{i}"), start, i)
        });
        let groups =
            vec![Group::default(), Group { rate: number("group_rate"), weight_decay: number("decay") }];
        let options = AdamOptions { clip_norm: Some(number("clip")), groups, ..AdamOptions::default() };
        let mut adam = Adam::new(&parameters, options);
        let norms = golden.exact("adam/norms");
        let clipped = norms.iter().filter(|&&norm| norm > f64::from(number("clip"))).count();
        assert!(clipped > 0 && clipped < norms.len(), "clipping acts in some steps: {norms:?}");
        for step in 0..case["steps"].as_u64().unwrap() as usize {
            let tape = Tape::recording(&parameters);
            // The gradient of Σ g · p is g.
            let terms = [0, 1].map(|i| {
                let gradient = golden.tensor(&device, &format!("adam/gradient{step}.{i}"));
                tape.get(ids[i]).mul(&Var::constant(gradient)).sum()
            });
            let gradients = tape.backward(&terms[0].add(&terms[1]));
            let Stepped::Moved { gradient_norm } = adam.step(&mut parameters, &gradients, number("rate"))
            else {
                panic!("step {step} did not move");
            };
            assert_close("norm", &[gradient_norm], &[norms[step]], VALUES, SMALLEST);
            for i in [0, 1] {
                let found = parameters.get(ids[i]).tensor().to_vec();
                let what = format!("group {i} after step {step} on {isa:?}");
                assert_close(
                    &what,
                    &found,
                    &golden.exact(&format!("adam/after{step}.{i}")),
                    VALUES,
                    SMALLEST,
                );
            }
        }
    }
}

/// The residual U-Net of `reference/engine.py`: its loss on the golden batch.
fn unet_loss(golden: &Golden, parameters: &Parameters, tape: &Tape) -> Var {
    let p = |name: &str| tape.get(parameters.find(name).unwrap_or_else(|| panic!("no parameter {name}")));
    let device = p("in.weight").device();
    let constant = |name: &str| Var::constant(golden.tensor(&device, &format!("unet/{name}")));
    let image = constant("image");
    let [_, h, w, _] = image.shape()[..] else { panic!("an image of shape {}", image.shape()) };
    let block = |x: &Var, name: &str| {
        x.conv2d(&p(&format!("{name}.weight")), None).group_norm_add_relu(
            4,
            &p(&format!("{name}.scale")),
            &p(&format!("{name}.shift")),
            1e-5,
            x,
        )
    };
    let fine = block(&image.conv2d_relu(&p("in.weight"), Some(&p("in.bias"))), "block");
    let coarse = fine.resize_bilinear(h.div_ceil(2), w.div_ceil(2), Corners::HalfPixel);
    let coarse = block(&coarse.conv2d_relu(&p("down.weight"), Some(&p("down.bias"))), "deep");
    let joined = Var::concat_channels(&[&coarse.resize_bilinear(h, w, Corners::HalfPixel), &fine]);
    let code = constant("code").linear(&p("code.weight"), &p("code.bias"));
    let features = joined.conv2d(&p("up.weight"), Some(&p("up.bias"))).add_sample_bias_relu(&code);
    let logits = features.conv2d(&p("out.weight"), Some(&p("out.bias")));
    logits.bce_with_logits(constant("target").tensor()).mean()
}

#[test]
fn training_a_small_residual_unet_follows_pytorch() {
    let golden = Golden::read();
    let case = &golden.cases["unet"];
    let names: Vec<&str> =
        case["parameters"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    let losses = golden.exact("unet/losses");
    for isa in Isa::available() {
        let device = Device::cpu_with(isa);
        let mut parameters = Parameters::new();
        for name in &names {
            parameters.add(*name, golden.tensor(&device, &format!("unet/{name}")));
        }
        let mut adam = Adam::new(&parameters, AdamOptions::default());
        for (step, &golden_loss) in losses.iter().enumerate() {
            let tape = Tape::recording(&parameters);
            let loss = unet_loss(&golden, &parameters, &tape);
            assert_close(
                &format!("loss {step} on {isa:?}"),
                &[loss.item()],
                &[golden_loss],
                VALUES,
                SMALLEST,
            );
            let gradients = tape.backward(&loss);
            if step == 0 {
                for (id, name) in parameters.ids().zip(&names) {
                    let found = gradients.get(id).expect("a gradient for every parameter").to_vec();
                    let exact = golden.exact(&format!("unet/d.{name}"));
                    assert_close(&format!("gradient of {name} on {isa:?}"), &found, &exact, GRADIENTS, 0.0);
                }
            }
            adam.step(&mut parameters, &gradients, case["rate"].as_f64().unwrap() as f32);
        }
        for parameter in parameters.iter() {
            let name = parameter.name();
            let exact = golden.exact(&format!("unet/after.{name}"));
            let what = format!("{name} after {} steps on {isa:?}", losses.len());
            assert_close(&what, &parameter.tensor().to_vec(), &exact, GRADIENTS, SMALLEST);
        }
    }
}
