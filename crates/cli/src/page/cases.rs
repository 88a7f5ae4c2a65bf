//! Case by case: a chart with a dot for each, and a table that the page's script sorts and filters.

use multivalued_data::evaluate::Unit;
use multivalued_data::metric::area;
use multivalued_data::report::{ImageRow, Report};
use multivalued_data::{Case, Mask, Prediction};
use serde::Serialize;
use serde_json::{Value, json};

use super::chart::{Chart, Dot};
use super::html::escaped;

/// How many of the worst dots have their names written beside them.
const NAMED: usize = 4;

/// The sizes of what is marked in one case, in pixels or square millimetres: median, 5 % and 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Areas {
    /// By the hypotheses.
    pub model: [f64; 3],
    /// By the readers.
    pub readers: [f64; 3],
}

impl Areas {
    /// Those of a case and what a model says of it.
    pub fn of(case: &Case, prediction: &Prediction, unit: Unit) -> Self {
        let spacing = Some(unit).filter(|unit| *unit == Unit::Millimetres).and_then(|_| Unit::stated(case));
        let pixel = spacing.map_or(1.0, |[across, down]| across * down);
        let said = prediction.hypotheses.iter().map(|one| (&one.mask, one.probability));
        let drawn = case.annotations.iter().map(|one| (&one.mask, one.weight));
        let quantiles = |masks: &mut dyn Iterator<Item = (&Mask, f32)>| {
            let mut sizes: Vec<(usize, f64)> =
                masks.map(|(mask, weight)| (area::of(mask), f64::from(weight))).collect();
            let total: f64 = sizes.iter().map(|(_, weight)| weight).sum();
            sizes.iter_mut().for_each(|(_, weight)| *weight /= total);
            sizes.sort_by_key(|(size, _)| *size);
            [0.5, 0.05, 0.95].map(|level| pixel * area::quantile(&sizes, level))
        };
        Self { model: quantiles(&mut said.into_iter()), readers: quantiles(&mut drawn.into_iter()) }
    }

    /// In words: "84 px, 90 %: 61 to 120".
    pub fn in_words([median, low, high]: [f64; 3], unit: Unit) -> String {
        let digits = usize::from(unit == Unit::Millimetres && high < 99.5);
        format!("{median:.digits$} {}, 90 %: {low:.digits$} to {high:.digits$}", sign(unit))
    }
}

/// The unit of areas.
pub fn sign(unit: Unit) -> &'static str {
    match unit {
        Unit::Millimetres => "mm²",
        Unit::Pixels => "px",
    }
}

/// What a cell holds, by the case's place in the report and its scores.
type Cell = Box<dyn Fn(usize, &ImageRow) -> Value>;

/// A column of the table.
struct Column {
    title: String,
    about: &'static str,
    /// How the script writes and sorts its cells: name, text, score, count, share or area.
    kind: &'static str,
    cell: Cell,
}

fn column(
    title: &str,
    about: &'static str,
    kind: &'static str,
    cell: impl Fn(usize, &ImageRow) -> Value + 'static,
) -> Column {
    Column { title: title.to_owned(), about, kind, cell: Box::new(cell) }
}

/// A number in as many digits as are shown; null where it is not known.
fn rounded(value: f64) -> Value {
    match value.is_finite() {
        true => json!((value * 1e4).round() / 1e4),
        false => Value::Null,
    }
}

