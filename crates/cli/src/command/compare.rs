//! `compare`: several runs side by side, their scores and what their recipes differ in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use multivalued_data::report::{NoiseFloor, Report};

use crate::columns::table;
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::log::{self, Record};
use crate::page::{Drawn, figures};
use crate::run::RunFolder;
use crate::run::difference::{differences, keys};
use crate::terminal::{self, complain, say, say_lines};

/// Scores that are shown without being asked for, and whether more is better, where either is.
const USUAL: [(&str, Option<bool>); 17] = [
    ("ged_exact", Some(false)),
    ("ged_limit", Some(false)),
    ("ged_16", Some(false)),
    ("hm_iou", Some(true)),
    ("dice_max_labels", Some(true)),
    ("iou_max_labels", Some(true)),
    ("soft_dice", Some(true)),
    ("mode_ece", Some(false)),
    ("empty_ece", Some(false)),
    ("pixel_ece", Some(false)),
    ("n_x_1pct", None),
    ("ged_floor", None),
    ("oracle_ged", None),
    ("mode_recall", Some(true)),
    ("mode_probability_mae", Some(false)),
    ("total_variation", Some(false)),
    ("mode_probability_std", Some(false)),
];

/// Put the scores of several runs side by side, with what their recipes differ in
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued compare runs/a runs/b\n  multivalued compare runs/* --all\n  \
multivalued compare runs/* --markdown\n  \
multivalued compare runs/paper runs/no-covariance --figures docs/figures\n\nFigures (SVG): codes in use, mean inner \
product of the codes and GED on validation images, epoch by epoch, each for the runs whose log has it; and the GED of \
each image that the runs were scored on, with the mean."
)]
pub struct Compare {
    /// The runs' folders
    #[arg(required = true, num_args = 1..)]
    runs: Vec<PathBuf>,
    /// Show every score
    #[arg(long)]
    all: bool,
    /// A line for each run, as a Markdown table with seed, device, commit, steps and time
    #[arg(long)]
    markdown: bool,
    /// Also draw the runs' curves over each other, as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

/// A run as it is compared.
struct Compared {
    name: String,
    report: Report,
    recipe: BTreeMap<String, String>,
    /// None where the folder has no log.
    log: Option<Vec<Record>>,
}

impl Compared {
    fn open(path: &Path) -> Outcome<Self> {
        let run = RunFolder::open(path)?;
        if !run.report().is_file() {
            return Err(Failure::user(path.display(), "has no report.json; evaluate it first"));
        }
        Ok(Self {
            name: run.name(),
            report: Report::read(&run.report())?,
            recipe: keys(&folder::read_text(&run.recipe())?),
            log: run.log().is_file().then(|| log::read(&run.log())).transpose()?,
        })
    }

    /// Seed, device, commit, steps and time, as the log's last lines of their kind tell.
    fn origin(&self) -> [String; 5] {
        let mut origin = ["-"; 5].map(str::to_owned);
        for record in self.log.iter().flatten() {
            match record {
                Record::Start { seed, device, commit, .. } => {
                    origin[..3].clone_from_slice(&[seed.to_string(), device.clone(), commit.clone()]);
                }
                Record::End { step, seconds, .. } => {
                    origin[3..].clone_from_slice(&[step.to_string(), format!("{seconds:.0} s")]);
                }
                _ => {}
            }
        }
        origin
    }
}

impl Compare {
    pub fn run(&self) -> Outcome {
        let mut runs = self.runs.iter().map(|path| Compared::open(path)).collect::<Outcome<Vec<_>>>()?;
        let names: BTreeSet<&String> = runs.iter().map(|run| &run.name).collect();
        if names.len() < runs.len() {
            for (run, path) in runs.iter_mut().zip(&self.runs) {
                run.name = path.display().to_string();
            }
        }
        let comparable = runs.iter().all(|run| run.report.data_hash == runs[0].report.data_hash);
        if !comparable {
            complain(
                "these runs were scored on different data: their scores cannot be held against each other",
            );
        }
        if self.markdown {
            say_lines(&self.lines(&runs))?;
        } else {
            self.columns(&runs, comparable)?;
        }
        self.figures.as_deref().map_or(Ok(()), |out| draw(runs, out))
    }

    /// The scores to show, in the report's order: those that one of the runs has.
    fn shown(&self, runs: &[Compared]) -> Vec<&'static str> {
        let usual = |key: &str| self.all || USUAL.iter().any(|(usual, _)| *usual == key);
        let mut shown = Vec::new();
        for (key, _) in runs.iter().flat_map(|run| run.report.summary.numbers()) {
            if usual(key) && !shown.contains(&key) {
                shown.push(key);
            }
        }
        shown
    }

    /// A column for each run, with intervals, and what their recipes differ in.
    fn columns(&self, runs: &[Compared], comparable: bool) -> Outcome {
        let names = || runs.iter().map(|run| run.name.clone());
        let mut rows = vec![std::iter::once("score".to_owned()).chain(names()).collect()];
        for key in self.shown(runs) {
            rows.push(score_row(key, runs, comparable));
            rows.extend(chance_row(key, runs));
        }
        say_lines(&(table(&rows) + "\n"))?;
        let mut rows = vec![std::iter::once("recipe".to_owned()).chain(names()).collect()];
        let recipes: Vec<_> = runs.iter().map(|run| run.recipe.clone()).collect();
        rows.extend(differences(&recipes));
        if rows.len() > 1 {
            say_lines(&(table(&rows) + "\n"))?;
        }
        let marked = if comparable { "* the best of the row; " } else { "" };
        let over: BTreeSet<&str> = runs.iter().map(|run| run.report.first_intervals().1).collect();
        let over = match over.len() {
            1 => over.into_iter().collect(),
            _ => "groups, or over images where a run has no groups of several images".to_owned(),
        };
        say(&format!("{marked}± half of the 95 % interval over {over}"))
    }

    /// A line for each run, with where it comes from.
    fn lines(&self, runs: &[Compared]) -> String {
        let shown = self.shown(runs);
        let head =
            ["run", "seed", "device", "commit", "steps", "time"].into_iter().chain(shown.iter().copied());
        let head: Vec<String> = head.map(str::to_owned).collect();
        let rule = vec!["---".to_owned(); head.len()];
        let mut rows = vec![head, rule];
        for run in runs {
            let mut row = vec![run.name.replace('|', "\\|")];
            row.extend(run.origin());
            row.extend(shown.iter().map(|key| {
                let chance = run.report.noise.chance(key);
                let chance = chance.map_or(String::new(), |chance| format!(" (chance {:.4})", chance.mean));
                run.report.score(key).map_or_else(|| "-".to_owned(), |value| format!("{value:.4}{chance}"))
            }));
            rows.push(row);
        }
        let line = |row: &Vec<String>| terminal::shown(&format!("| {} |", row.join(" | ")));
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// What chance alone would show of a calibration error; nothing for another score.
fn chance_row(key: &str, runs: &[Compared]) -> Option<Vec<String>> {
    let chances: Vec<_> = runs.iter().map(|run| run.report.noise.chance(key)).collect();
    let said =
        |chance: &Option<&NoiseFloor>| chance.map_or("-".to_owned(), |chance| format!("{:.4}", chance.mean));
    let row = std::iter::once("  by chance alone".to_owned()).chain(chances.iter().map(said));
    chances.iter().any(Option::is_some).then(|| row.collect())
}

fn draw(runs: Vec<Compared>, out: &Path) -> Outcome {
    let mut drawn = Vec::new();
    for Compared { name, report, log, .. } in runs {
        let Some(log) = log else {
            return Err(Failure::user(name, "has no log.jsonl to draw; leave it out"));
        };
        let geds = report.images.iter().map(|row| row.scores.ged_limit).collect();
        drawn.push(Drawn { name, log, geds });
    }
    folder::make(out)?;
    for (name, svg) in figures(&drawn) {
        let path = out.join(name);
        folder::write(&path, svg.as_bytes())?;
        say(&format!("figure: {}", path.display()))?;
    }
    Ok(())
}

/// A score of each run with its interval, the best one marked where that means something.
fn score_row(key: &str, runs: &[Compared], comparable: bool) -> Vec<String> {
    let values: Vec<_> = runs.iter().map(|run| run.report.score(key)).collect();
    let more = USUAL.iter().find(|(usual, _)| *usual == key).and_then(|(_, more)| *more);
    let best = more.and_then(|more| {
        let known = values.iter().flatten().copied();
        if more { known.reduce(f64::max) } else { known.reduce(f64::min) }
    });
    let cell = |(run, value): (&Compared, &Option<f64>)| match value {
        None => "-".to_owned(),
        Some(value) => {
            let mark = if best == Some(*value) && comparable && runs.len() > 1 { "*" } else { "" };
            let interval = run.report.first_intervals().0.get(key).copied().flatten();
            let half = interval.map(|[low, high]| format!(" ±{:.4}", 0.5 * (high - low)));
            format!("{mark}{value:.4}{}", half.unwrap_or_default())
        }
    };
    std::iter::once(key.to_owned()).chain(runs.iter().zip(&values).map(cell)).collect()
}
