//! Data sets: given as arrays, read from disk, or generated.

use std::collections::BTreeMap;
use std::path::PathBuf;

use multivalued::Collection;
use multivalued_cli::{Failure, Loading, Outcome, Reader, Reading};
use multivalued_data::dataset::{Loaded, Slices, Split, inspect};
use multivalued_data::import::Limits;
use multivalued_data::synthetic::{Task, TaskName, lung_opacity_over, read_films, write_dataset};
use multivalued_data::{Annotation, Case, CaseList, Image, Mask, Mode};
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;

use crate::arrays::{ImageArray, MaskSet, Pixels, Planes, image_array, mask_array};
use crate::failure::{computed, guarded};

/// Cases in order, each in a part or in none.
#[pyclass(frozen, module = "multivalued._native")]
pub struct Cases {
    pub list: CaseList,
    /// The part of each case; empty where none is stated.
    parts: Vec<String>,
    /// How they were read, where that is not plain.
    notes: Vec<String>,
}

/// Strings by which a data set is read, as the command line's options.
#[derive(Debug, Clone, Default)]
pub struct HowToRead {
    pub layout: Option<String>,
    pub masks: Option<String>,
    pub group_by: Option<String>,
    pub skip_bad: bool,
    pub cache: Option<PathBuf>,
}

impl HowToRead {
    /// As the program wants it.
    pub fn loading(&self) -> Outcome<Loading> {
        fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
            text: &Option<String>,
            option: &str,
        ) -> Outcome<Option<T>> {
            text.as_deref().map(|text| text.parse().map_err(|error| Failure::user(option, error))).transpose()
        }
        let reading = Reading {
            layout: parsed(&self.layout, "layout")?,
            masks: parsed(&self.masks, "masks")?,
            group_by: parsed(&self.group_by, "group_by")?,
        };
        Ok(Loading { reading, skip_bad: self.skip_bad, cache: self.cache.clone() })
    }
}

/// A dictionary of the options, as `_options.reading` makes it.
impl<'a, 'py> FromPyObject<'a, 'py> for HowToRead {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let get = |key: &str| object.get_item(key);
        Ok(Self {
            layout: get("layout")?.extract()?,
            masks: get("mask_rule")?.extract()?,
            group_by: get("group_by")?.extract()?,
            skip_bad: get("skip_bad")?.extract()?,
            cache: get("cache")?.extract()?,
        })
    }
}

impl Cases {
    fn of_parts(parts: Vec<(String, Vec<Case>)>) -> Self {
        let names = parts.iter().flat_map(|(part, cases)| vec![part.clone(); cases.len()]).collect();
        let list: Vec<Case> = parts.into_iter().flat_map(|(_, cases)| cases).collect();
        Self { list: list.into(), parts: names, notes: Vec::new() }
    }

    /// Who hands them out to a training.
    pub fn reader(&self) -> Outcome<Reader> {
        let stated = match self.parts.iter().all(String::is_empty) {
            true => None,
            false => {
                let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
                for (at, part) in self.parts.iter().enumerate() {
                    parts.entry(part.clone()).or_default().push(self.list.id(at).to_owned());
                }
                Some(Split::from_parts(&self.list.roster(), parts)?)
            }
        };
        Ok(Reader::of_collection(Collection::given(self.list.clone(), stated)))
    }
}

/// What a case is called in Python.
type Row<'py> = Bound<'py, PyDict>;

fn masks_and_weights<'py>(py: Python<'py>, masks: &[&Mask], image: &Image) -> PyResult<Bound<'py, PyAny>> {
    let classes = masks.first().map_or(1, |mask| mask.classes());
    mask_array(py, masks, [image.width(), image.height(), classes])
}

#[pymethods]
impl Cases {
    fn __len__(&self) -> usize {
        self.list.len()
    }

    /// Bytes that name the content: ids and pixels.
    fn hash(&self, py: Python<'_>) -> PyResult<String> {
        guarded(py, || Ok(self.list.roster().hash().to_owned()))
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    #[getter]
    fn parts(&self) -> Vec<String> {
        self.parts.clone()
    }

    /// Those of these numbers.
    fn select(&self, numbers: Vec<usize>) -> Self {
        let parts = numbers.iter().map(|&at| self.parts[at].clone()).collect();
        Self { list: self.list.select(numbers), parts, notes: Vec::new() }
    }

    /// One case, its arrays in a dictionary.
    fn case<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Row<'py>> {
        let case = guarded(py, || Ok(self.list.get(at)?))?;
        let row = PyDict::new(py);
        row.set_item("id", &case.id)?;
        row.set_item("group", &case.group)?;
        row.set_item("split", &self.parts[at])?;
        row.set_item("image", image_array(py, &case.image)?)?;
        let masks: Vec<&Mask> = case.annotations.iter().map(|annotation| &annotation.mask).collect();
        row.set_item("masks", masks_and_weights(py, &masks, &case.image)?)?;
        let weights: Vec<f64> = case.annotations.iter().map(|annotation| annotation.weight.into()).collect();
        row.set_item("weights", weights)?;
        let raters: Vec<_> = case.annotations.iter().map(|annotation| annotation.rater.clone()).collect();
        row.set_item("raters", raters)?;
        if let Some(modes) = &case.truth {
            let masks: Vec<&Mask> = modes.iter().map(|mode| &mode.mask).collect();
            row.set_item("truth_masks", masks_and_weights(py, &masks, &case.image)?)?;
            let probabilities: Vec<f64> = modes.iter().map(|mode| mode.probability.into()).collect();
            row.set_item("truth_probabilities", probabilities)?;
        }
        Ok(row)
    }

