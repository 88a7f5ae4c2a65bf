//! Charts as inline SVG: lines, dots and rules over two axes. Colours come from the page's style, so that
//! a chart follows light and dark.

mod axis;

pub(super) use axis::Axis;

use std::fmt::Write;

use super::html::{escaped, number};
use axis::tick_text;

pub(super) const WIDTH: f64 = 560.0;
pub(super) const HEIGHT: f64 = 240.0;
/// Left, right, top, bottom.
pub(super) const MARGINS: [f64; 4] = [56.0, 14.0, 12.0, 40.0];

/// Up to so many points a line shows them.
const FEW: usize = 12;

/// What is drawn.
#[derive(Debug, Clone)]
enum Mark {
    Line(Vec<(f64, f64)>),
    Dots(Vec<Dot>),
    /// A level, straight across.
    Rule(f64),
}

/// A dot of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    /// The case's place in the report; the page's script tells its name.
    pub case: usize,
    /// What is written beside it.
    pub label: Option<String>,
}

/// A chart in the making.
#[derive(Debug, Clone)]
pub struct Chart {
    pub(super) title: String,
    x_title: String,
    pub(super) y_title: String,
    logarithmic: bool,
    marks: Vec<(String, Mark)>,
}

impl Chart {
    /// An empty chart.
    pub fn new(title: &str, x_title: &str, y_title: &str) -> Self {
        Self {
            title: title.into(),
            x_title: x_title.into(),
            y_title: y_title.into(),
            logarithmic: false,
            marks: Vec::new(),
        }
    }

