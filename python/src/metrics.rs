//! Weighted sets of masks compared, many images at once.

use multivalued_cli::{Failure, Outcome};
use multivalued_data::agreement::{Agreement, CaseAgreement, Measured};
use multivalued_data::draw::Draw;
use multivalued_data::evaluate::volumes::score_volumes;
use multivalued_data::evaluate::{Settings, Unit, evaluate, score, summarise};
use multivalued_data::metric::consensus::Votes;
use multivalued_data::metric::summary::short_list;
use multivalued_data::metric::{
    Comparison, WeightedMasks, calibration, count, diversity, ged, matching, overlap, soft, split,
};
use multivalued_data::{Annotation, Case, Geometry, Hypothesis, Image, Mask, Mode, Prediction, Predictions};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use rayon::prelude::*;
use serde_json::Value;

use crate::arrays::{MaskSet, Planes, mask_array};
use crate::cases::Cases;
use crate::failure::guarded;

/// A number of one image.
type Metric = fn(&Comparison) -> f64;

/// Numbers that need no more than the overlaps.
const METRICS: [(&str, Metric); 20] = [
    ("ged_exact", ged::exact),
    ("ged_limit", ged::limit),
    ("ged_unbiased", ged::unbiased),
    ("ged_emptiness", |c| split::of_limit(c).emptiness),
    ("ged_shape", |c| split::of_limit(c).shape()),
    ("ged_floor", |c| split::floor(c).map_or(f64::NAN, |floor| floor.total)),
    ("hm_iou", matching::hm_iou),
    ("hm_iou_assignment", matching::hm_iou_by_assignment),
    ("soft_dice", soft::soft_dice),
    ("dice_max_labels", matching::dice_max_of_labels),
    ("iou_max_labels", matching::iou_max_of_labels),
    ("dice_max_outputs", matching::dice_max_of_outputs),
    ("dice_match", matching::dice_match),
    ("dice_mean", matching::dice_mean),
    ("diversity_outputs", diversity::of_outputs),
    ("diversity_labels", diversity::of_labels),
    ("mode_brier", calibration::mode_brier),
    ("mode_nll", calibration::mode_nll),
    ("n_x", |c| count::at_least(c.outputs().weights(), count::PAPER_THRESHOLD) as f64),
    ("n_x_effective", |c| count::effective(c.outputs().weights())),
];

fn name(at: usize) -> String {
    format!("image {at}")
}

/// Some images' sets, as they lie in NumPy's memory.
fn planes_of<'a>(sets: &'a [MaskSet<'_>]) -> PyResult<Vec<Planes<'a>>> {
    sets.iter().map(MaskSet::planes).collect()
}

/// What `of` makes of each image's comparison, in parallel.
fn compared<T: Send>(
    labels: &[Planes],
    outputs: &[Planes],
    of: impl Fn(usize, &Comparison) -> Outcome<T> + Sync,
) -> Outcome<Vec<T>> {
    let one = |at: usize| -> Outcome<T> {
        let (drawn, said) = (labels[at].masks(), outputs[at].masks());
        let name = name(at);
        let drawn = drawn.iter().zip(labels[at].weights.iter().copied());
        let said = said.iter().zip(outputs[at].weights.iter().copied());
        let labels = WeightedMasks::listed_annotations(&name, drawn)?;
        let outputs = WeightedMasks::listed_outputs(&name, said, outputs[at].draws)?;
        of(at, &Comparison::of_sets(&name, labels, outputs, None)?)
    };
    let all: Vec<Outcome<T>> = (0..labels.len()).into_par_iter().map(one).collect();
    all.into_iter().collect()
}

/// A number of each image by its name.
#[pyfunction]
fn metric<'py>(
    py: Python<'py>,
    name: String,
    outputs: Vec<MaskSet<'py>>,
    labels: Vec<MaskSet<'py>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (outputs, labels) = (planes_of(&outputs)?, planes_of(&labels)?);
    let values = guarded(py, || {
        let Some((_, of)) = METRICS.iter().find(|(known, _)| *known == name) else {
            return Err(Failure::user("metric", format!("there is no '{name}'")));
        };
        compared(&labels, &outputs, |_, comparison| Ok(of(comparison)))
    })?;
    Ok(PyArray1::from_vec(py, values))
}

/// GED of so many draws of the outputs.
#[pyfunction]
fn ged_sampled<'py>(
    py: Python<'py>,
    outputs: Vec<MaskSet<'py>>,
    labels: Vec<MaskSet<'py>>,
    count: usize,
    seed: u64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (outputs, labels) = (planes_of(&outputs)?, planes_of(&labels)?);
    let values = guarded(py, || {
        compared(&labels, &outputs, |at, comparison| {
            Ok(ged::sampled(comparison, count, &mut Draw::new(seed, &["ged", &name(at)], 0)))
        })
    })?;
    Ok(PyArray1::from_vec(py, values))
}

