//! The summary as text, aligned for a terminal or a log.

use std::fmt::Write;

use super::{Intervals, NOT_KNOWN, Report, blocks};
use crate::evaluate::{Details, PooledDetails};
use crate::metric::ged::WHY_THE_LIMIT;

pub(super) fn render(report: &Report) -> String {
    let summary = &report.summary;
    let mut text = String::new();
    // A split's name comes from the data; it must not steer the terminal.
    let split = report.split.escape_debug();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "split {}: {} cases of {} groups", split, summary.cases, summary.groups);
    if let Some(hash) = &report.data_hash {
        let _ = writeln!(text, "data  {hash}");
    }
    let _ = writeln!(
        text,
        "empty {:.1} % of the labels, {:.1} % of the outputs",
        100.0 * report.empty_labels,
        100.0 * report.empty_outputs
    );

    // Without groups of several images their column is empty.
    let by_group = report.intervals_by_group.as_ref();
    let row = |name: String, cells: [String; 3], std: String| {
        let [mean, images, groups] = cells;
        let mut row = vec![name, mean, images];
        row.extend(by_group.map(|_| groups));
        row.push(std);
        row
    };
    let heads = ["mean", "95 % over images", "95 % over groups"].map(String::from);
    let mut rows = vec![row("score".into(), heads, "std".into())];
    // The details have tables of their own.
    let own = |key: &str| !Details::KEYS.contains(&key) && !PooledDetails::KEYS.contains(&key);
    for (key, value) in summary.numbers().into_iter().filter(|(key, _)| own(key)) {
        let cells = [number(value), interval(Some(&report.intervals), key), interval(by_group, key)];
        let std = report.std_over_images.get(key).map_or(String::new(), |std| number(*std));
        rows.push(row(key.to_owned(), cells, std));
    }
    for (name, mode) in report.mode_rows() {
        rows.push(row(name, [number(mode.mean), String::new(), String::new()], number(mode.std)));
    }
    text += &aligned(&rows);
    let _ = writeln!(text, "{}.", report.convention);
    let _ = writeln!(text, "{WHY_THE_LIMIT}.");
    text + &blocks::render(report)
}

/// Rows under each other, the first column to the left, the others to the right.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

pub(super) fn number(value: f64) -> String {
    format!("{value:.4}")
}

pub(super) fn interval(intervals: Option<&Intervals>, key: &str) -> String {
    match intervals.and_then(|intervals| intervals.get(key)) {
        Some(Some([low, high])) => format!("{low:.4} .. {high:.4}"),
        Some(None) => NOT_KNOWN.into(),
        None => String::new(),
    }
}