    /// With a logarithmic scale upwards, where no value is negative; zeros are then left out.
    pub fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }

    /// Adds a line.
    pub fn line(mut self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.marks.push((name.into(), Mark::Line(finite(points))));
        self
    }

    /// Adds dots of cases.
    pub fn dots(mut self, name: &str, dots: Vec<Dot>) -> Self {
        let drawn = dots.into_iter().filter(|dot| dot.x.is_finite() && dot.y.is_finite());
        self.marks.push((name.into(), Mark::Dots(drawn.collect())));
        self
    }

    /// Adds a level.
    pub fn rule(mut self, name: &str, level: f64) -> Self {
        self.marks.push((name.into(), Mark::Rule(level)));
        self
    }

    /// The chart as a figure with its legend.
    pub fn render(&self) -> String {
        format!(
            "<figure class=\"chart\"><figcaption><strong>{title}</strong> <span class=\"unit\">{}</span>{}</figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{}</svg></figure>",
            escaped(&self.y_title),
            self.legend(),
            self.drawing(),
            title = escaped(&self.title),
        )
    }

    /// The names of the lines that have points, with the classes that colour them.
    pub(super) fn lines(&self) -> impl Iterator<Item = (String, &str)> {
        let drawn = |mark: &Mark| matches!(mark, Mark::Line(points) if !points.is_empty());
        let marks = self.marks.iter().enumerate().filter(move |(_, (_, mark))| drawn(mark));
        marks.map(|(at, (name, _))| (class(at), name.as_str()))
    }

    /// Axes and marks, without the frame of an `svg` element.
    pub(super) fn drawing(&self) -> String {
        let (x, y) = self.axes();
        let [left, right, top, bottom] = MARGINS;
        let place = |(px, py): (f64, f64)| {
            let across = left + x.share(px).clamp(0.0, 1.0) * (WIDTH - left - right);
            (across, HEIGHT - bottom - y.share(py).clamp(0.0, 1.0) * (HEIGHT - top - bottom))
        };
        let mut svg = rungs(&y, |value| place((x.low, value)).1);
        let (floor, end) = (HEIGHT - bottom, WIDTH - right);
        for tick in x.ticks() {
            let (px, _) = place((tick, y.low));
            // Writing to a string cannot fail.
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{px:.1}\" x2=\"{px:.1}\" y1=\"{floor}\" y2=\"{:.1}\"/><text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                floor + 4.0,
                floor + 16.0,
                tick_text(tick)
            );
        }
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{left}\" x2=\"{end}\" y1=\"{floor}\" y2=\"{floor}\"/><text class=\"title\" x=\"{end}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            HEIGHT - 6.0,
            escaped(&self.x_title)
        );
        for (at, (name, mark)) in self.marks.iter().enumerate() {
            let class = class(at);
            match mark {
                Mark::Line(points) if points.is_empty() => {}
                Mark::Line(points) => {
                    let drawn = points.iter().copied().filter(|(_, py)| *py > 0.0 || !y.logarithmic);
                    let points: Vec<_> = drawn.collect();
                    let path: Vec<_> = points
                        .iter()
                        .map(|&point| {
                            let (px, py) = place(point);
                            format!("{px:.1},{py:.1}")
                        })
                        .collect();
                    let _ = write!(svg, "<polyline class=\"line {class}\" points=\"{}\"/>", path.join(" "));
                    // Of few points it shall be seen where they are.
                    if points.len() <= FEW {
                        let _ = write!(svg, "{}", circles(&points, &class, place));
                    }
                }
                Mark::Dots(dots) => svg.push_str(&cases(dots, &class, place)),
                Mark::Rule(level) => {
                    let (_, py) = place((x.low, *level));
                    let _ = write!(
                        svg,
                        "<line class=\"rule {class}\" x1=\"{left}\" x2=\"{end}\" y1=\"{py:.1}\" y2=\"{py:.1}\"><title>{} {}</title></line>",
                        escaped(name),
                        number(*level)
                    );
                }
            }
        }
        svg
    }

    fn axes(&self) -> (Axis, Axis) {
        let of = |mark: &Mark| match mark {
            Mark::Line(points) => points.clone(),
            Mark::Dots(dots) => dots.iter().map(|dot| (dot.x, dot.y)).collect(),
            Mark::Rule(_) => Vec::new(),
        };
        let points: Vec<(f64, f64)> = self.marks.iter().flat_map(|(_, mark)| of(mark)).collect();
        let levels = self.marks.iter().filter_map(|(_, mark)| match mark {
            Mark::Rule(level) => Some(*level),
            _ => None,
        });
        let heights: Vec<f64> = points.iter().map(|&(_, y)| y).chain(levels).collect();
        let logarithmic = self.logarithmic && heights.iter().all(|&value| value >= 0.0);
        let heights = heights.into_iter().filter(|&value| value > 0.0 || !logarithmic);
        let across = Axis::around(points.iter().map(|&(x, _)| x), false);
        let whole = points.iter().all(|(x, _)| x.fract() == 0.0);
        (Axis { whole, ..across }, Axis::around(heights, logarithmic))
    }

    /// A swatch and a name for each mark; none where there is only one.
    fn legend(&self) -> String {
        if self.marks.len() < 2 {
            return String::new();
        }
        let entries = self.marks.iter().enumerate().map(|(at, (name, mark))| {
            let kind = match mark {
                Mark::Line(_) => "line",
                Mark::Dots(_) => "dot",
                Mark::Rule(_) => "rule",
            };
            let level = match mark {
                Mark::Rule(level) => format!(" {}", number(*level)),
                _ => String::new(),
            };
            format!(
                "<span class=\"key\"><i class=\"{kind} {}\"></i>{}{level}</span>",
                class(at),
                escaped(name)
            )
        });
        format!("<span class=\"legend\">{}</span>", entries.collect::<String>())
    }
}

/// Lines across at the upward axis' ticks, with their values.
pub(super) fn rungs(axis: &Axis, height: impl Fn(f64) -> f64) -> String {
    let [left, right, ..] = MARGINS;
    let rung = |tick: f64| {
        let y = height(tick);
        format!(
            "<line class=\"grid\" x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - right,
            left - 6.0,
            y + 4.0,
            tick_text(tick)
        )
    };
    axis.ticks().into_iter().map(rung).collect()
}

/// The class that colours a mark by its place; there are six.
pub(super) fn class(at: usize) -> String {
    format!("s{}", at % 6 + 1)
}

/// Points as small circles that tell their value.
fn circles(points: &[(f64, f64)], class: &str, place: impl Fn((f64, f64)) -> (f64, f64)) -> String {
    let circle = |&point: &(f64, f64)| {
        let (x, y) = place(point);
        let value = number(point.1);
        format!(
            "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{value}</title></circle>"
        )
    };
    points.iter().map(circle).collect()
}

