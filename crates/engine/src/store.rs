//! Parameters and optimiser state as safetensors files: no code in them, readable everywhere.
//!
//! A model file holds one tensor per parameter, under its name: f32 in checkpoints, f16 for most of them in
//! models that are handed on. An optimiser file holds `NAME.m` and `NAME.v` per trained parameter, and the
//! step count as the text `adam_steps` in its metadata. Values that are no finite numbers are refused: a model
//! would compute with them, and nothing it says could be trusted.

use crate::optim::Adam;
use crate::parameters::{Parameter, Parameters};
use crate::tensor::Tensor;
use half::f16;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::collections::HashMap;

/// Why a file was refused.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum StoreError {
    /// Not a safetensors file, or a torn one.
    #[error("not a complete safetensors file: {0}")]
    Format(String),
    /// A tensor the model needs is not there.
    #[error("tensor `{name}` is missing; the file holds {held}")]
    Missing {
        /// The tensor's name.
        name: String,
        /// Some names the file does hold.
        held: String,
    },
    /// A tensor the model does not know.
    #[error("tensor `{name}` does not belong to this model")]
    Unexpected {
        /// The tensor's name.
        name: String,
    },
    /// A tensor of another type.
    #[error("tensor `{name}` holds {found}, not F32 or F16")]
    Type {
        /// The tensor's name.
        name: String,
        /// The type in the file.
        found: String,
    },
    /// A tensor of another shape.
    #[error("tensor `{name}` has shape {found:?}, the model needs {needed:?}")]
    Shape {
        /// The tensor's name.
        name: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The model's shape.
        needed: Vec<usize>,
    },
    /// A value that f16 cannot hold.
    #[error("tensor `{name}` holds {value}, which is no finite number in f16 (at most 65504)")]
    Overflow {
        /// The tensor's name.
        name: String,
        /// The first such value.
        value: f32,
    },
    /// A value in the file that is NaN or infinite.
    #[error("tensor `{name}` holds {value}, which is no finite number: the file is damaged")]
    NotFinite {
        /// The tensor's name.
        name: String,
        /// The first such value.
        value: f32,
    },
    /// The optimiser's step count is missing or not a number.
    #[error("the optimiser's step count `adam_steps` is missing or not a number")]
    Steps,
}

/// Names and values to be written.
type Named<'a> = Vec<(String, &'a Tensor)>;

fn serialise(tensors: Named, metadata: HashMap<String, String>) -> Vec<u8> {
    let stored = |(name, tensor): (String, &Tensor)| Stored {
        name,
        dtype: Dtype::F32,
        shape: tensor.shape().to_vec(),
        bytes: whole(&tensor.to_vec()),
    };
    file_of(&tensors.into_iter().map(stored).collect::<Vec<_>>(), metadata)
}

/// A tensor as it lies in a file.
struct Stored {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// A file of tensors.
fn file_of(tensors: &[Stored], metadata: HashMap<String, String>) -> Vec<u8> {
    let views = tensors.iter().map(|Stored { name, dtype, shape, bytes }| {
        let view = TensorView::new(*dtype, shape.clone(), bytes).expect("bytes made to fit the shape");
        (name, view)
    });
    safetensors::serialize(views, Some(metadata)).expect("a file of checked views")
}

/// Each value as it is.
fn whole(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The nearest f16 of each value, ties to even; a value that would become infinite is refused.
fn halved(name: &str, values: &[f32]) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(2 * values.len());
    for &value in values {
        let half = f16::from_f32(value);
        if !half.is_finite() {
            return Err(StoreError::Overflow { name: name.into(), value });
        }
        bytes.extend(half.to_le_bytes());
    }
    Ok(bytes)
}

/// Reads every named tensor of the right type and shape; nothing is changed unless all are right.
fn deserialise(bytes: &[u8], needed: &[(String, &Tensor)]) -> Result<Vec<Vec<f32>>, StoreError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| StoreError::Format(error.to_string()))?;
    let known: std::collections::HashSet<&str> = needed.iter().map(|(name, _)| name.as_str()).collect();
    let mut names: Vec<&str> = file.names().into_iter().collect();
    names.sort_unstable();
    let read = |name: &str, tensor: &Tensor| {
        let view = file.tensor(name).map_err(|_| {
            let mut held =
                names.iter().take(5).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            if names.len() > 5 {
                held += &format!(" and {} more", names.len() - 5);
            }
            StoreError::Missing {
                name: name.into(),
                held: if held.is_empty() { "none".into() } else { held },
            }
        })?;
        if view.shape() != &*tensor.shape() {
            let (found, needed) = (view.shape().to_vec(), tensor.shape().to_vec());
            return Err(StoreError::Shape { name: name.into(), found, needed });
        }
        let values: Vec<f32> = match view.dtype() {
            Dtype::F32 => {
                let value = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                view.data().chunks_exact(4).map(value).collect()
            }
            Dtype::F16 => {
                let value = |bytes: &[u8]| f16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
                view.data().chunks_exact(2).map(value).collect()
            }
            other => return Err(StoreError::Type { name: name.into(), found: format!("{other:?}") }),
        };
        match values.iter().find(|value| !value.is_finite()) {
            Some(&value) => Err(StoreError::NotFinite { name: name.into(), value }),
            None => Ok(values),
        }
    };
    let values = needed.iter().map(|(name, tensor)| read(name, tensor)).collect::<Result<_, _>>()?;
    match names.iter().find(|name| !known.contains(*name)) {
        Some(name) => Err(StoreError::Unexpected { name: (*name).into() }),
        None => Ok(values),
    }
}

