//! The page of a study: what a data set of several raters holds, how far they agree, and the cases on which they
//! do least.

use multivalued_data::Case;
use multivalued_data::agreement::{Agreement, RaterAgreement};
use multivalued_data::dataset::Inspection;

use super::gallery;
use super::html::{document, escaped, fact_table, number};
use super::shown::Shown;

/// What the page shows.
#[derive(Debug)]
pub struct StudyPage<'a> {
    /// The data set's name.
    pub title: &'a str,
    /// What was found.
    pub found: &'a Inspection,
    /// The most disputed cases.
    pub disputed: &'a [Case],
}

impl StudyPage<'_> {
    /// The whole file.
    pub fn render(&self) -> String {
        let agreement = self.found.agreement.as_ref();
        let sections = [
            self.head(),
            self.problems(),
            agreement.map_or(String::new(), |agreement| self.raters(agreement)),
            agreement.map_or(String::new(), |agreement| self.pictures(agreement)),
            self.counts(),
        ];
        let picture = |(at, case): (usize, &Case)| {
            let shown = serde_json::to_value(Shown::of_raters(case));
            (at.to_string(), shown.expect("plain numbers and strings"))
        };
        let pictures: serde_json::Map<_, _> = self.disputed.iter().enumerate().map(picture).collect();
        let data = serde_json::json!({ "pictures": pictures });
        document(self.title, &sections.join("\n"), &data)
    }

    fn head(&self) -> String {
        let found = self.found;
        let mut tiles = vec![
            (found.cases.to_string(), "cases"),
            (found.groups.to_string(), "groups, such as patients"),
            (found.annotations.to_string(), "annotations"),
        ];
        let mut agreed = "<p>No case has several annotations, so there is no agreement to measure.</p>";
        if let Some(agreement) = &found.agreement {
            agreed = "";
            tiles.push((number(agreement.mean_iou), "mean IoU of two annotations"));
            if let Some(iou) = agreement.mean_iou_marked {
                tiles.push((number(iou), "mean IoU where both mark something"));
            }
            let kappa = agreement.fleiss_kappa.map_or("–".into(), number);
            tiles.push((kappa, "Fleiss' kappa per pixel"));
            tiles.push((percent(agreement.empty_share), "annotations that mark nothing"));
            tiles.push((percent(agreement.presence_share), "pairs of which only one marks something"));
            tiles.push((percent(agreement.unanimous_share), "cases drawn alike by all"));
        }
        let tiles = tiles.iter().map(|(value, name)| {
            format!("<div class=\"tile\"><b>{}</b><span>{}</span></div>", escaped(value), escaped(name))
        });
        format!(
            "<h1>{}</h1>\n<p>What the raters of this data set drew, and how far they agree.</p>\n<div class=\"tiles\">{}</div>\n{agreed}",
            escaped(self.title),
            tiles.collect::<String>()
        )
    }

    fn problems(&self) -> String {
        if self.found.is_sound() {
            return String::new();
        }
        let faults = self.found.problems.iter().map(|fault| format!("<li>{}</li>", escaped(fault)));
        format!(
            "<div class=\"warning\">{} faults; what has one is not counted:<ul>{}</ul></div>",
            self.found.problems.len(),
            faults.collect::<String>()
        )
    }

    fn raters(&self, agreement: &Agreement) -> String {
        if agreement.raters.is_empty() {
            return "<h2>Raters</h2>\n<p>The data set does not name its raters, so nothing can be said of each.</p>"
                .into();
        }
        let row = |(name, rater): (&String, &RaterAgreement)| {
            let cells = [
                rater.annotations.to_string(),
                rater.area_bias.map_or("–".into(), signed_percent),
                format!("{:+.1}", rater.area_difference),
                percent(rater.empty_share),
                number(rater.mean_iou),
            ];
            let cells = cells.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect::<String>();
            format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(name))
        };
        format!(
            "<h2>Raters</h2>\n<p>Each rater beside the other annotations of the same cases. Area against the others: all its \
             areas together by those that the others drew on average. Difference: pixels a case.</p>\n<div class=\"wide\"><table>\
             <thead><tr><th>rater</th><th>annotations</th><th>area against the others</th><th>difference</th><th>mark nothing</th>\
             <th>mean IoU with the others</th></tr></thead><tbody>{}</tbody></table></div>",
            agreement.raters.iter().map(row).collect::<String>()
        )
    }

    fn pictures(&self, agreement: &Agreement) -> String {
        if self.disputed.is_empty() {
            return String::new();
        }
        let rows = self.disputed.iter().zip(&agreement.disputed).enumerate().map(|(at, (case, disputed))| {
            let told = format!(
                "<span>mean IoU <b>{}</b></span><span>two annotations differ in <b>{}</b> pixels on average</span>",
                number(disputed.mean_iou),
                number(disputed.disputed_pixels.round())
            );
            gallery::row(at, case, &told)
        });
        format!(
            "<h2>Most disputed cases</h2>\n<p>The lowest mean IoU of all pairs first; of each group its most disputed case, as \
             far as groups suffice. Each rater has a colour; outlines that share their way lie inside of each other. Every \
             picture opens with all masks, zoom and further views.</p>\n{}",
            rows.collect::<String>()
        )
    }

    fn counts(&self) -> String {
        let found = self.found;
        let mut rows = vec![
            ("layout".to_owned(), found.layout.clone()),
            ("image files".into(), found.images.to_string()),
            ("what makes a mask".into(), found.masks.clone()),
        ];
        let cases = found.annotations_per_case.iter();
        rows.extend(
            cases.map(|(count, cases)| (format!("cases with {count} annotations"), cases.to_string())),
        );
        rows.extend(
            found.raters.iter().map(|(rater, count)| (format!("annotations by {rater}"), count.to_string())),
        );
        if found.unnamed_annotations > 0 {
            rows.push(("annotations by nobody named".into(), found.unnamed_annotations.to_string()));
        }
        rows.push(("cases in which nobody marks anything".into(), found.empty_cases.to_string()));
        let sizes = found.sizes.iter();
        rows.extend(sizes.map(|(size, cases)| {
            (format!("cases of {size} (columns x rows x channels)"), cases.to_string())
        }));
        rows.extend(
            found.splits.iter().map(|(split, cases)| (format!("cases in {split}"), cases.to_string())),
        );
        rows.extend(found.duplicates.iter().map(|ids| ("the same image".into(), ids.join(", "))));
        format!("<h2>All counts</h2>\n<div class=\"wide\">{}</div>", fact_table(&rows))
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A bias as the table and the page show it.
pub fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}