/// IoU or Dice of each mask of one set with each of another.
#[pyfunction]
fn overlaps<'py>(
    py: Python<'py>,
    a: MaskSet<'py>,
    b: MaskSet<'py>,
    dice: bool,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (a, b) = (a.planes()?, b.planes()?);
    let rows = guarded(py, || {
        let (a, b) = (a.masks(), b.masks());
        let all = overlap::Overlaps::among("masks", &a.iter().chain(&b).collect::<Vec<_>>())?;
        let of = |i: usize, j: usize| match dice {
            true => all.dice(i, a.len() + j),
            false => all.iou(i, a.len() + j),
        };
        Ok((0..a.len()).map(|i| (0..b.len()).map(|j| of(i, j)).collect()).collect::<Vec<Vec<f64>>>())
    })?;
    PyArray2::from_vec2(py, &rows).map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}

/// Cases and predictions of the sets.
fn as_cases(
    outputs: &[Planes],
    labels: &[Planes],
    truths: &[Option<Planes>],
    groups: &[String],
    spacing: Option<[f32; 2]>,
) -> Vec<(Case, Prediction)> {
    let one = |at: usize| {
        let (drawn, said) = (labels[at], outputs[at]);
        let [_, _, height, width] = drawn.size;
        // Scores look at masks and at the distance of pixels, not at the image.
        let mut image = Image::new(width, height, 1, vec![0.0; width * height]);
        image.geometry = spacing.map(|[x, y]| Geometry { spacing: [x, y, 1.0], affine: None });
        let annotation =
            |(mask, weight): (Mask, &f64)| Annotation { mask, rater: None, weight: *weight as f32 };
        let mode = |(mask, weight): (Mask, &f64)| Mode { mask, probability: *weight as f32 };
        let case = Case {
            id: name(at),
            group: groups[at].clone(),
            image,
            annotations: drawn.masks().into_iter().zip(drawn.weights).map(annotation).collect(),
            truth: truths[at].map(|modes| modes.masks().into_iter().zip(modes.weights).map(mode).collect()),
        };
        (case, as_prediction(said))
    };
    (0..labels.len()).into_par_iter().map(one).collect()
}

/// A set as a prediction, whose codes are numbers in order.
fn as_prediction(said: Planes) -> Prediction {
    let hypothesis = |(code, (mask, weight)): (usize, (Mask, &f64))| Hypothesis {
        mask,
        probability: *weight as f32,
        code,
    };
    let hypotheses = said.masks().into_iter().zip(said.weights).enumerate().map(hypothesis).collect();
    Prediction { hypotheses, draws: said.draws }
}

/// The report on a part's cases that were predicted elsewhere, as JSON and as a table.
#[pyfunction]
fn report_of_cases(
    py: Python<'_>,
    cases: PyRef<'_, Cases>,
    outputs: Vec<MaskSet<'_>>,
    part: String,
    data_hash: String,
    resamples: usize,
) -> PyResult<(String, String)> {
    let (list, outputs) = (&cases.list, planes_of(&outputs)?);
    guarded(py, || {
        let settings = Settings {
            data_hash: Some(data_hash),
            unit: Unit::of_list(list)?,
            resamples,
            ..Settings::new(&part)
        };
        let said: Vec<Prediction> = outputs.par_iter().map(|set| as_prediction(*set)).collect();
        let one =
            |(at, said): (usize, &Prediction)| -> Outcome<_> { Ok(score(&*list.get(at)?, said, &settings)?) };
        let scores: Vec<Outcome<_>> = said.par_iter().enumerate().map(one).collect();
        let mut report = summarise(&scores.into_iter().collect::<Outcome<Vec<_>>>()?, &settings)?;
        let mut all = Predictions::default();
        all.extend(&said);
        report.volumes = score_volumes(list, &all, settings.seed, |_, _| ())?;
        Ok((report.to_json(), report.table()))
    })
}

/// The report of all scores, as JSON.
#[pyfunction]
fn report(
    py: Python<'_>,
    outputs: Vec<MaskSet<'_>>,
    labels: Vec<MaskSet<'_>>,
    truths: Vec<Option<MaskSet<'_>>>,
    groups: Vec<String>,
    spacing: Option<[f32; 2]>,
    seed: u64,
    resamples: usize,
    details: bool,
) -> PyResult<String> {
    let (outputs, labels) = (planes_of(&outputs)?, planes_of(&labels)?);
    let truths: Vec<Option<Planes>> =
        truths.iter().map(|set| set.as_ref().map(MaskSet::planes).transpose()).collect::<PyResult<_>>()?;
    guarded(py, || {
        let (cases, predictions): (Vec<Case>, Vec<Prediction>) =
            as_cases(&outputs, &labels, &truths, &groups, spacing).into_iter().unzip();
        let settings = Settings { seed, resamples, details, ..Settings::new("all") };
        Ok(evaluate(&cases, &predictions, &settings)?.to_json())
    })
}