impl Parameters {
    fn named(&self) -> Named<'_> {
        self.iter().map(|parameter| (parameter.name().to_string(), parameter.tensor())).collect()
    }

    /// All parameters as a safetensors file, with free text in its metadata.
    pub fn to_safetensors(&self, metadata: HashMap<String, String>) -> Vec<u8> {
        serialise(self.named(), metadata)
    }

    /// The same in about half the space: each value becomes the nearest f16, but for the tensors whose names
    /// are to stay in f32. A value beyond f16 is refused.
    pub fn to_safetensors_f16(
        &self,
        stays_f32: impl Fn(&str) -> bool,
        metadata: HashMap<String, String>,
    ) -> Result<Vec<u8>, StoreError> {
        let tensors = self
            .named()
            .into_iter()
            .map(|(name, tensor)| {
                let (shape, values) = (tensor.shape().to_vec(), tensor.to_vec());
                let (dtype, bytes) = match stays_f32(&name) {
                    true => (Dtype::F32, whole(&values)),
                    false => (Dtype::F16, halved(&name, &values)?),
                };
                Ok(Stored { name, dtype, shape, bytes })
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        Ok(file_of(&tensors, metadata))
    }

    /// The most bytes that a safetensors file of these parameters can have, so that a larger one need not be
    /// read: four a value, and a header with a line for each tensor.
    pub fn most_file_bytes(&self) -> u64 {
        let of_tensor = |parameter: &Parameter| {
            4 * parameter.tensor().shape().volume() as u64 + parameter.name().len() as u64 + 256
        };
        self.iter().map(of_tensor).sum::<u64>() + (1 << 16)
    }

    /// Takes all values from a safetensors file that holds exactly these names and shapes, in f32 or f16.
    pub fn load_safetensors(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let values = deserialise(bytes, &self.named())?;
        for (id, values) in self.ids().zip(values) {
            self.modify(id, |target| target.copy_from_slice(&values));
        }
        Ok(())
    }
}

impl Adam {
    fn named<'a>(&'a self, parameters: &Parameters) -> Named<'a> {
        let moments = parameters.iter().zip(&self.moments);
        moments
            .filter_map(|(parameter, moments)| moments.as_ref().map(|moments| (parameter.name(), moments)))
            .flat_map(|(name, [m, v])| [(format!("{name}.m"), m), (format!("{name}.v"), v)])
            .collect()
    }

    /// The optimiser's state as a safetensors file.
    pub fn to_safetensors(&self, parameters: &Parameters) -> Vec<u8> {
        let metadata = HashMap::from([("adam_steps".to_string(), self.steps.to_string())]);
        serialise(self.named(parameters), metadata)
    }

    /// Takes the optimiser's state from a safetensors file.
    pub fn load_safetensors(&mut self, parameters: &Parameters, bytes: &[u8]) -> Result<(), StoreError> {
        let values = deserialise(bytes, &self.named(parameters))?;
        let steps = read_metadata(bytes)?.get("adam_steps").and_then(|steps| steps.parse().ok());
        self.steps = steps.ok_or(StoreError::Steps)?;
        let targets = self.moments.iter_mut().flatten().flatten();
        for (target, values) in targets.zip(values) {
            target.modify(|target| target.copy_from_slice(&values));
        }
        Ok(())
    }
}

/// The free text in a safetensors file's metadata.
pub fn read_metadata(bytes: &[u8]) -> Result<HashMap<String, String>, StoreError> {
    let (_, header) =
        SafeTensors::read_metadata(bytes).map_err(|error| StoreError::Format(error.to_string()))?;
    Ok(header.metadata().clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
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
}
