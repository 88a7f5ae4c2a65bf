//! Parameters and optimiser state as safetensors files: no code in them, readable everywhere.
//!
//! A model file holds one tensor per parameter, under its name: f32 in checkpoints, f16 for most of them in
//! models that are handed on. An optimiser file holds `NAME.m` and `NAME.v` per trained parameter, and the
//! step count as the text `adam_steps` in its metadata. Values that are no finite numbers are refused: a model
//! would compute with them, and nothing it says could be trusted.

#[cfg(test)]
mod tests;

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
