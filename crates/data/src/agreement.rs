//! How far the raters of a study agree: overlap of pairs, Fleiss' kappa per pixel, each rater's bias in area.
//!
//! Cases are measured one by one ([`CaseAgreement`]) and added up ([`Agreement::of`]), so that no image and no
//! mask need stay in memory. docs/metrics.md has the formulas.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::metric::overlap::Overlaps;
use crate::{Mask, Result};

/// How far the annotations of one case agree.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseAgreement {
    /// Mean IoU of all pairs of annotations.
    pub mean_iou: f64,
    /// Pixels that two annotations give different labels, the mean over all pairs.
    pub disputed_pixels: f64,
    pixels: usize,
    /// Pixels of each label, background first, the mean over annotations.
    label_pixels: Vec<f64>,
    pairs: usize,
    /// Pairs of which both mark something, and the sum of their IoU.
    marked: (usize, f64),
    /// Pairs of which one marks something and the other nothing.
    presence: usize,
    annotations: Vec<Drawn>,
}

/// What one annotation is beside the others of its case.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Drawn {
    area: usize,
    /// The mean over the others.
    others_area: f64,
    others_iou: f64,
}

impl CaseAgreement {
    /// Measures the annotations of a case; none where there are fewer than two. Classes do not overlap, as in
    /// any label map.
    pub fn of(masks: &[Mask]) -> Result<Option<Self>> {
        let [first, _, ..] = masks else { return Ok(None) };
        let overlaps = Overlaps::among("agreement", &masks.iter().collect::<Vec<_>>())?;
        let pixels = first.width() * first.height();
        let areas: Vec<usize> = masks.iter().map(area).collect();
        let (mut iou_sum, mut marked, mut presence, mut differing) = (0.0, (0, 0.0), 0, 0);
        for (i, j) in (1..masks.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let iou = overlaps.iou(i, j);
            iou_sum += iou;
            match (areas[i] > 0, areas[j] > 0) {
                (true, true) => marked = (marked.0 + 1, marked.1 + iou),
                (false, false) => {}
                _ => presence += 1,
            }
            differing += differing_pixels(&masks[i], &masks[j]);
        }
        let pairs = masks.len() * (masks.len() - 1) / 2;
        let others = (masks.len() - 1) as f64;
        let total: usize = areas.iter().sum();
        let annotation = |i: usize| Drawn {
            area: areas[i],
            others_area: (total - areas[i]) as f64 / others,
            others_iou: (0..masks.len()).filter(|&j| j != i).map(|j| overlaps.iou(i, j)).sum::<f64>()
                / others,
        };
        let mean = |sum: usize| sum as f64 / masks.len() as f64;
        let background = mean(masks.len() * pixels - total);
        let classes = (0..first.classes()).map(|class| mean(masks.iter().map(|mask| mask.area(class)).sum()));
        Ok(Some(Self {
            mean_iou: iou_sum / pairs as f64,
            disputed_pixels: differing as f64 / pairs as f64,
            pixels,
            label_pixels: std::iter::once(background).chain(classes).collect(),
            pairs,
            marked,
            presence,
            annotations: (0..masks.len()).map(annotation).collect(),
        }))
    }
}

/// All that a mask marks, whatever the class.
fn area(mask: &Mask) -> usize {
    (0..mask.classes()).map(|class| mask.area(class)).sum()
}

/// Pixels to which two masks give different labels.
fn differing_pixels(a: &Mask, b: &Mask) -> usize {
    let words = a.plane(0).len();
    let differing = |word: usize| {
        (0..a.classes()).fold(0, |found, class| found | (a.plane(class)[word] ^ b.plane(class)[word]))
    };
    (0..words).map(|word| differing(word).count_ones() as usize).sum()
}

/// How far the raters of a data set agree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// Cases with several annotations: all that follows is of these.
    pub cases: usize,
    /// IoU of two annotations: the mean over the pairs of a case, then over cases.
    pub mean_iou: f64,
    /// IoU of two annotations that both mark something: the mean over all such pairs; none without any.
    pub mean_iou_marked: Option<f64>,
    /// Fleiss' kappa over the labels of pixels; none where only one label is ever given.
    pub fleiss_kappa: Option<f64>,
    /// Annotations that mark nothing, as a share of all.
    pub empty_share: f64,
    /// Pairs of which one marks something and the other nothing, as a share of all pairs.
    pub presence_share: f64,
    /// Cases in which all annotations are the same to the pixel, as a share of the cases.
    pub unanimous_share: f64,
    /// Each rater that is named.
    pub raters: BTreeMap<String, RaterAgreement>,
    /// The most disputed cases, the lowest mean IoU first; one of each group as far as groups suffice.
    pub disputed: Vec<Disputed>,
}