/// Every score of each image, as JSON.
#[pyfunction]
fn scores(
    py: Python<'_>,
    outputs: Vec<MaskSet<'_>>,
    labels: Vec<MaskSet<'_>>,
    truths: Vec<Option<MaskSet<'_>>>,
    spacing: Option<[f32; 2]>,
    seed: u64,
) -> PyResult<String> {
    let (outputs, labels) = (planes_of(&outputs)?, planes_of(&labels)?);
    let truths: Vec<Option<Planes>> =
        truths.iter().map(|set| set.as_ref().map(MaskSet::planes).transpose()).collect::<PyResult<_>>()?;
    guarded(py, || {
        let groups = vec![String::new(); labels.len()];
        let pairs = as_cases(&outputs, &labels, &truths, &groups, spacing);
        let unit = match spacing {
            Some(_) => Unit::Millimetres,
            None => Unit::Pixels,
        };
        let settings = Settings { seed, unit, ..Settings::new("all") };
        let rows: Vec<Outcome<Value>> = pairs
            .par_iter()
            .map(|(case, prediction)| {
                let row = score(case, prediction, &settings)?.row;
                serde_json::to_value(row).map_err(|error| Failure::Io(error.to_string()))
            })
            .collect();
        Ok(Value::Array(rows.into_iter().collect::<Outcome<_>>()?).to_string())
    })
}

/// One mask of several readers: the majority's, or STAPLE's.
#[pyfunction]
fn consensus<'py>(py: Python<'py>, labels: MaskSet<'py>, staple: bool) -> PyResult<Bound<'py, PyAny>> {
    let planes = labels.planes()?;
    let [_, classes, height, width] = planes.size;
    let mask = guarded(py, || {
        let masks = planes.masks();
        let all: Vec<&Mask> = masks.iter().collect();
        let readers: Vec<usize> = (0..all.len()).collect();
        let mut mask = Mask::empty(width, height, classes);
        for class in 0..classes {
            let votes = Votes::of(&all, class);
            let decided = match staple {
                true => votes.staple_mask(&readers),
                false => votes.majority(&readers, planes.weights),
            };
            votes.paint(&decided, &all, class, &mut mask);
        }
        Ok(mask)
    })?;
    mask_array(py, &[&mask], [width, height, classes])?.get_item(0)
}

/// Which masks of a set stand best for all of them, with their probabilities and what is lost.
#[pyfunction]
fn listed(py: Python<'_>, outputs: MaskSet<'_>, count: usize) -> PyResult<(Vec<usize>, Vec<f32>, f64)> {
    let planes = outputs.planes()?;
    guarded(py, || {
        if count == 0 {
            return Err(Failure::user("count", "a list has at least one hypothesis"));
        }
        let hypothesis = |(code, (mask, weight)): (usize, (Mask, &f64))| Hypothesis {
            mask,
            probability: *weight as f32,
            code,
        };
        let hypotheses = planes.masks().into_iter().zip(planes.weights).enumerate().map(hypothesis).collect();
        let short = short_list(&Prediction { hypotheses, draws: planes.draws }, count)?;
        let kept = &short.prediction.hypotheses;
        let (codes, shares) = kept.iter().map(|one| (one.code, one.probability)).unzip();
        Ok((codes, shares, short.loss))
    })
}

/// How far readers agree over some images, as JSON.
#[pyfunction]
fn agreement(py: Python<'_>, labels: Vec<MaskSet<'_>>, groups: Vec<String>) -> PyResult<String> {
    let labels = planes_of(&labels)?;
    guarded(py, || {
        let of = |planes: &Planes| Ok(CaseAgreement::of(&planes.masks())?);
        let measured = labels.par_iter().map(of).collect::<Vec<Outcome<Option<CaseAgreement>>>>();
        let measured = measured.into_iter().collect::<Outcome<Vec<_>>>()?;
        let names: Vec<String> = (0..labels.len()).map(name).collect();
        let raters: Vec<Vec<Option<&str>>> = labels.iter().map(|one| vec![None; one.size[0]]).collect();
        let cases: Vec<Measured> = measured
            .iter()
            .enumerate()
            .filter_map(|(at, agreement)| {
                let (id, group) = (names[at].as_str(), groups[at].as_str());
                Some(Measured { id, group, raters: &raters[at], agreement: agreement.as_ref()? })
            })
            .collect();
        serde_json::to_string(&Agreement::of(&cases)).map_err(|error| Failure::Io(error.to_string()))
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("METRICS", METRICS.map(|(name, _)| name).to_vec())?;
    module.add_function(wrap_pyfunction!(metric, module)?)?;
    module.add_function(wrap_pyfunction!(ged_sampled, module)?)?;
    module.add_function(wrap_pyfunction!(overlaps, module)?)?;
    module.add_function(wrap_pyfunction!(report, module)?)?;
    module.add_function(wrap_pyfunction!(report_of_cases, module)?)?;
    module.add_function(wrap_pyfunction!(scores, module)?)?;
    module.add_function(wrap_pyfunction!(consensus, module)?)?;
    module.add_function(wrap_pyfunction!(listed, module)?)?;
    module.add_function(wrap_pyfunction!(agreement, module)?)
}
