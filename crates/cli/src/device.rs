//! Which device computes: what the user asked for, or a sentence why it cannot be had.

use std::str::FromStr;

use multivalued_engine::Device;

use crate::exit::{Failure, Outcome};

/// As `--device` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The fastest there is.
    Auto,
    /// The processor.
    Cpu,
    /// An NVIDIA GPU by its number.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            other => other
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| "choose auto, cpu or cuda:N".to_owned()),
        }
    }
}

impl DeviceChoice {
    /// The device. Only `auto` may end at another device than the one that was named.
    pub fn open(self) -> Outcome<Device> {
        match self {
            Self::Auto | Self::Cpu => Ok(Device::cpu()),
            Self::Cuda(number) => Err(Failure::user(
                format!("--device cuda:{number}"),
                "this build has no CUDA support; use --device cpu, or auto for the fastest there is",
            )),
        }
    }
}

/// What computes, in words.
pub fn description(device: &Device) -> String {
    let threads = rayon::current_num_threads();
    match device {
        // The engine's own word for it: `Cpu(Avx512)`.
        Device::Cpu(cpu) => format!("{}, {threads} threads", format!("{cpu:?}").replace("Cpu(", "CPU (")),
        other => format!("{other:?}"),
    }
}
