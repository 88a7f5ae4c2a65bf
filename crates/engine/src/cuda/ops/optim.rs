//! Adam over all parameters in three launches, and averages of them in one.

use super::elementwise::fill;
use super::{arg, buffer, empty, optional, wide};
use crate::cuda::{Arg, Buffer, Cuda, Element, Grid};
use crate::tensor::{OTHER_DEVICE, Tensor};

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
    let held = Buffer::new(cuda, bytes.len().div_ceil(4), Element::F32);
    cuda.upload(bytes, held.pointer());
    held
}

/// The address of a buffer that must be of this device.
fn on(cuda: &Cuda, buffer: &Buffer) -> u64 {
    assert_eq!(buffer.cuda().identity(), cuda.identity(), "{OTHER_DEVICE}");
    buffer.pointer()
}

/// The table of some parameters and the pieces of it that blocks work on, both on the GPU.
struct Work {
    table: Buffer,
    pieces: Buffer,
    count: usize,
}

impl Work {
    fn new(cuda: &Cuda, table: &[Trained]) -> Self {
        let pieces: Vec<[u32; 2]> = table
            .iter()
            .enumerate()
            .flat_map(|(i, row)| (0..(row.count as usize).div_ceil(PIECE)).map(move |p| [i as u32, p as u32]))
            .collect();
        let (count, pieces) = (pieces.len(), upload(cuda, bytemuck::cast_slice(&pieces)));
        Self { table: upload(cuda, bytemuck::cast_slice(table)), pieces, count }
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.table.arg(), self.pieces.arg()]
    }

    fn grid(&self) -> Grid {
        Grid::blocks(self.count, 1, 1)
    }
}

/// Moves the parameters, and gives the norm of all gradients, or a loss that is not finite; where what it
/// gives is not finite, nothing moves.
pub(crate) fn adam(cuda: &Cuda, updates: Vec<Update>, step: &Step, loss: Option<&Tensor>) -> Tensor {
    let norm = empty(cuda, [], Element::F32);
    if updates.is_empty() {
        fill(&norm, 0.0);
        return norm;
    }
    let loss = loss.map(wide);
    let mut gradients = Vec::with_capacity(updates.len());
    let mut table = Vec::with_capacity(updates.len());
    for Update { value, moments: [m, v], gradient, rate, decay } in updates {
        let (gradient, count) = (wide(gradient), value.shape().volume() as i64);
        let [value, m, v] = [value, m, v].map(|tensor| on(cuda, tensor.gpu_mut()));
        table.push(Trained { value, m, v, gradient: on(cuda, buffer(&gradient)), count, rate, decay });
        gradients.push(gradient);
    }
    let work = Work::new(cuda, &table);
    let partial = empty(cuda, [work.count], Element::F32);
    cuda.launch("gradient_squares", work.grid(), &[work.args(), vec![arg(&partial)]].concat());
    let args = [arg(&partial), arg(&norm), Arg::size(work.count), optional(loss.as_ref())];
    cuda.launch("gradient_norm", Grid::blocks(1, 1, 1), &args);
    let mut args = work.args();
    args.push(arg(&norm));
    args.extend([step.most, step.beta1, step.beta2].map(Arg::Float));
    args.extend([step.epsilon, step.correction1, step.correction2].map(Arg::Float));
    cuda.launch("adam", work.grid(), &args);
    norm
}

/// a ← a + share · (b − a), for all pairs at once.
pub(crate) fn lerp(pairs: Vec<(&mut Tensor, &Tensor)>, share: f32) {
    let mut table = Vec::with_capacity(pairs.len());
    let mut cuda = None;
    for (a, b) in pairs {
        let (count, held) = (a.shape().volume() as i64, a.gpu_mut());
        let cuda = cuda.get_or_insert_with(|| held.cuda().clone());
        let (value, gradient) = (on(cuda, held), on(cuda, buffer(b)));
        table.push(Trained { value, m: 0, v: 0, gradient, count, rate: 0.0, decay: 0.0 });
    }
    let Some(cuda) = cuda else { return };
    let work = Work::new(&cuda, &table);
    cuda.launch("lerp", work.grid(), &[work.args(), vec![Arg::Float(share)]].concat());
}
