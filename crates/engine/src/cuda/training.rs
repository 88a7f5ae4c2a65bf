//! Adam over all parameters in three launches, and averages of them in one.

use super::tensors::{arg, buffer, optional};
use super::{Arg, Buffer, Cuda, Grid};
use crate::backend::{AdamStep, Element, Memory, Training, Update};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Values that one block updates; the kernels are compiled with it.
pub(super) const PIECE: usize = 16384;

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
        let [pieces_bytes, table_bytes] = [bytemuck::cast_slice(&pieces), bytemuck::cast_slice(table)];
        let [held_pieces, table] = [pieces_bytes, table_bytes].map(|bytes| Buffer::upload(cuda, bytes));
        Self { table, pieces: held_pieces, count: pieces.len() }
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.table.arg(), self.pieces.arg()]
    }

    fn grid(&self) -> Grid {
        Grid::blocks(self.count, 1, 1)
    }
}

impl Training for Cuda {
    fn adam(&self, updates: Vec<Update>, step: &AdamStep, loss: Option<&Tensor>) -> Tensor {
        if updates.is_empty() {
            return self.full(Shape::from([]), 0.0);
        }
        let norm = self.floats([]);
        let loss = loss.map(|loss| self.cast(loss.clone(), Element::F32));
        let mut gradients = Vec::with_capacity(updates.len());
        let mut table = Vec::with_capacity(updates.len());
        for Update { value, moments: [m, v], gradient, rate, decay } in updates {
            let gradient = self.cast(gradient.clone(), Element::F32);
            let count = value.shape().volume() as i64;
            let [value, m, v] = [value, m, v].map(|tensor| self.own(tensor.gpu_mut()));
            table.push(Trained { value, m, v, gradient: self.own(buffer(&gradient)), count, rate, decay });
            gradients.push(gradient);
        }
        let work = Work::new(self, &table);
        let partial = self.floats([work.count]);
        self.launch("gradient_squares", work.grid(), &[work.args(), vec![arg(&partial)]].concat());
        let args = [arg(&partial), arg(&norm), Arg::size(work.count), optional(loss.as_ref())];
        self.launch("gradient_norm", Grid::blocks(1, 1, 1), &args);
        let mut args = work.args();
        args.push(arg(&norm));
        args.extend([step.max_norm, step.beta1, step.beta2, step.epsilon].map(Arg::Float));
        args.extend(step.corrections.map(Arg::Float));
        self.launch("adam", work.grid(), &args);
        norm
    }

    fn lerp(&self, pairs: Vec<(&mut Tensor, &Tensor)>, share: f32) {
        let row = |(a, b): (&mut Tensor, &Tensor)| {
            let count = a.shape().volume() as i64;
            let (value, gradient) = (self.own(a.gpu_mut()), self.own(buffer(b)));
            Trained { value, m: 0, v: 0, gradient, count, rate: 0.0, decay: 0.0 }
        };
        let table: Vec<Trained> = pairs.into_iter().map(row).collect();
        let work = Work::new(self, &table);
        self.launch("lerp", work.grid(), &[work.args(), vec![Arg::Float(share)]].concat());
    }
}
