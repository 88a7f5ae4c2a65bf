//! Scores of whole volumes, where cases are slices of such: the distribution over volumes against the readers' volumes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::mean_interval;
use crate::draw::Draw;
use crate::report::Intervals;
use crate::volume::slices::{VolumeOf, volumes};
use crate::volume::{Tables, Volume, WeightedSlice};
use crate::{Annotation, Case, CaseList, Mask, Predictions, Result};

/// Volumes that are drawn of each distribution.
pub const DRAWS: usize = 100;
/// The ends of the interval that a reader's volume is looked for in.
pub const ENDS: [f64; 2] = [0.05, 0.95];

/// The scores of all volumes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeReport {
    /// Volumes that were scored.
    pub count: usize,
    /// Volumes that were not, since it is not known which masks of their slices are one reader's.
    pub without_readers: usize,
    /// Draws behind each GED.
    pub draws: usize,
    /// What sizes are measured in.
    pub unit: SizeUnit,
    /// Mean GED in the limit of infinitely many draws.
    pub volume_ged: f64,
    /// The same with every slice drawn by itself: what the coupling of slices is worth.
    pub volume_ged_uncoupled: f64,
    /// The share of the readers' volumes that lie within the predicted 90 %.
    pub volume_coverage: f64,
    /// How far the median lies from a reader's volume, as a share of the mean of both; 0 where both are 0.
    pub volume_error: f64,
    /// 95 % intervals over groups under the keys above; none where there is one group.
    pub intervals: Intervals,
    /// One row for each volume.
    pub volumes: Vec<VolumeRow>,
}

impl VolumeReport {
    /// The scores by name.
    pub fn numbers(&self) -> [(&'static str, f64); 4] {
        [
            ("volume_ged", self.volume_ged),
            ("volume_ged_uncoupled", self.volume_ged_uncoupled),
            ("volume_coverage", self.volume_coverage),
            ("volume_error", self.volume_error),
        ]
    }
}

/// What sizes of volumes are measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SizeUnit {
    /// Where every slice states the distance of its pixels and of its neighbours.
    #[serde(rename = "ml")]
    Millilitres,
    /// Otherwise.
    #[serde(rename = "voxels")]
    Voxels,
}

/// One volume's scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRow {
    /// What its slices' ids have in common.
    pub id: String,
    /// Its group.
    pub group: String,
    /// Slices.
    pub slices: usize,
    /// GED in the limit of infinitely many draws.
    pub volume_ged: f64,
    /// The same with every slice drawn by itself.
    pub volume_ged_uncoupled: f64,
    /// By class.
    pub sizes: Vec<VolumeSize>,
}

/// How large a volume is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSize {
    /// By reader.
    pub readers: Vec<f64>,
    /// What is predicted: its mean,
    pub mean: f64,
    /// its median,
    pub median: f64,
    /// and the ends of 90 %.
    pub low: f64,
    /// The upper one.
    pub high: f64,
}

impl VolumeSize {
    fn coverage(&self) -> f64 {
        let inside = self.readers.iter().filter(|&&size| self.low <= size && size <= self.high).count();
        inside as f64 / self.readers.len() as f64
    }

    fn error(&self) -> f64 {
        let of = |&size: &f64| {
            let middle = (size + self.median) / 2.0;
            if middle > 0.0 { (size - self.median).abs() / middle } else { 0.0 }
        };
        self.readers.iter().map(of).sum::<f64>() / self.readers.len() as f64
    }
}

/// Scores the volumes among cases; none where no cases are slices of one. Prediction k is of case k. After each volume
/// `reached` is told how many of how many are done, from any thread.
pub fn score_volumes(
    cases: &CaseList,
    predictions: &Predictions,
    seed: u64,
    reached: impl Fn(usize, usize) + Sync,
) -> Result<Option<VolumeReport>> {
    let found = volumes(cases);
    if found.is_empty() {
        return Ok(None);
    }
    let done = AtomicUsize::new(0);
    let score_one = |volume: &VolumeOf| {
        let row = score(cases, predictions, volume, seed);
        reached(done.fetch_add(1, Relaxed) + 1, found.len());
        row
    };
    let rows: Vec<Result<Option<Scored>>> = found.par_iter().map(score_one).collect();
    let rows: Vec<Option<Scored>> = rows.into_iter().collect::<Result<_>>()?;
    let without_readers = rows.iter().filter(|row| row.is_none()).count();
    let rows: Vec<Scored> = rows.into_iter().flatten().collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let unit = match rows.iter().all(|row| row.voxel.is_some()) {
        true => SizeUnit::Millilitres,
        false => SizeUnit::Voxels,
    };
    let scaled = |Scored { mut row, voxel }: Scored| {
        let scale = voxel.filter(|_| unit == SizeUnit::Millilitres).unwrap_or(1.0);
        for size in &mut row.sizes {
            let VolumeSize { readers, mean, median, low, high } = size;
            readers.iter_mut().chain([mean, median, low, high]).for_each(|number| *number *= scale);
        }
        row
    };
    let rows: Vec<VolumeRow> = rows.into_iter().map(scaled).collect();
    let of_sizes = |of: fn(&VolumeSize) -> f64| {
        let each = rows.iter().map(|row| row.sizes.iter().map(of).sum::<f64>() / row.sizes.len() as f64);
        each.collect::<Vec<f64>>()
    };
    let each: [(&str, Vec<f64>); 4] = [
        ("volume_ged", rows.iter().map(|row| row.volume_ged).collect()),
        ("volume_ged_uncoupled", rows.iter().map(|row| row.volume_ged_uncoupled).collect()),
        ("volume_coverage", of_sizes(VolumeSize::coverage)),
        ("volume_error", of_sizes(VolumeSize::error)),
    ];
    let mean = |at: usize| each[at].1.iter().sum::<f64>() / rows.len() as f64;
    let groups = || rows.iter().map(|row| row.group.as_str());
    Ok(Some(VolumeReport {
        count: rows.len(),
        without_readers,
        draws: DRAWS,
        unit,
        volume_ged: mean(0),
        volume_ged_uncoupled: mean(1),
        volume_coverage: mean(2),
        volume_error: mean(3),
        intervals: each
            .iter()
            .map(|(key, values)| ((*key).to_owned(), mean_interval(values, groups())))
            .collect(),
        volumes: rows,
    }))
}

