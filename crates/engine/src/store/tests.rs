//! Round trips, and files that are refused.

use super::*;
use crate::{AdamOptions, Device, Tape};

fn model() -> Parameters {
    let device = Device::cpu();
    let mut parameters = Parameters::new();
    parameters.add("a.weight", Tensor::from_slice(&device, [2, 2], &[1.0, -2.0, 3.5, f32::MIN_POSITIVE]));
    parameters.add_state("codes", Tensor::from_slice(&device, [3], &[0.1, 0.2, 0.3]));
    parameters
}

fn file(tensors: &[(&str, Dtype, &[usize], &[u8])]) -> Vec<u8> {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        (name.to_string(), TensorView::new(*dtype, shape.to_vec(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

#[test]
fn values_survive_a_round_trip_bit_for_bit() {
    let saved = model();
    let bytes = saved.to_safetensors(HashMap::from([("format".into(), "1".into())]));
    let mut loaded = model();
    for id in loaded.ids() {
        loaded.modify(id, |values| values.fill(9.0));
    }
    loaded.load_safetensors(&bytes).unwrap();
    for (a, b) in saved.iter().zip(loaded.iter()) {
        assert_eq!(a.tensor().to_vec(), b.tensor().to_vec(), "{}", a.name());
    }
    assert_eq!(read_metadata(&bytes).unwrap()["format"], "1");
}

/// One parameter with these values, through an f16 file and back.
fn through_f16(values: &[f32]) -> Result<Vec<f32>, StoreError> {
    let mut parameters = Parameters::new();
    let id = parameters.add("w", Tensor::from_slice(&Device::cpu(), [values.len()], values));
    let bytes = parameters.to_safetensors_f16(|_| false, HashMap::new())?;
    parameters.modify(id, |values| values.fill(9.0));
    parameters.load_safetensors(&bytes)?;
    Ok(parameters.get(id).tensor().to_vec())
}

#[test]
fn f16_rounds_to_the_nearest_and_ties_to_even() {
    let step = 2f32.powi(-10); // between two f16 from 1 to 2
    let least = 2f32.powi(-24); // the smallest subnormal
    for (value, stored) in [
        (1.0, 1.0),
        (-2.5, -2.5),
        (0.0, 0.0),
        (1.0 + 0.49 * step, 1.0),
        (1.0 + 0.51 * step, 1.0 + step),
        (1.0 + 0.5 * step, 1.0),
        (1.0 + 1.5 * step, 1.0 + 2.0 * step),
        (-(1.0 + 1.5 * step), -(1.0 + 2.0 * step)),
        (65504.0, 65504.0),
        (65519.9, 65504.0),
        (least, least),
        (3.0 * least, 3.0 * least),
        (2.5 * least, 2.0 * least),
        (3.5 * least, 4.0 * least),
        (0.5 * least, 0.0),
        (0.51 * least, least),
        (f32::MIN_POSITIVE, 0.0),
        (2f32.powi(-14) - least, 2f32.powi(-14) - least),
    ] {
        assert_eq!(through_f16(&[value]).unwrap(), [stored], "{value}");
    }
    assert_eq!(through_f16(&[-0.0]).unwrap()[0].to_bits(), (-0.0f32).to_bits());
}

#[test]
fn what_f16_cannot_hold_is_refused_by_name() {
    for value in [65520.0, -1e5, f32::MAX, f32::INFINITY, f32::NAN] {
        let error = through_f16(&[1.0, value, 70000.0]).unwrap_err();
        assert!(matches!(&error, StoreError::Overflow { name, .. } if name == "w"), "{error:?}");
        assert!(error.to_string().contains(&format!("tensor `w` holds {value}")), "{error}");
    }
}

#[test]
fn every_f16_survives_and_a_file_takes_half_the_space() {
    let all: Vec<f32> =
        (0..=u16::MAX).map(f16::from_bits).filter(|h| h.is_finite()).map(f16::to_f32).collect();
    let back = through_f16(&all).unwrap();
    assert!(all.iter().zip(&back).all(|(a, b)| a.to_bits() == b.to_bits()));
    let mut parameters = Parameters::new();
    parameters.add("w", Tensor::zeros(&Device::cpu(), [1000]));
    let size = |bytes: Vec<u8>| bytes.len();
    let whole = size(parameters.to_safetensors(HashMap::new()));
    let half = size(parameters.to_safetensors_f16(|_| false, HashMap::new()).unwrap());
    assert!(whole - half >= 1990, "{whole} and {half} bytes");
}

#[test]
fn the_optimiser_survives_a_round_trip() {
    let mut parameters = model();
    let mut adam = Adam::new(&parameters, AdamOptions::default());
    let id = parameters.find("a.weight").unwrap();
    let step = |adam: &mut Adam, parameters: &mut Parameters| {
        let tape = Tape::recording(parameters);
        let loss = tape.get(id).mul(&tape.get(id)).sum();
        let gradients = tape.backward(&loss);
        adam.step(parameters, &gradients, 0.01);
    };
    step(&mut adam, &mut parameters);
    let (model_file, adam_file) =
        (parameters.to_safetensors(HashMap::new()), adam.to_safetensors(&parameters));
    step(&mut adam, &mut parameters);

    let mut resumed = model();
    resumed.load_safetensors(&model_file).unwrap();
    let mut resumed_adam = Adam::new(&resumed, AdamOptions::default());
    resumed_adam.load_safetensors(&resumed, &adam_file).unwrap();
    step(&mut resumed_adam, &mut resumed);
    assert_eq!(resumed.get(id).tensor().to_vec(), parameters.get(id).tensor().to_vec());
    assert_eq!(resumed_adam.steps(), 2);
}

#[test]
fn wrong_files_are_refused_with_the_tensors_name_and_change_nothing() {
    let f = |n: usize| vec![0u8; 4 * n];
    let codes: (&str, Dtype, &[usize], &[u8]) = ("codes", Dtype::F32, &[3], &f(3));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (file(&[codes]), "tensor `a.weight` is missing; the file holds `codes`"),
        (
            file(&[codes, ("a.weight", Dtype::BF16, &[2, 2], &f(2))]),
            "tensor `a.weight` holds BF16, not F32 or F16",
        ),
        (
            file(&[codes, ("a.weight", Dtype::F32, &[4], &f(4))]),
            "tensor `a.weight` has shape [4], the model needs [2, 2]",
        ),
        (
            file(&[codes, ("a.weight", Dtype::F32, &[2, 2], &f(4)), ("b", Dtype::F32, &[1], &f(1))]),
            "tensor `b` does not belong to this model",
        ),
    ];
    for (bytes, message) in cases {
        let mut parameters = model();
        assert_eq!(parameters.load_safetensors(&bytes).unwrap_err().to_string(), message);
        assert_eq!(
            parameters.iter().next().unwrap().tensor().to_vec(),
            model().iter().next().unwrap().tensor().to_vec()
        );
    }
}

#[test]
fn tensors_that_stay_in_f32_are_kept_to_the_bit() {
    let bytes = model().to_safetensors_f16(|name| name == "codes", HashMap::new()).unwrap();
    assert!(bytes.len() as u64 <= model().most_file_bytes());
    let mut loaded = model();
    loaded.load_safetensors(&bytes).unwrap();
    let values: Vec<Vec<f32>> = loaded.iter().map(|parameter| parameter.tensor().to_vec()).collect();
    assert_eq!(values, [vec![1.0, -2.0, 3.5, 0.0], vec![0.1, 0.2, 0.3]]);
}

#[test]
fn values_that_are_no_numbers_are_refused_by_tensor_and_change_nothing() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut damaged = model();
        let id = damaged.find("codes").unwrap();
        damaged.modify(id, |values| values[1] = value);
        let bytes = damaged.to_safetensors(HashMap::new());
        let half = file(&[
            ("a.weight", Dtype::F32, &[2, 2], &[0; 16]),
            ("codes", Dtype::F16, &[3], &[[0; 2], f16::from_f32(value).to_le_bytes(), [0; 2]].concat()),
        ]);
        for bytes in [bytes, half] {
            let mut parameters = model();
            let error = parameters.load_safetensors(&bytes).unwrap_err().to_string();
            assert!(error.starts_with(&format!("tensor `codes` holds {value}")), "{error}");
            assert_eq!(parameters.get(id).tensor().to_vec(), [0.1, 0.2, 0.3]);
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = model().to_safetensors(HashMap::new());
    for len in 0..bytes.len() {
        let error = model().load_safetensors(&bytes[..len]).unwrap_err();
        assert!(matches!(error, StoreError::Format(_)), "{len} of {} bytes: {error}", bytes.len());
    }
}
