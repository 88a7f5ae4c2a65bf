//! A histogram over 0 to 1 with the band that chance leaves to each bar.

use std::fmt::Write;

use super::chart::{Axis, HEIGHT, MARGINS, WIDTH, rungs};
use super::html::{escaped, number};

/// Bars of equal width with the range of each under chance, and the level of a flat histogram.
#[derive(Debug)]
pub struct Histogram<'a> {
    pub title: &'a str,
    /// Behind the title.
    pub unit: &'a str,
    /// What 0 and 1 are.
    pub ends: [&'a str; 2],
    pub shares: &'a [f64],
    pub low: &'a [f64],
    pub high: &'a [f64],
}

impl Histogram<'_> {
    /// The histogram as a figure with its legend.
    pub fn render(&self) -> String {
        format!(
            "<figure class=\"chart\"><figcaption><strong>{title}</strong> <span class=\"unit\">{}</span>\
             <span class=\"legend\"><span class=\"key\"><i class=\"block s1\"></i>readers</span>\
             <span class=\"key\"><i class=\"block s2\"></i>5 to 95 % of a calibrated model, readers independent</span></span></figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{}</svg></figure>",
            escaped(self.unit),
            self.drawing(),
            title = escaped(self.title),
        )
    }

    fn drawing(&self) -> String {
        let [left, right, top, bottom] = MARGINS;
        let floor = HEIGHT - bottom;
        let y = Axis::around([0.0].iter().chain(self.shares).chain(self.high).copied(), false);
        let height = |value: f64| floor - y.share(value).clamp(0.0, 1.0) * (floor - top);
        let width = (WIDTH - left - right) / self.shares.len() as f64;
        let mut svg = rungs(&y, height);
        for (at, share) in self.shares.iter().enumerate() {
            let x = left + at as f64 * width;
            // Writing to a string cannot fail.
            let _ = write!(
                svg,
                "<rect class=\"bin s1\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>\
                 <rect class=\"band s2\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                x + 0.12 * width,
                height(*share),
                0.76 * width,
                floor - height(*share),
                number(*share),
                x,
                height(self.high[at]),
                width,
                (height(self.low[at]) - height(self.high[at])).max(1.5),
            );
        }
        let (end, below) = (WIDTH - right, floor + 16.0);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{left}\" x2=\"{end}\" y1=\"{floor}\" y2=\"{floor}\"/>\
             <text x=\"{left}\" y=\"{below}\">{}</text><text x=\"{end}\" y=\"{below}\" text-anchor=\"end\">{}</text>",
            escaped(self.ends[0]),
            escaped(self.ends[1]),
        );
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_shares() {
        let shares = [0.2, 0.8];
        let svg = Histogram {
            title: "t <1>",
            unit: "u",
            ends: ["small", "large"],
            shares: &shares,
            low: &[0.4, 0.4],
            high: &[0.6, 0.6],
        }
        .render();
        let heights: Vec<f64> = svg
            .split("<rect class=\"bin")
            .skip(1)
            .map(|rest| rest.split(" height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!((heights[1] / heights[0] - 4.0).abs() < 0.02, "{heights:?}");
        assert_eq!(svg.matches("class=\"band").count(), 2);
        assert!(svg.contains("t &lt;1&gt;") && !svg.contains("NaN"));
    }
}
