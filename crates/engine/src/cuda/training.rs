//! Adam over all parameters in four launches, and averages of them in one.

use super::memory::Parts;
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
    casts: [u64; 2],
    /// Of a convolution's weights: channels in and out.
    channels: [u32; 2],
}

/// A row of the table of sums that are still to be made.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Summed {
    partial: u64,
    out: u64,
    size: i64,
    parts: i32,
    first_block: u32,
}

/// Sums that a block adds up.
pub(super) const SUMS: usize = 128;

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

impl Cuda {
    /// Adds up all that is still to be added up of some tensors, in one launch: each of its own would take longer to
    /// start than to run.
    fn sum_all(&self, tensors: &[Tensor]) {
        let unsummed = tensors.iter().map(buffer).filter_map(|held| {
            let parts = held.take_parts()?;
            Some((parts.partial, parts.count, held.len(), self.address_of(held)))
        });
        let (kept, rows): (Vec<Buffer>, Vec<_>) = unsummed
            .map(|(partial, count, size, out)| {
                let row = (self.address_of(&partial), count, size, out);
                (partial, row)
            })
            .unzip();
        self.sum_rows(&rows);
        drop(kept);
    }

    /// Writes each tensor's values to an address, in one launch; what is still to be added up is added up there and
    /// not in the tensor, which is spent.
    pub(super) fn sum_to(&self, tensors: &[(u64, Tensor)]) {
        let mut kept = Vec::new();
        let row = |(out, tensor): &(u64, Tensor)| {
            let held = buffer(tensor);
            let (at, count) = match held.take_parts() {
                Some(parts) => {
                    let Parts { partial, count } = *parts;
                    let at = self.address_of(&partial);
                    kept.push(partial);
                    (at, count)
                }
                None => (self.address_of(held), 1),
            };
            (at, count, held.len(), *out)
        };
        let rows: Vec<_> = tensors.iter().map(row).collect();
        self.sum_rows(&rows);
    }

    /// Adds up partial sums [count, size], given by their address, count, size and the sums' own address.
    fn sum_rows(&self, rows: &[(u64, usize, usize, u64)]) {
        if rows.is_empty() {
            return;
        }
        let mut blocks = 0;
        let row = |&(partial, count, size, out): &(u64, usize, usize, u64)| {
            let first_block = blocks as u32;
            blocks += size.div_ceil(SUMS);
            Summed { partial, out, size: size as i64, parts: count as i32, first_block }
        };
        let table: Vec<Summed> = rows.iter().map(row).collect();
        let held = Buffer::upload(self, bytemuck::cast_slice(&table));
        self.launch("sum_many", Grid::blocks(blocks, 1, 1), &[held.arg(), Arg::size(table.len())]);
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
            let (count, shape) = (value.shape().volume() as i64, value.shape());
            let channels = match *shape {
                [_, _, inputs, outputs] => [inputs as u32, outputs as u32],
                _ => [1, 1],
            };
            let [m, v] = [m, v].map(|tensor| self.address_of(tensor.gpu_mut()));
            let value = value.gpu_unshared();
            let (casts, value) = (value.cast_pointers(), self.address_of(value));
            table.push(Trained { value, m, v, gradient: 0, count, rate, decay, casts, channels });
            gradients.push(gradient);
        }
        self.sum_all(&gradients);
        table
            .iter_mut()
            .zip(&gradients)
            .for_each(|(row, gradient)| row.gradient = self.address_of(buffer(gradient)));
        let work = Work::new(self, &table);
        let partial = self.floats([work.count]);
        self.launch("gradient_squares", work.grid(), &[work.args(), vec![arg(&partial)]].concat());
        let args = [arg(&partial), arg(&norm), Arg::size(work.count), optional(loss.as_ref())];
        self.launch("gradient_norm", Grid::blocks(1, 1, 1), &args);
        let mut args = work.args();
        args.push(arg(&norm));
        args.extend([step.max_norm, step.beta1, step.beta2, step.epsilon].map(Arg::Float));
        args.extend(step.corrections.map(Arg::Float));
        self.launch(&format!("adam<{}>", self.precision().name()), work.grid(), &args);
        norm
    }

    fn lerp(&self, pairs: Vec<(&mut Tensor, &Tensor)>, share: f32) {
        let row = |(a, b): (&mut Tensor, &Tensor)| {
            let count = a.shape().volume() as i64;
            let (value, gradient) = (self.address_of(a.gpu_mut()), self.address_of(buffer(b)));
            Trained { value, gradient, count, ..bytemuck::Zeroable::zeroed() }
        };
        let table: Vec<Trained> = pairs.into_iter().map(row).collect();
        let work = Work::new(self, &table);
        self.launch("lerp", work.grid(), &[work.args(), vec![Arg::Float(share)]].concat());
    }
}
