//! The summary as text, aligned for a terminal or a log.

use std::fmt::Write;

use super::{Intervals, NOT_KNOWN, Report};
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

    let mut rows = vec![["score", "mean", "95 % over images", "95 % over groups", "std"].map(String::from)];
    for (key, value) in summary.numbers() {
        rows.push([
            key.to_owned(),
            number(value),
            interval(Some(&report.intervals), key),
            interval(report.intervals_by_group.as_ref(), key),
            report.std_over_images.get(key).map_or(String::new(), |std| number(*std)),
        ]);
    }
    for (name, mode) in report.mode_rows() {
        rows.push([name, number(mode.mean), String::new(), String::new(), number(mode.std)]);
    }
    let widths: [usize; 5] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    // Without groups of several images their column is empty.
    let shown: Vec<usize> =
        (0..5).filter(|&column| column != 3 || report.intervals_by_group.is_some()).collect();
    for row in &rows {
        let cells = shown.iter().map(|&column| match column {
            0 => format!("{:<width$}", row[0], width = widths[0]),
            _ => format!("{:>width$}", row[column], width = widths[column]),
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    let _ = writeln!(text, "{}.", report.convention);
    let _ = writeln!(text, "{WHY_THE_LIMIT}.");
    text
}

fn number(value: f64) -> String {
    format!("{value:.4}")
}

fn interval(intervals: Option<&Intervals>, key: &str) -> String {
    match intervals.and_then(|intervals| intervals.get(key)) {
        Some(Some([low, high])) => format!("{low:.4} .. {high:.4}"),
        Some(None) => NOT_KNOWN.into(),
        None => String::new(),
    }
}