/// The columns that the report has numbers for.
fn columns(report: &Report, areas: &[Areas], unit: Unit) -> Vec<Column> {
    let mut columns =
        vec![column("case", "its name; a link where there is a picture", "name", |_, row| json!(row.id))];
    // A name that begins with its group tells it already.
    if report.images.iter().any(|row| !row.id.starts_with(&row.group)) {
        columns.push(column("group", "such as the patient", "text", |_, row| json!(row.group)));
    }
    columns.push(column("GED", "generalized energy distance: lower is better", "score", |_, row| {
        rounded(row.scores.ged_limit)
    }));
    columns.push(column(
        "readers\u{2019} own spread",
        "mean distance of two readers, 0: all drew the same",
        "score",
        |_, row| rounded(row.scores.diversity_labels),
    ));
    if report.images.iter().any(|row| row.details.ged_excess.is_finite()) {
        columns.push(column(
            "above the floor",
            "GED less that of a model that knew the readers",
            "score",
            |_, row| rounded(row.details.ged_excess),
        ));
    }
    columns.push(column("model\u{2019}s spread", "mean distance of two hypotheses", "score", |_, row| {
        rounded(row.scores.diversity_outputs)
    }));
    columns.push(column("matched IoU", "higher is better", "score", |_, row| rounded(row.scores.hm_iou)));
    if report.images.iter().any(|row| row.truth.is_some()) {
        columns.push(column(
            "total variation",
            "of stated and true probabilities: 0 is best",
            "score",
            |_, row| row.truth.map_or(Value::Null, |truth| rounded(truth.total_variation)),
        ));
    }
    columns.push(column("hypotheses", "of 1 % and more", "count", |_, row| json!(row.scores.n_x_1pct)));
    if report
        .images
        .iter()
        .any(|row| row.scores.empty_probability > 0.0005 || row.scores.empty_label_share > 0.0)
    {
        columns.push(column(
            "nothing there",
            "the probability that the model gives to an empty mask",
            "share",
            |_, row| rounded(row.scores.empty_probability),
        ));
        columns.push(column(
            "readers: nothing",
            "the share of readers who marked nothing",
            "share",
            |_, row| rounded(row.scores.empty_label_share),
        ));
    }
    if areas.len() == report.images.len() {
        let of = |[median, low, high]: [f64; 3]| json!([median, low, high].map(rounded));
        let (model, readers) = (areas.to_vec(), areas.to_vec());
        columns.push(column(
            &format!("area, {}", sign(unit)),
            "the model\u{2019}s median, and from 5 to 95 % of the probability",
            "area",
            move |at, _| of(model[at].model),
        ));
        columns.push(column(
            &format!("readers\u{2019} area, {}", sign(unit)),
            "the readers\u{2019} median, and from 5 to 95 % of their weight",
            "area",
            move |at, _| of(readers[at].readers),
        ));
    }
    columns
}

/// What the script makes the table of.
pub fn data(report: &Report, areas: &[Areas], unit: Unit) -> Value {
    let columns = columns(report, areas, unit);
    let row =
        |(at, row): (usize, &ImageRow)| columns.iter().map(|one| (one.cell)(at, row)).collect::<Value>();
    let heads: Vec<Value> = columns
        .iter()
        .map(|one| json!({ "title": one.title, "about": one.about, "kind": one.kind }))
        .collect();
    json!({ "columns": heads, "rows": report.images.iter().enumerate().map(row).collect::<Vec<_>>() })
}

/// The section: charts and the place of the table.
pub fn section(report: &Report, pictures: usize) -> String {
    let all = report.images.len();
    let shown = match pictures {
        0 => "Pictures come with the evaluation of a run.".to_owned(),
        _ if pictures == all => "Names lead to the pictures.".to_owned(),
        _ => format!(
            "{pictures} of {all} cases have pictures here, and their names are links; <code>multivalued predict</code> \
             makes pictures of any other, and <code>multivalued view</code> shows them."
        ),
    };
    format!(
        "<h2 id=\"cases\">Case by case</h2>\n<p>Each dot is a case: point at it for its name, click it for its picture or its line in \
         the table. Where readers differ much, no answer can be near to all of them.</p>\n<div class=\"charts\">{}</div>\n\
         <h3>All {all} cases</h3>\n<p>A column\u{2019}s title sorts by it. {shown}</p>\n<div id=\"table\"></div>",
        charts(report)
    )
}