    /// Writes them as a folder with a manifest.
    fn write(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        guarded(py, || {
            let all = self.list.to_vec()?;
            let mut parts: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
            for (case, part) in all.into_iter().zip(&self.parts) {
                parts.entry(if part.is_empty() { "train" } else { part }).or_default().push(case);
            }
            let parts: Vec<(&str, &[Case])> = parts.iter().map(|(part, cases)| (*part, &cases[..])).collect();
            std::fs::create_dir_all(&folder).map_err(|error| Failure::io(&folder, &error))?;
            Ok(write_dataset(&folder, &parts)?)
        })
    }
}

/// Cases from arrays that the Python side has checked.
#[pyfunction]
#[pyo3(signature = (ids, groups, parts, images, masks, truths))]
fn given(
    py: Python<'_>,
    ids: Vec<String>,
    groups: Vec<String>,
    parts: Vec<String>,
    images: Vec<ImageArray<'_>>,
    masks: Vec<MaskSet<'_>>,
    truths: Vec<Option<MaskSet<'_>>>,
) -> PyResult<Cases> {
    let pixels = images.iter().map(ImageArray::pixels).collect::<PyResult<Vec<Pixels>>>()?;
    let planes = masks.iter().map(MaskSet::planes).collect::<PyResult<Vec<Planes>>>()?;
    let truths = truths.iter().map(|set| set.as_ref().map(MaskSet::planes).transpose());
    let truths = truths.collect::<PyResult<Vec<Option<Planes>>>>()?;
    guarded(py, || {
        let case = |at: usize| {
            let masks = planes[at].masks().into_iter().zip(planes[at].weights);
            let annotation =
                |(mask, weight): (Mask, &f64)| Annotation { mask, rater: None, weight: *weight as f32 };
            let truth = truths[at].map(|truth| {
                let modes = truth.masks().into_iter().zip(truth.weights);
                modes.map(|(mask, weight)| Mode { mask, probability: *weight as f32 }).collect()
            });
            Case {
                id: ids[at].clone(),
                group: groups[at].clone(),
                image: pixels[at].image(),
                annotations: masks.map(annotation).collect(),
                truth,
            }
        };
        let list: Vec<Case> = (0..ids.len()).into_par_iter().map(case).collect();
        Ok(Cases { list: list.into(), parts, notes: Vec::new() })
    })
}

/// The cases of a data set on disk.
#[pyfunction]
fn read_dataset(py: Python<'_>, path: PathBuf, how: HowToRead, listener: Py<PyAny>) -> PyResult<Cases> {
    computed(py, None, Some(listener), || {
        let loading = how.loading()?;
        let (options, reader) = (loading.reading.options(), loading.reader());
        let Loaded { dataset, cases, skipped } =
            Loaded::read(&path, &options, loading.skip_bad, reader.holding())?;
        let mut parts = vec![String::new(); cases.len()];
        if let Some(split) = dataset.stated_split(&cases.roster())? {
            let places: BTreeMap<&str, usize> = (0..cases.len()).map(|at| (cases.id(at), at)).collect();
            for (part, ids) in split.parts() {
                ids.iter()
                    .filter_map(|id| places.get(id.as_str()))
                    .for_each(|&at| parts[at].clone_from(part));
            }
        }
        let notes =
            dataset.notes().into_iter().chain(skipped.iter().map(|fault| format!("skipped: {fault}")));
        Ok(Cases { list: cases, parts, notes: notes.collect() })
    })
}

/// A synthetic task's cases by part.
#[pyfunction]
fn generate(
    py: Python<'_>,
    task: String,
    size: Option<usize>,
    seed: u64,
    counts: Vec<(String, usize)>,
    films: Option<PathBuf>,
) -> PyResult<Cases> {
    guarded(py, || {
        let name: TaskName = task.parse()?;
        let parts = match films {
            None => {
                let task = Task::new(name, size.unwrap_or_else(|| name.usual_size()), seed)?;
                counts.into_iter().map(|(part, count)| (part.clone(), task.generate(&part, count))).collect()
            }
            Some(folder) => {
                let over = |(part, films): (String, Vec<_>)| Ok((part, lung_opacity_over(&films, seed)?));
                read_films(&folder)?.into_iter().map(over).collect::<Outcome<Vec<_>>>()?
            }
        };
        Ok(Cases::of_parts(parts))
    })
}

/// The names of the synthetic tasks.
#[pyfunction]
fn task_names() -> Vec<&'static str> {
    TaskName::ALL.map(TaskName::as_str).to_vec()
}

/// What a data set holds and what is wrong with it, as JSON.
#[pyfunction]
fn validate(py: Python<'_>, path: PathBuf, how: HowToRead) -> PyResult<String> {
    guarded(py, || {
        let found = inspect(&path, &how.loading()?.reading.options())?;
        serde_json::to_string(&found).map_err(|error| Failure::Io(error.to_string()))
    })
}

/// An image file's slices, each as an array.
#[pyfunction]
fn read_image(py: Python<'_>, path: PathBuf) -> PyResult<Vec<Bound<'_, PyArrayDyn<f32>>>> {
    let images = guarded(py, || {
        let slices = Slices::open(&[path], &Limits::default())?;
        Ok((0..slices.len()).map(|z| slices.image(z)).collect::<Result<Vec<Image>, _>>()?)
    })?;
    images.iter().map(|image| image_array(py, image)).collect()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Cases>()?;
    module.add_function(wrap_pyfunction!(given, module)?)?;
    module.add_function(wrap_pyfunction!(read_dataset, module)?)?;
    module.add_function(wrap_pyfunction!(generate, module)?)?;
    module.add_function(wrap_pyfunction!(task_names, module)?)?;
    module.add_function(wrap_pyfunction!(validate, module)?)?;
    module.add_function(wrap_pyfunction!(read_image, module)?)
}