/// A letter's width, on average.
const LETTER: f64 = 5.8;

/// Dots of cases, and above them the labels of some, as far as none lies over another.
fn cases(dots: &[Dot], class: &str, place: impl Fn((f64, f64)) -> (f64, f64)) -> String {
    let (mut svg, mut labels) = (format!("<g class=\"dot case {class}\">"), String::new());
    let mut taken: Vec<[f64; 4]> = Vec::new();
    for dot in dots {
        let (x, y) = place((dot.x, dot.y));
        // Writing to a string cannot fail.
        let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" data-case=\"{}\"/>", dot.case);
        let Some(label) = &dot.label else { continue };
        let wide = LETTER * label.chars().count() as f64;
        let leftwards = x + 7.0 + wide > WIDTH;
        let from = if leftwards { x - 7.0 - wide } else { x + 7.0 };
        let room = [from, y - 6.0, from + wide, y + 6.0];
        let free = |other: &[f64; 4]| {
            room[2] < other[0] || other[2] < room[0] || room[3] < other[1] || other[3] < room[1]
        };
        if from < MARGINS[0] || !taken.iter().all(free) {
            continue;
        }
        taken.push(room);
        let (at, anchor) = if leftwards { (x - 7.0, " text-anchor=\"end\"") } else { (x + 7.0, "") };
        let _ = write!(
            labels,
            "<text class=\"name\" x=\"{at:.1}\" y=\"{:.1}\"{anchor}>{}</text>",
            y + 4.0,
            escaped(label)
        );
    }
    svg + "</g>" + &labels
}

fn finite(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dots(points: &[(f64, f64)]) -> Vec<Dot> {
        let dot = |(case, &(x, y)): (usize, &(f64, f64))| Dot { x, y, case, label: None };
        points.iter().enumerate().map(dot).collect()
    }

    #[test]
    fn odd_values_leave_a_sound_chart() {
        for points in [
            vec![],
            vec![(1.0, 2.0)],
            vec![(f64::NAN, 1.0), (2.0, f64::INFINITY)],
            vec![(3.0, 0.0), (3.0, 0.0)],
        ] {
            let svg = Chart::new("t <1>", "x", "y")
                .logarithmic()
                .line("a", points.clone())
                .dots("b", dots(&points))
                .render();
            assert!(svg.contains("t &lt;1&gt;") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn what_a_logarithmic_scale_cannot_show_is_left_out() {
        let points = vec![(1.0, 0.0), (2.0, 0.5), (3.0, 2.0)];
        let svg = Chart::new("t", "x", "y").logarithmic().line("a", points).render();
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
    }

    #[test]
    fn a_dot_lies_where_its_values_say_and_knows_its_case() {
        let svg = Chart::new("t", "x", "y").dots("d", dots(&[(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)])).render();
        let [left, right, ..] = MARGINS;
        // The axes begin at zero and end a little above one.
        let x = left + (WIDTH - left - right) * 0.5 / 1.04;
        assert!(svg.contains(&format!("<circle cx=\"{x:.1}\"")) && svg.contains("data-case=\"1\""), "{svg}");
    }

    #[test]
    fn labels_do_not_lie_over_each_other_and_stay_inside() {
        let named = |x: f64, y: f64, label: &str| Dot { x, y, case: 0, label: Some(label.into()) };
        let all = vec![
            named(0.0, 0.0, "a"),
            named(0.5, 0.5, "first <b>"),
            named(0.51, 0.5, "over the first"),
            named(0.5, 0.9, "above"),
            named(1.0, 1.0, "at the right edge"),
            named(0.9, 0.3, &"too long for either side ".repeat(5)),
        ];
        let svg = Chart::new("t", "x", "y").dots("d", all).render();
        assert!(svg.contains(">first &lt;b&gt;</text>") && svg.contains(">above</text>"), "{svg}");
        assert!(!svg.contains(">over the first<") && !svg.contains(">too long"), "{svg}");
        assert!(svg.contains("text-anchor=\"end\">at the right edge</text>"), "{svg}");
    }
}
