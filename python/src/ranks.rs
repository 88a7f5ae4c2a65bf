//! A transport of Python's (torch.distributed, MPI) as what connects the ranks of a training.
//!
//! The values stay where they are: Python is told their address and makes an array over it, of NumPy in this machine's
//! memory, by the CUDA array interface on a GPU (`multivalued/_ranks.py`).

use multivalued::{Collective, Ranks};
use multivalued_cli::Team;
use multivalued_engine::Exposed;
use pyo3::prelude::*;

/// An object with `rank`, `size`, `local_rank` and `all_reduce(what, address, count, device, stream)`.
struct Transport {
    object: Py<PyAny>,
    rank: usize,
    size: usize,
}

impl Collective for Transport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&mut self, what: &str, values: Exposed<'_>) -> Result<(), String> {
        let (address, count, place) = match values {
            Exposed::Host(values) => (values.as_mut_ptr() as u64, values.len(), None),
            Exposed::Cuda(memory) => (memory.address, memory.count, Some((memory.device, memory.stream))),
        };
        let (device, stream) = place.unzip();
        Python::attach(|py| {
            let said = self.object.call_method1(py, "all_reduce", (what, address, count, device, stream));
            said.map(|_| ()).map_err(|error| error.value(py).to_string())
        })
    }
}

/// The ranks that a transport connects; alone without one.
pub fn team(py: Python<'_>, transport: Option<Py<PyAny>>) -> PyResult<Team> {
    let Some(object) = transport else { return Ok(Team::default()) };
    let number = |name: &str| object.getattr(py, name)?.extract::<usize>(py);
    let (rank, size, local) = (number("rank")?, number("size")?, number("local_rank")?);
    Ok(Team::new(Ranks::of(Transport { object, rank, size }), local))
}
