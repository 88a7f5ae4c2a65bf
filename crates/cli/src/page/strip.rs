//! Values of single images side by side, a column for each run: a dot for every image, a triangle for the mean.

use std::fmt::Write;

use super::chart::{Axis, HEIGHT, MARGINS, WIDTH, class, rungs};
use super::html::number;

/// The share of a column's width that dots spread over.
const SPREAD: f64 = 0.72;
/// Steps of this share of the width put each dot far from its neighbours in value.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// Columns of values; one without values leaves no gap, but those after it keep their colour.
#[derive(Debug)]
pub struct Strip {
    columns: Vec<(String, Vec<f64>)>,
}

impl Strip {
    /// Columns with their names; finite values are drawn.
    pub fn new(columns: impl IntoIterator<Item = (String, Vec<f64>)>) -> Self {
        let mut columns: Vec<_> = columns.into_iter().collect();
        for (_, values) in &mut columns {
            values.retain(|value| value.is_finite());
            values.sort_by(f64::total_cmp);
        }
        Self { columns }
    }

    /// The columns that have values: the class that colours one, its name, its values in order.
    fn shown(&self) -> impl Iterator<Item = (String, &str, &[f64])> {
        let columns = self.columns.iter().enumerate().filter(|(_, (_, values))| !values.is_empty());
        columns.map(|(at, (name, values))| (class(at), name.as_str(), values.as_slice()))
    }

    /// The names of the columns that have values, with the classes that colour them.
    pub fn names(&self) -> Vec<(String, &str)> {
        self.shown().map(|(class, name, _)| (class, name)).collect()
    }

    /// Axis, dots and means, without the frame of an `svg` element.
    pub fn drawing(&self) -> String {
        let y = Axis::around(self.shown().flat_map(|(_, _, values)| values.iter().copied()), false);
        let [left, right, top, bottom] = MARGINS;
        let floor = HEIGHT - bottom;
        let height = |value: f64| floor - y.share(value).clamp(0.0, 1.0) * (floor - top);
        let width = (WIDTH - left - right) / self.shown().count().max(1) as f64;
        let mut svg = rungs(&y, height);
        for (at, (class, _, values)) in self.shown().enumerate() {
            let middle = left + (at as f64 + 0.5) * width;
            // The more dots, the smaller; one path for all of them, since thousands of elements are slow to show.
            let size = (60.0 / (values.len() as f64).sqrt()).clamp(1.6, 5.0);
            let mut path = String::new();
            for (place, &value) in values.iter().enumerate() {
                let x = middle + SPREAD * width * ((place as f64 * GOLDEN).fract() - 0.5);
                // Writing to a string cannot fail.
                let _ = write!(path, "M{x:.1} {:.1}h0", height(value));
            }
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let tip = height(mean);
            let _ = write!(
                svg,
                "<path class=\"dots {class}\" stroke-width=\"{size:.1}\" d=\"{path}\"/>\
                 <path class=\"mean\" d=\"M{middle:.1} {:.1}l7 12h-14z\"><title>{mean}</title></path>\
                 <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">mean {}</text>",
                tip - 6.0,
                floor + 16.0,
                number(mean),
            );
        }
        let end = WIDTH - right;
        let _ =
            write!(svg, "<line class=\"axis\" x1=\"{left}\" x2=\"{end}\" y1=\"{floor}\" y2=\"{floor}\"/>");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_holds_all_its_values_and_their_mean() {
        let strip = Strip::new([
            ("none".to_owned(), vec![f64::NAN]),
            ("a".to_owned(), vec![0.5, 0.1, 0.3]),
            ("b".to_owned(), vec![0.25; 4000]),
        ]);
        assert_eq!(strip.names(), [("s2".to_owned(), "a"), ("s3".to_owned(), "b")]);
        let svg = strip.drawing();
        assert_eq!(svg.matches("h0").count(), 4003);
        assert_eq!(svg.matches("class=\"mean\"").count(), 2);
        assert!(svg.contains(">mean 0.3000<") && svg.contains(">mean 0.2500<"), "{svg}");
        assert!(!svg.contains("NaN"));
        assert!(Strip::new([]).names().is_empty());
    }
}
