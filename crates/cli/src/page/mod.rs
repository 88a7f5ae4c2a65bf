//! Pages: one HTML file each that holds everything it shows, with no script and no network. Here is the report
//! page; `study` is that of a data set.

mod chart;
mod curves;
mod details;
mod exhibits;
mod figure;
mod histogram;
mod honesty;
mod html;
mod strip;
mod study;

use multivalued_data::metric::ged::WHY_THE_LIMIT;
use multivalued_data::report::{NOT_KNOWN, Report};

pub use figure::{Drawn, figures};

use crate::log::Record;
use crate::picture::Exhibit;
use chart::Chart;
pub use html::number;
use html::{document, escaped, fact_table};
pub use study::{StudyPage, signed_percent};

/// What a page shows.
#[derive(Debug)]
pub struct Page<'a> {
    /// The run's or the recipe's name.
    pub title: &'a str,
    /// The evaluation.
    pub report: &'a Report,
    /// The training's log; empty where there was no training.
    pub log: &'a [Record],
    /// The resolved recipe as TOML; empty where there is none.
    pub recipe: &'a str,
    /// Where the result comes from: data, commit, device, seeds.
    pub facts: &'a [(String, String)],
    /// What was left out of the data for a bad file.
    pub skipped: &'a [String],
    /// Images to show, in the report's order.
    pub examples: &'a [Exhibit<'a>],
    /// Those with the lowest GED, the lowest first.
    pub best: &'a [Exhibit<'a>],
    /// Those with the highest GED, the highest first.
    pub worst: &'a [Exhibit<'a>],
}