fn charts(report: &Report) -> String {
    let images = &report.images;
    let mut ranked: Vec<usize> = (0..images.len()).collect();
    ranked.sort_by(|&a, &b| images[b].scores.ged_limit.total_cmp(&images[a].scores.ged_limit));
    let named = &ranked[..ranked.len().min(NAMED)];
    // The worst first: of labels that would lie over each other theirs are written.
    let dots = |x: &dyn Fn(&ImageRow) -> f64, y: &dyn Fn(&ImageRow) -> f64| -> Vec<Dot> {
        let dot = |&case: &usize| {
            let label = named.contains(&case).then(|| images[case].id.clone());
            Dot { x: x(&images[case]), y: y(&images[case]), case, label }
        };
        ranked.iter().map(dot).collect()
    };
    let (ged, spread) = (|row: &ImageRow| row.scores.ged_limit, |row: &ImageRow| row.scores.diversity_labels);
    let mut chart = Chart::new(
        "GED and the readers\u{2019} own spread",
        "readers\u{2019} own spread",
        "GED: lower is better",
    )
    .dots("cases", dots(&spread, &ged))
    .rule("mean GED", report.summary.scores.ged_limit);
    if let Some(oracle) = report.summary.oracle_ged {
        chart = chart.rule("mean of the truth itself", oracle);
    }
    if let Some(slope) = floor(images) {
        let end = images.iter().map(spread).fold(0.0, f64::max);
        chart = chart.line("floor that readers set", vec![(0.0, 0.0), (end, slope * end)]);
    }
    let mut charts = chart.render();
    if let Some(truth) = &report.summary.truth {
        let variation = |row: &ImageRow| row.truth.map_or(f64::NAN, |truth| truth.total_variation);
        charts += &Chart::new("Stated against true probabilities", "GED", "total variation: 0 is best")
            .dots("cases", dots(&ged, &variation))
            .rule("mean", truth.total_variation)
            .render();
    } else {
        charts += &Chart::new("GED and matched IoU", "matched IoU: higher is better", "GED: lower is better")
            .dots("cases", dots(&|row| row.scores.hm_iou, &ged))
            .render();
    }
    charts
}

/// The floor D/K as a line over D, where all cases have the same number of readers.
fn floor(images: &[ImageRow]) -> Option<f64> {
    let slopes =
        images.iter().filter(|row| row.scores.diversity_labels > 1e-6 && row.details.ged_floor.is_finite());
    let slopes: Vec<f64> = slopes.map(|row| row.details.ged_floor / row.scores.diversity_labels).collect();
    let first = *slopes.first()?;
    slopes.iter().all(|slope| (slope - first).abs() < 1e-6).then_some(first)
}

/// What is said of a case above its pictures.
pub fn told(row: &ImageRow, areas: Option<&Areas>, unit: Unit) -> String {
    let scores = &row.scores;
    let fact = |name: &str, value: &str| format!("<span>{name} <b>{}</b></span>", escaped(value));
    let mut facts = vec![
        fact("GED", &format!("{:.3}", scores.ged_limit)),
        fact("readers\u{2019} own spread", &format!("{:.3}", scores.diversity_labels)),
        fact("hypotheses of 1 % and more", &scores.n_x_1pct.to_string()),
    ];
    if scores.empty_probability > 0.0005 || scores.empty_label_share > 0.0 {
        let told = format!(
            "{:.0} %, by readers {:.0} %",
            100.0 * scores.empty_probability,
            100.0 * scores.empty_label_share
        );
        facts.push(fact("nothing there", &told));
    }
    if let Some(areas) = areas {
        facts.push(fact("area", &Areas::in_words(areas.model, unit)));
    }
    facts.concat()
}

#[cfg(test)]
mod tests {
    use multivalued_data::{Annotation, Geometry, Hypothesis, Image};

    use super::*;

    #[test]
    fn areas_are_weighted_and_in_their_unit() {
        let of_size = |size: usize| Mask::from_fn(10, 10, |x, y| y * 10 + x < size);
        let annotation = |size: usize| Annotation { mask: of_size(size), rater: None, weight: 1.0 };
        let mut image = Image::new(10, 10, 1, vec![0.0; 100]);
        image.geometry = Some(Geometry { spacing: [0.5, 0.5, 1.0], affine: None });
        let annotations = vec![annotation(8), annotation(0), annotation(20)];
        let case = Case { id: "a".into(), group: "a".into(), image, annotations, truth: None };
        let said = |size: usize, probability: f32| Hypothesis { mask: of_size(size), probability, code: 0 };
        let prediction = Prediction::stated(vec![said(40, 0.6), said(0, 0.3), said(99, 0.1)]);
        let found = Areas::of(&case, &prediction, Unit::Pixels);
        assert_eq!((found.model, found.readers), ([40.0, 0.0, 99.0], [8.0, 0.0, 20.0]));
        let found = Areas::of(&case, &prediction, Unit::Millimetres);
        assert_eq!(found.model, [10.0, 0.0, 24.75]);
        assert_eq!(Areas::in_words(found.model, Unit::Millimetres), "10.0 mm², 90 %: 0.0 to 24.8");
        assert_eq!(Areas::in_words([40.0, 0.0, 99.0], Unit::Pixels), "40 px, 90 %: 0 to 99");
    }
}
