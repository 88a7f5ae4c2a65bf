//! Channel concat and chosen rows.

use super::{arg, buffer, converted, element, empty, vector};
use crate::cuda::{Arg, Buffer, Cuda, Element, Grid};
use crate::tape::Var;
use crate::tensor::Tensor;

/// Copies `count` channels of each pixel from place `from_at` to place `to_at`.
fn copy(from: &Tensor, from_at: usize, to: &Tensor, to_at: usize, count: usize) {
    let (from_width, to_width) = (from.shape().last(), to.shape().last());
    let v = [from_at, to_at, count, from_width, to_width].into_iter().map(vector).min().unwrap_or(1);
    let pixels = from.shape().volume() / from_width.max(1);
    let kernel = format!("copy_channels<{}, {v}>", element(from).name());
    let mut args = vec![arg(from), arg(to), Arg::count(pixels)];
    args.extend([count, from_width, from_at, to_width, to_at].map(Arg::size));
    buffer(from).cuda().launch(&kernel, Grid::over(pixels * count / v), &args);
}

pub(crate) fn concat(images: &[&Var], counts: Vec<usize>, shape: [usize; 4]) -> Var {
    let cuda = buffer(images[0].tensor()).cuda();
    let same = images.iter().all(|image| element(image.tensor()) == element(images[0].tensor()));
    let common = if same { element(images[0].tensor()) } else { Element::F32 };
    let [batch, height, width, _] = shape;
    let out = empty(cuda, shape, common);
    let mut at = 0;
    for (image, &count) in images.iter().zip(&counts) {
        copy(&converted(image.tensor(), common), 0, &out, at, count);
        at += count;
    }
    let targets: Vec<_> = images.iter().map(|image| (image.target(), element(image.tensor()))).collect();
    Var::record(images, out, move |dy, flow| {
        let mut at = 0;
        for ((target, to), count) in targets.into_iter().zip(counts) {
            flow.add(target, || {
                let dx = empty(buffer(&dy).cuda(), [batch, height, width, count], element(&dy));
                copy(&dy, at, &dx, 0, count);
                converted(&dx, to)
            });
            at += count;
        }
    })
}

fn upload_indices(cuda: &Cuda, indices: &[usize]) -> Buffer {
    let indices: Vec<u32> =
        indices.iter().map(|&index| u32::try_from(index).expect("a row below 2³²")).collect();
    let buffer = Buffer::new(cuda, indices.len().max(1), Element::F32);
    cuda.upload(bytemuck::cast_slice(&indices), buffer.pointer());
    buffer
}

pub(crate) fn gather_rows(x: &Var, indices: &[usize], size: usize, out_shape: &[usize]) -> Var {
    let cuda = buffer(x.tensor()).cuda();
    let (to, taken) = (element(x.tensor()), indices.len());
    let out = empty(cuda, out_shape, to);
    let indices = upload_indices(cuda, indices);
    let kernel = format!("gather_rows<{}>", to.name());
    let args = [arg(x.tensor()), indices.arg(), arg(&out), Arg::count(taken), Arg::count(size)];
    cuda.launch(&kernel, Grid::over(taken * size), &args);
    let (to_x, shape) = (x.target(), x.shape());
    Var::record(&[x], out, move |dy, flow| {
        flow.add(to_x, || {
            let dy = converted(&dy, to);
            let cuda = buffer(&dy).cuda();
            let dx = empty(cuda, shape, to);
            let kernel = format!("gather_rows_backward<{}>", to.name());
            let (rows, size) = (Arg::count(shape[0]), Arg::count(size));
            let args = [arg(&dy), indices.arg(), arg(&dx), Arg::size(taken), rows, size];
            cuda.launch(&kernel, Grid::over(shape.volume()), &args);
            dx
        });
    })
}