impl Page<'_> {
    /// The whole file.
    pub fn render(&self) -> String {
        let sections = [
            self.head(),
            self.examples(),
            details::section(self.report),
            honesty::section(self.report),
            curves::section(self.log),
            self.ged_by_image(),
            self.best_and_worst(),
            self.scores(),
            self.provenance(),
        ];
        document(self.title, &sections.join("\n"))
    }

    fn head(&self) -> String {
        let summary = &self.report.summary;
        let scores = &summary.scores;
        let interval = |key: &str| {
            let found = self.report.intervals.get(key);
            found.map_or(String::new(), |found| format!(", 95 % {}", range(found)))
        };
        let mut tiles = Vec::new();
        let mut name = "GED";
        if scores.ged_limit != scores.ged_exact {
            let limit = format!("GED in the limit of many draws{}", interval("ged_limit"));
            tiles.push((number(scores.ged_limit), limit));
            name = "GED of the draws as they are";
        }
        tiles.push((number(scores.ged_exact), format!("{name}{}", interval("ged_exact"))));
        if let Some(oracle) = summary.oracle_ged {
            tiles.push((number(oracle), "GED of the truth itself".into()));
        } else if let Some(floor) = self.report.score("ged_floor") {
            let name = format!("floor of GED that readers set{}", interval("ged_floor"));
            tiles.push((number(floor), name));
        }
        tiles.push((number(scores.hm_iou), "matched IoU".into()));
        if let Some(truth) = &summary.truth {
            tiles.push((number(truth.mode_recall), "share of true modes found".into()));
            tiles.push((number(truth.mode_probability_mae), "error of a mode's probability".into()));
            tiles.push((
                number(truth.total_variation),
                "total variation of stated and true probabilities".into(),
            ));
        }
        tiles.push((number(scores.n_x_1pct), "hypotheses of 1 % and more per image".into()));
        tiles.push((number(summary.pooled.mode_ece), "calibration error of hypotheses".into()));
        let tiles = tiles.iter().map(|(value, name)| {
            format!("<div class=\"tile\"><b>{}</b><span>{}</span></div>", escaped(value), escaped(name))
        });
        format!(
            "<h1>{}</h1>\n<p>{} images of {} groups, split <em>{}</em>.</p>\n<div class=\"tiles\">{}</div>\n{}",
            escaped(self.title),
            summary.cases,
            summary.groups,
            escaped(&self.report.split),
            tiles.collect::<String>(),
            self.left_out()
        )
    }

    fn left_out(&self) -> String {
        if self.skipped.is_empty() {
            return String::new();
        }
        let faults: String =
            self.skipped.iter().map(|fault| format!("<li>{}</li>", escaped(fault))).collect();
        format!(
            "<div class=\"warning\">{} of the data set could not be used and were left out:<ul>{faults}</ul></div>",
            self.skipped.len()
        )
    }

    fn examples(&self) -> String {
        if self.examples.is_empty() {
            return String::new();
        }
        let shown = self.examples.iter().map(exhibits::row).collect::<String>();
        format!(
            "<h2>What it says</h2>\n<p>The input, what readers drew with their share of the weight, and what \
             the model says with its probabilities. At most five hypotheses are shown; they carry the probability of all they stand for.</p>\n{shown}"
        )
    }

    fn best_and_worst(&self) -> String {
        if self.report.images.len() < 8 {
            return String::new();
        }
        let [best, worst] =
            [self.best, self.worst].map(|shown| shown.iter().take(3).map(exhibits::row).collect::<String>());
        format!(
            "<h2>Best cases</h2>\n<p>The lowest GED.</p>\n{best}\n<h2>Worst cases</h2>\n<p>The highest GED.</p>\n{worst}"
        )
    }

    fn ged_by_image(&self) -> String {
        let points = |value: &dyn Fn(usize) -> Option<f64>| {
            (0..self.report.images.len()).filter_map(|at| Some(((at + 1) as f64, value(at)?))).collect()
        };
        let images = &self.report.images;
        let mut chart = Chart::new("GED of each image", "image", "lower is better")
            .dots("images", points(&|at| Some(images[at].scores.ged_exact)))
            .rule("mean", self.report.summary.scores.ged_exact);
        if let Some(oracle) = self.report.summary.oracle_ged {
            chart = chart.rule("mean of the truth itself", oracle);
        }
        let mut charts = chart.render();
        if let Some(truth) = &self.report.summary.truth {
            let variation = |at: usize| images[at].truth.map(|truth| truth.total_variation);
            charts += &Chart::new("Stated against true probabilities", "image", "total variation; 0 is best")
                .dots("images", points(&variation))
                .rule("mean", truth.total_variation)
                .render();
        }
        format!("<h2>Image by image</h2>\n<div class=\"charts\">{charts}</div>")
    }

    fn scores(&self) -> String {
        let report = self.report;
        let cell = |found: Option<&Option<[f64; 2]>>| found.map_or(String::new(), range);
        let groups = report.intervals_by_group.as_ref();
        let row = |(key, value): (&str, f64)| {
            let by_group = groups.map_or(String::new(), |all| format!("<td>{}</td>", cell(all.get(key))));
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td>{by_group}<td>{}</td></tr>",
                escaped(key),
                number(value),
                cell(report.intervals.get(key)),
                report.std_over_images.get(key).map_or(String::new(), |std| number(*std)),
            )
        };
        let mut rows = report.summary.numbers().into_iter().map(row).collect::<String>();
        let blank = if groups.is_some() { "<td></td><td></td>" } else { "<td></td>" };
        for (name, mode) in report.mode_rows() {
            rows += &format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td>{blank}<td>{}</td></tr>",
                escaped(&name),
                number(mode.mean),
                number(mode.std)
            );
        }
        let by_group = if groups.is_some() { "<th>95 % over groups</th>" } else { "" };
        format!(
            "<h2>All scores</h2>\n<p>{}.</p>\n<p>{}. docs/metrics.md has every formula.</p>\n<div class=\"wide\"><table><thead>\
             <tr><th>score</th><th>mean</th><th>95 % over images</th>{by_group}<th>std over images</th></tr>\
             </thead><tbody>{rows}</tbody></table></div>",
            escaped(&report.convention),
            escaped(WHY_THE_LIMIT)
        )
    }

    fn provenance(&self) -> String {
        let mut facts = self.facts.to_vec();
        facts.extend(self.report.data_hash.iter().map(|hash| ("data hash".to_owned(), hash.clone())));
        facts.push(("seed of draws and intervals".into(), self.report.seed.to_string()));
        let recipe = match self.recipe {
            "" => String::new(),
            recipe => format!("<h2>Recipe</h2>\n<pre>{}</pre>", escaped(recipe.trim_end())),
        };
        format!("<h2>Where this comes from</h2>\n<div class=\"wide\">{}</div>\n{recipe}", fact_table(&facts))
    }
}

/// An interval in words.
fn range(interval: &Option<[f64; 2]>) -> String {
    interval.map_or(NOT_KNOWN.into(), |[low, high]| format!("{} to {}", number(low), number(high)))
}

#[cfg(test)]
mod tests;
