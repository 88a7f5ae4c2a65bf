//! `validate`: what a data set holds, and every fault of it at once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use multivalued_data::dataset::{Inspection, inspect};

use super::options::Reading;
use crate::columns::{shortened, two_columns};
use crate::exit::{Failure, Outcome};
use crate::run::cases::tell_notes;
use crate::terminal::{say_json, say_lines};

/// Read every file of a data set and list what is in it and what is wrong with it
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  multivalued validate data/lidc\n  multivalued validate \
data/manifest.jsonl --json\n  multivalued validate data --masks threshold:128\n\nExit code 1 where the \
data set has faults.")]
pub struct Validate {
    /// A folder or a manifest (docs/dataset-format.md)
    data: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

impl Validate {
    pub fn run(&self) -> Outcome {
        let found = inspect(&self.data, &self.reading.options())?;
        tell_notes(&found.notes);
        if self.json {
            say_json(&found)?;
        } else {
            say_lines(&table(&found))?;
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
    rows.extend(found.raters.iter().map(|(rater, count)| ("  by", format!("{}: {count}", name(rater)))));
    if found.unnamed_annotations > 0 {
        rows.push(("  by", format!("(not named): {}", found.unnamed_annotations)));
    }
    rows.push(("cases all empty", format!("{}{}", found.empty_cases, share(found.empty_cases, found.cases))));
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
