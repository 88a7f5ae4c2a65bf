//! Pictures of cases: for each the image, what readers drew, what the model says, the mean and the disagreement of its
//! hypotheses, and the hypotheses one by one. The viewer's component draws them and opens each on its own.

use multivalued_data::evaluate::Unit;
use multivalued_data::{Case, Prediction};
use serde_json::{Value, json};

use super::choice::Group;
use super::html::escaped;
use super::shown::Shown;
use crate::picture::Upright;

/// A case that has pictures.
#[derive(Debug, Clone, Copy)]
pub struct Pictured<'a> {
    /// Its place in the report.
    pub number: usize,
    /// The case.
    pub case: &'a Case,
    /// What the model says of it.
    pub prediction: &'a Prediction,
}

/// What the script draws: the cases by their numbers, and the groups they are in.
pub fn data(pictured: &[Pictured], groups: &[Group], unit: Unit) -> Value {
    let picture = |one: &Pictured| {
        let shown = serde_json::to_value(Shown::new(one.case, one.prediction, unit));
        (one.number.to_string(), shown.expect("plain numbers and strings"))
    };
    json!({ "pictures": pictured.iter().map(picture).collect::<serde_json::Map<_, _>>(), "groups": groups })
}

/// The buttons that choose a group, and what the chosen one is.
pub fn chooser(groups: &[Group]) -> String {
    if groups.len() < 2 {
        return groups.first().map_or(String::new(), |group| format!("<p>{}</p>\n", group.about));
    }
    let button = |(at, group): (usize, &Group)| {
        format!(
            "<button type=\"button\" aria-pressed=\"{}\" data-group=\"{at}\">{} <small>{}</small></button>",
            at == 0,
            group.name,
            group.cases.len()
        )
    };
    format!(
        "<div class=\"chooser\" role=\"group\" aria-label=\"Which cases are shown\">{}</div>\n<p id=\"about\" aria-live=\"polite\">{}</p>\n",
        groups.iter().enumerate().map(button).collect::<String>(),
        groups[0].about
    )
}

/// The place of a case's pictures, with what is told above them.
pub fn row(number: usize, case: &Case, told: &str) -> String {
    let upright = Upright::of(case.image.geometry.as_ref());
    let turned =
        upright.caption().map_or(String::new(), |caption| format!("<span>{}</span>", escaped(&caption)));
    format!(
        "<article class=\"case\" id=\"case-{0}\" data-case=\"{0}\" tabindex=\"-1\"><header><h3>{1}</h3><div class=\"told\">{told}{turned}</div></header>\
         <div class=\"views\"></div><div class=\"strip\"></div></article>\n",
        number,
        escaped(&case.id),
    )
}
