//! A trained model: prediction, evaluation, calibration and export.

use std::path::PathBuf;

use multivalued_cli::{
    Calibration, Cases as ScoredCases, Combine, Counting, DeviceChoice, Evaluation, Exhibit, Export, Failure,
    Keep, Outcome, Reader, RunFolder, RunModel, Warnings, description, fingerprint, levels, png, sheet,
};
use multivalued_data::fingerprint::Fingerprint;
use multivalued_data::{Case, Hypothesis, Image, Mask, Prediction};
use multivalued_engine::Device;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::json;

use crate::arrays::{ImageArray, MaskSet, Pixels, mask_array};
use crate::cases::{Cases, HowToRead};
use crate::failure::{computed, guarded, raised_by_signal};

/// Images that are made f32 and predicted together: whole batches of the predictor.
const TOGETHER: usize = 32;

/// A model that was loaded.
#[pyclass(frozen, module = "multivalued._native")]
pub struct Model {
    folder: PathBuf,
    model: RunModel,
    device: Device,
    fingerprint: Option<Fingerprint>,
    threads: Option<usize>,
}

/// Opens a device by its name.
pub fn device(name: &str) -> Outcome<DeviceChoice> {
    name.parse().map_err(|error| Failure::user(format!("device={name:?}"), error))
}

/// The cases to be scored: those given, those of a path, or the run's own.
fn scored_cases(
    run: &RunFolder,
    other: Option<&Cases>,
    own: Option<&Cases>,
    data: Option<PathBuf>,
    how: &HowToRead,
) -> Outcome<ScoredCases> {
    let loading = how.loading()?;
    match (other, data, own) {
        (Some(cases), _, _) => Ok(ScoredCases::of_list(cases.list.clone())),
        (None, Some(path), _) => ScoredCases::of_path(run, &path, &loading, &loading.reader()),
        (None, None, Some(own)) => ScoredCases::of_run(run, &own.reader()?),
        (None, None, None) => ScoredCases::of_run(run, &Reader::new(how.cache.as_deref())),
    }
}

/// What is said of one image.
struct Predicted {
    kept: Prediction,
    /// What a short list loses.
    loss: Option<f64>,
    warnings: Vec<String>,
    /// Columns, rows and classes.
    size: [usize; 3],
}

impl Model {
    fn predict_some(&self, pixels: &[Pixels], keep: &Keep) -> Outcome<Vec<Predicted>> {
        let images: Vec<Image> = pixels.iter().map(Pixels::image).collect();
        let images: Vec<&Image> = images.iter().collect();
        let said = self.model.predict("images", &images, Counting::new(0))?;
        let one = |(image, prediction): (&&Image, Prediction)| {
            let mut warnings = Warnings::default();
            warnings.add(self.fingerprint.as_ref(), image);
            let (kept, loss) = keep.of(&prediction)?;
            let size = [image.width(), image.height(), self.model.recipe().model.classes];
            Ok(Predicted { kept, loss, warnings: warnings.sentences(), size })
        };
        images.iter().zip(said).map(one).collect()
    }
}

