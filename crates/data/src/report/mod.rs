//! The result of an evaluation: one JSON document, described key by key in `docs/metrics.md`, and a text
//! table of its summary.

pub mod blocks;
mod table;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::evaluate::volumes::VolumeReport;
use crate::evaluate::{Details, Scores, Summary, TruthScores, Unit};
use crate::files;
use crate::metric::calibration::ReliabilityBin;
use crate::{Error, Result};

/// What the document calls itself.
pub const FORMAT: &str = "multivalued-report";
/// Grows when a key changes its meaning or leaves; new keys do not change it.
pub const VERSION: u32 = 1;

/// Low and high ends under the summary's keys; none (null in the document) where one image or group is all
/// there is.
pub type Intervals = BTreeMap<String, Option<[f64; 2]>>;

/// How tables and pages say that an interval is none.
pub const NOT_KNOWN: &str = "not known";

/// An evaluation, ready to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`FORMAT`].
    pub format: String,
    /// [`VERSION`] at the time of writing.
    pub version: u32,
    /// The split that was scored.
    pub split: String,
    /// The data set's hash, where it has one.
    pub data_hash: Option<String>,
    /// The conventions behind the numbers, in words.
    pub convention: String,
    /// Seed of the draws and of the bootstrap.
    pub seed: u64,
    /// Bootstrap resamples.
    pub resamples: usize,
    /// Share of annotations that are empty.
    pub empty_labels: f64,
    /// Share of outputs (as listed, whatever their probability) that are empty.
    pub empty_outputs: f64,
    /// One number per score.
    pub summary: Summary,
    /// 95 % bootstrap intervals over images.
    pub intervals: Intervals,
    /// The same over groups, where groups hold several images.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub intervals_by_group: Option<Intervals>,
    /// Standard deviation over images, not over training runs.
    pub std_over_images: BTreeMap<String, f64>,
    /// The predicted probability of each true mode, by its place in the truth; empty where the truth is not
    /// known or images have different numbers of modes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mode_probabilities: Vec<ModeProbability>,
    /// The bars of the reliability diagrams.
    pub reliability: Reliability,
    /// What a perfectly calibrated model would show for each calibration error.
    #[serde(skip_serializing_if = "NoiseFloors::is_empty", default)]
    pub noise: NoiseFloors,
    /// How the details were measured; none where they were not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub measures: Option<Measures>,
    /// Scores of whole volumes, where cases are slices of such.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub volumes: Option<VolumeReport>,
    /// One row per image.
    pub images: Vec<ImageRow>,
}

/// Mean probability against mean frequency, bin by bin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// Outputs, in equal-count bins.
    pub modes: Vec<ReliabilityBin>,
    /// The probability of an empty mask, in equal-count bins.
    pub empty: Vec<ReliabilityBin>,
    /// Pixels, in bins of equal width, those of probability zero first.
    pub pixels: Vec<ReliabilityBin>,
    /// The probability of more than an area, in equal-count bins; none where nobody marked anything.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub larger: Vec<Larger>,
    /// Where the readers' areas lie among the expected ones.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub area_pit: Option<AreaPit>,
}

/// The reliability of "larger than an area".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Larger {
    /// The share of the readers' areas, empty masks aside, that the area is a quantile of.
    pub quantile: f64,
    /// The area, in the square of [`Measures::unit`].
    pub area: f64,
    /// The bars.
    pub bins: Vec<ReliabilityBin>,
}

/// A histogram of the probability integral transform of the readers' areas, in bins of equal width from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AreaPit {
    /// The share of the annotations' weight in each bin.
    pub shares: Vec<f64>,
    /// A calibrated model's share is below this in 5 % of the simulations of readers.
    pub low: Vec<f64>,
    /// And above this in 5 % of them.
    pub high: Vec<f64>,
}

/// What chance alone makes of a calibration error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Its mean.
    pub mean: f64,
    /// It is below this in 5 % of the simulations.
    pub low: f64,
    /// And above this in 5 % of them.
    pub high: f64,
}

/// The noise floors under the summary's keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloors {
    /// Readers who draw from the stated probabilities, independently of each other.
    #[serde(default)]
    pub readers: BTreeMap<String, NoiseFloor>,
    /// With the dependence inside groups as it is; none of an error whose bins hold fewer than five groups in the mean.
    #[serde(default)]
    pub groups: BTreeMap<String, NoiseFloor>,
}