/// A row with its sizes in voxels, and the millilitres of a voxel where they are stated.
struct Scored {
    row: VolumeRow,
    voxel: Option<f64>,
}

fn score(
    cases: &CaseList,
    predictions: &Predictions,
    volume: &VolumeOf,
    seed: u64,
) -> Result<Option<Scored>> {
    let slices = cases.get_all(volume.slices.iter().copied())?;
    let Some(readers) = readers(&slices) else { return Ok(None) };
    let said: Vec<WeightedSlice> = volume
        .slices
        .iter()
        .map(|&at| {
            let all = predictions.get(at).hypotheses.into_iter();
            all.map(|one| (one.mask, f64::from(one.probability))).unzip()
        })
        .collect();
    let predicted = Volume::new(said.len(), |at| said[at].clone())?;
    let masks: Vec<Vec<&Mask>> = said
        .iter()
        .enumerate()
        .map(|(at, (masks, _))| masks.iter().chain(readers.iter().map(|reader| &reader[at].mask)).collect())
        .collect();
    let tables = Tables::new(&masks)?;
    let weights: Vec<f64> = readers.iter().map(|reader| f64::from(reader[0].weight)).collect();
    // In the tables a slice's readers come after its hypotheses.
    let drawn: Vec<Vec<usize>> = (0..readers.len())
        .map(|reader| said.iter().map(|(masks, _)| masks.len() + reader).collect())
        .collect();
    let random = &mut Draw::new(seed, &["volume", &volume.id], 0);
    let coupled = predicted.draws(DRAWS, random);
    let apart: Vec<Vec<usize>> = said.iter().map(|(_, weights)| normal_draws(weights, random)).collect();
    let uncoupled: Vec<Vec<usize>> =
        (0..DRAWS).map(|draw| apart.iter().map(|slice| slice[draw]).collect()).collect();
    let sizes = (0..predicted.classes()).map(|class| {
        let size = predicted.size(class);
        let of_reader = |reader: &Vec<usize>| tables.shared(class, reader, reader) as f64;
        VolumeSize {
            readers: drawn.iter().map(of_reader).collect(),
            mean: size.mean(),
            median: size.quantile(0.5),
            low: size.quantile(ENDS[0]),
            high: size.quantile(ENDS[1]),
        }
    });
    let geometry = slices[0].image.geometry.as_ref();
    let voxel = geometry.map(|geometry| geometry.spacing.map(f64::from).iter().product::<f64>() / 1000.0);
    Ok(Some(Scored {
        row: VolumeRow {
            id: volume.id.clone(),
            group: slices[0].group.clone(),
            slices: slices.len(),
            volume_ged: ged(&tables, &drawn, &weights, &coupled),
            volume_ged_uncoupled: ged(&tables, &drawn, &weights, &uncoupled),
            sizes: sizes.collect(),
        },
        voxel: voxel.filter(|voxel| voxel.is_finite() && *voxel > 0.0),
    }))
}

/// Draws by weights that sum to one but for rounding.
fn normal_draws(weights: &[f64], random: &mut Draw) -> Vec<usize> {
    let all: f64 = weights.iter().sum();
    random.weighted(&weights.iter().map(|weight| weight / all).collect::<Vec<_>>(), DRAWS)
}

/// By reader the annotations of all slices: by name where all slices name the same readers, by place where all have as
/// many; else none.
fn readers<'a>(slices: &'a [impl AsRef<Case>]) -> Option<Vec<Vec<&'a Annotation>>> {
    let first = &slices[0].as_ref().annotations;
    let count = first.len();
    if count == 0 || slices.iter().any(|slice| slice.as_ref().annotations.len() != count) {
        return None;
    }
    let of = |(place, own): (usize, &Annotation)| {
        let same = |slice: &'a Case| match &own.rater {
            Some(name) => slice.annotations.iter().find(|other| other.rater.as_ref() == Some(name)),
            None => slice.annotations.get(place).filter(|other| other.rater.is_none()),
        };
        slices.iter().map(|slice| same(slice.as_ref())).collect::<Option<Vec<_>>>()
    };
    first.iter().enumerate().map(of).collect()
}

