//! How far from the best that can be: the GED beside its floor, single masks as answers, boundaries and lesions.

use std::collections::BTreeMap;

use multivalued_data::report::blocks::{self, PARTS, about_shapes, about_the_floor, shape_rows};
use multivalued_data::report::{Measures, NOT_KNOWN, NoiseFloor, NoiseFloors, Report};

use super::html::{escaped, number};
use super::range;

/// The section; nothing where the report has no details.
pub fn section(report: &Report) -> String {
    let Some(measures) = &report.measures else { return String::new() };
    format!(
        "<h2>How far from the best that can be</h2>\n<p>{}</p>\n{}\n<div class=\"side\">{}{}</div>",
        escaped(&about_the_floor(report)),
        parts(report),
        answers(report),
        shapes(report, measures)
    )
}

/// The GED and its floor as bars of two parts.
fn parts(report: &Report) -> String {
    let (intervals, over) = report.first_intervals();
    let longest = PARTS.iter().filter_map(|(_, keys)| report.score(keys[0])).fold(0.0, f64::max);
    let mut rows = String::new();
    for (name, keys) in PARTS {
        let [whole, emptiness, shape] = keys.map(|key| report.score(key));
        let Some(whole) = whole else { continue };
        // Shape may be a little below zero where emptiness is misjudged; a bar cannot.
        let width = |part: Option<f64>| 100.0 * (part.unwrap_or(0.0) / longest).clamp(0.0, 1.0);
        rows += &format!(
            "<tr><th scope=\"row\">{name}</th><td class=\"parts\"><i class=\"s1\" style=\"width:{:.1}%\"></i><i \
             class=\"s2\" style=\"width:{:.1}%\"></i></td><td><b>{}</b></td><td>{}</td><td>{}</td><td>{}</td></tr>",
            width(emptiness),
            width(shape),
            number(whole),
            intervals.get(keys[0]).map_or(String::new(), range),
            known(emptiness),
            known(shape),
        );
    }
    rows += &format!(
        "<tr><th scope=\"row\">readers\u{2019} own spread D</th><td class=\"parts\"></td><td><b>{}</b></td><td>{}</td><td></td><td></td></tr>",
        number(report.summary.scores.diversity_labels),
        intervals.get("diversity_labels").map_or(String::new(), range),
    );
    format!(
        "<div class=\"wide\"><table><thead><tr><th>GED</th><th class=\"parts\"></th><th>whole</th><th>95 % over \
         {over}</th><th><i class=\"block s1\"></i> emptiness</th><th><i class=\"block s2\"></i> shape</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>\n<p>Emptiness is 2 (p − q)², with p the stated probability of an empty \
         mask and q the share of readers who marked nothing (several classes: the mean over them); shape is the rest.</p>"
    )
}

fn answers(report: &Report) -> String {
    let (answers, about) = blocks::answers(report);
    let rows = answers.into_iter().map(|(name, ged, iou)| {
        format!("<tr><th scope=\"row\">{name}</th><td>{}</td><td>{}</td></tr>", number(ged), known(iou))
    });
    format!(
        "<div><h3>One mask as the answer</h3><div class=\"wide\"><table><thead><tr><th>answer</th><th>GED</th><th>IoU \
         with a reader</th></tr></thead><tbody>{}</tbody></table></div><p>A consensus of the other readers is held \
         against the reader who was left out; one of all readers is held against readers who made it, so it is \
         flattered. {about}</p></div>",
        rows.collect::<String>()
    )
}

fn shapes(report: &Report, measures: &Measures) -> String {
    let rows = shape_rows(measures).into_iter().map(|(name, keys)| {
        let [top, expected] = keys.map(|key| known(report.score(key)));
        format!("<tr><th scope=\"row\">{}</th><td>{top}</td><td>{expected}</td></tr>", escaped(&name))
    });
    format!(
        "<div><h3>Boundaries and lesions</h3><div class=\"wide\"><table><thead><tr><th></th><th>most \
         probable</th><th>expected</th></tr></thead><tbody>{}</tbody></table></div><p>{}</p></div>",
        rows.collect::<String>(),
        escaped(&about_shapes(report, measures))
    )
}

/// What chance alone would show for a calibration error, in a few words; nothing where it is not known.
pub fn chance(noise: &NoiseFloors, key: &str) -> String {
    let said = |name: &str, floors: &BTreeMap<String, NoiseFloor>| {
        floors.get(key).map(|floor| format!("{name} {}", mean_and_range(floor)))
    };
    let known = [said("independent readers", &noise.readers), said("groups", &noise.groups)];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!("chance: {}", known.join(", ")) }
}

/// What chance alone would show: its mean, and the range from 5 % to 95 %.
pub fn mean_and_range(floor: &NoiseFloor) -> String {
    format!("{} ({})", number(floor.mean), range(&Some([floor.low, floor.high])))
}

fn known(value: Option<f64>) -> String {
    value.map_or(NOT_KNOWN.into(), number)
}
