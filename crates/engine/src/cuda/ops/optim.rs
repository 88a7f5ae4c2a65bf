//! Adam over all parameters in three launches.

use super::{arg, empty, wide};
use crate::cuda::{Arg, Buffer, Cuda, Element, Grid};
use crate::tensor::Tensor;

/// Values that one block updates; the kernel's `PIECE`.
const PIECE: usize = 16384;

/// A parameter's row in the kernel's table.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Trained {
    value: u64,
    m: u64,
    v: u64,
    gradient: u64,
    count: i64,
    rate: f32,
    decay: f32,
}

/// One parameter of an update, with its moments and what its group says.
pub(crate) struct Update<'a> {
    pub value: &'a mut Tensor,
    pub moments: &'a mut [Tensor; 2],
    pub gradient: &'a Tensor,
    pub rate: f32,
    pub decay: f32,
}

/// What all parameters share in a step.
pub(crate) struct Step {
    /// The largest norm that is not clipped.
    pub most: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    pub correction1: f32,
    pub correction2: f32,
}

fn upload(cuda: &Cuda, bytes: &[u8]) -> Buffer {
    let buffer = Buffer::new(cuda, bytes.len().div_ceil(4), Element::F32);
    cuda.upload(bytes, buffer.pointer());
    buffer
}

/// Moves the parameters, and gives the norm of all gradients; where it is not finite, nothing moved.
pub(crate) fn adam(cuda: &Cuda, updates: Vec<Update>, step: &Step) -> f32 {
    let mut gradients = Vec::with_capacity(updates.len());
    let mut table = Vec::with_capacity(updates.len());
    let mut pieces: Vec<[u32; 2]> = Vec::new();
    for Update { value, moments: [m, v], gradient, rate, decay } in updates {
        let gradient = wide(gradient);
        let count = value.shape().volume();
        pieces.extend((0..count.div_ceil(PIECE)).map(|piece| [table.len() as u32, piece as u32]));
        let [value, m, v] = [value, m, v].map(|tensor| tensor.gpu_mut().pointer());
        let held = super::buffer(&gradient).pointer();
        table.push(Trained { value, m, v, gradient: held, count: count as i64, rate, decay });
        gradients.push(gradient);
    }
    if table.is_empty() {
        return 0.0;
    }
    let table = upload(cuda, bytemuck::cast_slice(&table));
    let count = pieces.len();
    let pieces = upload(cuda, bytemuck::cast_slice(&pieces));
    let partial = empty(cuda, [count], Element::F32);
    let norm = empty(cuda, [], Element::F32);
    let grid = Grid::blocks(count, 1, 1);
    cuda.launch("gradient_squares", grid, &[table.arg(), pieces.arg(), arg(&partial)]);
    cuda.launch("gradient_norm", Grid::blocks(1, 1, 1), &[arg(&partial), arg(&norm), Arg::size(count)]);
    let mut args = vec![table.arg(), pieces.arg(), arg(&norm)];
    args.extend([step.most, step.beta1, step.beta2].map(Arg::Float));
    args.extend([step.epsilon, step.correction1, step.correction2].map(Arg::Float));
    cuda.launch("adam", grid, &args);
    norm.item()
}
