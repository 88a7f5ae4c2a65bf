//! The slices of a series in the order of their places, with every reason why they do not make a volume.

use std::path::Path;

use super::instance::{Frame, Instance, Place};
use crate::import::placed;
use crate::{Error, Geometry, Result};

/// Directions that differ by less are the same: writers round to some four digits.
const SAME_DIRECTION: f64 = 1e-3;
/// Distances of neighbours may differ by this share: a tenth of a voxel is no other place.
const SAME_GAP: f64 = 0.1;
/// Slices whose stack leans by less stand upright, in degrees.
const UPRIGHT: f64 = 0.5;
/// Neighbours that are nearer, in millimetres, are at one place.
const SAME_PLACE: f64 = 1e-3;

/// Files of one series as a volume.
#[derive(Debug)]
pub(crate) struct Stack {
    pub instances: Vec<Instance>,
    /// By slice: the number of its file, and that of the frame in it.
    pub slices: Vec<(usize, usize)>,
    /// None where the files do not say where they lie.
    pub geometry: Option<Geometry>,
}

impl Stack {
    /// Puts files of one series into order; `path` is what the user named.
    pub fn new(path: &Path, instances: Vec<Instance>) -> Result<Self> {
        alike(&instances)?;
        complete(path, &instances)?;
        let numbers = instances.iter().enumerate();
        let frames: Vec<(usize, usize)> =
            numbers.flat_map(|(at, one)| (0..one.frames.len()).map(move |frame| (at, frame))).collect();
        let mut stack = Self { instances, slices: frames, geometry: None };
        let places: Option<Vec<Place>> =
            stack.slices.iter().map(|&at| stack.frame(at).place.clone()).collect();
        match places {
            Some(places) => stack.sort(&places)?,
            None if stack.instances.len() > 1 => {
                return Err(Error::file(
                    path,
                    format!(
                        "holds {} files of one series that do not all state their place (ImagePositionPatient, \
                         ImageOrientationPatient), so they have no order; give them one by one",
                        stack.instances.len()
                    ),
                ));
            }
            // Frames in the order of the file; what is known is how far apart pixels are.
            None => {
                let spacing = stack.instances[0].detector_spacing;
                stack.geometry =
                    spacing.map(|[x, y]| Geometry { spacing: [x as f32, y as f32, 1.0], affine: None });
            }
        }
        let is_finite = |geometry: &Geometry| {
            let numbers = geometry.spacing.iter().chain(geometry.affine.iter().flatten().flatten());
            numbers.into_iter().all(|number| number.is_finite())
        };
        match stack.geometry.as_ref().is_none_or(is_finite) {
            true => Ok(stack),
            false => Err(Error::file(
                path,
                "has a spacing, direction or place beyond all measure; export it again",
            )),
        }
    }

    /// A frame by the numbers of its file and its own.
    pub fn frame(&self, (instance, frame): (usize, usize)) -> &Frame {
        &self.instances[instance].frames[frame]
    }

    fn name(&self, at: (usize, usize)) -> String {
        let Instance { path, frames, .. } = &self.instances[at.0];
        match frames.len() {
            1 => path.display().to_string(),
            _ => format!("{} (frame {})", path.display(), at.1 + 1),
        }
    }

