//! A model and an image, and what a page asks of them: requests and answers are JSON, numbers and bits come as bytes.
//!
//! Files are named by paths: in a browser among those that the page gave, otherwise on the file system, so that tests
//! need no browser.

mod picture;

use std::path::{Path, PathBuf};

use multivalued::answer::{self, FINGERPRINT, Keep};
use multivalued::train::checkpoint;
use multivalued::{Limit, Mixture, Predictor, mixture, shipped};
use multivalued_data::disk;
use multivalued_data::fingerprint::Fingerprint;
use multivalued_engine::Device;
use serde::Deserialize;
use serde_json::{Value, json};

use picture::Picture;

/// What a page's prediction may take: with what is kept of an image of 512x512 pixels a page stays below 300 MB.
const MEMORY: u64 = 128 << 20;

/// What was said, and the numbers or bits that go with it.
#[derive(Debug)]
pub struct Answer {
    /// In words and few numbers.
    pub said: Value,
    /// Many numbers: f32 values or a mask's packed bits.
    pub bytes: Vec<u8>,
}

impl From<Value> for Answer {
    fn from(said: Value) -> Self {
        Self { said, bytes: Vec::new() }
    }
}

/// Why a request was refused, in words for the user.
type Refused<T> = Result<T, String>;

/// What a page asks. `do` names the request.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Request {
    /// Opens a model's folder. Predictions so far are forgotten.
    Model { folder: PathBuf, name: String, views: Option<usize> },
    /// Opens an image: a file, a folder with a DICOM series, or the files of its channels.
    Image { files: Vec<PathBuf>, name: String },
    /// A slice's values as f32, the channels of a pixel side by side.
    Slice { slice: usize },
    /// A reader's masks; its bits by slice.
    Reader { file: PathBuf },
    /// Predicts a slice: its hypotheses, and the bits of their masks.
    Predict { slice: usize },
    /// What the slices say together, where all are predicted: whole volumes, sizes in words.
    Whole,
    /// Writes the masks of all hypotheses, of a short list of so many, or of one, beneath a folder; then
    /// `prediction.json`.
    Save { folder: PathBuf, rank: Option<usize>, list: Option<usize> },
    /// The content of a file that was written.
    Read { file: PathBuf },
    /// Forgets files.
    Forget { folder: PathBuf },
}

/// A model that was opened.
struct Model {
    name: String,
    hash: String,
    mixture: Mixture,
    fingerprint: Option<Fingerprint>,
}

/// What was opened.
#[derive(Default)]
pub struct Session {
    model: Option<Model>,
    picture: Option<Picture>,
}

impl Session {
    /// Answers a request.
    pub fn ask(&mut self, request: &[u8]) -> Result<Answer, String> {
        let request: Request =
            serde_json::from_slice(request).map_err(|error| format!("no request: {error}"))?;
        match request {
            Request::Model { folder, name, views } => self.open_model(&folder, name, views),
            Request::Image { files, name } => self.open_image(&files, name),
            Request::Slice { slice } => self.picture()?.values(slice),
            Request::Reader { file } => {
                let classes = self.model.as_ref().map_or(1, |model| model.mixture.recipe().model.classes);
                self.picture()?.reader(&file, classes)
            }
            Request::Predict { slice } => self.predict(slice),
            Request::Whole => self.picture()?.whole(&Keep::default()),
            Request::Save { folder, rank, list } => self.save(&folder, rank, list),
            Request::Read { file } => {
                // In a browser it is taken out, since nobody else would ever free it.
                #[cfg(target_arch = "wasm32")]
                let read = disk::taken(&file);
                #[cfg(not(target_arch = "wasm32"))]
                let read = std::fs::read(&file);
                let bytes = read.map_err(|error| format!("{}: {error}", file.display()))?;
                Ok(Answer { said: json!({}), bytes })
            }
            Request::Forget { folder } => {
                #[cfg(target_arch = "wasm32")]
                disk::forget(&folder);
                #[cfg(not(target_arch = "wasm32"))]
                let _ = folder;
                Ok(json!({}).into())
            }
        }
    }

