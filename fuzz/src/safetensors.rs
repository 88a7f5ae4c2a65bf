//! Parameters and the optimiser's state.

use std::collections::HashMap;

use multivalued_engine::store::read_metadata;
use multivalued_engine::{Adam, AdamOptions, Device, Parameters, Tensor};

/// The parameters that seeds hold.
pub fn parameters() -> Parameters {
    let device = Device::cpu();
    let mut parameters = Parameters::new();
    parameters.add("a.weight", Tensor::from_slice(&device, [2, 2], &[1.0, -2.0, 3.5, 0.25]));
    parameters.add_state("codes", Tensor::from_slice(&device, [3], &[0.1, 0.2, 0.3]));
    parameters
}

/// Finite values that are written back as they were read, or a refusal that changes nothing.
pub fn check(bytes: &[u8]) {
    let _ = read_metadata(bytes);
    let mut parameters = parameters();
    let written = |parameters: &Parameters| parameters.to_safetensors(HashMap::new());
    let before = written(&parameters);
    match parameters.load_safetensors(bytes) {
        Ok(()) => {
            assert!(parameters.iter().all(|one| one.tensor().to_vec().iter().all(|value| value.is_finite())));
            let after = written(&parameters);
            parameters.load_safetensors(&after).expect("what was written is read");
            assert_eq!(written(&parameters), after);
        }
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            assert_eq!(written(&parameters), before);
        }
    }
    let mut adam = Adam::new(&parameters, AdamOptions::default());
    let before = adam.to_safetensors(&parameters);
    match adam.load_safetensors(&parameters, bytes) {
        Ok(()) => {
            let after = adam.to_safetensors(&parameters);
            adam.load_safetensors(&parameters, &after).expect("what was written is read");
        }
        Err(_) => assert_eq!(adam.to_safetensors(&parameters), before),
    }
}
