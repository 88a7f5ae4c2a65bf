//! Charts of several runs as SVG files that stand alone: for documents, with title, legend and both axes named.

use std::fmt::Write;

use super::chart::{Chart, HEIGHT, WIDTH};
use super::curves::curves;
use super::html::escaped;
use super::strip::Strip;
use crate::log::Record;

/// A run as it is drawn.
#[derive(Debug)]
pub struct Drawn {
    /// What the legend calls it.
    pub name: String,
    /// Its training.
    pub log: Vec<Record>,
    /// The GED of each image that it was scored on, in the limit.
    pub geds: Vec<f64>,
}

/// File, title, what is drawn upwards, and the numbers of the log that show it, the first one there is.
const FIGURES: [(&str, &str, &str, &[&str]); 3] = [
    ("used-codes.svg", "Codes in use, epoch by epoch", "codes", &["used_codes"]),
    (
        "mean-inner-product.svg",
        "Mean inner product of pairs of codes in use",
        "cosine",
        &["mean_inner_product"],
    ),
    (
        "validation-ged.svg",
        "Generalized energy distance on validation images",
        "GED",
        &["validation.ged_limit", "validation.ged_exact"],
    ),
];

/// Room for the title of the upward axis, and for the title and each line of the legend.
const AXIS_TITLE: f64 = 18.0;
const TITLE: f64 = 26.0;
const LEGEND_LINE: f64 = 17.0;
/// A letter's width at the legend's size, on average; a swatch with its gaps.
const LETTER: f64 = 6.3;
const SWATCH: f64 = 56.0;

/// The curves of runs over each other, and the GEDs of the images they were scored on side by side: file
/// names and files. A run without a number is left out of its figure, and a figure that no run has a number
/// for is not drawn.
pub fn figures(runs: &[Drawn]) -> Vec<(&'static str, String)> {
    let curves: Vec<_> = runs.iter().map(|run| (&run.name, curves(&run.log))).collect();
    let mut files = Vec::new();
    for (file, title, unit, keys) in FIGURES {
        let mut chart = Chart::new(title, "epoch", unit);
        for (name, curves) in &curves {
            // Without points where the log has no such number, so that a run keeps its colour in all figures.
            let points = keys.iter().find_map(|key| curves.get(*key)).cloned().unwrap_or_default();
            chart = chart.line(name, points);
        }
        let names: Vec<_> = chart.lines().collect();
        if !names.is_empty() {
            files.push((file, document(title, unit, &names, &chart.drawing())));
        }
    }
    let strip = Strip::new(runs.iter().map(|run| (run.name.clone(), run.geds.clone())));
    let names = strip.names();
    if !names.is_empty() {
        let title = "Generalized energy distance of each scored image";
        files.push(("image-ged.svg", document(title, "GED", &names, &strip.drawing())));
    }
    files
}

/// A drawing as a file of its own, with a legend of classes and names.
fn document(title: &str, unit: &str, names: &[(String, &str)], drawing: &str) -> String {
    let (legend, lines) = legend(names);
    let head = TITLE + LEGEND_LINE * lines as f64 + 4.0;
    let (width, height) = (WIDTH + AXIS_TITLE, HEIGHT + head);
    let middle = head + HEIGHT / 2.0 - 14.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text class=\"head\" x=\"{AXIS_TITLE}\" y=\"18\">{title}</text>\n{legend}\
         <text class=\"title\" text-anchor=\"middle\" transform=\"translate(14 {middle}) rotate(-90)\">{unit}</text>\n\
         <g transform=\"translate({AXIS_TITLE} {head})\">{drawing}</g>\n</svg>\n",
        title = escaped(title),
        unit = escaped(unit),
    )
}

/// The page's colours and strokes, on a white ground that is readable wherever the figure stands. Dashes let
/// a line show where another lies over it.
const STYLE: &str = "text{font:11px system-ui,sans-serif;fill:#5b6570}.head{font-size:14px;font-weight:600;fill:#1c2127}\
.grid{stroke:#d9dee4}.axis{stroke:#5b6570}.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke:currentColor}\
.dot{fill:currentColor;fill-opacity:.7}.s1{color:#1f6fd1}.s2{color:#d9730d}.s3{color:#1d8a5b}.s4{color:#9a4fc9}\
.s5{color:#c2355b}.s6{color:#6b7480}\
.line.s2{stroke-dasharray:9 4}.line.s3{stroke-dasharray:3 3}.line.s4{stroke-dasharray:12 4 3 4}.line.s5{stroke-dasharray:6 2}\
.line.s6{stroke-dasharray:1.5 4}.dots{fill:none;stroke:currentColor;stroke-linecap:round;stroke-opacity:.7}\
.mean{fill:#1c2127;stroke:#ffffff;stroke-width:1.5}";

/// Swatches and names in as many lines as they need, and the number of lines.
fn legend(names: &[(String, &str)]) -> (String, usize) {
    let (mut svg, mut x, mut line) = (String::new(), AXIS_TITLE, 0);
    for (class, name) in names {
        let width = SWATCH + LETTER * name.chars().count() as f64;
        if x > AXIS_TITLE && x + width > WIDTH + AXIS_TITLE {
            (x, line) = (AXIS_TITLE, line + 1);
        }
        let y = TITLE + LEGEND_LINE * f64::from(line) + 8.0;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<line class=\"line {class}\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
            x + 34.0,
            x + 40.0,
            y + 4.0,
            escaped(name)
        );
        x += width;
    }
    (svg, line as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Numbers;

    fn log(numbers: &[(&str, f64)]) -> Vec<Record> {
        let numbers: Numbers = numbers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        (1..=3)
            .map(|epoch| Record::Epoch { step: epoch, epoch, seconds: 1.0, numbers: numbers.clone() })
            .collect()
    }

    #[test]
    fn runs_lie_over_each_other_where_they_have_the_number() {
        let run = |name: &str, numbers, geds| Drawn { name: name.to_owned(), log: log(numbers), geds };
        let runs = [
            run("unet", &[("validation.ged_exact", 0.5)], vec![]),
            run("paper & co", &[("used_codes", 4.0), ("validation.ged_limit", 0.3)], vec![0.1, 0.2]),
        ];
        let files = figures(&runs);
        let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["used-codes.svg", "validation-ged.svg", "image-ged.svg"]);
        let count = |at: usize| files[at].1.matches("<polyline").count();
        assert_eq!([count(0), count(1)], [1, 2]);
        assert!(files[0].1.contains("paper &amp; co") && !files[0].1.contains("unet"));
        assert!(files[1].1.starts_with("<svg xmlns=") && files[1].1.contains(">epoch</text>"));
        for (file, second) in
            [(0, "<polyline class=\"line s2\""), (1, "line s2"), (2, "<path class=\"dots s2\"")]
        {
            assert!(files[file].1.contains(second), "a run keeps its colour");
        }
        assert!(figures(&[]).is_empty());
    }

    #[test]
    fn a_long_legend_takes_several_lines() {
        let named = |at: usize| Drawn {
            name: format!("a run with a rather long name, number {at}"),
            log: log(&[("used_codes", 1.0)]),
            geds: Vec::new(),
        };
        let files = figures(&(0..5).map(named).collect::<Vec<_>>());
        assert!(
            files[0].1.contains(&format!("height=\"{}\"", HEIGHT + TITLE + 5.0 * LEGEND_LINE + 4.0)),
            "one a line"
        );
    }
}
