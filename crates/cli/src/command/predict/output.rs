//! An image's folder of results: masks, samples, maps, a sheet, and `prediction.json`, which is written last and has
//! the checksums of all others.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use multivalued_data::draw::Draw;
use multivalued_data::export::write_masks_like;
use multivalued_data::import::Limits;
use multivalued_data::{Case, Image, Mask, Prediction, files};
use serde_json::{Value, json};

use super::existing::{State, checksum, clear};
use super::inputs::file_name;
use super::predicted::Predicted;
use super::queue::Finished;
use super::{MaskFormat, maps, segmentation, sizes};
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::picture::{Exhibit, png, sheet};

/// The file that describes the others.
pub const DOCUMENT: &str = "prediction.json";
pub const FORMAT: &str = "multivalued-prediction";
/// Grows when a reader of the old kind could not read the new one.
pub const VERSION: u32 = 2;

/// What is written of every image.
pub struct Output<'a> {
    /// The folder of all results.
    pub out: &'a Path,
    /// What the results depend on, as it is written.
    pub settings: Value,
    pub samples: usize,
    pub seed: u64,
    pub maps: bool,
    pub format: MaskFormat,
    /// Whether the hypotheses are those that the user chose, to be shown as they are.
    pub chosen: bool,
}

impl Output<'_> {
    /// Writes an image's results, and gives what the short list of each slice loses where one was asked for.
    pub fn write(&self, finished: &Finished) -> Outcome<Vec<f64>> {
        let Finished { task, slices, predicted, warnings, pixels, .. } = finished;
        let (input, to, limits) = (task.input, task.folder, Limits::default());
        let image = &input.files[0];
        warnings.tell(image);
        refuse_links(self.out, &input.name)?;
        folder::make(to)?;
        if !matches!(task.state, State::Free) {
            clear(to)?;
        }
        folder::make_empty(to)?;
        let joined = slices.joined();
        let write_masks = |name: String, masks: &mut dyn Iterator<Item = Mask>| {
            let masks: Vec<Mask> = masks.flat_map(|mask| vec![mask; joined]).collect();
            write_masks_like(image, &to.join(name), &masks, &limits)
        };
        let most = predicted.iter().map(|slice| slice.kept().len()).max().unwrap_or(0);
        let mut hypotheses = Vec::with_capacity(most);
        match self.format {
            MaskFormat::Dicom => {
                let file = segmentation::write(image, to, predicted, joined, &limits)?;
                hypotheses.resize(most, file);
            }
            MaskFormat::Input => {
                for rank in 0..most {
                    let mut masks = predicted.iter().map(|slice| slice.mask_at(rank));
                    hypotheses.push(write_masks(format!("hypothesis-{}", rank + 1), &mut masks)?);
                }
            }
        }
        let draws: Vec<Vec<usize>> =
            predicted.iter().enumerate().map(|(at, slice)| self.draws(slice, &input.name, at)).collect();
        let mut samples = Vec::with_capacity(self.samples);
        for sample in 0..self.samples {
            let drawn = predicted.iter().zip(&draws);
            let mut masks = drawn.map(|(slice, draws)| slice.all[draws[sample]].mask.mask());
            samples.push(write_masks(format!("sample-{}", sample + 1), &mut masks)?);
        }
        let maps = match self.maps {
            true => Some(maps::write(image, to, predicted, joined, &limits)?),
            false => None,
        };
        let sheet = to.join("sheet.png");
        let drawn = self.sheet(finished)?;
        // Like the masks it is known by its checksum, so that nobody need wait until the disk has it.
        files::create(&sheet)?.write_all(&drawn).map_err(|error| Failure::io(&sheet, &error))?;
        let written = hypotheses.iter().chain(&samples).chain([&sheet]);
        let written = written.chain(maps.iter().flat_map(|maps| maps.means.iter().chain([&maps.entropy])));
        let checksums = written.map(|file| Ok((file_name(file), checksum(file)?)));
        let checksums = checksums.collect::<Outcome<BTreeMap<String, String>>>()?;
        let names = |files: &[PathBuf]| files.iter().map(|file| file_name(file)).collect::<Vec<_>>();
        let hypotheses = names(&hypotheses);
        let geometry = slices.image(0)?.geometry;
        let document = json!({
            "format": FORMAT,
            "version": VERSION,
            "id": input.name,
            "images": input.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
            "pixels_blake3": pixels,
            "settings": self.settings,
            "warnings": warnings.sentences(),
            "spacing": geometry.as_ref().map(|geometry| geometry.spacing),
            "sizes": sizes::of(predicted, geometry.as_ref()),
            "slices": predicted.iter().map(|slice| slice.json(&hypotheses)).collect::<Vec<_>>(),
            "samples": names(&samples),
            "maps": maps.map(|maps| json!({ "mean": names(&maps.means), "entropy": file_name(&maps.entropy) })),
            "files": checksums,
        });
        let text = serde_json::to_string_pretty(&document).map_err(|error| Failure::Io(error.to_string()))?;
        folder::write(&to.join(DOCUMENT), (text + "\n").as_bytes())?;
        Ok(predicted.iter().filter_map(|slice| slice.loss).collect())
    }

    /// The sheet as a PNG file. A volume's shows some slices from one end to the other.
    fn sheet(&self, Finished { task, slices, predicted, .. }: &Finished) -> Outcome<Vec<u8>> {
        let step = predicted.len().div_ceil(12).max(1);
        let shown =
            predicted.iter().enumerate().step_by(step).map(|(at, slice)| {
                Ok((unannotated(&task.input.name, slices.image(at)?), slice.prediction()))
            });
        let shown = shown.collect::<Outcome<Vec<(Case, Prediction)>>>()?;
        let exhibit = if self.chosen { Exhibit::of_all } else { Exhibit::new };
        let exhibits: Vec<_> = shown.iter().map(|(case, prediction)| exhibit(case, prediction)).collect();
        Ok(png(&sheet(&exhibits)))
    }

    /// Which hypothesis each sample of a slice shows; the same for the same name, slice and seed.
    fn draws(&self, slice: &Predicted, name: &str, at: usize) -> Vec<usize> {
        let mut draw = Draw::new(self.seed, &["sample", name], at as u64);
        let last = slice.all.len() - 1;
        let mut one = || {
            let mut rest = draw.unit();
            let found = slice.all.iter().position(|hypothesis| {
                rest -= f64::from(hypothesis.probability);
                rest < 0.0
            });
            // The probabilities sum to one but for rounding.
            found.unwrap_or(last)
        };
        (0..self.samples).map(|_| one()).collect()
    }
}

/// Refuses a link at the place of an image's folder, or of one between it and the folder of all results.
pub fn refuse_links(out: &Path, name: &str) -> Outcome {
    let mut place = out.to_owned();
    for part in Path::new(name).components() {
        place.push(part);
        files::refuse_link(&place)?;
    }
    Ok(())
}

fn unannotated(name: &str, image: Image) -> Case {
    Case { group: name.to_owned(), id: name.to_owned(), image, annotations: Vec::new(), truth: None }
}