/// GED² in the limit of infinitely many draws, with d = 1 − IoU of volumes.
fn ged(tables: &Tables, readers: &[Vec<usize>], weights: &[f64], draws: &[Vec<usize>]) -> f64 {
    let distance = |a: &[usize], b: &[usize]| 1.0 - tables.iou(a, b);
    let all: f64 = weights.iter().sum();
    let (mut between, mut among) = (0.0, 0.0);
    for (reader, weight) in readers.iter().zip(weights) {
        let mean = draws.iter().map(|draw| distance(reader, draw)).sum::<f64>() / draws.len() as f64;
        between += weight / all * mean;
        for (other, other_weight) in readers.iter().zip(weights) {
            among += weight * other_weight / (all * all) * distance(reader, other);
        }
    }
    let mut apart = 0.0;
    for (at, draw) in draws.iter().enumerate() {
        apart += draws[..at].iter().map(|other| distance(draw, other)).sum::<f64>();
    }
    let pairs = draws.len() * (draws.len() - 1) / 2;
    2.0 * between - among - apart / pairs as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, Hypothesis, Image, Prediction};
    use std::sync::Mutex;

    /// Three slices in which a wide and a narrow reader draw, and a model that says just that.
    fn study(raters: bool, weights: [f32; 2]) -> (CaseList, Predictions) {
        let disc = |at: usize, wide: usize| {
            Mask::from_fn(24, 24, move |x, y| {
                x.abs_diff(12).pow(2) + y.abs_diff(12).pow(2) < (3 + at + 4 * wide).pow(2)
            })
        };
        let mut image = Image::new(24, 24, 1, vec![0.0; 576]);
        image.geometry = Some(Geometry { spacing: [0.5, 0.5, 2.0], affine: None });
        let cases: Vec<Case> = (0..3)
            .map(|at| Case {
                id: format!("scan/slice-{at:03}"),
                group: "p".into(),
                image: image.clone(),
                annotations: (0..2)
                    .map(|reader| Annotation {
                        mask: disc(at, reader),
                        rater: raters.then(|| format!("r{reader}")),
                        weight: 1.0,
                    })
                    .collect(),
                truth: None,
            })
            .collect();
        let said = |at: usize| {
            let one =
                |wide: usize| Hypothesis { mask: disc(at, wide), probability: weights[wide], code: wide };
            Prediction::stated(vec![one(0), one(1)])
        };
        let said: Vec<Prediction> = (0..3).map(said).collect();
        (cases.into(), Predictions::from(&said[..]))
    }

    #[test]
    fn readers_with_habits_are_met_by_coupled_slices_only() {
        for raters in [false, true] {
            let (cases, said) = study(raters, [0.5, 0.5]);
            let report = score_volumes(&cases, &said, 0, |_, _| ()).unwrap().unwrap();
            assert_eq!((report.count, report.without_readers, report.unit), (1, 0, SizeUnit::Millilitres));
            assert!(report.volume_ged.abs() < 0.03, "{}", report.volume_ged);
            assert!(report.volume_ged_uncoupled > report.volume_ged + 0.05, "{report:?}");
            assert_eq!(report.volume_coverage, 1.0);
            let size = &report.volumes[0].sizes[0];
            assert!((size.low - size.readers[0]).abs() < 1e-9 && (size.high - size.readers[1]).abs() < 1e-9);
            // 0.5 x 0.5 x 2 mm.
            let pixels: usize = (0..3).map(|at| cases.get(at).unwrap().annotations[1].mask.area(0)).sum();
            assert!((size.readers[1] - pixels as f64 * 0.0005).abs() < 1e-9);
        }
        let (cases, said) = study(true, [1.0, 0.0]);
        let last = Mutex::new((0, 0));
        let report = score_volumes(&cases, &said, 0, |done, of| *last.lock().unwrap() = (done, of));
        assert_eq!(last.into_inner().unwrap(), (1, 1));
        let report = report.unwrap().unwrap();
        assert_eq!(report.volume_coverage, 0.5);
        assert!(report.volume_ged > 0.1 && report.intervals["volume_ged"].is_none());
    }

    #[test]
    fn slices_without_known_readers_and_plain_images_are_not_scored() {
        let (cases, said) = study(false, [0.5, 0.5]);
        let mut unequal = cases.to_vec().unwrap();
        unequal[1].annotations.pop();
        assert!(score_volumes(&unequal.into(), &said, 0, |_, _| ()).unwrap().is_none());
        let mut plain = cases.to_vec().unwrap();
        plain.iter_mut().enumerate().for_each(|(at, case)| case.id = format!("image-{at}"));
        assert!(score_volumes(&plain.into(), &said, 0, |_, _| ()).unwrap().is_none());
    }
}
