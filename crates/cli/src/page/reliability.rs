//! A reliability diagram: a square of what was said against what happened, and below it how many points each bin has.

use std::fmt::Write;

use multivalued_data::metric::calibration::ReliabilityBin;

use super::html::{escaped, number};

/// The square's edge, and what is left of it, above it, and between it and the counts.
const EDGE: f64 = 250.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 8.0;
const GAP: f64 = 20.0;
/// The height of the counts, and the room below them.
const COUNTS: f64 = 34.0;
const BELOW: f64 = 36.0;
const WIDTH: f64 = LEFT + EDGE + 20.0;
const HEIGHT: f64 = TOP + EDGE + GAP + COUNTS + BELOW;
/// A digit's width.
const DIGIT: f64 = 5.6;

/// The diagram of one kind of probability.
#[derive(Debug)]
pub struct Reliability<'a> {
    pub title: &'a str,
    /// What a bin counts: hypotheses, pixels, images.
    pub counted: &'a str,
    pub bins: &'a [ReliabilityBin],
    /// The calibration error, where known.
    pub error: Option<f64>,
    /// What chance alone would show, in words.
    pub chance: &'a str,
}

impl Reliability<'_> {
    /// The diagram as a figure, with its bins as a table to unfold.
    pub fn render(&self) -> String {
        let error =
            self.error.map_or(String::new(), |error| format!("calibration error <b>{}</b>", number(error)));
        let chance = match self.chance {
            "" => String::new(),
            chance => format!("<span class=\"unit\">{}</span>", escaped(chance)),
        };
        let row = |bin: &ReliabilityBin| {
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                percent(bin.probability),
                percent(bin.frequency),
                whole(bin.count)
            )
        };
        format!(
            "<figure class=\"chart square\"><figcaption><strong>{title}</strong> <span class=\"unit\">{error}</span>{chance}</figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}: observed frequency against said probability\">{}</svg>\
             <details><summary>{} bins</summary><table><thead><tr><th>said</th><th>observed</th><th>{}</th></tr></thead><tbody>{}</tbody></table></details></figure>",
            self.drawing(),
            self.bins.len(),
            escaped(self.counted),
            self.bins.iter().map(row).collect::<String>(),
            title = escaped(self.title),
        )
    }

    /// Where both axes end: what is always improbable would else lie in a corner.
    fn limit(&self) -> f64 {
        let largest = self.bins.iter().map(|bin| bin.probability.max(bin.frequency)).fold(0.0, f64::max);
        [0.1, 0.2, 0.4].into_iter().find(|limit| largest <= *limit).unwrap_or(1.0)
    }

    fn drawing(&self) -> String {
        let limit = self.limit();
        let x = |share: f64| LEFT + (share / limit).clamp(0.0, 1.0) * EDGE;
        let y = |share: f64| TOP + EDGE - (share / limit).clamp(0.0, 1.0) * EDGE;
        let floor = TOP + EDGE + GAP + COUNTS;
        let mut svg = String::new();
        // Writing to a string cannot fail.
        for quarter in 0..=4 {
            let share = limit * f64::from(quarter) / 4.0;
            let label = (1000.0 * share).round() / 10.0;
            let (px, py) = (x(share), y(share));
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{py:.1}\" y2=\"{py:.1}\"/>\
                 <line class=\"grid\" x1=\"{px:.1}\" x2=\"{px:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label} %</text>\
                 <text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label} %</text>",
                LEFT + EDGE,
                TOP + EDGE,
                LEFT - 6.0,
                py + 4.0,
                floor + 14.0,
            );
        }
        let _ = write!(
            svg,
            "<line class=\"rule s2\" x1=\"{LEFT}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{TOP}\"/>\
             <line class=\"axis\" x1=\"{LEFT}\" x2=\"{1:.1}\" y1=\"{floor:.1}\" y2=\"{floor:.1}\"/>\
             <text class=\"title\" x=\"{1:.1}\" y=\"{2:.1}\" text-anchor=\"end\">said probability</text>\
             <text class=\"title\" transform=\"translate(10 {3:.1}) rotate(-90)\" text-anchor=\"middle\">observed frequency</text>\
             <text class=\"title\" x=\"{4:.1}\" y=\"{floor:.1}\" text-anchor=\"end\">count</text>",
            TOP + EDGE,
            LEFT + EDGE,
            HEIGHT - 4.0,
            TOP + EDGE / 2.0,
            LEFT - 6.0,
        );
        let most = self.bins.iter().map(|bin| bin.count).fold(1.0, f64::max);
        let mut written = f64::NEG_INFINITY;
        for bin in self.bins {
            let (px, py) = (x(bin.probability), y(bin.frequency));
            // Counts of pixels go over many orders of magnitude.
            let tall = (COUNTS * (1.0 + bin.count).ln() / (1.0 + most).ln()).max(1.0);
            let told = format!(
                "{} said, {} observed, {} {}",
                percent(bin.probability),
                percent(bin.frequency),
                whole(bin.count),
                self.counted
            );
            let _ = write!(
                svg,
                "<line class=\"gap s1\" x1=\"{px:.1}\" x2=\"{px:.1}\" y1=\"{py:.1}\" y2=\"{:.1}\"/>\
                 <circle class=\"dot s1\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"4.5\"><title>{}</title></circle>\
                 <rect class=\"bin s1\" x=\"{:.1}\" y=\"{:.1}\" width=\"5\" height=\"{tall:.1}\"/>",
                y(bin.probability),
                escaped(&told),
                px - 2.5,
                floor - tall,
            );
            let text = short(bin.count);
            let half = DIGIT * text.chars().count() as f64 / 2.0;
            if px - half > written + 3.0 && px + half < WIDTH {
                let _ = write!(
                    svg,
                    "<text class=\"count\" x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                    floor - tall - 3.0
                );
                written = px + half;
            }
        }
        svg
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A count with its thousands apart.
pub fn whole(count: f64) -> String {
    let digits = format!("{count:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count in at most four signs.
fn short(count: f64) -> String {
    match count {
        ..999.5 => format!("{count:.0}"),
        ..9_950.0 => format!("{:.1}k", count / 1e3),
        ..999_500.0 => format!("{:.0}k", count / 1e3),
        ..9_950_000.0 => format!("{:.1}M", count / 1e6),
        _ => format!("{:.0}M", count / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(count: f64, probability: f64, frequency: f64) -> ReliabilityBin {
        ReliabilityBin { count, probability, frequency }
    }

    #[test]
    fn bins_lie_on_a_square_and_tell_their_counts() {
        let bins = [bin(12_345.0, 0.0, 0.0), bin(40.0, 0.5, 0.75), bin(41.0, 0.51, 0.5), bin(1.0, 1.0, 1.0)];
        let svg =
            Reliability { title: "t <1>", counted: "pixels", bins: &bins, error: Some(0.01), chance: "" }
                .render();
        let place = format!("cx=\"{:.1}\" cy=\"{:.1}\"", LEFT + EDGE / 2.0, TOP + EDGE / 4.0);
        assert!(svg.contains(&place), "{svg}");
        assert!(svg.contains("t &lt;1&gt;") && svg.contains("50.0 % said, 75.0 % observed, 40 pixels"));
        assert!(svg.contains(">12k</text>") && svg.contains(">40</text>"), "{svg}");
        assert!(!svg.contains(">41</text>"), "it would lie over the count before it, but the table has it");
        assert!(svg.contains("<td>41</td>") && svg.contains("<td>12,345</td>"));
        assert!(!svg.contains("NaN"));
        let small = [bin(10.0, 0.05, 0.1), bin(10.0, 0.12, 0.2)];
        let svg =
            Reliability { title: "t", counted: "hypotheses", bins: &small, error: None, chance: "" }.render();
        let place = format!("cx=\"{:.1}\" cy=\"{:.1}\"", LEFT + EDGE / 4.0, TOP + EDGE / 2.0);
        assert!(svg.contains(&place) && svg.contains(">20 %</text>"), "{svg}");
        assert!(svg.contains(">15 %</text>"), "{svg}");
    }

    #[test]
    fn counts_are_short() {
        let of = [0.0, 999.0, 1000.0, 12_345.0, 999_600.0, 52_000_000.0];
        assert_eq!(of.map(short), ["0", "999", "1.0k", "12k", "1.0M", "52M"]);
        assert_eq!([0.0, 999.0, 1000.0, 1_234_567.0].map(whole), ["0", "999", "1,000", "1,234,567"]);
    }
}
