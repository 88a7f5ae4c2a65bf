//! The page of the demo: what a finished model says at once, and what the one that is being trained says so far. The
//! page loads itself anew until the training is over.

use std::time::{SystemTime, UNIX_EPOCH};

use multivalued_data::evaluate::Unit;
use serde_json::json;

use super::chart::Chart;
use super::gallery::{self, Pictured};
use super::html::{document, escaped, number};

/// Milliseconds between two looks at a page that is still being written.
const RELOAD: u64 = 3000;

/// How far the training is.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// Data and networks are being made.
    Begins,
    /// So much of it is over, 0 to 1; `step` steps.
    Learns {
        /// The share.
        progress: f32,
        /// Steps that were done.
        step: u64,
    },
    /// It is over, and this is the sentence on its scores.
    Done(String),
    /// It ended early, for this reason.
    Stopped(String),
}

/// What the page shows.
#[derive(Debug)]
pub struct DemoPage<'a> {
    /// How far the training is.
    pub stage: &'a Stage,
    /// What the model that comes with the program says.
    pub shipped: &'a [Pictured<'a>],
    /// What the model that is being trained says so far.
    pub own: &'a [Pictured<'a>],
    /// Step and mean GED of what it said of those images.
    pub curve: &'a [(f64, f64)],
}

impl DemoPage<'_> {
    /// The whole file.
    pub fn render(&self) -> String {
        let row = |one: &Pictured| gallery::row(one.number, one.case, "");
        let shipped: String = self.shipped.iter().map(row).collect();
        let own: String = self.own.iter().map(row).collect();
        let content = format!(
            "<h1>One triangle, four right answers</h1>\n<p>Each image shows a triangle. Four readers answered it with four \
             shapes, each in a quarter of the cases. The model sees the image alone and says which shapes are plausible, and how \
             plausible. Blue is what readers drew, orange what the model says. Every picture opens with all hypotheses, zoom and \
             further views.</p>\n<noscript><p class=\"warning\">The pictures need JavaScript.</p></noscript>\n\
             <h2>A finished model</h2>\n<p><code>models/shapes</code> comes with the program and was trained on images of \
             160x160 pixels. It never saw these.</p>\n{shipped}\n{}\n{own}",
            self.training(),
        );
        let all: Vec<Pictured> = self.shipped.iter().chain(self.own).copied().collect();
        let mut data = gallery::data(&all, &[], Unit::Pixels);
        if matches!(self.stage, Stage::Begins | Stage::Learns { .. }) {
            let written = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
            data["reload"] = json!({ "every": RELOAD, "written": written });
        }
        document("demo", &content, &data)
    }

    fn training(&self) -> String {
        let (told, share) = match self.stage {
            Stage::Begins => {
                ("The training begins; its first answers come in some seconds.".to_owned(), Some(0.0))
            }
            Stage::Learns { progress, step } => (
                format!(
                    "{:.0} % of the training is over, {step} steps. The page follows it by itself.",
                    100.0 * progress
                ),
                Some(*progress),
            ),
            Stage::Done(told) => (escaped(told), None),
            Stage::Stopped(why) => (format!("The training ended early: {}.", escaped(why)), None),
        };
        let bar = share.map_or(String::new(), |share| {
            format!(
                "<div class=\"progress\" role=\"progressbar\" aria-valuenow=\"{0:.0}\" aria-valuemin=\"0\" aria-valuemax=\"100\"><i style=\"width:{0:.1}%\"></i></div>",
                100.0 * share
            )
        });
        let report = match self.stage {
            Stage::Done(_) => " The <a href=\"report.html\">report</a> has all scores, charts and cases.",
            _ => "",
        };
        let curve = match self.curve {
            [.., (_, last)] if self.curve.len() > 1 => {
                let title = "GED of the images below, as it is trained";
                let chart = Chart::new(title, "step", &format!("lower is better; now {}", number(*last)));
                format!("<div class=\"charts\">{}</div>\n", chart.line("GED", self.curve.to_vec()).render())
            }
            _ => String::new(),
        };
        format!(
            "<h2>A model of your own</h2>\n<p aria-live=\"polite\">A small network for 64x64 pixels learns the same from 16,000 examples on this \
             machine. {told}{report}</p>\n{bar}{curve}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loads_itself_anew_until_the_training_is_over() {
        let render =
            |stage: &Stage, curve: &[(f64, f64)]| DemoPage { stage, shipped: &[], own: &[], curve }.render();
        let learns = render(&Stage::Learns { progress: 0.25, step: 1200 }, &[(600.0, 0.5), (1200.0, 0.25)]);
        assert!(learns.contains("25 % of the training is over, 1200 steps") && learns.contains("now 0.2500"));
        assert!(learns.contains("aria-valuenow=\"25\"") && learns.contains("\"reload\":{\"every\":"));
        assert!(render(&Stage::Begins, &[]).contains("\"reload\":{"));
        let done = render(&Stage::Done("All <found>.".into()), &[(600.0, 0.5)]);
        assert!(done.contains("All &lt;found&gt;.") && done.contains("href=\"report.html\""));
        assert!(
            !done.contains("\"reload\":{") && !done.contains("progressbar") && !done.contains("<polyline")
        );
        let stopped = render(&Stage::Stopped("no more <disk>".into()), &[]);
        assert!(stopped.contains("ended early: no more &lt;disk&gt;.") && !stopped.contains("\"reload\":{"));
        assert!(!stopped.contains("report.html"));
    }
}