    fn picture(&mut self) -> Refused<&mut Picture> {
        self.picture.as_mut().ok_or_else(|| "open an image first".into())
    }

    fn model(&self) -> Refused<&Model> {
        self.model.as_ref().ok_or_else(|| "open a model first".into())
    }

    fn open_model(&mut self, folder: &Path, name: String, views: Option<usize>) -> Refused<Answer> {
        let in_words = |error: multivalued::Error| error.to_string();
        let folder = model_folder(folder)?;
        let device = Device::cpu();
        let opened = match mixture::exists(&folder) {
            true => Mixture::open(&folder, &device),
            false if shipped::exists(&folder) => Predictor::open_shipped(&folder, &device).map(Mixture::from),
            false => Predictor::open(&folder, &device).map(Mixture::from),
        };
        let mut opened = opened.map_err(in_words)?;
        if let Some(views) = views {
            opened = opened.with_views(views).map_err(in_words)?;
        }
        if cfg!(target_arch = "wasm32") {
            opened = opened.within(&Limit { bytes: Some(MEMORY), told: None });
        }
        // That of a run lies beside its `best/`.
        let mut places = [Some(&*folder), folder.parent()].into_iter().flatten();
        let place = places.find(|place| disk::is_file(&place.join(FINGERPRINT)));
        let fingerprint = place.map_or(Ok(None), answer::fingerprint).map_err(in_words)?;
        let recipe = opened.recipe();
        let said = json!({
            "name": name,
            "members": opened.members().len(),
            "channels": recipe.image_channels(),
            "classes": recipe.model.classes,
            "views": recipe.predict.views,
            "expects": fingerprint.as_ref().map(Fingerprint::expectation),
        });
        let hash = answer::model_hash(&folder).map_err(in_words)?;
        self.model = Some(Model { name, hash, mixture: opened, fingerprint });
        // Another model may take the slices of a file as channels, or the other way round.
        self.picture = None;
        Ok(said.into())
    }

    fn open_image(&mut self, files: &[PathBuf], name: String) -> Refused<Answer> {
        self.picture = None;
        let model = self.model()?;
        let channels = model.mixture.recipe().image_channels();
        if let Some(series) = picture::several_series(files) {
            return Ok(json!({ "series": series }).into());
        }
        let picture = Picture::open(files, name, channels, model.fingerprint.as_ref())?;
        let said = picture.json();
        self.picture = Some(picture);
        Ok(said.into())
    }

    fn predict(&mut self, slice: usize) -> Refused<Answer> {
        let (Some(model), Some(picture)) = (&self.model, &mut self.picture) else {
            return Err("open a model and an image first".into());
        };
        picture.predict(slice, &model.mixture)
    }

    fn save(&mut self, folder: &Path, rank: Option<usize>, list: Option<usize>) -> Refused<Answer> {
        let (Some(model), Some(picture)) = (&self.model, &mut self.picture) else {
            return Err("open a model and an image first".into());
        };
        if list == Some(0) {
            return Err("a list has at least one hypothesis".into());
        }
        let keep = Keep { list, ..Keep::default() };
        let names = [model.name.as_str(), &model.hash];
        let settings = answer::settings(names, model.mixture.recipe().predict.views, &keep, 0, 0, false);
        picture.save(folder, rank, &keep, &settings)
    }
}

/// The folder of the model itself: the given one, the only one in it, or a run's `best/`.
fn model_folder(folder: &Path) -> Refused<PathBuf> {
    let is_model = |one: &Path| mixture::exists(one) || shipped::exists(one) || checkpoint::exists(one);
    let inner = disk::list(folder).unwrap_or_default();
    let mut places = [folder.to_owned(), folder.join("best")].into_iter().chain(inner);
    places.find(|place| is_model(place)).ok_or_else(|| {
        format!(
            "{}: no model is in it; give a folder with {} and {}, as `multivalued export` writes it",
            folder.file_name().unwrap_or_default().to_string_lossy(),
            shipped::WEIGHTS,
            shipped::RECIPE
        )
    })
}
