//! Looks at neighbouring operations of a recorded step before its backward pass.

use super::Record;

/// For every operation whether it drops, from the gradient of its first operand, what that operand's relu has
/// dropped. Operations that accumulate that gradient do so while they write it, which spares the operation before them
/// a sweep. Such an operation must be the last to add to it: the first user of the operand.
pub(super) fn masks(records: &[Record]) -> Vec<bool> {
    let mut first_user = vec![None; records.len()];
    for (place, record) in records.iter().enumerate() {
        for &operand in record.operands.iter().flatten() {
            first_user[operand].get_or_insert(place);
        }
    }
    let masks = |(place, record): (usize, &Record)| {
        let (true, Some(Some(input))) = (record.op.accumulates(), record.operands.first()) else {
            return false;
        };
        let only_there = record.operands[1..].iter().all(|&other| other != Some(*input));
        records[*input].op.relu_result().is_some() && first_user[*input] == Some(place) && only_there
    };
    records.iter().enumerate().map(masks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Corners, Device, Parameters, Tape, Tensor, Var};

    #[test]
    fn the_first_user_of_a_relu_masks_where_it_is_a_convolution_or_resizes() {
        let device = Device::cpu();
        let mut parameters = Parameters::new();
        let id = parameters.add("w", Tensor::full(&device, [1, 1, 2, 2], 0.5));
        let tape = Tape::recording(&parameters);
        let w = tape.get(id); // 0
        let image = Var::constant(Tensor::full(&device, [1, 2, 2, 2], 1.0));
        let x = image.conv2d_relu(&w, None); // 1
        let a = x.conv2d(&w, None); // 2: the first user of 1
        let b = x.conv2d(&w, None); // 3: another one
        let c = a.add(&b).relu(); // 4, 5
        let d = c.conv2d_add_relu(&w, None, &c); // 6: uses 5 twice
        let e = d.sum_rows(); // 7: the first user of 6
        let f = d.conv2d(&w, None); // 8
        _ = (e, f.conv2d(&w, None)); // 9: no relu before it
        let g = f.relu().resize_bilinear(4, 4, Corners::HalfPixel); // 10, 11: the first user of 10
        let h = g.conv2d_relu(&w, None); // 12
        let i = f.relu().resize_concat(&h, Corners::HalfPixel); // 13, 14: of 13, and of 12 beside it
        _ = i.sum_rows(); // 15
        let records = &tape.recording.borrow().records;
        let masking: Vec<usize> =
            masks(records).iter().enumerate().filter(|(_, masks)| **masks).map(|(place, _)| place).collect();
        assert_eq!((records.len(), masking), (16, vec![2, 11, 14]));
    }
}
