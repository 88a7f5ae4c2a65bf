//! Matrix products in f32, single and in batches, and transposition.

use super::reduce::mask_and_sum;
use super::{arg, buffer, empty, optional, sum_parts, wide};
use crate::cuda::{Arg, Element, Grid};
use crate::tape::Var;
use crate::tensor::Tensor;

/// A matrix of a batch as it enters a product: the rows and columns that are multiplied, and where they lie.
#[derive(Clone, Copy)]
struct View<'a> {
    tensor: &'a Tensor,
    /// Steps between rows and between columns.
    steps: [usize; 2],
    size: usize,
}

/// [batch·rows, columns] as it is, or each part transposed.
fn view(tensor: &Tensor, batch: usize, transposed: bool) -> View<'_> {
    let columns = tensor.shape().last();
    let steps = if transposed { [1, columns] } else { [columns, 1] };
    View { tensor, steps, size: tensor.shape().volume() / batch }
}

/// `out_n = a_n · b_n (+ bias)`, each [m, k] · [k, n].
fn multiply(a: View, b: View, bias: Option<&Tensor>, [batch, m, k, n]: [usize; 4]) -> Tensor {
    let cuda = buffer(a.tensor).cuda();
    let (down, across) = (m.div_ceil(64), n.div_ceil(64));
    let blocks = down * across * batch;
    let parts = match bias {
        None => (cuda.multiprocessors() * 2 / blocks.max(1)).min(k / 512).max(1),
        Some(_) => 1,
    };
    let out = empty(cuda, [batch * parts * m, n], Element::F32);
    let mut args = vec![arg(a.tensor), arg(b.tensor), optional(bias), arg(&out)];
    args.extend([m, n, k, parts].map(Arg::size));
    for view in [a, b] {
        args.extend([view.steps[0], view.steps[1], view.size].map(Arg::count));
    }
    cuda.launch("matmul", Grid::blocks(down, across, batch * parts), &args);
    if parts == 1 { out } else { sum_parts(&out, batch, parts, [batch * m, n], 1.0) }
}

pub(crate) fn product(x: &Var, other: &Var, bias: Option<&Var>, [m, k, n]: [usize; 3]) -> Var {
    let (a, b) = (wide(x.tensor()), wide(other.tensor()));
    let out = multiply(view(&a, 1, false), view(&b, 1, false), bias.map(Var::tensor), [1, m, k, n]);
    let (to_a, to_b, to_bias) = (x.target(), other.target(), bias.and_then(Var::target));
    let mut operands = vec![x, other];
    operands.extend(bias);
    Var::record(&operands, out, move |dy, flow| {
        let dy = wide(&dy);
        flow.add(to_a, || multiply(view(&dy, 1, false), view(&b, 1, true), None, [1, m, n, k]));
        flow.add(to_b, || multiply(view(&a, 1, true), view(&dy, 1, false), None, [1, k, m, n]));
        flow.add(to_bias, || {
            let masked = mask_and_sum(dy, None, Element::F32, n, 1, true, 1.0);
            masked.sums.expect("sums were asked for").reshaped([n])
        });
    })
}

/// [batch·m, k] · [batch·k, n] → [batch·m, n]
pub(crate) fn batched_matmul(x: &Var, other: &Var, [batch, m, k, n]: [usize; 4]) -> Var {
    let (a, b) = (wide(x.tensor()), wide(other.tensor()));
    let out = multiply(view(&a, batch, false), view(&b, batch, false), None, [batch, m, k, n]);
    let (to_a, to_b) = (x.target(), other.target());
    Var::record(&[x, other], out, move |dy, flow| {
        let dy = wide(&dy);
        flow.add(to_a, || multiply(view(&dy, batch, false), view(&b, batch, true), None, [batch, m, n, k]));
        flow.add(to_b, || multiply(view(&a, batch, true), view(&dy, batch, false), None, [batch, k, m, n]));
    })
}

/// [batch·m, k] and [batch·n, k] → [batch·m, n]
pub(crate) fn batched_inner_products(x: &Var, other: &Var, [batch, m, k, n]: [usize; 4]) -> Var {
    let (a, b) = (wide(x.tensor()), wide(other.tensor()));
    let out = multiply(view(&a, batch, false), view(&b, batch, true), None, [batch, m, k, n]);
    let (to_a, to_b) = (x.target(), other.target());
    Var::record(&[x, other], out, move |dy, flow| {
        let dy = wide(&dy);
        flow.add(to_a, || multiply(view(&dy, batch, false), view(&b, batch, false), None, [batch, m, n, k]));
        flow.add(to_b, || multiply(view(&dy, batch, true), view(&a, batch, false), None, [batch, n, m, k]));
    })
}

pub(crate) fn transposed(x: &Tensor) -> Tensor {
    let x = wide(x);
    let [rows, columns] = x.shape().matrix("transpose");
    let cuda = buffer(&x).cuda();
    let out = empty(cuda, [columns, rows], Element::F32);
    let grid = Grid { threads: [32, 8], ..Grid::blocks(columns.div_ceil(32), rows.div_ceil(32), 1) };
    cuda.launch("transpose", grid, &[arg(&x), arg(&out), Arg::size(rows), Arg::size(columns)]);
    out
}
