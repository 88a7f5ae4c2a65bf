//! How the training went: curves from the log's epochs.

use std::collections::BTreeMap;

use super::chart::Chart;
use super::html::escaped;
use crate::log::Record;

const VALIDATION_GED: &str = "validation.ged_limit";
/// Drawn beside it: the distance between both is what was memorised.
const TRAINING_GED: &str = "validation.training_ged";

/// The curves besides the loss, in the page's order.
const NAMED: [(&str, &str, &str); 11] = [
    (VALIDATION_GED, "Validation GED", "in the limit of many draws; lower is better"),
    ("used_codes", "Codes in use", "codes that served an annotation in a thousand"),
    ("mean_inner_product", "Mean inner product of the codes", "0 is orthogonal"),
    ("perplexity", "Perplexity of the codes", "effective number of codes"),
    ("active_codes", "Codes that take part", "the others are in reserve"),
    ("changed_assignments", "Changed assignments", "share of images since the epoch before"),
    ("validation.hm_iou", "Validation matched IoU", "higher is better"),
    ("validation.n_x_1pct", "Hypotheses of 1 % and more", "per validation image"),
    ("h_norm", "Length of h", "before the classifier"),
    ("gradient_norm", "Norm of the gradients", "mean over the epoch"),
    ("learning_rate", "Learning rate", ""),
];

/// The section, or nothing where the log has no epochs.
pub fn section(log: &[Record]) -> String {
    let curves = curves(log);
    if curves.is_empty() {
        return String::new();
    }
    let is_loss = |name: &str| name.starts_with("loss.");
    let mut losses = Chart::new("Loss terms", "epoch", "mean over the epoch").logarithmic();
    let mut terms: Vec<_> = curves.iter().filter(|(name, _)| is_loss(name)).collect();
    // What was minimised first, its terms after it.
    terms.sort_by_key(|(name, _)| *name != "loss.total");
    for (name, points) in terms {
        let name = name.trim_start_matches("loss.").replace('_', " ");
        // A term that the recipe does not use is zero throughout.
        if points.iter().any(|&(_, value)| value != 0.0) {
            losses = losses.line(&name, points.clone());
        }
    }
    let mut charts = losses.render();
    for (key, title, unit) in NAMED {
        if let Some(points) = curves.get(key) {
            let mut chart = Chart::new(title, "epoch", unit).line(title, points.clone());
            if let Some(of_training) = curves.get(TRAINING_GED).filter(|_| key == VALIDATION_GED) {
                chart = chart.line("the same of some training images", of_training.clone());
            }
            charts += &chart.render();
        }
    }
    format!("<h2>How it was learned</h2>\n{}<div class=\"charts\">{charts}</div>", warnings(log))
}

/// The points of every number by its name.
pub fn curves(log: &[Record]) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for record in log {
        let Record::Epoch { epoch, numbers, .. } = record else { continue };
        for (name, &value) in numbers {
            curves.entry(name.clone()).or_default().push((*epoch as f64, value));
        }
    }
    curves
}

/// What a reader of the curves must know first: an early end, a codebook that collapsed.
fn warnings(log: &[Record]) -> String {
    let mut warnings = Vec::new();
    if let Some(Record::End { reason, step, .. }) = log.last()
        && reason != "finished"
    {
        warnings.push(format!("The training ended at step {step}: {}.", escaped(reason)));
    }
    let epochs = log.iter().rev().filter_map(|record| match record {
        Record::Epoch { numbers, .. } => numbers.get("used_codes").copied(),
        _ => None,
    });
    if epochs.take(1).any(|used| used <= 1.0) {
        warnings.push(
            "At the end all annotations took one code: the codebook has collapsed, or readers never differ."
                .to_owned(),
        );
    }
    warnings.iter().map(|warning| format!("<p class=\"warning\">{warning}</p>\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_and_a_collapse_are_told_first() {
        let epoch = |used: f64| {
            let numbers = [("used_codes".to_owned(), used)].into();
            Record::Epoch { step: 5, epoch: 1, seconds: 1.0, numbers }
        };
        let end = |reason: &str| Record::End { step: 5, seconds: 1.0, reason: reason.into() };
        assert_eq!(warnings(&[epoch(1.0), epoch(4.0), end("finished")]), "");
        assert!(warnings(&[epoch(4.0), epoch(1.0)]).contains("collapsed"));
        let both = section(&[epoch(0.0), end("<diverged>")]);
        assert!(both.contains("&lt;diverged&gt;") && both.contains("collapsed"), "{both}");
    }
}
