//! Pages: one HTML file each that holds everything it shows and needs no network. Here is the report page; `study` is
//! that of a data set, `demo` that of a first training. The viewer's component (`crates/web/page`) draws images with
//! their hypotheses; `report.js` puts them in their places and makes the table of cases.

mod cases;
mod chart;
mod choice;
mod curves;
mod demo;
mod details;
mod figure;
mod gallery;
mod histogram;
mod honesty;
mod html;
mod reliability;
mod shown;
mod strip;
mod study;

use multivalued_data::evaluate::Unit;
use multivalued_data::metric::ged::WHY_THE_LIMIT;
use multivalued_data::report::{NOT_KNOWN, NoiseFloor, Report};

pub use cases::Areas;
pub use choice::{Group, groups, pictured};
pub use demo::{DemoPage, Stage};
pub use figure::{Drawn, figures};
pub use gallery::Pictured;

use crate::log::Record;
use details::mean_and_range;
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
    /// The sizes in each image, in the report's order; empty where they were not measured.
    pub areas: &'a [Areas],
    /// Why cases are shown.
    pub groups: &'a [Group],
    /// The cases of all groups.
    pub pictured: &'a [Pictured<'a>],
}

impl Page<'_> {
    /// The whole file.
    pub fn render(&self) -> String {
        let sections = [
            self.head(),
            self.pictures(),
            cases::section(self.report, self.pictured.len()),
            details::section(self.report),
            honesty::section(self.report),
            curves::section(self.log),
            self.scores(),
            self.provenance(),
        ];
        let mut data = gallery::data(self.pictured, self.groups, self.unit());
        data["table"] = cases::data(self.report, self.areas, self.unit());
        document(self.title, &sections.join("\n"), &data)
    }

    /// The unit of areas.
    fn unit(&self) -> Unit {
        self.report.measures.as_ref().map_or(Unit::Pixels, |measures| measures.unit)
    }

    fn head(&self) -> String {
        let summary = &self.report.summary;
        let scores = &summary.scores;
        let (intervals, over) = self.report.first_intervals();
        let interval = |key: &str| {
            let found = intervals.get(key);
            found.map_or(String::new(), |found| format!(", 95 % over {over} {}", range(found)))
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
        let spread = "readers\u{2019} own spread: mean distance of two of them";
        tiles.push((number(scores.diversity_labels), spread.into()));
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
        let chance = self.report.noise.chance("mode_ece");
        let chance =
            chance.map_or(String::new(), |floor| format!("; by chance alone {}", number(floor.mean)));
        tiles.push((number(summary.pooled.mode_ece), format!("calibration error of hypotheses{chance}")));
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

    fn pictures(&self) -> String {
        if self.pictured.is_empty() {
            return String::new();
        }
        let row = |one: &Pictured| {
            let told = cases::told(&self.report.images[one.number], self.areas.get(one.number), self.unit());
            gallery::row(one.number, one.case, &told)
        };
        format!(
            "<h2 id=\"pictures\">What it says</h2>\n<p>Blue is what readers drew, orange what the model says: the more \
             probable, the brighter and wider the line. Every picture opens with all hypotheses, zoom and further views.</p>\n{}\
             <noscript><p class=\"warning\">Pictures and table need JavaScript, which this browser does not run here; \
             report.json has all numbers, sheets/ has pictures.</p></noscript>\n<div id=\"gallery\">{}</div>",
            gallery::chooser(self.groups),
            self.pictured.iter().map(row).collect::<String>()
        )
    }

    fn scores(&self) -> String {
        let report = self.report;
        let cell = |found: Option<&Option<[f64; 2]>>| found.map_or(String::new(), range);
        let groups = report.intervals_by_group.as_ref();
        let by_chance = !report.noise.is_empty();
        let chance_cell = |floor: Option<&NoiseFloor>| match by_chance {
            true => format!("<td>{}</td>", floor.map_or(String::new(), mean_and_range)),
            false => String::new(),
        };
        let row = |(key, value): (&str, f64)| {
            let by_group = groups.map_or(String::new(), |all| format!("<td>{}</td>", cell(all.get(key))));
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td>{by_group}<td>{}</td>{}</tr>",
                escaped(key),
                number(value),
                cell(report.intervals.get(key)),
                report.std_over_images.get(key).map_or(String::new(), |std| number(*std)),
                chance_cell(report.noise.chance(key)),
            )
        };
        let mut rows = report.summary.numbers().into_iter().map(row).collect::<String>();
        let blank = if groups.is_some() { "<td></td><td></td>" } else { "<td></td>" };
        for (name, mode) in report.mode_rows() {
            rows += &format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td>{blank}<td>{}</td>{}</tr>",
                escaped(&name),
                number(mode.mean),
                number(mode.std),
                chance_cell(None)
            );
        }
        let by_group = if groups.is_some() { "<th>95 % over groups</th>" } else { "" };
        let (what_chance_is, chance_head) = match by_chance {
            true => (
                " A calibration error has beside it what a perfectly calibrated model would show by chance (5 % \
                 to 95 %).",
                "<th>by chance alone</th>",
            ),
            false => ("", ""),
        };
        format!(
            "<h2>All scores</h2>\n<p>{}.</p>\n<p>{}.{what_chance_is} docs/metrics.md has every formula.</p>\n\
             <div class=\"wide\"><table><thead>\
             <tr><th>score</th><th>mean</th><th>95 % over images</th>{by_group}<th>std over images</th>\
             {chance_head}</tr></thead><tbody>{rows}</tbody></table></div>",
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
