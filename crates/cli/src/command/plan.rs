//! `plan`: the recipe that `train` would follow for a data set, with the reason for each choice.

use std::path::PathBuf;

use clap::Args;
use multivalued::recipe::{DataRecipe, ModelRecipe};
use multivalued::{Plan, Recipe, Splits};
use multivalued_data::CaseList;
use multivalued_data::fingerprint::Fingerprint;
use multivalued_engine::Device;

use super::options::Loading;
use crate::columns::two_columns;
use crate::device::DeviceChoice;
use crate::document::Document;
use crate::exit::{Failure, Outcome};
use crate::run::cases::{tell_notes, tell_skipped};
use crate::run::progress::clock;
use crate::run::reader::Reader;
use crate::terminal::{complain, complain_lines, say_quoted};

/// Plan a training from the data: the recipe that `train --data` would follow, with reasons
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  multivalued plan data/\n  multivalued plan data/ --minutes 10 --out \
mine.toml\n  multivalued train mine.toml --data data/\n\nWhat the data are like goes to standard error, the \
recipe to standard output or to --out.")]
pub struct PlanCommand {
    /// A folder or a manifest (docs/dataset-format.md)
    data: PathBuf,
    #[command(flatten)]
    loading: Loading,
    /// Minutes that the training may take on this device
    #[arg(long, value_parser = minutes)]
    minutes: Option<f64>,
    /// What will compute: auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Write the recipe to this file instead; - is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl PlanCommand {
    pub fn run(&self) -> Outcome {
        let out = self.out.as_deref().map(Document::named).transpose()?;
        let device = self.device.open(Recipe::default().train.precision)?;
        let data = data_of(&self.data, &self.loading)?;
        let plan = planned(&data, &self.loading.reader(), self.minutes, None, &device)?;
        match out {
            Some(out) => out.write(plan.to_toml().as_bytes()),
            None => say_quoted(plan.to_toml().trim_end()),
        }
    }
}

/// A time budget.
pub fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= 100_000.0 => Ok(minutes),
        _ => Err("a number of minutes above 0, such as 10".to_owned()),
    }
}

/// A recipe's data table for a data set on disk.
pub fn data_of(path: &std::path::Path, loading: &Loading) -> Outcome<DataRecipe> {
    let mut recipe = Recipe::default();
    recipe.data.path = full_path(path)?;
    loading.write_to(&mut recipe);
    Ok(recipe.data)
}

/// A path as a recipe keeps it: the run is read from anywhere later.
pub fn full_path(path: &std::path::Path) -> Outcome<String> {
    let full = path.canonicalize().map_err(|error| Failure::io(path, &error))?;
    match full.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Failure::user(path.display(), "its name is not UTF-8; rename it")),
    }
}

/// Loads the data, says what they are like, and plans.
/// The network is that of `from`, where its weights shall be taken.
pub fn planned(
    data: &DataRecipe,
    reader: &Reader,
    minutes: Option<f64>,
    from: Option<&ModelRecipe>,
    device: &Device,
) -> Outcome<Plan> {
    // All folds are planned by the first.
    let fold = if data.folds > 0 { data.fold.max(1) } else { 0 };
    let Splits { train, validation, skipped, notes, .. } =
        reader.splits(&DataRecipe { fold, ..data.clone() })?;
    tell_notes(&notes);
    tell_skipped(&skipped);
    let found = Fingerprint::of(&train)?;
    complain_lines(&table(&found, validation.len()));
    let mut plan = Plan::new(&found, train.len(), validation.len(), device.is_asynchronous());
    let DataRecipe { validation_share, normalise, resize, spacing, context, .. } = plan.recipe.data.clone();
    plan.recipe.data = DataRecipe { validation_share, normalise, resize, spacing, context, ..data.clone() };
    if let Some(model) = from {
        plan.start_from(model);
    }
    plan.recipe.validate()?;
    let train = plan.recipe.data.in_context(train)?;
    timed(&mut plan, minutes, &train, device)?;
    for warning in &plan.warnings {
        complain(&format!("warning: {warning}"));
    }
    if let Some(seconds) = plan.seconds() {
        complain(&format!("{} steps, about {} here", plan.recipe.train.steps, clock(seconds)));
    }
    plan.recipe.validate()?;
    Ok(plan)
}

fn timed(plan: &mut Plan, minutes: Option<f64>, cases: &CaseList, device: &Device) -> Outcome {
    match minutes {
        Some(minutes) => plan.fit(minutes, cases, device)?,
        None => plan.measure(cases, device)?,
    }
    Ok(())
}

/// What the training cases are like, for people.
fn table(found: &Fingerprint, validation: usize) -> String {
    let range = |low: f32, high: f32| match low == high {
        true => format!("{low}"),
        false => format!("{low} to {high}"),
    };
    let mut rows = vec![
        (
            "training cases",
            format!("{} of {} groups; {validation} to validate by", found.cases, found.groups),
        ),
        (
            "images",
            format!(
                "{} x {} pixels, {} channel{}",
                range(found.width.min, found.width.max),
                range(found.height.min, found.height.max),
                found.channels.len(),
                if found.channels.len() == 1 { "" } else { "s" }
            ),
        ),
        ("classes", found.classes.to_string()),
        ("annotations", format!("{} per case", range(found.annotations.min, found.annotations.max))),
        ("  empty", format!("{:.1} %", 100.0 * found.empty_share)),
    ];
    if found.disputed_share > 0.0 {
        let d = &found.disagreement;
        rows.push((
            "  all equal",
            format!("{:.1} % of the cases with several", 100.0 * found.unanimous_share),
        ));
        rows.push((
            "  IoU of a pair",
            format!("{:.2} (5 % below {:.2}, 5 % above {:.2})", d.iou.median, d.iou.low, d.iou.high),
        ));
    }
    rows.push((
        "structures",
        format!(
            "{:.0} pixels across (5 % below {:.0}, 5 % above {:.0})",
            found.diameter.median, found.diameter.low, found.diameter.high
        ),
    ));
    two_columns(&rows.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Vec<_>>())
}
