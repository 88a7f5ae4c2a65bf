//! An image or volume that was opened, what was predicted of it, and its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use multivalued::Mixture;
use multivalued::answer::{
    self, Coherent, DOCUMENT, Document, Keep, Pixels, Predicted, Unit, Warnings, answers, checksum,
};
use multivalued_data::dataset::Slices;
use multivalued_data::export::write_masks_like;
use multivalued_data::fingerprint::Fingerprint;
use multivalued_data::import::{Limits, MaskRule, read_masks};
use multivalued_data::metric::summary::short_list;
use multivalued_data::{Geometry, Hypothesis, Image, Mask, dicom, disk, files};
use serde_json::{Value, json};

use super::{Answer, Refused};

/// How many hypotheses a page lists at first, as contact sheets do.
const LISTED: usize = 5;

/// An image and its predictions by slice.
pub struct Picture {
    /// What its results are called.
    name: String,
    files: Vec<PathBuf>,
    slices: Slices,
    pixels: String,
    warnings: Warnings,
    geometry: Option<Geometry>,
    /// The smallest and the largest value of all slices.
    range: [f32; 2],
    predicted: Vec<Option<Predicted>>,
}

/// The series of a folder in words, where there are several.
pub fn several_series(files: &[PathBuf]) -> Option<Vec<String>> {
    let [folder] = files else { return None };
    let listed = disk::is_dir(folder).then(|| dicom::list_series(folder, &Limits::default()).ok()).flatten();
    listed.filter(|series| series.len() > 1)
}

/// A mask's bits: every plane begins with a new byte.
fn packed(mask: &Mask, bytes: &mut Vec<u8>) {
    let length = (mask.width() * mask.height()).div_ceil(8);
    for class in 0..mask.classes() {
        let plane = mask.plane(class).iter().flat_map(|word| word.to_le_bytes());
        bytes.extend(plane.take(length));
    }
}

// By value, as `map_err` gives it.
#[allow(clippy::needless_pass_by_value)]
fn in_words(error: impl ToString) -> String {
    error.to_string()
}

impl Picture {
    /// Reads an image's files for a model that takes so many channels.
    pub fn open(
        files: &[PathBuf],
        name: String,
        channels: usize,
        fingerprint: Option<&Fingerprint>,
    ) -> Refused<Self> {
        let slices = Slices::open_for(files, channels, &Limits::default()).map_err(in_words)?;
        let (mut pixels, mut warnings) = (Pixels::default(), Warnings::default());
        let mut range = [f32::INFINITY, f32::NEG_INFINITY];
        let mut geometry = None;
        for z in 0..slices.len() {
            let image = slices.image(z).map_err(in_words)?;
            pixels.add(&image);
            warnings.add(fingerprint, &image);
            range =
                image.pixels().iter().fold(range, |[low, high], &value| [low.min(value), high.max(value)]);
            if z == 0 {
                geometry = image.geometry;
            }
        }
        let predicted = (0..slices.len()).map(|_| None).collect();
        let pixels = pixels.finish();
        Ok(Self { name, files: files.to_vec(), slices, pixels, warnings, geometry, range, predicted })
    }

    /// What is known of it before anything is predicted.
    pub fn json(&self) -> Value {
        let [width, height] = self.slices.size();
        json!({
            "name": self.name,
            "width": width,
            "height": height,
            "slices": self.slices.len(),
            "channels": self.slices.channels(),
            "spacing": self.geometry.as_ref().map(|geometry| geometry.spacing),
            "range": self.range,
            "warnings": self.warnings.sentences(),
            "dicom": dicom::is_named_by(&self.files[0]),
        })
    }

    fn image(&self, z: usize) -> Refused<Image> {
        match z < self.slices.len() {
            true => self.slices.image(z).map_err(in_words),
            false => Err(format!("slice {} of {}", z + 1, self.slices.len())),
        }
    }

    /// A slice's values, the channels of a pixel side by side.
    pub fn values(&self, z: usize) -> Refused<Answer> {
        let image = self.image(z)?;
        let planes: Vec<&[f32]> = (0..image.channels()).map(|channel| image.plane(channel)).collect();
        let pixels = 0..image.width() * image.height();
        let values = pixels.flat_map(|at| planes.iter().map(move |plane| plane[at]));
        Ok(Answer { said: json!({}), bytes: values.flat_map(f32::to_le_bytes).collect() })
    }

