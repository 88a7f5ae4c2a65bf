//! Parameters and optimiser state as safetensors files: no code in them, readable everywhere.
//!
//! A model file holds one f32 tensor per parameter, under its name. An optimiser file holds `NAME.m`
//! and `NAME.v` per trained parameter, and the step count as the text `adam_steps` in its metadata.

use crate::optim::Adam;
use crate::parameters::Parameters;
use crate::tensor::Tensor;
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
    #[error("tensor `{name}` holds {found}, not F32")]
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
    /// The optimiser's step count is missing or not a number.
    #[error("the optimiser's step count `adam_steps` is missing or not a number")]
    Steps,
}

/// Names and values to be written.
type Named<'a> = Vec<(String, &'a Tensor)>;

fn serialise(tensors: Named, metadata: HashMap<String, String>) -> Vec<u8> {
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, tensor)| {
            let bytes = tensor.to_vec().into_iter().flat_map(|value| value.to_le_bytes()).collect();
            (name, tensor.shape().to_vec(), bytes)
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("bytes made to fit the shape");
        (name, view)
    });
    safetensors::serialize(views, Some(metadata)).expect("a file of checked views")
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
        if view.dtype() != Dtype::F32 {
            return Err(StoreError::Type { name: name.into(), found: format!("{:?}", view.dtype()) });
        }
        if view.shape() != &*tensor.shape() {
            let (found, needed) = (view.shape().to_vec(), tensor.shape().to_vec());
            return Err(StoreError::Shape { name: name.into(), found, needed });
        }
        let values = view
            .data()
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        Ok(values.collect())
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

    /// Takes all values from a safetensors file that holds exactly these names, shapes and f32.
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
                file(&[codes, ("a.weight", Dtype::F16, &[2, 2], &f(2))]),
                "tensor `a.weight` holds F16, not F32",
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
    fn every_truncation_is_refused() {
        let bytes = model().to_safetensors(HashMap::new());
        for len in 0..bytes.len() {
            let error = model().load_safetensors(&bytes[..len]).unwrap_err();
            assert!(matches!(error, StoreError::Format(_)), "{len} of {} bytes: {error}", bytes.len());
        }
    }
}
