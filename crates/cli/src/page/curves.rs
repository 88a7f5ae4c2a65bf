//! How the training went: curves from the log's epochs.

use std::collections::BTreeMap;

use super::chart::Chart;
use super::html::escaped;
use crate::log::Record;

/// Curves that have a name; others are shown under their own key.
const NAMED: [(&str, &str, &str); 9] = [
    ("validation.ged", "Validation GED", "lower is better"),
    ("codes.used", "Codes in use", "codes that served an annotation"),
    ("codes.perplexity", "Perplexity of the codes", "effective number of codes"),
    ("codes.mean_inner_product", "Mean inner product of the codes", "0 is orthogonal"),
    ("codes.changed", "Changed assignments", "share of annotations that took another code"),
    ("classifier.norm", "Length of h", "before the classifier"),
    ("gradient.norm", "Norm of the gradient", ""),
    ("learning_rate", "Learning rate", ""),
    ("temperature", "Temperature of the assignment", ""),
];

/// The section, or nothing where the log has no epochs.
pub fn section(log: &[Record]) -> String {
    let curves = curves(log);
    if curves.is_empty() {
        return String::new();
    }
    let is_loss = |name: &str| name == "loss" || name.starts_with("loss.");
    let mut losses = Chart::new("Loss terms", "epoch", "mean over the epoch").logarithmic();
    for (name, points) in curves.iter().filter(|(name, _)| is_loss(name)) {
        let shown = name.strip_prefix("loss.").unwrap_or("sum").replace('_', " ");
        losses = losses.line(&shown, points.clone());
    }
    let mut charts = losses.render();
    let mut rest: Vec<_> = curves.iter().filter(|(name, _)| !is_loss(name)).collect();
    let place = |key: &str| NAMED.iter().position(|(known, ..)| *known == key).unwrap_or(NAMED.len());
    rest.sort_by_key(|(name, _)| place(name));
    for (key, points) in rest {
        let (title, unit) = NAMED
            .iter()
            .find(|(known, ..)| *known == key.as_str())
            .map_or((key.as_str(), ""), |(_, title, unit)| (*title, *unit));
        charts += &Chart::new(title, "epoch", unit).line(title, points.clone()).render();
    }
    format!("<h2>How it was learned</h2>\n{}<div class=\"charts\">{charts}</div>", ended_early(log))
}

/// The points of every number by its name.
fn curves(log: &[Record]) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for record in log {
        let Record::Epoch { epoch, numbers, .. } = record else { continue };
        for (name, &value) in numbers {
            curves.entry(name.clone()).or_default().push((*epoch as f64, value));
        }
    }
    curves
}

fn ended_early(log: &[Record]) -> String {
    match log.last() {
        Some(Record::End { reason, step, .. }) if reason != "finished" => {
            format!("<p class=\"warning\">The training ended at step {step}: {}.</p>\n", escaped(reason))
        }
        _ => String::new(),
    }
}
