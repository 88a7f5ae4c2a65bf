//! What a data set is like, in numbers: everything that a plan for training is made from, and what a new image
//! is compared with to find out whether it is like the ones a model was trained on.
//!
//! | file | what it measures |
//! |---|---|
//! | here | counts, sizes, spacing, and the numbers of all others |
//! | `intensity` | values and sharpness of each channel |
//! | `likeness`, `warnings` | whether a new image is like them, and that of all slices of a volume |
//! | `disagreement` | how far and in what way annotations of one image differ |
//! | `orientation` | whether up and down, left and right mean something |

mod disagreement;
mod intensity;
mod likeness;
mod orientation;
mod warnings;

pub use disagreement::Disagreement;
pub use intensity::{Channel, ChannelOf};
pub use likeness::Unlike;
pub use orientation::Orientation;
pub use warnings::Warnings;

use crate::volume::slices::volumes;
use crate::{Case, CaseList, Error, Result};
use disagreement::Pairs;
use orientation::Directions;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Cases that are measured pixel by pixel; of larger data sets so many, evenly spaced.
const MEASURED: usize = 1000;

/// How a number is distributed over cases.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The smallest.
    pub min: f32,
    /// A twentieth of the cases have less.
    pub low: f32,
    /// Half of them have less.
    pub median: f32,
    /// A twentieth of them have more.
    pub high: f32,
    /// The largest.
    pub max: f32,
}

impl Spread {
    /// Of some numbers; all zero where there are none.
    pub fn of(mut values: Vec<f32>) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        values.sort_by(f32::total_cmp);
        let at = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
        Self { min: at(0.0), low: at(0.05), median: at(0.5), high: at(0.95), max: at(1.0) }
    }

    /// Whether all numbers are the same.
    pub fn is_constant(&self) -> bool {
        self.min == self.max
    }
}

/// A data set in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// The version of this description.
    pub version: u32,
    /// Images.
    pub cases: usize,
    /// Groups, such as patients.
    pub groups: usize,
    /// Foreground classes of the masks.
    pub classes: usize,
    /// Columns.
    pub width: Spread,
    /// Rows.
    pub height: Spread,
    /// Distance of two columns in the files' unit, mostly millimetres; none where no file states it.
    pub spacing: Option<Spread>,
    /// The longer side times the distance of columns, where all files state it.
    #[serde(default)]
    pub extent: Option<Spread>,
    /// Cases that are slices of a volume of at least three slices whose distance is stated, as a share of all.
    #[serde(default)]
    pub volume_share: f32,
    /// The distance of two slices divided by that of two columns, of such cases; none where there are none.
    #[serde(default)]
    pub slice_step: Option<Spread>,
    /// Values of each channel.
    pub channels: Vec<Channel>,
    /// Annotations of a case.
    pub annotations: Spread,
    /// Whether all cases name their raters, and how many annotations each has.
    pub raters: BTreeMap<String, usize>,
    /// Annotations that mark nothing, as a share of all.
    pub empty_share: f32,
    /// Cases with more than one annotation, as a share of all.
    pub disputed_share: f32,
    /// Cases with more than one annotation of which all are the same (IoU at least 0.99), as a share of those.
    pub unanimous_share: f32,
    /// Diameter in pixels of a disc as large as an annotation's mask; of those that mark something.
    pub diameter: Spread,
    /// How annotations of one image differ.
    pub disagreement: Disagreement,
    /// Whether directions mean something.
    pub orientation: Orientation,
}

impl Fingerprint {
    /// The version that is written.
    pub const VERSION: u32 = 1;

    /// Measures cases, slices without their neighbours; of many, every so-and-so-many-th pixel by pixel. Panics where
    /// there are none.
    pub fn of(cases: &CaseList) -> Result<Self> {
        assert!(!cases.is_empty(), "a fingerprint needs at least one case");
        let cases = &cases.without_neighbours();
        let step = cases.len().div_ceil(MEASURED);
        let counted: Vec<Counted> =
            cases.map(|at, case| Ok::<_, Error>(Counted::of(&case, at % step == 0)))?;
        let measured: Vec<&Measured> = counted.iter().filter_map(|one| one.measured.as_ref()).collect();
        let groups: BTreeSet<&str> = cases.groups().collect();
        let spread =
            |of: &dyn Fn(usize) -> usize| Spread::of((0..cases.len()).map(|at| of(at) as f32).collect());
        let mut raters = BTreeMap::new();
        for rater in counted.iter().flat_map(|one| &one.raters) {
            *raters.entry(rater.clone()).or_default() += 1;
        }
        let sum = |of: fn(&Counted) -> usize| counted.iter().map(of).sum::<usize>();
        let extents: Option<Vec<f32>> = counted
            .iter()
            .enumerate()
            .map(|(at, one)| Some(one.spacing? * cases.size(at)[0].max(cases.size(at)[1]) as f32))
            .collect();
        let spacings: Vec<f32> = counted.iter().filter_map(|one| one.spacing).collect();
        let of_volumes = volumes(cases).into_iter().filter(|volume| volume.slices.len() > 2);
        let steps: Vec<f32> =
            of_volumes.flat_map(|volume| volume.slices).filter_map(|at| counted[at].slice_step).collect();
        let disputed: Vec<&Pairs> = measured.iter().filter_map(|one| one.pairs.as_ref()).collect();
        let unanimous = disputed.iter().filter(|pairs| pairs.unanimous).count();
        let several = sum(|one| usize::from(one.annotations > 1));
        Ok(Self {
            version: Self::VERSION,
            cases: cases.len(),
            groups: groups.len(),
            classes: counted.iter().filter_map(|one| one.classes).max().unwrap_or(1),
            width: spread(&|at| cases.size(at)[0]),
            height: spread(&|at| cases.size(at)[1]),
            spacing: (!spacings.is_empty()).then(|| Spread::of(spacings)),
            extent: extents.map(Spread::of),
            volume_share: share(steps.len(), cases.len()),
            slice_step: (!steps.is_empty()).then(|| Spread::of(steps)),
            channels: intensity::channels(&measured.iter().map(|one| &one.channels[..]).collect::<Vec<_>>()),
            annotations: spread(&|at| counted[at].annotations),
            raters,
            empty_share: share(sum(|one| one.empty), sum(|one| one.annotations)),
            disputed_share: share(several, cases.len()),
            unanimous_share: share(unanimous, disputed.len()),
            diameter: Spread::of(measured.iter().flat_map(|one| &one.diameters).copied().collect()),
            disagreement: Disagreement::of(&disputed),
            orientation: Orientation::of(&measured.iter().map(|one| &one.directions).collect::<Vec<_>>()),
        })
    }