impl NoiseFloors {
    /// What chance alone would show: the larger answer, since that of readers is too low where they agree more than
    /// independent draws, and that of groups where bins hold few of them.
    pub fn chance(&self, key: &str) -> Option<&NoiseFloor> {
        let both = [self.readers.get(key), self.groups.get(key)];
        both.into_iter().flatten().max_by(|a, b| a.mean.total_cmp(&b.mean))
    }

    /// Whether nothing was computed: the report is without details.
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.groups.is_empty()
    }
}

/// How the details were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// The unit of distances, and of areas its square.
    pub unit: Unit,
    /// How far apart two boundaries may lie to count as one in `nsd`.
    pub tolerance: f64,
    /// The IoU from which on two components may be the same lesion.
    pub lesion_iou: f64,
    /// Mean probability of the hypotheses behind expectations over hypotheses.
    pub expected_mass: f64,
    /// In how many images a number is known, where that is not all of them.
    pub known_in: BTreeMap<String, usize>,
    /// The fewest and the most annotations of an image; none in reports of before this was counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub annotations: Option<[usize; 2]>,
}

/// A true mode's predicted probability: that of the outputs nearest to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ModeProbability {
    /// Its mean over images.
    pub mean: f64,
    /// Its standard deviation over images.
    pub std: f64,
    /// The mean over images of the true probability.
    pub truth: f64,
}

/// One image's scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageRow {
    /// The case.
    pub id: String,
    /// Its group.
    pub group: String,
    /// Its scores.
    #[serde(flatten)]
    pub scores: Scores,
    /// What only some images have.
    #[serde(flatten)]
    pub details: Details,
    /// GED of the true distribution on this image, where known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oracle_ged: Option<f64>,
    /// Its scores against the true modes, where known.
    #[serde(flatten)]
    pub truth: Option<TruthScores>,
}

impl ImageRow {
    /// A score by its key; none where it is not known of this image.
    pub fn score(&self, key: &str) -> Option<f64> {
        let of = |keys: &[&str], values: Vec<f64>| {
            keys.iter().position(|one| *one == key).map(|at| values[at]).filter(|value| !value.is_nan())
        };
        of(Scores::KEYS, self.scores.values()).or_else(|| of(Details::KEYS, self.details.values()))
    }
}

impl Report {
    /// The intervals to show first, and what was resampled for them: groups where they hold several images, since
    /// images of one patient are not independent, else images.
    pub fn first_intervals(&self) -> (&Intervals, &'static str) {
        match &self.intervals_by_group {
            Some(by_group) => (by_group, "groups"),
            None => (&self.intervals, "images"),
        }
    }

    /// The document.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain numbers, strings, lists and maps")
    }

    /// Writes the document to a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        files::replace(path, |file| file.write_all((self.to_json() + "\n").as_bytes()))
    }

    /// Reads a document back.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::io(path, source))?;
        let report: Self = serde_json::from_str(&text).map_err(|error| {
            Error::file(path, format!("not an evaluation report of this program ({error}); evaluate again"))
        })?;
        if report.format != FORMAT || report.version != VERSION {
            return Err(Error::file(
                path,
                format!(
                    "{:?} version {}, but this program reads {FORMAT:?} version {VERSION}; evaluate again",
                    report.format, report.version
                ),
            ));
        }
        Ok(report)
    }

    /// The predicted probabilities of the modes as rows of a table, named by place and true probability.
    pub fn mode_rows(&self) -> impl Iterator<Item = (String, ModeProbability)> + '_ {
        let named = |(place, mode): (usize, &ModeProbability)| {
            (format!("mode {}, true {:.4}", place + 1, mode.truth), *mode)
        };
        self.mode_probabilities.iter().enumerate().map(named)
    }

    /// All scores by name: those of the summary, and those of volumes where there are such.
    pub fn numbers(&self) -> Vec<(&'static str, f64)> {
        let of_volumes = self.volumes.iter().flat_map(VolumeReport::numbers);
        self.summary.numbers().into_iter().chain(of_volumes).collect()
    }

    /// A score by its name; none where it is not known.
    pub fn score(&self, key: &str) -> Option<f64> {
        self.numbers().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The summary as an aligned table.
    pub fn table(&self) -> String {
        table::render(self)
    }
}