    fn sort(&mut self, places: &[Place]) -> Result<()> {
        let refuse =
            |at: (usize, usize), reason: String| Err(Error::file(&self.instances[at.0].path, reason));
        let first = &places[0];
        let [row, column] = first.along;
        let normal = cross(row, column);
        let is_frame = [row, column].iter().all(|side| (dot(*side, *side) - 1.0).abs() < 0.01);
        if !is_frame || dot(row, column).abs() > 0.01 {
            let reason =
                "its ImageOrientationPatient is no pair of directions at right angles; export it again";
            return refuse(self.slices[0], reason.into());
        }
        if first.spacing.iter().any(|length| *length <= 0.0) {
            return refuse(self.slices[0], "its PixelSpacing is not positive; export it again".into());
        }
        for (place, &at) in places.iter().zip(&self.slices).skip(1) {
            let turned = (0..2).any(|side| distance(place.along[side], first.along[side]) > SAME_DIRECTION);
            if turned {
                return refuse(
                    at,
                    format!(
                        "lies in another direction than {}, so they are no slices of one volume (is one a localiser?); \
                         give each direction a folder of its own",
                        self.name(self.slices[0])
                    ),
                );
            }
            if (0..2)
                .any(|axis| (place.spacing[axis] - first.spacing[axis]).abs() > 1e-3 * first.spacing[axis])
            {
                let [x, y] = place.spacing;
                return refuse(
                    at,
                    format!(
                        "has pixels of {x} x {y} mm, {} of {} x {} mm; resample one of them",
                        self.name(self.slices[0]),
                        first.spacing[0],
                        first.spacing[1]
                    ),
                );
            }
        }
        let mut order: Vec<(f64, usize)> =
            places.iter().enumerate().map(|(at, place)| (dot(place.position, normal), at)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let sorted: Vec<(usize, usize)> = order.iter().map(|&(_, at)| self.slices[at]).collect();
        let gaps: Vec<f64> = order.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        if let Some(at) = gaps.iter().position(|gap| *gap < SAME_PLACE) {
            return refuse(
                sorted[at + 1],
                format!(
                    "lies at the same place as {}; keep one of them, or give each time point or echo a folder of its own",
                    self.name(sorted[at])
                ),
            );
        }
        let gap = median(&gaps).unwrap_or(0.0);
        if let Some(at) = gaps.iter().position(|one| (one - gap).abs() > SAME_GAP * gap) {
            return refuse(
                sorted[at + 1],
                format!(
                    "lies {:.3} mm behind {}, other slices {gap:.3} mm behind each other: {}",
                    gaps[at],
                    self.name(sorted[at]),
                    if gaps[at] > 1.5 * gap {
                        "slices between them are missing; copy the whole series"
                    } else {
                        "they are not evenly spaced; resample the series first (dcm2niix does)"
                    }
                ),
            );
        }
        let (start, end) = (&places[order[0].1], &places[order[order.len() - 1].1]);
        let way = [0, 1, 2].map(|axis| end.position[axis] - start.position[axis]);
        let aside = (dot(way, way) - dot(way, normal).powi(2)).max(0.0).sqrt();
        let tilt = aside.atan2(dot(way, normal)).to_degrees();
        if tilt > UPRIGHT && aside > SAME_GAP * first.spacing[0].min(first.spacing[1]) {
            return refuse(
                sorted[0],
                format!(
                    "its series leans by {tilt:.1} degrees against its slices (gantry tilt), so its voxels are no boxes; \
                     resample it first (dcm2niix corrects the tilt)"
                ),
            );
        }
        let step = match gaps.len() {
            0 => {
                let thickness = first.thickness.filter(|length| *length > 0.0).unwrap_or(1.0);
                normal.map(|part| part * thickness)
            }
            count => way.map(|part| part / count as f64),
        };
        let steps =
            [row.map(|part| part * first.spacing[0]), column.map(|part| part * first.spacing[1]), step];
        // DICOM's axes go left and posterior, those of `Geometry` right and anterior.
        self.geometry = Some(placed(steps, start.position, Some([-1.0, -1.0, 1.0])));
        self.slices = sorted;
        Ok(())
    }
}

/// Refuses files that differ in size or type.
fn alike(instances: &[Instance]) -> Result<()> {
    let first = &instances[0];
    for other in &instances[1..] {
        let (one, wanted) = (&other.format, &first.format);
        let size = |format: &super::frames::Format| (format.width, format.height, format.channels);
        if size(one) != size(wanted) {
            return Err(Error::file(
                &other.path,
                format!(
                    "is {}x{} with {} channel(s), {} of the same series is {}x{} with {}; give each size a folder of its \
                     own",
                    one.width,
                    one.height,
                    one.channels,
                    first.path.display(),
                    wanted.width,
                    wanted.height,
                    wanted.channels
                ),
            ));
        }
        if one.sample != wanted.sample {
            let reason = format!(
                "stores its pixels in another type than {} of the same series; export the series again",
                first.path.display()
            );
            return Err(Error::file(&other.path, reason));
        }
    }
    Ok(())
}

/// Refuses a series that ends early by what its own files say.
fn complete(path: &Path, instances: &[Instance]) -> Result<()> {
    let Some(stated) = instances[0].acquired.filter(|_| instances.len() > 1) else { return Ok(()) };
    // Otherwise the number speaks of something else: one acquisition may make several series.
    let counts_these = instances.iter().all(|one| {
        one.acquired == Some(stated)
            && one.instance_number.is_some_and(|number| (1..=stated).contains(&number))
    });
    if counts_these && instances.len() < stated {
        return Err(Error::file(
            path,
            format!(
                "holds {} of the {stated} slices that its files speak of (ImagesInAcquisition); copy the whole series, or \
                 remove that attribute (dcmodify -ea ImagesInAcquisition)",
                instances.len()
            ),
        ));
    }
    Ok(())
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    let difference = [0, 1, 2].map(|axis| a[axis] - b[axis]);
    dot(difference, difference).sqrt()
}

/// The lower of the two in the middle: slices that are missing make gaps larger.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(values.len().saturating_sub(1) / 2).copied()
}