/// One rater beside the other annotations of the same cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RaterAgreement {
    /// Annotations beside which there are others.
    pub annotations: usize,
    /// By how much its area exceeds the others', all cases together: 0.1 for a tenth more. None where the others
    /// mark nothing.
    pub area_bias: Option<f64>,
    /// Pixels by which its area exceeds the mean of the others, the mean over cases.
    pub area_difference: f64,
    /// Annotations that mark nothing, as a share of its own.
    pub empty_share: f64,
    /// IoU with the others, the mean over cases.
    pub mean_iou: f64,
}

/// A case whose annotations differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disputed {
    /// The case's id.
    pub id: String,
    /// Mean IoU of all pairs of its annotations.
    pub mean_iou: f64,
    /// Pixels that two of its annotations give different labels, the mean over all pairs.
    pub disputed_pixels: f64,
}

/// A case as [`Agreement::of`] wants it.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its group.
    pub group: &'a str,
    /// Who made each annotation, where known, in the order of the masks.
    pub raters: &'a [Option<&'a str>],
    /// How far they agree.
    pub agreement: &'a CaseAgreement,
}

/// Disputed cases that are listed.
const MOST_DISPUTED: usize = 12;

/// A rater's sums.
#[derive(Default)]
struct Sums {
    annotations: usize,
    area: f64,
    others_area: f64,
    empty: usize,
    iou: f64,
}

impl Agreement {
    /// Adds up cases; none where there are none.
    pub fn of(cases: &[Measured]) -> Option<Self> {
        if cases.is_empty() {
            return None;
        }
        let all = || cases.iter().map(|case| case.agreement);
        let count = |of: fn(&CaseAgreement) -> usize| all().map(of).sum::<usize>() as f64;
        let (annotations, pairs) = (count(|one| one.annotations.len()), count(|one| one.pairs));
        let empty = |one: &CaseAgreement| one.annotations.iter().filter(|drawn| drawn.area == 0).count();
        let marked = all().fold((0, 0.0), |sum, one| (sum.0 + one.marked.0, sum.1 + one.marked.1));
        let mut raters: BTreeMap<&str, Sums> = BTreeMap::new();
        for case in cases {
            for (rater, drawn) in case.raters.iter().zip(&case.agreement.annotations) {
                let Some(rater) = rater else { continue };
                let sums = raters.entry(rater).or_default();
                sums.annotations += 1;
                sums.area += drawn.area as f64;
                sums.others_area += drawn.others_area;
                sums.empty += usize::from(drawn.area == 0);
                sums.iou += drawn.others_iou;
            }
        }
        Some(Self {
            cases: cases.len(),
            mean_iou: all().map(|one| one.mean_iou).sum::<f64>() / cases.len() as f64,
            mean_iou_marked: (marked.0 > 0).then(|| marked.1 / marked.0 as f64),
            fleiss_kappa: fleiss_kappa(all()),
            empty_share: all().map(empty).sum::<usize>() as f64 / annotations,
            presence_share: count(|one| one.presence) / pairs,
            unanimous_share: count(|one| usize::from(one.disputed_pixels == 0.0)) / cases.len() as f64,
            raters: raters.into_iter().map(|(rater, sums)| (rater.to_owned(), sums.into())).collect(),
            disputed: disputed(cases),
        })
    }
}

impl From<Sums> for RaterAgreement {
    fn from(sums: Sums) -> Self {
        let annotations = sums.annotations as f64;
        Self {
            annotations: sums.annotations,
            area_bias: (sums.others_area > 0.0).then(|| sums.area / sums.others_area - 1.0),
            area_difference: (sums.area - sums.others_area) / annotations,
            empty_share: sums.empty as f64 / annotations,
            mean_iou: sums.iou / annotations,
        }
    }
}

