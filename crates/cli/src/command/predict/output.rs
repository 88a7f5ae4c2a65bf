//! An image's folder of results: masks, samples, maps, a sheet, and `prediction.json`, which is written last and has
//! the checksums of all others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use multivalued_data::draw::Draw;
use multivalued_data::export::write_masks_like;
use multivalued_data::import::Limits;
use multivalued_data::volume::VolumeHypothesis;
use multivalued_data::{Case, Hypothesis, Image, Mask, Prediction, files};
use serde_json::{Value, json};

use super::coherent::Coherent;
use super::existing::{State, checksum, clear};
use super::inputs::file_name;
use super::predicted::{PackedHypothesis, Predicted};
use super::queue::Finished;
use super::{MaskFormat, maps, segmentation, sizes};
use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::picture::{Exhibit, png, sheet};
use crate::run::keep::Keep;
use crate::run::likeness;

/// The file that describes the others.
pub const DOCUMENT: &str = "prediction.json";
pub const FORMAT: &str = "multivalued-prediction";
/// Grows when a reader of the old kind could not read the new one.
pub const VERSION: u32 = 3;

/// Volumes that a sheet shows.
const SHOWN_VOLUMES: usize = 5;

/// What is written of every image.
pub struct Output<'a> {
    /// The folder of all results.
    pub out: &'a Path,
    /// What the results depend on, as it is written.
    pub settings: Value,
    pub samples: usize,
    pub seed: u64,
    pub maps: bool,
    /// Which hypotheses the user chose.
    pub keep: &'a Keep,
    pub format: MaskFormat,
}

/// What is told of an image that was written.
pub struct Written {
    /// What the short list of each slice loses, where one was asked for.
    pub losses: Vec<f64>,
    /// How large a volume's structures are, in words.
    pub sizes: Option<String>,
}

/// A hypothesis that is written: its masks, slice by slice.
pub struct Answer<'a> {
    pub probability: f64,
    pub slices: Vec<&'a PackedHypothesis>,
}

/// The hypotheses of an image, or of a volume as a whole.
fn answers<'a>(predicted: &'a [Predicted], coherent: Option<&Coherent>) -> Vec<Answer<'a>> {
    match coherent {
        Some(all) => {
            let of = |one: &VolumeHypothesis| Answer {
                probability: one.probability,
                slices: predicted.iter().zip(&one.members).map(|(slice, &at)| &slice.all[at]).collect(),
            };
            all.hypotheses().iter().map(of).collect()
        }
        None => {
            let of = |one: &'a PackedHypothesis| Answer {
                probability: f64::from(one.probability),
                slices: vec![one],
            };
            predicted[0].kept().iter().map(of).collect()
        }
    }
}

