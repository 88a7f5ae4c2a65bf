//! What a DICOM file says of itself: whose series it belongs to, how its pixels are stored, and where they lie.

use std::path::{Path, PathBuf};

use dicom_core::Tag;
use dicom_dictionary_std::tags;
use dicom_object::InMemDicomObject;

use super::frames::{Colours, Format};
use super::parts::Parts;
use super::syntax::{self, Coding};
use crate::import::{Limits, Sample};
use crate::{Error, Result};

/// One file.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    pub path: PathBuf,
    pub series: String,
    pub uid: String,
    pub class: String,
    pub modality: String,
    pub series_number: i64,
    /// How many images its acquisition has, where it says so.
    pub acquired: Option<usize>,
    pub instance_number: Option<usize>,
    pub(super) format: Format,
    pub frames: Vec<Frame>,
    /// Distance of columns and of rows on the detector, of images without a place.
    pub(super) detector_spacing: Option<[f64; 2]>,
}

/// One frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub place: Option<Place>,
    /// Slope and intercept that make values of stored numbers.
    pub scale: (f64, f64),
}

/// Where a frame lies in the patient, in millimetres towards left, posterior and superior.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    /// The centre of the first pixel.
    pub position: [f64; 3],
    /// The direction of a row, which its columns follow, and of a column.
    pub along: [[f64; 3]; 2],
    /// The distance of columns and of rows.
    pub spacing: [f64; 2],
    /// How thick the slice is, or how far the next one.
    pub thickness: Option<f64>,
}

/// What a file holds.
pub(crate) enum Content {
    Image(Box<Instance>),
    /// A report, a segmentation, a plan: no image.
    Other,
}

impl Instance {
    /// Reads the attributes of an image; what is none is refused.
    pub fn read(path: &Path, limits: &Limits) -> Result<Self> {
        match Content::read(path, limits)? {
            Content::Image(instance) => Ok(*instance),
            Content::Other => Err(Error::file(
                path,
                "is a DICOM file without an image, such as a report or a segmentation; give the scan's own files",
            )),
        }
    }
}

impl Content {
    /// Reads the attributes of a file.
    pub fn read(path: &Path, limits: &Limits) -> Result<Self> {
        let mut parts = Parts::open(path, limits)?;
        let object = parts.attributes(path)?;
        let is_segmentation = text(&object, tags::MODALITY).is_some_and(|modality| modality == "SEG");
        if object.get(tags::ROWS).is_none() || is_segmentation {
            return Ok(Self::Other);
        }
        // Before anything else, since the remedy may change the rest.
        let coding = syntax::coding(path, &parts.syntax)?;
        let missing = |what: &str| Error::file(path, format!("does not state its {what}; export it again"));
        let uid = |tag, what| text(&object, tag).filter(|uid| !uid.is_empty()).ok_or_else(|| missing(what));
        Ok(Self::Image(Box::new(Instance {
            path: path.to_owned(),
            series: uid(tags::SERIES_INSTANCE_UID, "series (SeriesInstanceUID)")?,
            uid: uid(tags::SOP_INSTANCE_UID, "own UID (SOPInstanceUID)")?,
            class: uid(tags::SOP_CLASS_UID, "kind (SOPClassUID)")?,
            modality: text(&object, tags::MODALITY).unwrap_or_default(),
            series_number: integer(&object, tags::SERIES_NUMBER).unwrap_or(0),
            acquired: integer(&object, tags::IMAGES_IN_ACQUISITION).and_then(|count| count.try_into().ok()),
            instance_number: integer(&object, tags::INSTANCE_NUMBER)
                .and_then(|number| number.try_into().ok()),
            format: format(path, &object, coding)?,
            frames: frames(path, &object)?,
            detector_spacing: numbers(&object, tags::IMAGER_PIXEL_SPACING)
                .map(|[rows, columns]| [columns, rows]),
        })))
    }
}

/// The text of an attribute.
pub(super) fn text(object: &InMemDicomObject, tag: Tag) -> Option<String> {
    let text = object.get(tag)?.to_str().ok()?;
    Some(text.trim_matches(['\0', ' ']).to_owned())
}

fn integer(object: &InMemDicomObject, tag: Tag) -> Option<i64> {
    object.get(tag)?.to_int().ok()
}

/// Exactly so many finite numbers.
fn numbers<const N: usize>(object: &InMemDicomObject, tag: Tag) -> Option<[f64; N]> {
    let numbers = object.get(tag)?.to_multi_float64().ok()?;
    numbers.try_into().ok().filter(|numbers: &[f64; N]| numbers.iter().all(|number| number.is_finite()))
}

