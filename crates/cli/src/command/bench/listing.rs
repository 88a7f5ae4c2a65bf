//! The operations of a training step, as a table to read and as JSON for other programs.

use std::time::Duration;

use multivalued_engine::{Listed, Listing, Operand, Parameters, Source};
use serde_json::{Value, json};

use crate::columns::two_columns;

fn mebibytes(bytes: usize) -> String {
    format!("{:.2}", bytes as f64 / (1u64 << 20) as f64)
}

/// The operations of a step as a table, with a line of sums. Memory is in MiB: that of the result, what is kept for the
/// backward pass, and what is alive after the operation.
pub fn table(listing: &Listing) -> String {
    let operations = &listing.operations;
    let milliseconds = |time: Duration| format!("{:.3}", 1e3 * time.as_secs_f64());
    let head =
        ["operation", "shapes", "parameters", "MiB", "kept MiB", "alive MiB", "forward ms", "backward ms"];
    let of = |op: &Listed| {
        let operands: Vec<String> = op.operands.iter().map(|operand| operand.shape.to_string()).collect();
        let shapes = format!("{} -> {}", operands.join(" "), op.result);
        let [bytes, kept, alive] = [op.bytes, op.kept, op.alive].map(mebibytes);
        let [forward, backward] = [op.forward, op.backward].map(milliseconds);
        [op.name.clone(), shapes, op.parameters.to_string(), bytes, kept, alive, forward, backward]
    };
    let bytes = [|op: &Listed| op.bytes, |op: &Listed| op.kept];
    let [bytes, kept] = bytes.map(|bytes| mebibytes(operations.iter().map(bytes).sum()));
    let times = [|op: &Listed| op.forward, |op: &Listed| op.backward];
    let [forward, backward] = times.map(|time| milliseconds(operations.iter().map(time).sum()));
    let (count, parameters) = (operations.len(), operations.iter().map(|op| op.parameters).sum::<usize>());
    let name = format!("{count} operations");
    let sums = [name, String::new(), parameters.to_string(), bytes, kept, String::new(), forward, backward];
    let rows: Vec<[String; 8]> =
        [head.map(str::to_owned)].into_iter().chain(operations.iter().map(of)).chain([sums]).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The memory that a step needs by its operations, and what the device held.
pub fn memory(listing: &Listing) -> String {
    let [forward, backward, held, before] =
        [listing.planned_forward, listing.planned_backward, listing.held, listing.before].map(mebibytes);
    let rows = [
        (
            "memory by the plan",
            format!("at most {forward} MiB in the forward pass, {backward} MiB in the backward pass"),
        ),
        ("memory held", format!("at most {held} MiB, of which {before} MiB were there before the step")),
    ];
    two_columns(&rows.map(|(name, value)| (name.to_owned(), value)))
}

/// The step as a graph: operations in the order of the forward pass, each with where its operands come from; memory in
/// bytes, times in seconds.
pub fn json(listing: &Listing, parameters: &Parameters) -> Value {
    let operand = |operand: &Operand| {
        let shape = operand.shape.to_vec();
        match operand.source {
            Source::Operation(number) => json!({ "shape": shape, "operation": number }),
            Source::Parameter(id) => json!({ "shape": shape, "parameter": parameters.get(id).name() }),
            Source::Constant => json!({ "shape": shape }),
        }
    };
    let of = |op: &Listed| {
        json!({
            "name": op.name,
            "operands": op.operands.iter().map(operand).collect::<Vec<_>>(),
            "result": op.result.to_vec(),
            "result_bytes": op.bytes,
            "kept_bytes": op.kept,
            "alive_bytes": op.alive,
            "forward_seconds": op.forward.as_secs_f64(),
            "backward_seconds": op.backward.as_secs_f64(),
        })
    };
    json!({
        "operations": listing.operations.iter().map(of).collect::<Vec<_>>(),
        "planned_forward_bytes": listing.planned_forward,
        "planned_backward_bytes": listing.planned_backward,
        "held_bytes": listing.held,
        "held_before_bytes": listing.before,
    })
}
