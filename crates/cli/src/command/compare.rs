//! `compare`: several runs side by side, their scores and what their recipes differ in.

use std::path::{Path, PathBuf};

use clap::Args;
use multivalued_data::report::Report;

use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::log;
use crate::page::figures;
use crate::run::RunFolder;
use crate::run::difference::{differences, keys};
use crate::terminal::{complain, say};

/// Scores that are shown without being asked for, and whether more is better.
const USUAL: [(&str, bool); 12] = [
    ("ged_exact", false),
    ("ged_limit", false),
    ("ged_16", false),
    ("hm_iou", true),
    ("dice_max_labels", true),
    ("iou_max_labels", true),
    ("soft_dice", true),
    ("mode_ece", false),
    ("pixel_ece", false),
    ("n_x_1pct", false),
    ("mode_recall", true),
    ("mode_probability_mae", false),
];

/// Put the scores of several runs side by side, with what their recipes differ in
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued compare runs/a runs/b\n  multivalued compare runs/* --all\n  \
multivalued compare runs/paper runs/no-covariance --figures docs/figures\n\nFigures (SVG): codes in use, mean inner \
product of the codes and GED on validation images, epoch by epoch, each for the runs whose log has it."
)]
pub struct Compare {
    /// The runs' folders
    #[arg(required = true, num_args = 1..)]
    runs: Vec<PathBuf>,
    /// Show every score
    #[arg(long)]
    all: bool,
    /// Also draw the runs' curves over each other, as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

impl Compare {
    pub fn run(&self) -> Outcome {
        let mut names = Vec::new();
        let mut reports = Vec::new();
        let mut recipes = Vec::new();
        for path in &self.runs {
            let run = RunFolder::open(path)?;
            if !run.report().is_file() {
                return Err(Failure::user(path.display(), "has no report.json; evaluate it first"));
            }
            reports.push(Report::read(&run.report())?);
            recipes.push(keys(&folder::read_text(&run.recipe())?));
            names.push(run.name());
        }
        if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
            names = self.runs.iter().map(|path| path.display().to_string()).collect();
        }
        let comparable = reports.iter().all(|report| report.data_hash == reports[0].data_hash);
        if !comparable {
            complain(
                "these runs were scored on different data: their scores cannot be held against each other",
            );
        }
        let mut rows = vec![std::iter::once("score".to_owned()).chain(names.iter().cloned()).collect()];
        // The report with the most scores has them all: an older one may lack some.
        let scores = reports.iter().map(|report| report.summary.numbers()).max_by_key(Vec::len);
        for (key, _) in scores.unwrap_or_default() {
            if self.all || USUAL.iter().any(|(usual, _)| *usual == key) {
                rows.push(score_row(key, &reports, comparable));
            }
        }
        say(&aligned(&rows))?;
        let mut rows = vec![std::iter::once("recipe".to_owned()).chain(names).collect()];
        rows.extend(differences(&recipes));
        if rows.len() > 1 {
            say(&format!("\n{}", aligned(&rows)))?;
        }
        let marked = if comparable { "* the best of the row; " } else { "" };
        say(&format!("\n{marked}± half of the 95 % interval over images"))?;
        self.figures.as_deref().map_or(Ok(()), |out| self.draw(out))
    }

    fn draw(&self, out: &Path) -> Outcome {
        let mut logs = Vec::new();
        for run in self.runs.iter().map(|path| RunFolder::at(path)) {
            if !run.log().is_file() {
                return Err(Failure::user(run.path().display(), "has no log.jsonl to draw; leave it out"));
            }
            logs.push((run.name(), log::read(&run.log())?));
        }
        folder::make(out)?;
        for (name, svg) in figures(&logs) {
            let path = out.join(name);
            folder::write(&path, svg.as_bytes())?;
            say(&format!("figure: {}", path.display()))?;
        }
        Ok(())
    }
}

/// A score of each run with its interval, the best one marked where that means something.
fn score_row(key: &str, reports: &[Report], comparable: bool) -> Vec<String> {
    let value = |report: &Report| {
        report.summary.numbers().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    let values: Vec<_> = reports.iter().map(value).collect();
    let best = USUAL.iter().find(|(usual, _)| *usual == key).filter(|(key, _)| *key != "n_x_1pct").and_then(
        |&(_, more)| {
            let known = values.iter().flatten().copied();
            if more { known.reduce(f64::max) } else { known.reduce(f64::min) }
        },
    );
    let cell = |(report, value): (&Report, &Option<f64>)| match value {
        None => "-".to_owned(),
        Some(value) => {
            let mark = if best == Some(*value) && comparable && reports.len() > 1 { "*" } else { "" };
            let half = report.intervals.get(key).map(|[low, high]| format!(" ±{:.4}", 0.5 * (high - low)));
            format!("{mark}{value:.4}{}", half.unwrap_or_default())
        }
    };
    std::iter::once(key.to_owned()).chain(reports.iter().zip(&values).map(cell)).collect()
}

/// Columns padded to their widest cell.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [vec!["a".into(), "bb".into()], vec!["ccc".into(), "d".into()]];
        assert_eq!(aligned(&rows), "a    bb\nccc  d");
    }
}
