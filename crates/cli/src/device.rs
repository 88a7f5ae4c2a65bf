//! Which device computes: what the user asked for, or a sentence why it cannot be had.

use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;

use multivalued_engine::{Device, DeviceError, Precision};

use crate::exit::{Failure, Outcome};
use crate::terminal::complain;

/// Within this time it is known whether a driver and a GPU are there at all.
const SOON: Duration = Duration::from_millis(100);

/// As `--device` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The fastest there is: the GPU of this number, else the first one, else the processor.
    Auto(usize),
    /// The processor.
    Cpu,
    /// An NVIDIA GPU by its number.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto(0)),
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
    /// The same for one of several processes on this machine: each has a GPU of its own, where there are as many.
    pub fn of_rank(self, local: usize) -> Self {
        if self == Self::Auto(0) { Self::Auto(local) } else { self }
    }

    /// The device, a GPU with the given precision. Only `auto` may end at another device than the one
    /// that was named, and says which.
    pub fn open(self, precision: impl Into<Precision>) -> Outcome<Device> {
        match self {
            Self::Cpu => Ok(Device::cpu()),
            Self::Cuda(number) => Device::cuda(number, precision.into())
                .map_err(|error| Failure::NoDevice(format!("--device cuda:{number}: {error}"))),
            Self::Auto(number) => {
                let precision = precision.into();
                let opened = Device::cuda(number, precision);
                let opened = if number > 0 { opened.or_else(|_| Device::cuda(0, precision)) } else { opened };
                match &opened {
                    Ok(device) => complain(&format!("computing on {}", description(device))),
                    // Without a driver nobody expects a GPU; with one, what is missing is worth a line.
                    Err(error) if !is_without_driver(error) => {
                        complain(&format!("computing on the processor: {error}"));
                    }
                    Err(_) => {}
                }
                Ok(opened.unwrap_or_else(|_| Device::cpu()))
            }
        }
    }

    /// The device for a trained model: what a GPU rounds is far below what a mask shows.
    pub fn open_to_predict(self) -> Outcome<Device> {
        self.open(Precision::Tf32)
    }

    /// The same beside other work. What is missing is mostly known at once, and told before that work begins.
    pub fn begin_to_predict(self) -> Outcome<Opening> {
        let (send, waiting) = mpsc::channel();
        std::thread::spawn(move || send.send(self.open_to_predict()));
        let opened = waiting.recv_timeout(SOON).ok().transpose()?;
        Ok(Opening { opened, waiting })
    }
}

/// A device that is being opened: compiling a GPU's kernels takes seconds.
pub struct Opening {
    opened: Option<Device>,
    waiting: mpsc::Receiver<Outcome<Device>>,
}

impl Opening {
    /// The device, once it is open.
    pub fn device(mut self) -> Outcome<Device> {
        match self.opened.take() {
            Some(device) => Ok(device),
            None => self.waiting.recv().expect("a thread that says how it ended"),
        }
    }
}

impl Drop for Opening {
    /// A program must not end while NVIDIA's compiler is at work in it. Of a thread that has ended nobody waits.
    fn drop(&mut self) {
        _ = self.waiting.recv();
    }
}

fn is_without_driver(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Library { library, .. } if library.contains("libcuda"))
}

/// What computes, in words.
pub fn description(device: &Device) -> String {
    let threads = rayon::current_num_threads();
    match device {
        // The engine's own word for it: `Cpu(Avx512)`.
        Device::Cpu(cpu) => format!("{}, {threads} threads", format!("{cpu:?}").replace("Cpu(", "CPU (")),
        Device::Cuda(cuda) => format!("{cuda:?}"),
        other => format!("{other:?}"),
    }
}
