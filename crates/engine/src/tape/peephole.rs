//! Looks at neighbouring operations of a recorded step before it is walked back.

use super::Record;
use crate::op::{Op, Operation};

/// For every operation whether it drops, from the gradient of its first operand, what that operand's relu has
/// dropped. A convolution does so while it writes the gradient, which spares the operation before it a sweep. It must
/// be the last to add to that gradient: the first user of the operand.
pub(super) fn masks(records: &[Record]) -> Vec<bool> {
    let mut first_user = vec![None; records.len()];
    for (place, record) in records.iter().enumerate() {
        for &operand in record.operands.iter().flatten() {
            first_user[operand].get_or_insert(place);
        }
    }
    let masks = |(place, record): (usize, &Record)| {
        let (Op::Conv(_), Some(Some(input))) = (&record.op, record.operands.first()) else { return false };
        let only_there = record.operands[1..].iter().all(|&other| other != Some(*input));
        records[*input].op.ends_in_relu() && first_user[*input] == Some(place) && only_there
    };
    records.iter().enumerate().map(masks).collect()
}
