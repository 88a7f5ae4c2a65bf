//! Which cases of many have pictures on the page, and why.

use std::collections::BTreeSet;

use multivalued_data::report::ImageRow;
use serde::Serialize;

use crate::picture::spread;

/// Up to so many cases all are shown.
const ALL: usize = 12;

/// Cases that are shown for one reason, by their place in the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// What the page calls it.
    pub name: &'static str,
    /// The reason.
    pub about: &'static str,
    /// In the order of the page.
    pub cases: Vec<usize>,
}

/// The groups of a report; a case may be in several.
pub fn groups(images: &[ImageRow]) -> Vec<Group> {
    let all: Vec<usize> = (0..images.len()).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let ranked = |value: &dyn Fn(&ImageRow) -> f64| {
        let mut ranked = all.clone();
        ranked.sort_by(|&a, &b| value(&images[b]).total_cmp(&value(&images[a])));
        ranked
    };
    let by_ged = ranked(&|row| row.scores.ged_limit);
    if all.len() <= ALL {
        return vec![Group { name: "All cases", about: "The highest GED first.", cases: by_ged }];
    }
    let disputed = ranked(&|row| row.scores.diversity_labels);
    let lowest: Vec<usize> = by_ged.iter().rev().copied().collect();
    let first = |ranked: &[usize], count: usize| of_each_group(ranked, images, count);
    let middle = by_ged.len() / 2;
    vec![
        Group {
            name: "From all over",
            about: "Evenly spread from the first case to the last.",
            cases: spread(&all, 8),
        },
        Group {
            name: "Worst",
            about: "The highest GED first; one case of each group, as far as groups suffice.",
            cases: first(&by_ged, 8),
        },
        Group {
            name: "Most disputed",
            about: "Readers differ most among themselves; one case of each group, as far as groups suffice.",
            cases: first(&disputed, 6),
        },
        Group {
            name: "Typical",
            about: "GEDs around the median.",
            cases: by_ged[middle - 2..middle + 2].to_vec(),
        },
        Group {
            name: "Best",
            about: "The lowest GED first; one case of each group, as far as groups suffice.",
            cases: first(&lowest, 4),
        },
    ]
}

/// The first ones, at most one of each group; where groups do not suffice, the next ones. Neighbouring slices of a
/// patient are nearly the same image.
fn of_each_group(ranked: &[usize], images: &[ImageRow], count: usize) -> Vec<usize> {
    let mut groups = BTreeSet::new();
    let (first, others): (Vec<usize>, Vec<usize>) =
        ranked.iter().partition(|&&at| groups.insert(images[at].group.as_str()));
    let mut chosen: Vec<usize> = first.into_iter().chain(others).take(count).collect();
    chosen.sort_by_key(|at| ranked.iter().position(|other| other == at));
    chosen
}

/// The cases of all groups, each once, in the order of the groups.
pub fn pictured(groups: &[Group]) -> Vec<usize> {
    let mut cases = Vec::new();
    for &case in groups.iter().flat_map(|group| &group.cases) {
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    cases
}
