//! Are the probabilities honest? Reliability of everything that a model says with a probability, each beside what
//! chance alone would show.

use multivalued_data::metric::calibration::ReliabilityBin;
use multivalued_data::report::Report;
use multivalued_data::report::blocks::area_text;

use super::details::chance;
use super::histogram::Histogram;
use super::html::number;
use super::reliability::Reliability;

/// The section.
pub fn section(report: &Report) -> String {
    let chart = |title: &str, counted: &str, bins: &[ReliabilityBin], key: &str| {
        let chance = chance(&report.noise, key);
        Reliability { title, counted, bins, error: report.score(key), chance: &chance }.render()
    };
    let bins = &report.reliability;
    let mut charts = chart("Hypotheses", "hypotheses", &bins.modes, "mode_ece");
    charts += &chart("Pixels", "pixels", &bins.pixels, "pixel_ece_zero_bin");
    // Where nothing is ever empty there is nothing to be honest about.
    if bins.empty.iter().any(|bin| bin.probability > 0.0 || bin.frequency > 0.0) {
        charts += &chart("\u{201c}Nothing there\u{201d}", "images", &bins.empty, "empty_ece");
    }
    if let Some(measures) = &report.measures {
        for (larger, key) in bins.larger.iter().zip(["larger_q25_ece", "larger_q50_ece", "larger_q75_ece"]) {
            let area = area_text(larger.area, measures.unit);
            charts += &chart(&format!("\u{201c}Larger than {area}\u{201d}"), "images", &larger.bins, key);
        }
    }
    let mut histogram = String::new();
    if let Some(pit) = &bins.area_pit {
        let uneven = report.score("area_pit_error").map_or(String::new(), number);
        let chance = chance(&report.noise, "area_pit_error");
        let chance = if chance.is_empty() { chance } else { format!(" · {chance}") };
        histogram = Histogram {
            title: "Readers\u{2019} areas among the expected ones",
            unit: &format!("share of readers · unevenness {uneven}{chance}"),
            ends: ["smaller than expected", "larger than expected"],
            shares: &pit.shares,
            low: &pit.low,
            high: &pit.high,
        }
        .render();
    }
    let sizes = match bins.larger.is_empty() {
        true => "",
        false => {
            " Sizes are quantiles of what readers marked: a quarter, half and three quarters of their masks are \
             smaller. The histogram of areas is flat where sizes are judged honestly; high ends mean too little \
             spread, a slope means areas that are all too small or too large."
        }
    };
    let noise = match report.noise.readers.is_empty() {
        true => "",
        false => {
            " Chance is what a perfectly calibrated model would show with so many images, its mean and 5 to 95 %: \
             with readers who draw independently from the stated probabilities, and with the dependence of readers \
             and images inside groups as it is."
        }
    };
    format!(
        "<h2>Are the probabilities honest?</h2>\n<p>What was said with probability p should happen in a share p of the \
         cases: on the dashed line. Bars below count what each bin holds, on a logarithmic scale.{noise}{sizes}</p>\n\
         <div class=\"charts squares\">{charts}</div>\n<div class=\"charts\">{histogram}</div>"
    )
}