    /// The content of a file of it.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a fingerprint is plain numbers") + "\n"
    }

    /// Whether all images have one size.
    pub fn one_size(&self) -> bool {
        self.width.is_constant() && self.height.is_constant()
    }
}

/// What one case adds.
struct Counted {
    spacing: Option<f32>,
    /// The distance of slices divided by that of columns.
    slice_step: Option<f32>,
    /// The most of any annotation; none where there is none.
    classes: Option<usize>,
    annotations: usize,
    empty: usize,
    raters: Vec<String>,
    measured: Option<Measured>,
}

/// What is measured pixel by pixel.
struct Measured {
    channels: Vec<ChannelOf>,
    diameters: Vec<f32>,
    /// Where there are several annotations.
    pairs: Option<Pairs>,
    directions: Directions,
}

impl Counted {
    fn of(case: &Case, measured: bool) -> Self {
        let annotations = &case.annotations;
        let measure = || Measured {
            channels: (0..case.image.channels())
                .map(|channel| ChannelOf::new(&case.image, channel))
                .collect(),
            diameters: diameters(case),
            pairs: (annotations.len() > 1).then(|| Pairs::of(case)),
            directions: Directions::of(case),
        };
        Self {
            spacing: case.image.geometry.as_ref().map(|geometry| geometry.spacing[0]),
            slice_step: case.image.geometry.as_ref().and_then(|geometry| {
                let step = geometry.spacing[2] / geometry.spacing[0];
                (step.is_finite() && step > 0.0).then_some(step)
            }),
            classes: annotations.iter().map(|annotation| annotation.mask.classes()).max(),
            annotations: annotations.len(),
            empty: annotations.iter().filter(|annotation| annotation.mask.is_empty()).count(),
            raters: annotations.iter().filter_map(|annotation| annotation.rater.clone()).collect(),
            measured: measured.then(measure),
        }
    }
}

fn share(part: usize, all: usize) -> f32 {
    if all == 0 { 0.0 } else { part as f32 / all as f32 }
}

/// Of a disc as large as each annotation that marks something.
fn diameters(case: &Case) -> Vec<f32> {
    let area = |mask: &crate::Mask| (0..mask.classes()).map(|class| mask.area(class)).sum::<usize>();
    let areas = case.annotations.iter().map(|annotation| area(&annotation.mask));
    areas.filter(|&area| area > 0).map(|area| 2.0 * (area as f32 / std::f32::consts::PI).sqrt()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Annotation, Image, Mask};

    #[test]
    fn counts_by_hand() {
        let annotation = |columns: usize, rater: &str| Annotation {
            mask: Mask::from_fn(8, 6, |x, _| x < columns),
            rater: Some(rater.into()),
            weight: 1.0,
        };
        let case = |id: &str, group: &str, annotations| Case {
            id: id.into(),
            group: group.into(),
            image: Image::new(8, 6, 2, (0..96).map(|value| value as f32).collect()),
            annotations,
            truth: None,
        };
        let cases = [
            case("a", "p", vec![annotation(4, "x"), annotation(4, "y")]),
            case("b", "p", vec![annotation(0, "x"), annotation(2, "y")]),
            case("c", "q", vec![annotation(1, "x")]),
        ];
        let found = Fingerprint::of(&cases[..].into()).unwrap();
        assert_eq!((found.cases, found.groups, found.classes, found.channels.len()), (3, 2, 1, 2));
        assert_eq!(found.raters, BTreeMap::from([("x".into(), 3), ("y".into(), 2)]));
        assert!((found.empty_share - 0.2).abs() < 1e-6 && (found.disputed_share - 2.0 / 3.0).abs() < 1e-6);
        assert_eq!(found.unanimous_share, 0.5);
        assert!(found.one_size() && found.spacing.is_none());
        assert_eq!((found.annotations.min, found.annotations.max), (1.0, 2.0));
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Fingerprint>(&text).unwrap(), found);
    }

    #[test]
    fn a_spread_of_numbers_in_any_order() {
        let spread = Spread::of((0..=100).rev().map(|value| value as f32).collect());
        assert_eq!(spread, Spread { min: 0.0, low: 5.0, median: 50.0, high: 95.0, max: 100.0 });
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