fn format(path: &Path, object: &InMemDicomObject, coding: Coding) -> Result<Format> {
    let refuse = |what: String| Err(Error::file(path, what));
    let number = |tag, otherwise: i64| integer(object, tag).unwrap_or(otherwise);
    let [width, height] = [tags::COLUMNS, tags::ROWS].map(|tag| usize::try_from(number(tag, 0)).unwrap_or(0));
    let channels = number(tags::SAMPLES_PER_PIXEL, 1);
    let photometric = text(object, tags::PHOTOMETRIC_INTERPRETATION).unwrap_or_default();
    let colours = match (photometric.as_str(), channels) {
        ("MONOCHROME2" | "", 1) => Colours::Grey,
        ("MONOCHROME1", 1) => Colours::Inverted,
        ("RGB", 3) => Colours::Rgb,
        ("YBR_FULL", 3) => Colours::Ybr,
        ("YBR_RCT" | "YBR_ICT", 3) if coding == Coding::Jpeg2000 => Colours::Rgb,
        // Outside of JPEG two pixels share their chroma.
        ("YBR_FULL_422", 3) if coding == Coding::Jpeg => Colours::Ybr,
        (other, channels) => {
            return refuse(format!(
                "its pixels are '{other}' with {channels} sample(s) each; convert it to grey or RGB (dcm2img makes PNG)"
            ));
        }
    };
    let allocated = number(tags::BITS_ALLOCATED, 0);
    let sample = match (allocated, number(tags::PIXEL_REPRESENTATION, 0)) {
        (8, 0) => Sample::U8,
        (8, 1) => Sample::I8,
        (16, 0) => Sample::U16,
        (16, 1) => Sample::I16,
        (32, 0) => Sample::U32,
        (32, 1) => Sample::I32,
        _ => {
            return refuse(format!(
                "has {allocated} bits for each sample, where 8, 16 or 32 are read; convert it"
            ));
        }
    };
    let bits = number(tags::BITS_STORED, allocated);
    let high = number(tags::HIGH_BIT, bits - 1);
    if !(1..=allocated).contains(&bits) || high != bits - 1 {
        return refuse(format!(
            "keeps {bits} bits up to bit {high} of {allocated}, which is not read; unpack it first with gdcmconv --raw \
             IN.dcm OUT.dcm"
        ));
    }
    if object.get(tags::MODALITY_LUT_SEQUENCE).is_some() {
        return refuse(
            "makes values of stored numbers by a table (ModalityLUTSequence); convert it with dcm2img".into(),
        );
    }
    let by_plane = channels == 3 && number(tags::PLANAR_CONFIGURATION, 0) == 1;
    Ok(Format { width, height, channels: channels as usize, sample, bits: bits as u32, colours, by_plane })
}

/// The frames' places and scales: in the groups of a multi-frame file, or the file's own.
fn frames(path: &Path, object: &InMemDicomObject) -> Result<Vec<Frame>> {
    let stated = integer(object, tags::NUMBER_OF_FRAMES).unwrap_or(1).max(1);
    // Each frame has at least a byte of the file; a larger number is refused with the size of the whole.
    let count = usize::try_from(stated).unwrap_or(usize::MAX);
    if count > Limits::default().side {
        let most = Limits::default().side;
        return Err(Error::file(path, format!("declares {count} frames; {most} are allowed, so split it")));
    }
    let shared = items(object, tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE).first();
    let own = items(object, tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE);
    if !own.is_empty() && own.len() != count {
        let reason = format!("describes {} frames of {count}; export it again", own.len());
        return Err(Error::file(path, reason));
    }
    let frame = |at: usize| {
        // The frame's own group first, then the one for all, then the file itself.
        let group = |sequence: Tag| {
            let inside = |groups| item(groups, sequence);
            own.get(at).and_then(inside).or_else(|| shared.and_then(inside))
        };
        let find = |sequence: Tag, tag: Tag| {
            let found = group(sequence).filter(|group| group.get(tag).is_some());
            found.or_else(|| object.get(tag).map(|_| object))
        };
        // The place of a file with several frames is none of its frames'.
        let is_own = count == 1 || !own.is_empty();
        let position = find(tags::PLANE_POSITION_SEQUENCE, tags::IMAGE_POSITION_PATIENT)
            .and_then(|found| numbers(found, tags::IMAGE_POSITION_PATIENT));
        let orientation = find(tags::PLANE_ORIENTATION_SEQUENCE, tags::IMAGE_ORIENTATION_PATIENT)
            .and_then(|found| numbers(found, tags::IMAGE_ORIENTATION_PATIENT));
        let measure = |tag: Tag| find(tags::PIXEL_MEASURES_SEQUENCE, tag);
        let spacing = measure(tags::PIXEL_SPACING)
            .and_then(|found| numbers(found, tags::PIXEL_SPACING))
            .unwrap_or([1.0; 2]);
        let length =
            |tag| measure(tag).and_then(|found| numbers(found, tag)).map(|[length]: [f64; 1]| length.abs());
        let place = position.filter(|_| is_own).zip(orientation).map(
            |(position, [a, b, c, d, e, f]): ([f64; 3], [f64; 6])| Place {
                position,
                along: [[a, b, c], [d, e, f]],
                spacing: [spacing[1], spacing[0]],
                thickness: length(tags::SPACING_BETWEEN_SLICES).or_else(|| length(tags::SLICE_THICKNESS)),
            },
        );
        let factor = |tag: Tag, otherwise: f64| {
            let found = find(tags::PIXEL_VALUE_TRANSFORMATION_SEQUENCE, tag);
            found.and_then(|found| numbers(found, tag)).map_or(otherwise, |[factor]: [f64; 1]| factor)
        };
        Frame { place, scale: (factor(tags::RESCALE_SLOPE, 1.0), factor(tags::RESCALE_INTERCEPT, 0.0)) }
    };
    Ok((0..count).map(frame).collect())
}

/// The items of a sequence; none where there is no such sequence.
pub(super) fn items(object: &InMemDicomObject, sequence: Tag) -> &[InMemDicomObject] {
    object.get(sequence).and_then(|element| element.items()).unwrap_or_default()
}

fn item(object: &InMemDicomObject, sequence: Tag) -> Option<&InMemDicomObject> {
    items(object, sequence).first()
}
