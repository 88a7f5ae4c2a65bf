//! `validate`: what a data set holds, and every fault of it at once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use multivalued_data::agreement::Agreement;
use multivalued_data::dataset::{Inspection, inspect_showing};

use super::options::Reading;
use crate::columns::{shortened, two_columns};
use crate::document::Document;
use crate::exit::{Failure, Outcome};
use crate::page::{StudyPage, signed_percent};
use crate::run::RunFolder;
use crate::run::cases::tell_notes;
use crate::terminal::{complain_lines, say_json, say_lines};

/// Read every file of a data set and list what is in it and what is wrong with it
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  multivalued validate data/lidc\n  multivalued validate \
data/manifest.jsonl --json\n  multivalued validate data --html study.html\n  multivalued validate data --masks threshold:128\n\nExit code 1 where the \
data set has faults.")]
pub struct Validate {
    /// A folder or a manifest (docs/dataset-format.md)
    data: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
    /// Write a page with these tables and pictures of the most disputed cases; - is standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Most cases that the page shows.
const SHOWN: usize = 12;

impl Validate {
    pub fn run(&self) -> Outcome {
        let page = self.html.as_deref().map(Document::named).transpose()?;
        let printed = page == Some(Document::StandardOutput);
        if printed && self.json {
            return Err(Failure::user("--json and --html", "standard output takes one of them; name a file"));
        }
        let shown = if page.is_some() { SHOWN } else { 0 };
        let (found, disputed) = inspect_showing(&self.data, &self.reading.options(), shown)?;
        tell_notes(&found.notes);
        if let Some(page) = page {
            let title = RunFolder::at(&self.data).name();
            let content = StudyPage { title: &title, found: &found, disputed: &disputed }.render();
            page.write(content.as_bytes())?;
        }
        match (self.json, printed) {
            (true, _) => say_json(&found)?,
            (false, false) => say_lines(&table(&found))?,
            // Beside the page the table would spoil it.
            (false, true) => complain_lines(&table(&found)),
        }
        match found.problems.len() {
            0 => Ok(()),
            count => Err(Failure::BelowBound(format!(
                "{}: {count} fault{}; repair the data, then validate again",
                self.data.display(),
                if count == 1 { "" } else { "s" }
            ))),
        }
    }
}

/// What is shown of the name of a reader, a split or a case; `--json` has the whole.
const LONGEST_NAME: usize = 48;

fn table(found: &Inspection) -> String {
    let counts = |counts: &BTreeMap<usize, usize>| {
        counts.iter().map(|(key, count)| format!("{count} with {key}")).collect::<Vec<_>>().join(", ")
    };
    let share = |part: usize, all: usize| match all {
        0 => String::new(),
        _ => format!(" ({:.1} %)", 100.0 * part as f64 / all as f64),
    };
    let mut rows = vec![
        ("layout", found.layout.clone()),
        ("images", found.images.to_string()),
        ("cases", found.cases.to_string()),
        ("groups", found.groups.to_string()),
        ("annotations", found.annotations.to_string()),
        ("  per case", counts(&found.annotations_per_case)),
        (
            "  empty",
            format!("{}{}", found.empty_annotations, share(found.empty_annotations, found.annotations)),
        ),
    ];
    let name = |name: &str| shortened(name, LONGEST_NAME);
    let beside =
        |rater: &str| found.agreement.as_ref().map_or(String::new(), |all| beside_others(all, rater));
    let by =
        |(rater, count): (&String, &usize)| ("  by", format!("{}: {count}{}", name(rater), beside(rater)));
    rows.extend(found.raters.iter().map(by));
    if found.unnamed_annotations > 0 {
        rows.push(("  by", format!("(not named): {}", found.unnamed_annotations)));
    }
    rows.push(("cases all empty", format!("{}{}", found.empty_cases, share(found.empty_cases, found.cases))));
    rows.extend(found.agreement.iter().flat_map(agreement_rows));
    rows.extend(
        found
            .sizes
            .iter()
            .map(|(size, count)| ("size", format!("{size} (columns x rows x channels): {count}"))),
    );
    rows.extend(found.splits.iter().map(|(split, count)| ("split", format!("{}: {count}", name(split)))));
    rows.extend(
        found
            .duplicates
            .iter()
            .map(|ids| ("same image", ids.iter().map(|id| name(id)).collect::<Vec<_>>().join(", "))),
    );
    rows.extend(found.problems.iter().map(|problem| ("fault", problem.clone())));
    if found.is_sound() {
        rows.push(("sound", "yes".into()));
    }
    two_columns(&rows.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Vec<_>>())
}

/// How far raters agree.
fn agreement_rows(all: &Agreement) -> Vec<(&'static str, String)> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let marked =
        all.mean_iou_marked.map_or(String::new(), |iou| format!("; {iou:.3} where both mark something"));
    let mut rows = vec![
        ("agreement", format!("of {} with several annotations", counted(all.cases))),
        ("  mean IoU", format!("{:.3} of two annotations{marked}", all.mean_iou)),
        (
            "  Fleiss' kappa",
            all.fleiss_kappa
                .map_or("not known: only one label is given".into(), |kappa| format!("{kappa:.3} per pixel")),
        ),
        ("  empty", format!("{} of these annotations", percent(all.empty_share))),
        ("  one is empty", format!("{} of pairs", percent(all.presence_share))),
        ("  unanimous", format!("{} of these cases", percent(all.unanimous_share))),
    ];
    if let Some(most) = all.disputed.first() {
        let id = shortened(&most.id, LONGEST_NAME);
        rows.push((
            "  most disputed",
            format!("{id} (mean IoU {:.3}); --html FILE shows such cases", most.mean_iou),
        ));
    }
    rows
}

/// A rater beside the others of the same cases.
fn beside_others(all: &Agreement, rater: &str) -> String {
    let Some(rater) = all.raters.get(rater) else { return String::new() };
    let bias = rater
        .area_bias
        .map_or(String::new(), |bias| format!("; area {} against the others", signed_percent(bias)));
    format!("{bias}; IoU {:.3} with them; empty {:.1} %", rater.mean_iou, 100.0 * rater.empty_share)
}

fn counted(cases: usize) -> String {
    format!("{cases} case{}", if cases == 1 { "" } else { "s" })
}
