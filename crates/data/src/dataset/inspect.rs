//! A data set examined as a whole: what is in it, and every fault, not only the first.

use std::collections::BTreeMap;
use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;

use super::load::{self, Part};
use super::slices::Slices;
use super::{Dataset, Options, Source};
use crate::agreement::{Agreement, CaseAgreement, Measured};
use crate::import::{Limits, MaskRule};
use crate::{Case, CompactMask, Error, Image, Mask, Result};

/// What a data set holds and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Inspection {
    /// The layout's name.
    pub layout: String,
    /// Files that hold images (a volume counts once).
    pub images: usize,
    /// Cases that could be read (a volume counts by its slices).
    pub cases: usize,
    /// Groups, such as patients.
    pub groups: usize,
    /// Annotations of all cases.
    pub annotations: usize,
    /// How many annotations are by which rater, where raters are named.
    pub raters: BTreeMap<String, usize>,
    /// Annotations of which nobody says by whom they are.
    pub unnamed_annotations: usize,
    /// Annotations that mark nothing.
    pub empty_annotations: usize,
    /// Cases in which no annotation marks anything.
    pub empty_cases: usize,
    /// How far raters agree; none where no case has several annotations.
    pub agreement: Option<Agreement>,
    /// Cases whose true modes are known.
    pub cases_with_truth: usize,
    /// How many cases have how many annotations.
    pub annotations_per_case: BTreeMap<usize, usize>,
    /// How many cases have which size, as "width x height x channels".
    pub sizes: BTreeMap<String, usize>,
    /// How many cases the data set itself puts into which split.
    pub splits: BTreeMap<String, usize>,
    /// Ids whose images are equal pixel for pixel.
    pub duplicates: Vec<Vec<String>>,
    /// What makes stored values a mask.
    pub masks: String,
    /// What should be known of the way in which the data set was read.
    pub notes: Vec<String>,
    /// Every fault, in the order of the cases; empty for a sound data set.
    pub problems: Vec<String>,
}

impl Inspection {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// What is kept of a case; its pixels are let go slice by slice.
struct Seen<'a> {
    id: String,
    source: &'a Source,
    slice: usize,
    size: [usize; 3],
    annotations: usize,
    empty: usize,
    has_truth: bool,
    image_hash: blake3::Hash,
    /// None where there are fewer than two annotations.
    agreement: Option<CaseAgreement>,
}

impl<'a> Seen<'a> {
    fn new(source: &'a Source, slice: usize, image: &Image) -> Self {
        let mut hasher = blake3::Hasher::new();
        let size = [image.width(), image.height(), image.channels()];
        size.iter().for_each(|&side| {
            hasher.update(&(side as u64).to_le_bytes());
        });
        // In parts, since a slice may be as large as memory allows.
        let mut bytes = Vec::new();
        for values in image.pixels().chunks(1 << 14) {
            bytes.clear();
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            hasher.update(&bytes);
        }
        let image_hash = hasher.finalize();
        let id = source.case_id(slice);
        Self {
            id,
            source,
            slice,
            size,
            annotations: 0,
            empty: 0,
            has_truth: false,
            image_hash,
            agreement: None,
        }
    }

    /// The cases of a source.
    fn all(source: &'a Source, rule: MaskRule, limits: &Limits) -> Result<Vec<Self>> {
        let mut seen: Vec<Self> = Vec::new();
        // Each mask file holds all slices, and agreement needs all masks of one slice.
        let mut masks: Vec<Vec<CompactMask>> = vec![Vec::new(); source.depth];
        let slices = Slices::of(source, limits)?;
        load::visit(source, slices, rule, limits, |z, part| match part {
            Part::Image(image) => seen.push(Self::new(source, z, &image)),
            Part::Annotation(mask, _) => {
                seen[z].annotations += 1;
                seen[z].empty += usize::from(mask.is_empty());
                if source.labels.len() > 1 {
                    masks[z].push(CompactMask::new(&mask));
                }
            }
            Part::Truth(..) => seen[z].has_truth = true,
        })?;
        for (case, masks) in seen.iter_mut().zip(masks) {
            let masks: Vec<Mask> = masks.iter().map(CompactMask::mask).collect();
            case.agreement = CaseAgreement::of(&masks)?;
        }
        Ok(seen)
    }
}

/// Reads every file of a data set and lists all that is wrong. An error only where there is nothing to
/// examine: no such folder, no known layout.
pub fn inspect(path: &Path, options: &Options) -> Result<Inspection> {
    inspect_showing(path, options, 0).map(|(found, _)| found)
}