#[pymethods]
impl Model {
    #[new]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        device: String,
        views: Option<usize>,
        threads: Option<usize>,
        listener: Py<PyAny>,
    ) -> PyResult<Self> {
        computed(py, None, Some(listener), || {
            let device = self::device(&device)?.open_to_predict()?;
            let model = RunModel::of_path(&folder, &device)?.with_views(views)?;
            let fingerprint = fingerprint(&RunFolder::at(&folder))?;
            Ok(Self { folder, model, device, fingerprint, threads })
        })
    }

    /// What predicts, as JSON.
    fn facts(&self) -> String {
        let (recipe, mixture) = (self.model.recipe(), self.model.mixture());
        json!({
            "recipe": recipe,
            "device": description(&self.device),
            "members": mixture.members().len(),
            "values": mixture.members().iter().map(|one| one.network().parameters().trained_values()).sum::<usize>(),
            "expects": self.fingerprint.as_ref().map(Fingerprint::expectation),
        })
        .to_string()
    }

    /// The conformal levels that it was calibrated for, as JSON.
    fn levels(&self, py: Python<'_>) -> PyResult<String> {
        guarded(py, || Ok(json!(levels::read(&RunFolder::at(&self.folder))?).to_string()))
    }

    /// The weighted set of each image.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        images: Vec<ImageArray<'py>>,
        top: Option<usize>,
        coverage: Option<f64>,
        list: Option<usize>,
        merge: Option<f64>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let pixels = images.iter().map(ImageArray::pixels).collect::<PyResult<Vec<Pixels>>>()?;
        let coverage = guarded(py, || {
            coverage.map(|level| levels::at(&RunFolder::at(&self.folder), level)).transpose()
        })?;
        let keep = Keep { top, coverage, list, merge };
        let mut predicted = Vec::with_capacity(pixels.len());
        for some in pixels.chunks(TOGETHER) {
            predicted.extend(computed(py, self.threads, None, || self.predict_some(some, &keep))?);
            // Between two batches Ctrl-C is heard.
            if let Some(raised) = raised_by_signal() {
                return Err(raised);
            }
        }
        let row = |Predicted { kept, loss, warnings, size }: &Predicted| {
            let row = PyDict::new(py);
            let masks: Vec<&Mask> = kept.hypotheses.iter().map(|one| &one.mask).collect();
            row.set_item("masks", mask_array(py, &masks, *size)?)?;
            let probabilities = kept.hypotheses.iter().map(|one| one.probability).collect();
            row.set_item("probabilities", PyArray1::from_vec(py, probabilities))?;
            let codes = kept.hypotheses.iter().map(|one| one.code as i64).collect();
            row.set_item("codes", PyArray1::from_vec(py, codes))?;
            row.set_item("draws", kept.draws)?;
            row.set_item("loss", loss)?;
            row.set_item("warnings", warnings)?;
            row.set_item("classes", size[2])?;
            Ok(row)
        };
        predicted.iter().map(row).collect()
    }

    /// The scores on some cases as JSON, and the table of them. Nothing is written but the page, where one is named.
    fn evaluate(
        &self,
        py: Python<'_>,
        other: Option<PyRef<'_, Cases>>,
        own: Option<PyRef<'_, Cases>>,
        data: Option<PathBuf>,
        split: Option<String>,
        how: HowToRead,
        html: Option<PathBuf>,
        listener: Py<PyAny>,
    ) -> PyResult<(String, String)> {
        let (other, own) = (other.as_deref(), own.as_deref());
        computed(py, self.threads, Some(listener), || {
            let run = RunFolder::at(&self.folder);
            let cases = scored_cases(&run, other, own, data, &how)?;
            let evaluation = Evaluation::of(&self.model, cases, split.as_deref())?;
            if let Some(path) = html {
                std::fs::write(&path, evaluation.page(&run)?).map_err(|error| Failure::io(&path, &error))?;
            }
            Ok((evaluation.report.to_json(), evaluation.report.table()))
        })
    }

    /// Calibrates conformal sets and writes the level beside the model, as JSON.
    fn calibrate(
        &self,
        py: Python<'_>,
        level: f64,
        other: Option<PyRef<'_, Cases>>,
        own: Option<PyRef<'_, Cases>>,
        data: Option<PathBuf>,
        split: Option<String>,
        how: HowToRead,
        listener: Py<PyAny>,
    ) -> PyResult<String> {
        let (other, own) = (other.as_deref(), own.as_deref());
        computed(py, self.threads, Some(listener), || {
            let run = RunFolder::at(&self.folder);
            let cases = scored_cases(&run, other, own, data, &how)?;
            let found = Calibration::of(&run, &self.model, cases, split.as_deref(), level)?;
            let (share, size) = found.measured.unzip();
            Ok(json!({
                "level": found.coverage.level,
                "mass": found.coverage.mass,
                "cases": found.coverage.cases,
                "part": found.part,
                "measured": share,
                "mean_size": size,
            })
            .to_string())
        })
    }
}

/// Writes a run's model as a folder to hand on.
#[pyfunction]
fn export(py: Python<'_>, run: PathBuf, out: PathBuf, attribution: Option<String>) -> PyResult<usize> {
    guarded(py, || Export { run, out: None, onnx: None, attribution }.write(&out))
}

/// Writes one model of several.
#[pyfunction]
fn combine(py: Python<'_>, runs: Vec<PathBuf>, out: PathBuf) -> PyResult<usize> {
    guarded(py, || Combine { runs, out }.write())
}

/// A picture of an image, what readers drew and what was predicted, as a PNG file.
#[pyfunction]
fn strip<'py>(
    py: Python<'py>,
    image: ImageArray<'py>,
    outputs: MaskSet<'py>,
    labels: Option<MaskSet<'py>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (image, outputs) = (image.pixels()?, outputs.planes()?);
    let labels = labels.as_ref().map(MaskSet::planes).transpose()?;
    let bytes = guarded(py, || {
        let hypothesis = |(code, (mask, weight)): (usize, (Mask, &f64))| Hypothesis {
            mask,
            probability: *weight as f32,
            code,
        };
        let hypotheses =
            outputs.masks().into_iter().zip(outputs.weights).enumerate().map(hypothesis).collect();
        let annotation = |(mask, weight): (Mask, &f64)| multivalued_data::Annotation {
            mask,
            rater: None,
            weight: *weight as f32,
        };
        let annotations = labels.map_or_else(Vec::new, |labels| {
            labels.masks().into_iter().zip(labels.weights).map(annotation).collect()
        });
        let (id, group) = (String::new(), String::new());
        let case = Case { id, group, image: image.image(), annotations, truth: None };
        let prediction = Prediction { hypotheses, draws: outputs.draws };
        Ok(png(&sheet(&[Exhibit::of_all(&case, &prediction)])))
    })?;
    Ok(PyBytes::new(py, &bytes))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Model>()?;
    module.add_function(wrap_pyfunction!(export, module)?)?;
    module.add_function(wrap_pyfunction!(combine, module)?)?;
    module.add_function(wrap_pyfunction!(strip, module)?)
}