impl Output<'_> {
    /// Writes an image's results.
    pub fn write(&self, finished: &Finished) -> Outcome<Written> {
        let Finished { task, slices, predicted, warnings, pixels, .. } = finished;
        let (input, to, limits) = (task.input, task.folder, Limits::default());
        let image = &input.files[0];
        likeness::tell(warnings, image);
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
        let coherent = Coherent::of(predicted, self.keep, &input.name, self.seed)?;
        let write_volume = |name: String, members: &[usize]| {
            let chosen = predicted.iter().zip(members);
            write_masks(name, &mut chosen.map(|(slice, &member)| slice.all[member].mask.mask()))
        };
        let answers = answers(predicted, coherent.as_ref());
        let hypotheses = match self.format {
            MaskFormat::Dicom => {
                let file = segmentation::write(image, to, &answers, joined, &limits)?;
                vec![file; answers.len()]
            }
            MaskFormat::Input => {
                let written = answers.iter().enumerate().map(|(rank, answer)| {
                    let mut masks = answer.slices.iter().map(|one| one.mask.mask());
                    write_masks(format!("hypothesis-{}", rank + 1), &mut masks)
                });
                written.collect::<Result<Vec<PathBuf>, _>>()?
            }
        };
        let draws = match &coherent {
            Some(all) => all.samples(self.samples, &input.name, self.seed),
            None => self.draws(&predicted[0], &input.name),
        };
        let mut samples = Vec::with_capacity(self.samples);
        for (at, members) in draws.iter().enumerate() {
            samples.push(write_volume(format!("sample-{}", at + 1), members)?);
        }
        let maps = match self.maps {
            true => Some(maps::write(image, to, predicted, joined, &limits)?),
            false => None,
        };
        let sheet = to.join("sheet.png");
        let drawn = self.sheet(finished, coherent.as_ref())?;
        // Like the masks it is known by its checksum, so that nobody need wait until the disk has it.
        files::create(&sheet)?.write_all(&drawn).map_err(|error| Failure::io(&sheet, &error))?;
        let written = hypotheses.iter().chain(&samples).chain([&sheet]);
        // A set: all hypotheses may be in one file.
        let written: BTreeSet<&PathBuf> = written.chain(maps.iter().flat_map(maps::Maps::files)).collect();
        let checksums = written.into_iter().map(|file| Ok((file_name(file), checksum(file)?)));
        let checksums = checksums.collect::<Outcome<BTreeMap<String, String>>>()?;
        let names = |files: &[PathBuf]| files.iter().map(|file| file_name(file)).collect::<Vec<_>>();
        let hypotheses = names(&hypotheses);
        let geometry = slices.image(0)?.geometry;
        let unit = sizes::Unit::of(geometry.as_ref(), predicted.len());
        let found = sizes::of(predicted, coherent.as_ref().map(Coherent::volume));
        // The files of a volume hold no single slice's hypotheses.
        let of_slices = coherent.is_none().then_some(&hypotheses[..]);
        let document = json!({
            "format": FORMAT,
            "version": VERSION,
            "id": input.name,
            "images": input.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
            "pixels_blake3": pixels,
            "settings": self.settings,
            "warnings": warnings.sentences(),
            "spacing": geometry.as_ref().map(|geometry| geometry.spacing),
            "sizes": sizes::json(&found, unit),
            "volume": coherent.as_ref().map(|all| all.json(&hypotheses, unit)),
            "slices": predicted.iter().map(|slice| slice.json(of_slices)).collect::<Vec<_>>(),
            "samples": names(&samples),
            "maps": maps.map(|maps| json!({
                "mean": names(&maps.means),
                "contours": names(&maps.contours),
                "entropy": file_name(&maps.entropy),
            })),
            "files": checksums,
        });
        let text = serde_json::to_string_pretty(&document).map_err(|error| Failure::Io(error.to_string()))?;
        folder::write(&to.join(DOCUMENT), (text + "\n").as_bytes())?;
        Ok(Written {
            losses: predicted.iter().filter_map(|slice| slice.loss).collect(),
            sizes: coherent.map(|_| sizes::in_words(&found, unit)),
        })
    }

    /// The sheet as a PNG file. A volume's shows some slices from one end to the other, with a column for each of its
    /// hypotheses.
    fn sheet(
        &self,
        Finished { task, slices, predicted, .. }: &Finished,
        coherent: Option<&Coherent>,
    ) -> Outcome<Vec<u8>> {
        let step = predicted.len().div_ceil(12).max(1);
        let of_volume = |all: &Coherent, at: usize, slice: &Predicted| {
            let one = |(code, volume): (usize, &VolumeHypothesis)| Hypothesis {
                mask: slice.all[volume.members[at]].mask.mask(),
                probability: volume.probability as f32,
                code,
            };
            Prediction::stated(all.hypotheses().iter().take(SHOWN_VOLUMES).enumerate().map(one).collect())
        };
        let shown = predicted.iter().enumerate().step_by(step).map(|(at, slice)| {
            let said = coherent.map_or_else(|| slice.prediction(), |all| of_volume(all, at, slice));
            Ok((unannotated(&task.input.name, slices.image(at)?), said))
        });
        let shown = shown.collect::<Outcome<Vec<(Case, Prediction)>>>()?;
        let as_they_are = self.keep.is_stated() || coherent.is_some();
        let exhibit = if as_they_are { Exhibit::of_all } else { Exhibit::new };
        let exhibits: Vec<_> = shown.iter().map(|(case, prediction)| exhibit(case, prediction)).collect();
        Ok(png(&sheet(&exhibits)))
    }

    /// Which hypothesis each sample of an image shows; the same for the same name and seed.
    fn draws(&self, slice: &Predicted, name: &str) -> Vec<Vec<usize>> {
        let mut draw = Draw::new(self.seed, &["sample", name], 0);
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
        (0..self.samples).map(|_| vec![one()]).collect()
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