    /// A reader's masks, as bits slice by slice.
    pub fn reader(&self, file: &Path, classes: usize) -> Refused<Answer> {
        let limits = Limits::default();
        let read = read_masks(file, MaskRule::Binary, &limits);
        // Labels where there are classes; where they fit neither, the first refusal is the clearer one.
        let masks = match read {
            Err(_) if classes > 1 => read_masks(file, MaskRule::Labels(classes), &limits),
            read => read,
        };
        let masks = masks.map_err(in_words)?;
        let [width, height] = self.slices.size();
        let slices = self.slices.len() * self.slices.joined();
        if masks.len() != slices || (masks[0].width(), masks[0].height()) != (width, height) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let [w, h] = [masks[0].width(), masks[0].height()];
            return Err(format!(
                "{name}: a mask of {w}x{h}x{} for an image of {width}x{height}x{slices}; give masks of its size",
                masks.len()
            ));
        }
        let mut bytes = Vec::new();
        for mask in masks.iter().step_by(self.slices.joined()) {
            packed(mask, &mut bytes);
        }
        Ok(Answer { said: json!({ "classes": masks[0].classes() }), bytes })
    }

    /// Predicts a slice, with its neighbours where the model takes them.
    pub fn predict(&mut self, z: usize, model: &Mixture) -> Refused<Answer> {
        let own = self.image(z)?;
        if self.predicted[z].is_none() {
            let image = match model.recipe().data.context {
                0 => own,
                _ => {
                    let [before, after] = [z.saturating_sub(1), (z + 1).min(self.slices.len() - 1)];
                    Image::joined(&[&self.image(before)?, &own, &self.image(after)?])
                }
            };
            let said = model.predict(&[&image]).map_err(in_words)?.swap_remove(0);
            self.predicted[z] = Some(Predicted::new(&said, &said, None));
        }
        let Some(predicted) = &self.predicted[z] else { unreachable!("it was predicted above") };
        let mut bytes = Vec::new();
        predicted.all.iter().for_each(|one| packed(&one.mask.mask(), &mut bytes));
        let mut said = predicted.json(None);
        if predicted.all.len() > LISTED {
            let list = short_list(&predicted.prediction(), LISTED).map_err(in_words)?;
            let standing = |one: &Hypothesis| {
                let rank = predicted.all.iter().position(|other| other.code == one.code);
                json!({ "rank": rank, "probability": one.probability })
            };
            said["stands"] = list.prediction.hypotheses.iter().map(standing).collect();
            said["list_loss"] = json!(list.loss);
        }
        Ok(Answer { said, bytes })
    }

    /// All slices, where all are predicted.
    fn all(&mut self) -> Refused<Vec<Predicted>> {
        match self.predicted.iter().all(Option::is_some) {
            true => Ok(self.predicted.iter_mut().flat_map(Option::take).collect()),
            false => Err("predict all slices first".into()),
        }
    }

    /// Something that is made of all slices.
    fn with_all<T>(&mut self, make: impl FnOnce(&Self, &[Predicted]) -> Refused<T>) -> Refused<T> {
        let all = self.all()?;
        let made = make(self, &all);
        self.predicted = all.into_iter().map(Some).collect();
        made
    }

    /// What the slices say together: the most probable volumes with their members, and sizes.
    pub fn whole(&mut self, keep: &Keep) -> Refused<Answer> {
        self.with_all(|own, all| {
            let coherent = Coherent::of(all, keep, &own.name, 0).map_err(in_words)?;
            let unit = Unit::of(own.geometry.as_ref(), all.len());
            let sizes = answer::sizes::of(all, coherent.as_ref().map(|one| &one.volume));
            let files: Vec<String> =
                coherent.iter().flat_map(|one| &one.hypotheses).map(|_| String::new()).collect();
            Ok(json!({
                "volume": coherent.as_ref().map(|one| one.json(&files, unit)),
                "unit": unit.map(|unit| unit.name),
                "sizes": answer::sizes::json(&sizes, unit),
                "words": answer::sizes::in_words(&sizes, unit),
            })
            .into())
        })
    }

    /// Writes masks as `predict` does, and `prediction.json`; names the files.
    pub fn save(
        &mut self,
        folder: &Path,
        rank: Option<usize>,
        keep: &Keep,
        settings: &Value,
    ) -> Refused<Answer> {
        self.with_all(|own, all| {
            // Of a volume whole volumes are chosen, of a single image its hypotheses.
            let of_slices = if all.len() > 1 { keep.of_slices() } else { *keep };
            let kept = |one: &Predicted| {
                let all = one.prediction();
                let (kept, loss) = of_slices.of(&all).map_err(in_words)?;
                Ok(Predicted::new(&all, &kept, loss))
            };
            let all: &[Predicted] = &all.iter().map(kept).collect::<Refused<Vec<_>>>()?;
            let coherent = Coherent::of(all, keep, &own.name, 0).map_err(in_words)?;
            let answers = answers(all, coherent.as_ref());
            let joined = own.slices.joined();
            let mut written = Vec::new();
            for (at, one) in answers.iter().enumerate().filter(|(at, _)| rank.is_none_or(|rank| rank == *at))
            {
                let masks: Vec<Mask> =
                    one.slices.iter().flat_map(|one| vec![one.mask.mask(); joined]).collect();
                let stem = folder.join(format!("hypothesis-{}", at + 1));
                let file = write_masks_like(&own.files[0], &stem, &masks, &Limits::default());
                written.push(file.map_err(in_words)?);
            }
            let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut names: Vec<String> = written.iter().map(|file| name(file)).collect();
            if rank.is_none() {
                let sums = written.iter().map(|file| Ok((name(file), checksum(file).map_err(in_words)?)));
                let sums: BTreeMap<String, String> = sums.collect::<Refused<_>>()?;
                let document = Document {
                    id: &own.name,
                    images: own.files.iter().map(|file| name(file)).collect(),
                    pixels: &own.pixels,
                    settings,
                    warnings: &own.warnings,
                    geometry: own.geometry.as_ref(),
                    predicted: all,
                    coherent: coherent.as_ref(),
                    hypotheses: &names,
                    samples: &[],
                    maps: Value::Null,
                    files: &sums,
                };
                let (text, _) = document.text();
                let path = folder.join(DOCUMENT);
                let write = |mut file: disk::File| std::io::Write::write_all(&mut file, text.as_bytes());
                files::create(&path).map_err(in_words).and_then(|file| write(file).map_err(in_words))?;
                names.push(DOCUMENT.into());
            }
            Ok(json!({ "files": names }).into())
        })
    }
}