/// The same, with so many of the most disputed cases to look at, in the order of [`Agreement::disputed`].
pub fn inspect_showing(path: &Path, options: &Options, most: usize) -> Result<(Inspection, Vec<Case>)> {
    let mut problems = Vec::new();
    let dataset = Dataset::find(path, options, &mut problems)?;
    let rule = dataset.mask_rule();
    let examined: Vec<_> = dataset
        .sources
        .par_iter()
        .map(|source| {
            Seen::all(source, rule, &dataset.limits)
                .map_err(|first| load::faults(source, rule, &dataset.limits, first))
        })
        .collect::<Vec<std::result::Result<_, _>>>();
    let mut seen = Vec::new();
    for result in examined {
        match result {
            Ok(cases) => seen.extend(cases),
            Err(mut faults) => {
                // A lack of memory is no fault of the data.
                if let Some(at) = faults.iter().position(|fault| matches!(fault, Error::Memory { .. })) {
                    return Err(faults.swap_remove(at));
                }
                problems.extend(faults);
            }
        }
    }
    let mut found = Inspection {
        layout: dataset.layout.to_string(),
        masks: rule.to_string(),
        notes: dataset.notes(),
        images: dataset.sources.len(),
        cases: seen.len(),
        ..Default::default()
    };
    let mut groups = BTreeMap::new();
    let mut by_content: BTreeMap<[u8; 32], Vec<&Seen>> = BTreeMap::new();
    for case in &seen {
        groups.entry(&case.source.group).or_insert(());
        found.annotations += case.annotations;
        for label in &case.source.labels {
            match &label.rater {
                Some(rater) => *found.raters.entry(rater.clone()).or_default() += 1,
                None => found.unnamed_annotations += 1,
            }
        }
        found.empty_annotations += case.empty;
        found.empty_cases += usize::from(case.empty == case.annotations);
        found.cases_with_truth += usize::from(case.has_truth);
        *found.annotations_per_case.entry(case.annotations).or_default() += 1;
        let [width, height, channels] = case.size;
        *found.sizes.entry(format!("{width} x {height} x {channels}")).or_default() += 1;
        if let Some(split) = &case.source.split {
            *found.splits.entry(split.clone()).or_default() += 1;
        }
        by_content.entry(*case.image_hash.as_bytes()).or_default().push(case);
    }
    found.groups = groups.len();
    found.agreement = agreement(&seen);
    let channels = seen.iter().map(|case| (case.id.as_str(), case.size[2]));
    if let Err(fault) = load::same_channels(path, channels) {
        match dataset.in_colours() {
            Some(coloured) => found.notes = coloured.notes(),
            None => problems.push(fault),
        }
    }
    for same in by_content.values().filter(|same| same.len() > 1) {
        found.duplicates.push(same.iter().map(|case| case.id.clone()).collect());
        if let Some(other) = same.iter().find(|case| case.source.split != same[0].source.split) {
            problems.push(Error::dataset(
                path,
                format!(
                    "the cases '{}' and '{}' have the same image but lie in different splits; remove one",
                    same[0].id, other.id
                ),
            ));
        }
    }
    found.duplicates.sort();
    found.problems = one_each(problems.iter().map(ToString::to_string));
    let disputed = found.agreement.iter().flat_map(|agreement| &agreement.disputed).take(most);
    // An id that is given twice is a fault; the first one is as good as the other.
    let shown = disputed.filter_map(|one| seen.iter().find(|case| case.id == one.id));
    let shown = shown.map(|case| load::case(case.source, case.slice, rule, &dataset.limits));
    let shown = shown.collect::<Result<Vec<Case>>>()?;
    Ok((found, shown))
}

/// How far the raters of all cases agree.
fn agreement(seen: &[Seen]) -> Option<Agreement> {
    let raters: Vec<Vec<Option<&str>>> = seen
        .iter()
        .map(|case| case.source.labels.iter().map(|label| label.rater.as_deref()).collect())
        .collect();
    let measured = seen.iter().zip(&raters).filter_map(|(case, raters)| {
        let agreement = case.agreement.as_ref()?;
        Some(Measured { id: &case.id, group: &case.source.group, raters, agreement })
    });
    Agreement::of(&measured.collect::<Vec<_>>())
}

/// A file that breaks both the listing and the reading is told once.
pub(super) fn one_each(messages: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for message in messages {
        if seen.insert(message.clone()) {
            kept.push(message);
        }
    }
    kept
}
