//! What a recorded step holds in memory, by its tape: what operations keep for the backward pass, results that are
//! still to be used, and gradients. Parameters are not counted, since they stay.
//!
//! A device holds more: what callers keep longer than operations need it, what no gradient reaches, and what is made
//! and dropped within an operation.

use super::Record;
use std::collections::{HashMap, HashSet};

/// The memory of a step before its backward pass.
pub(super) struct Plan {
    /// By place: bytes of the tensors that the operation is the first to keep.
    pub kept: Vec<usize>,
    /// By place: bytes that are alive after the operation in the forward pass.
    pub alive: Vec<usize>,
}

/// How long a buffer is alive in the forward pass.
struct Span {
    bytes: usize,
    /// The first operation after which it is.
    first: usize,
    /// The first operation after which it is not.
    end: usize,
}

impl Plan {
    pub fn of(records: &[Record]) -> Self {
        let all = records.len();
        let leaves = records.iter().filter(|record| record.is_parameter());
        let parameters: HashSet<u64> = leaves.map(|record| record.buffer).collect();
        let mut spans = HashMap::<u64, Span>::new();
        let mut kept = vec![0; all];
        for (place, record) in records.iter().enumerate() {
            let mut hold = |buffer: u64, bytes: usize, end: usize| {
                if parameters.contains(&buffer) {
                    return;
                }
                let span = spans.entry(buffer).or_insert(Span { bytes, first: place, end: place });
                if end == all && span.end < all {
                    kept[place] += bytes;
                }
                span.end = span.end.max(end);
            };
            for operand in record.operands.iter().flatten().map(|&operand| &records[operand]) {
                hold(operand.buffer, operand.bytes, place);
            }
            hold(record.buffer, record.bytes, place);
            for tensor in record.op.saved() {
                hold(tensor.buffer_number(), tensor.bytes(), all);
            }
        }
        let alive_after = |place: usize| {
            let alive = spans.values().filter(|span| (span.first..span.end).contains(&place));
            alive.map(|span| span.bytes).sum()
        };
        Self { kept, alive: (0..all).map(alive_after).collect() }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, Parameters, Tape, Tensor, Var};

    /// Values of one image of the test, and their bytes.
    const VALUES: usize = 1000;
    const BYTES: usize = 4 * VALUES;

    fn image(device: &Device) -> Var {
        Var::constant(Tensor::full(device, [1, VALUES], 0.5))
    }

    #[test]
    fn what_is_kept_is_counted_where_it_is_first_held() {
        let device = Device::cpu();
        let mut parameters = Parameters::new();
        let id = parameters.add("w", Tensor::full(&device, [1, VALUES], 2.0));
        let tape = Tape::timed(&parameters);
        let w = tape.get(id);
        let a = image(&device).mul(&w); // keeps the image; the parameter is not counted
        let b = a.exp().scale(3.0); // exp keeps its result, scale nothing
        let c = b.add(&a.mul(&a)); // mul is the first to keep a, add keeps nothing
        let loss = c.sum();
        let listing = tape.listed(&loss).1;
        let memory =
            listing.operations.iter().map(|op| (op.name.as_str(), op.kept / BYTES, op.alive / BYTES));
        // The image and a; with exp; with scale; with the second product; then add's result in place of those two.
        let expected =
            [("mul", 1, 2), ("exp", 1, 3), ("scale", 0, 4), ("mul", 1, 5), ("add", 0, 4), ("sum", 0, 3)];
        assert_eq!(memory.collect::<Vec<_>>(), expected);
        // Backwards, at the second product: the image, exp and a are kept, and both summands share one gradient.
        assert_eq!([listing.planned_forward, listing.planned_backward], [5 * BYTES, 4 * BYTES]);
    }

    #[test]
    fn a_device_holds_at_least_what_is_planned() {
        let device = Device::cpu();
        let mut parameters = Parameters::new();
        let weight = parameters.add("w", Tensor::full(&device, [3, 3, 4, 4], 0.1));
        let bias = parameters.add("b", Tensor::full(&device, [4], 0.1));
        let tape = Tape::timed(&parameters);
        let (w, b) = (tape.get(weight), tape.get(bias));
        let x = Var::constant(Tensor::full(&device, [2, 32, 32, 4], 1.0));
        let y = x.conv2d_relu(&w, Some(&b)).conv2d(&w, None).group_norm_relu(2, &b, &b, 1e-5);
        let z = Var::concat_channels(&[&y.conv2d_add_relu(&w, None, &y), &x]);
        let loss = z.sum();
        let listing = tape.listed(&loss).1;
        let planned = listing.planned_forward.max(listing.planned_backward);
        assert!(planned > 4 * x.tensor().bytes(), "{planned} bytes");
        assert!(planned <= listing.held, "{planned} bytes are planned, {} were held", listing.held);
        assert!((4 * (3 * 3 * 4 * 4 + 4)..planned).contains(&listing.before), "{} bytes", listing.before);
    }
}