/// Every pixel of every case is an item that the case's raters label:
///
/// ```text
/// kappa = (P - E) / (1 - E)
/// P = mean over pixels of the share of the raters' pairs that agree
/// E = sum over labels of (mean over pixels of the share of raters who give the label)^2
/// ```
///
/// With the same number of raters in all cases this is Fleiss' kappa; with different numbers each pixel still
/// weighs the same.
fn fleiss_kappa<'a>(cases: impl Iterator<Item = &'a CaseAgreement>) -> Option<f64> {
    let (mut pixels, mut agreeing, mut labels) = (0.0, 0.0, Vec::new());
    for case in cases {
        pixels += case.pixels as f64;
        agreeing += case.pixels as f64 - case.disputed_pixels;
        labels.resize(case.label_pixels.len().max(labels.len()), 0.0);
        labels.iter_mut().zip(&case.label_pixels).for_each(|(sum, pixels)| *sum += pixels);
    }
    if labels.iter().filter(|&&label| label > 0.0).count() < 2 {
        return None;
    }
    let by_chance: f64 = labels.iter().map(|label| (label / pixels).powi(2)).sum();
    Some((agreeing / pixels - by_chance) / (1.0 - by_chance))
}

/// The cases to look at: neighbouring slices of one patient would show the same dispute again and again.
fn disputed(cases: &[Measured]) -> Vec<Disputed> {
    let mut order: Vec<&Measured> =
        cases.iter().filter(|case| case.agreement.disputed_pixels > 0.0).collect();
    let by_dispute = |a: &&Measured, b: &&Measured| {
        let (a, b) = (a.agreement, b.agreement);
        a.mean_iou.total_cmp(&b.mean_iou).then(b.disputed_pixels.total_cmp(&a.disputed_pixels))
    };
    order.sort_by(by_dispute);
    let mut of_group: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, &Measured)> = Vec::with_capacity(order.len());
    for case in order {
        let rank = of_group.entry(case.group).or_default();
        ranked.push((*rank, case));
        *rank += 1;
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.truncate(MOST_DISPUTED);
    ranked.sort_by(|(_, a), (_, b)| by_dispute(a, b));
    let row = |case: &Measured| Disputed {
        id: case.id.to_owned(),
        mean_iou: case.agreement.mean_iou,
        disputed_pixels: case.agreement.disputed_pixels,
    };
    ranked.into_iter().map(|(_, case)| row(case)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of labels, 0 for background.
    fn row(labels: &[usize], classes: usize) -> Mask {
        let mut mask = Mask::empty(labels.len(), 1, classes);
        for (x, &label) in labels.iter().enumerate().filter(|(_, label)| **label > 0) {
            mask.set(label - 1, x, 0, true);
        }
        mask
    }

    fn measured(masks: &[Mask]) -> CaseAgreement {
        CaseAgreement::of(masks).unwrap().unwrap()
    }

    fn alone(agreement: &CaseAgreement) -> Agreement {
        Agreement::of(&[Measured { id: "a", group: "a", raters: &[], agreement }]).unwrap()
    }

    /// Fleiss' own formula over the table of counts: n_ik raters give label k to item i.
    fn fleiss_of_counts(table: &[Vec<f64>]) -> f64 {
        let raters: f64 = table[0].iter().sum();
        let items = table.len() as f64;
        let agreement =
            |row: &Vec<f64>| (row.iter().map(|n| n * n).sum::<f64>() - raters) / (raters * (raters - 1.0));
        let observed = table.iter().map(agreement).sum::<f64>() / items;
        let labels = table[0].len();
        let share = |k: usize| table.iter().map(|row| row[k]).sum::<f64>() / (items * raters);
        let chance: f64 = (0..labels).map(|k| share(k).powi(2)).sum();
        (observed - chance) / (1.0 - chance)
    }

    #[test]
    fn kappa_by_hand() {
        // Four pixels, three raters who mark 3, 2, 1 and 0 times: P = (1 + 1/3 + 1/3 + 1) / 4 = 2/3, both labels
        // have share 1/2, so E = 1/2 and kappa = (2/3 - 1/2) / (1/2) = 1/3.
        let masks = [row(&[1, 1, 1, 0], 1), row(&[1, 1, 0, 0], 1), row(&[1, 0, 0, 0], 1)];
        let found = alone(&measured(&masks));
        assert!((found.fleiss_kappa.unwrap() - 1.0 / 3.0).abs() < 1e-12, "{found:?}");
        // Pairs: 2/3, 1/3, 1/2.
        assert!((found.mean_iou - 0.5).abs() < 1e-12);
        let same = [row(&[1, 0], 1), row(&[1, 0], 1)];
        assert_eq!(alone(&measured(&same)).fleiss_kappa, Some(1.0));
        let opposed = [row(&[1, 0], 1), row(&[0, 1], 1)];
        assert_eq!(alone(&measured(&opposed)).fleiss_kappa, Some(-1.0));
        let nothing = [row(&[0, 0], 1), row(&[0, 0], 1)];
        assert_eq!(alone(&measured(&nothing)).fleiss_kappa, None);
        assert_eq!(CaseAgreement::of(&same[..1]).unwrap(), None);
    }

    #[test]
    fn kappa_of_labels_is_fleiss_own() {
        let drawn = [[0, 1, 2, 3, 3, 0], [0, 1, 2, 2, 3, 1], [0, 2, 2, 3, 3, 0], [1, 1, 0, 3, 3, 0]];
        let masks: Vec<Mask> = drawn.iter().map(|labels| row(labels, 3)).collect();
        let count = |x: usize, label: usize| drawn.iter().filter(|row| row[x] == label).count() as f64;
        let table: Vec<Vec<f64>> = (0..6).map(|x| (0..4).map(|label| count(x, label)).collect()).collect();
        let found = alone(&measured(&masks)).fleiss_kappa.unwrap();
        assert!((found - fleiss_of_counts(&table)).abs() < 1e-12, "{found}");
    }

    #[test]
    fn cases_of_different_numbers_of_raters_weigh_by_their_pixels() {
        // Two raters agree on all of 2 pixels, three raters as in `kappa_by_hand` on 4 pixels:
        // P = (2 + 8/3) / 6 = 7/9, the label's share (1 + 2) / 6 = 1/2, kappa = (7/9 - 1/2) / (1/2) = 5/9.
        let two = measured(&[row(&[1, 0], 1), row(&[1, 0], 1)]);
        let three = measured(&[row(&[1, 1, 1, 0], 1), row(&[1, 1, 0, 0], 1), row(&[1, 0, 0, 0], 1)]);
        let found = fleiss_kappa([&two, &three].into_iter()).unwrap();
        assert!((found - 5.0 / 9.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn a_generous_rater_has_a_bias_and_an_empty_mask_is_a_vote() {
        let first = measured(&[row(&[1, 1, 1, 0], 1), row(&[1, 1, 0, 0], 1)]);
        let second = measured(&[row(&[1, 1, 0, 0], 1), row(&[0, 0, 0, 0], 1)]);
        let raters = [Some("generous"), Some("strict")];
        let case = |id, agreement| Measured { id, group: id, raters: &raters, agreement };
        let found = Agreement::of(&[case("a", &first), case("b", &second)]).unwrap();
        let generous = found.raters["generous"];
        assert_eq!(generous.area_bias, Some(5.0 / 2.0 - 1.0));
        assert_eq!((generous.area_difference, generous.empty_share), (1.5, 0.0));
        let strict = found.raters["strict"];
        assert!((strict.area_bias.unwrap() + 0.6).abs() < 1e-12);
        assert_eq!((strict.area_difference, strict.empty_share), (-1.5, 0.5));
        assert!((strict.mean_iou - (2.0 / 3.0) / 2.0).abs() < 1e-12);
        assert_eq!((found.empty_share, found.presence_share, found.unanimous_share), (0.25, 0.5, 0.0));
        assert!((found.mean_iou_marked.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(found.disputed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn groups_share_the_list_of_disputed_cases() {
        let total = measured(&[row(&[1, 0], 1), row(&[0, 1], 1)]);
        let partial = measured(&[row(&[1, 1], 1), row(&[0, 1], 1)]);
        let unanimous = measured(&[row(&[1, 1], 1), row(&[1, 1], 1)]);
        let ids: Vec<String> = (0..20).map(|at| format!("p/{at}")).collect();
        let case = |id, group, agreement| Measured { id, group, raters: &[], agreement };
        let mut cases: Vec<Measured> = ids.iter().map(|id| case(id, "p", &total)).collect();
        cases.extend([case("q", "q", &partial), case("r", "r", &unanimous)]);
        let found = Agreement::of(&cases).unwrap().disputed;
        assert_eq!(found.len(), MOST_DISPUTED);
        assert_eq!((found[0].id.as_str(), found[11].id.as_str()), ("p/0", "q"));
        assert!(found.iter().all(|one| one.id != "r"));
    }
}
